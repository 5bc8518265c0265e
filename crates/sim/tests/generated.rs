//! Generated loads: blocks of 4 KiB to 1 MiB, metadata against data, blocks in use and blocks being
//! written. Over bytes too the cache keeps its limit and its shares, and hits what an exact policy hits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{HashSet, VecDeque};

use arcwell_arc::{self as arc, Admit, Anon, Asked, Cache, Config, Keep, ListKind, Overhead, Pin};
use arcwell_base::record::{Encoder, Event, Header};
use arcwell_base::table::Tunables;
use arcwell_base::{BlockKey, Kind, ObjectId};
use arcwell_sim::policy::{self, Setup};
use arcwell_sim::replay::replay;
use arcwell_sim::trace::{Options, Request, Trace, Unit};

const MIB: u64 = 1 << 20;

/// The cache: about 2800 blocks, which are five sublists.
const LIMIT: u64 = 512 * MIB;

/// Bytes of a typical block of data.
const TYPICAL: u64 = 184 << 10;

const DEMAND: Admit = Admit { asked: Asked::Demand, keep: Keep::Cached };

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.roll() * n as f64) as u64
    }

    fn is_one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// About 1/rank: the logarithm is even.
    fn zipf(&mut self, n: u64) -> u64 {
        ((n as f64).powf(self.roll()) - 1.0) as u64
    }
}

/// The size of a block, which it keeps: of data 4 KiB to 1 MiB, small ones as often as twice as large
/// ones; of metadata a 64th of that.
fn size(key: u64, kind: Kind) -> u32 {
    let mut dice = Dice(BlockKey::new(ObjectId(9), key).hash());
    let kib = 4.0 * 256f64.powf(dice.roll());
    match kind {
        Kind::Data => (kib * 1024.0) as u32,
        Kind::Metadata => (kib * 16.0) as u32,
    }
}

fn read(key: u64, kind: Kind) -> Request {
    // Kinds have blocks of their own.
    let key = if kind == Kind::Metadata { key | 1 << 63 } else { key };
    Request { kind, ..Request::of(key) }.sized(size(key, kind))
}

fn data(key: u64) -> Request {
    read(key, Kind::Data)
}

/// One cache of each sort.
fn caches() -> Vec<(String, Cache)> {
    let cache = |(policy, lists)| {
        let overhead = Overhead::Ignored;
        let config = Config { policy, lists, overhead, typical_block: TYPICAL, ..Config::new(LIMIT) };
        (format!("{policy:?}, {lists:?}"), Cache::new(config))
    };
    let rules = [arc::Policy::Arc, arc::Policy::Adaptive].into_iter();
    let sorts = rules.flat_map(|rule| ListKind::ALL.map(|kind| (rule, kind)));
    sorts.map(cache).collect()
}

/// A reader's request: whether it was a hit.
fn ask(cache: &Cache, request: Request) -> bool {
    let (key, kind) = (BlockKey::new(ObjectId(1), request.key), request.kind);
    let is_hit = cache.lookup(key, kind, Asked::Demand).is_some();
    if !is_hit {
        cache.admit_phantom(key, kind, request.size as usize, DEMAND).unwrap().publish();
    }
    is_hit
}

fn bytes_held(cache: &Cache) -> u64 {
    cache.refresh_gauges();
    cache.stats().size.value()
}

/// The share of the limit that metadata has.
fn metadata_held(cache: &Cache) -> f64 {
    cache.refresh_gauges();
    let stats = cache.stats();
    (stats.mru_metadata.value() + stats.mfu_metadata.value()) as f64 / LIMIT as f64
}

/// A block that somebody keeps from being evicted.
enum Held {
    /// Read, and in use.
    Pinned(Pin),
    /// Written, and not yet to be found.
    Dirty(Anon),
}

/// A reader and writer who holds on to blocks for a while.
struct Holder<'a> {
    cache: &'a Cache,
    dice: Dice,
    now: u64,
    /// What is held, and until when.
    held: VecDeque<(u64, Held)>,
    /// Blocks that are being written: others wait for them.
    dirty: HashSet<BlockKey>,
    refused: u64,
    largest: u64,
}

impl Holder<'_> {
    /// One request; its block is held for up to `patience` requests more, one time in `every`.
    fn step(&mut self, request: Request, every: u64, patience: u64) {
        self.now += 1;
        while self.held.front().is_some_and(|(until, _)| *until <= self.now) {
            self.let_go();
        }
        let (key, kind) = (BlockKey::new(ObjectId(1), request.key), request.kind);
        if self.dirty.contains(&key) {
            return;
        }
        let is_held = self.dice.is_one_in(every);
        let found = match self.cache.lookup(key, kind, Asked::Demand) {
            Some(pin) => Held::Pinned(pin),
            None => match self.cache.admit_phantom(key, kind, request.size as usize, DEMAND) {
                Ok(anon) if is_held && self.dice.is_one_in(2) => Held::Dirty(anon),
                Ok(anon) => Held::Pinned(anon.publish()),
                Err(_) => return self.refused += 1,
            },
        };
        if is_held {
            self.dirty.extend(matches!(found, Held::Dirty(_)).then_some(key));
            // In order of time, as all of a phase have the same patience.
            self.held.push_back((self.now + patience, found));
        }
        self.largest = self.largest.max(bytes_held(self.cache));
    }

    fn let_go(&mut self) {
        match self.held.pop_front() {
            Some((_, Held::Pinned(pin))) => {
                assert!(self.cache.contains(pin.key()), "{pin:?} was evicted");
            }
            Some((_, Held::Dirty(anon))) => {
                self.dirty.remove(&anon.key());
                let pin = anon.publish();
                assert!(self.cache.contains(pin.key()), "{pin:?} is not there");
            }
            None => {}
        }
    }
}

/// What the cache tolerates beyond its limit while blocks are held: see `Cache::admit`.
const TOLERATED: u64 = 16 * MIB;

#[test]
fn the_limit_holds_whatever_is_held() {
    for (name, cache) in caches() {
        let mut dice = Dice(1);
        let (held, dirty) = (VecDeque::new(), HashSet::new());
        let mut holder = Holder { cache: &cache, dice: Dice(2), now: 0, held, dirty, refused: 0, largest: 0 };
        for phase in 0..6 {
            (holder.largest, holder.refused) = (0, 0);
            // Every other phase holds more than there is room for.
            let (every, patience) = if phase % 2 == 0 { (20, 400) } else { (1, 20_000) };
            for n in 0..12_000 {
                let key = match phase / 2 {
                    0 => dice.zipf(50_000),
                    1 => 100_000 + n % 9000,
                    _ => 200_000 + n,
                };
                let kind = if dice.is_one_in(3) { Kind::Metadata } else { Kind::Data };
                holder.step(read(key, kind), every, patience);
                let largest = holder.largest;
                assert!(largest <= LIMIT + TOLERATED, "{name}, phase {phase}: {largest} bytes");
            }
            let is_strained = phase % 2 == 1;
            assert_eq!(holder.refused > 0, is_strained, "{name}, phase {phase}");
            assert_eq!(holder.largest > LIMIT, is_strained, "{name}, phase {phase}");
            cache.validate().unwrap();
            while !holder.held.is_empty() {
                holder.let_go();
            }
            assert!(bytes_held(&cache) <= LIMIT, "{name}, phase {phase}: nothing is held any more");
            assert!(bytes_held(&cache) > LIMIT / 10 * 9, "{name}, phase {phase}: and there is no waste");
            cache.validate().unwrap();
        }
    }
}

#[test]
fn metadata_has_the_room_that_it_needs_and_no_more() {
    for (name, cache) in caches() {
        let mut dice = Dice(3);
        // Eighty thousand names (about 230 MiB), asked for while files stream by.
        for n in 0..800_000 {
            ask(&cache, read(dice.below(80_000), Kind::Metadata));
            if n % 20 == 0 {
                ask(&cache, data(1_000_000 + n));
            }
        }
        cache.validate().unwrap();
        let much = metadata_held(&cache);
        // Then files in use, while names stream by.
        for n in 0..200_000 {
            ask(&cache, data(dice.zipf(8000)));
            ask(&cache, read(1_000_000 + n, Kind::Metadata));
        }
        cache.validate().unwrap();
        let little = metadata_held(&cache);
        assert!(much > 0.4, "{name}: {much:.3}");
        assert!(little < 0.2, "{name}: {little:.3}");
    }
}

/// Loads of data.
fn loads() -> Vec<Trace> {
    const LEN: u64 = 120_000;
    let mut dice = Dice(4);
    let zipf: Vec<u64> = (0..LEN).map(|_| dice.zipf(40_000)).collect();
    let looped = (0..LEN).map(|n| if n % 3 == 0 { n / 3 % 2000 } else { 100_000 + dice.zipf(20_000) });
    let looped: Vec<u64> = looped.collect();
    let scans = (0..LEN).map(|n| if n % 20_000 < 8000 { 100_000 + n } else { dice.zipf(10_000) });
    let scans: Vec<u64> = scans.collect();
    let phases = (0..LEN).map(|n| match n / 15_000 % 3 {
        0 => dice.below(2500),
        1 => 100_000 + n % 2200,
        _ => 200_000 + dice.zipf(20_000),
    });
    let phases: Vec<u64> = phases.collect();
    let named = [("zipf", zipf), ("loop", looped), ("scans", scans), ("phases", phases)];
    named.map(|(name, keys)| Trace::of(name, keys.into_iter().map(data)).unwrap()).into()
}

/// The byte hit ratio of a policy, in per cent.
fn byte_hits(name: &str, lists: ListKind, trace: &Trace) -> f64 {
    let setup = Setup { lists, ..Setup::bytes(LIMIT) };
    let mut policy = (policy::find(name).unwrap().build)(&setup, trace);
    let tally = replay(&mut *policy, trace, Unit::Bytes, |_| ());
    policy.validate().unwrap();
    100.0 * tally.byte_hit_ratio()
}

/// Points that trying another rule than ARC may cost, on loads that are as short as these. It is paid
/// once: on longer loads it is less.
const LEARNING: f64 = 2.5;

#[test]
fn as_many_bytes_are_hit_as_by_an_exact_arc_over_bytes() {
    let mut fifo_is_worse = false;
    for trace in loads() {
        let exact = byte_hits("arc", ListKind::Single, &trace);
        for (name, lists, allowed) in [
            ("arcwell-arc", ListKind::Single, 0.1),
            ("arcwell-arc", ListKind::Multilist, 0.5),
            ("arcwell-arc", ListKind::Pages, 0.4),
            ("arcwell", ListKind::Single, LEARNING),
            ("arcwell", ListKind::Multilist, LEARNING),
            ("arcwell", ListKind::Pages, LEARNING),
        ] {
            let own = byte_hits(name, lists, &trace);
            assert!(
                own >= exact - allowed,
                "{}, {name}, {lists:?}: {own:.2} %, ARC {exact:.2} %",
                trace.name()
            );
        }
        fifo_is_worse |= byte_hits("fifo", ListKind::Single, &trace) < exact - 1.0;
    }
    assert!(fifo_is_worse, "the loads tell policies apart");
}

/// A daemon of `size_max` bytes: its cache, and a recording of what it asks of it.
struct Daemon {
    cache: Cache,
    encoder: Encoder,
    bytes: Vec<u8>,
    now: u64,
}

impl Daemon {
    fn new(lists: ListKind, size_max: u64, charged: u64) -> Self {
        let mut bytes = Vec::new();
        let header = Header { record_size: 128 << 10, began: 0, has_names: false };
        let encoder = Encoder::new(&header, &mut bytes);
        let cache = Cache::new(Config { lists, sublists: Some(4), ..Config::new(size_max) });
        cache.charge(charged);
        let mut daemon = Daemon { cache, encoder, bytes, now: 0 };
        for setting in daemon.cache.tunables().settings() {
            daemon.note(Event::Setting { name: setting.row.name.to_owned(), value: setting.value });
        }
        daemon.note(Event::Charge { bytes: charged });
        daemon
    }

    fn note(&mut self, event: Event) {
        self.now += 1;
        self.encoder.encode(self.now, &event, &mut self.bytes);
    }

    fn look(&mut self, request: Request, asked: Asked) -> bool {
        let (key, kind) = (BlockKey::new(ObjectId(1), request.key), request.kind);
        let hit = self.cache.lookup(key, kind, asked).map(|_| request.size);
        self.note(Event::Lookup { key, kind, is_guess: asked == Asked::Prefetch, hit });
        hit.is_some()
    }

    fn admit(&mut self, request: Request, asked: Asked, keep: Keep) {
        let (key, kind) = (BlockKey::new(ObjectId(1), request.key), request.kind);
        let is_guess = asked == Asked::Prefetch;
        let len = request.size;
        self.note(Event::Admit { key, kind, len, is_guess, stays: keep == Keep::Cached });
        self.cache.admit_phantom(key, kind, len as usize, Admit { asked, keep }).unwrap().publish();
    }

    /// Reads with read-ahead, writes and removals.
    fn work(&mut self) {
        let mut dice = Dice(5);
        for n in 0..60_000 {
            let names = read(dice.zipf(20_000), Kind::Metadata);
            let records = data(if n % 10_000 < 3000 { 100_000 + n } else { dice.zipf(4000) });
            for request in [names, records] {
                if !self.look(request, Asked::Demand) {
                    self.admit(request, Asked::Demand, Keep::Cached);
                }
            }
            let next = data(records.key + 1);
            match dice.below(20) {
                0 => self.admit(records, Asked::Demand, Keep::Cached),
                1 => {
                    let key = BlockKey::new(ObjectId(1), records.key);
                    self.note(Event::Remove { key });
                    self.cache.remove(key);
                }
                2..8 if !self.look(next, Asked::Prefetch) => {
                    let keep = if n % 3 == 0 { Keep::Uncached } else { Keep::Cached };
                    self.admit(next, Asked::Prefetch, keep);
                }
                _ => {}
            }
        }
    }

    /// Points of hit ratio between what this recording's replay hits and what the daemon hit.
    fn difference(&self) -> f64 {
        let trace = Trace::read("x.arcwell", &self.bytes[..], &Options::default()).unwrap();
        let mut policy = policy::as_recorded(&trace).unwrap();
        let tally = replay(&mut *policy, &trace, Unit::Bytes, |_| ());
        policy.validate().unwrap();
        let hits = trace.recorded().unwrap().hits;
        100.0 * (tally.hits as f64 - hits as f64) / tally.requests as f64
    }
}

/// A recording is a stranger's: what it tells cannot be more than is allowed, or than can be added up.
#[test]
fn a_recording_may_tell_of_anything() {
    let mut daemon = Daemon::new(ListKind::Single, 96 * MIB, 0);
    daemon.bytes.clear();
    daemon.encoder = Encoder::new(&Header { record_size: 0, began: 0, has_names: false }, &mut daemon.bytes);
    for setting in daemon.cache.tunables().settings() {
        daemon.note(Event::Setting { name: setting.row.name.to_owned(), value: u64::MAX });
    }
    daemon.note(Event::Charge { bytes: u64::MAX });
    daemon.work();
    daemon.difference();
}

#[test]
fn a_recording_replays_to_the_daemons_own_hits() {
    for lists in ListKind::ALL {
        let mut daemon = Daemon::new(lists, 96 * MIB, 8 * MIB);
        daemon.work();
        let difference = daemon.difference();
        assert!(difference.abs() < 0.5, "{lists:?}: {difference:+.3} points");
        // The control: a recording that tells of a little less memory.
        daemon = Daemon::new(lists, 96 * MIB, 8 * MIB);
        let charged = 16 * MIB;
        daemon.note(Event::Charge { bytes: charged });
        daemon.work();
        let difference = daemon.difference();
        assert!(difference.abs() > 0.5, "{lists:?}: {difference:+.3} points");
    }
}
