//! Any sequence of operations, against a model that knows what must be true whatever the policy
//! decides: bytes are those that were published last, pins keep theirs, what is counted is there,
//! and the size is under the target unless everything is in use.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;

use arcwell_arc::{Admit, Anon, Asked, Cache, Config, Cursor, End, Keep, ListKind, Pin, State};
use arcwell_base::{BlockKey, Kind, ObjectId};
use proptest::prelude::*;

const SIZE_MAX: u64 = 256 << 10;

#[derive(Clone, Debug)]
enum Step {
    Read { key: u64, asked: Asked, hold: bool },
    Fill { key: u64, len: usize, how: Admit, shorten: bool, frequent: bool },
    Publish,
    Abandon,
    Peek { key: u64, hold: bool },
    Walk { state: State, from: End, limit: usize, hold: bool },
    Remove { key: u64 },
    Unpin { nth: usize },
    Repin { nth: usize },
    Resize { size: u64 },
    Shrink { bytes: u64 },
    Charge { bytes: u64 },
    Discharge,
    NoGrow { held: bool },
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![3 => Just(Asked::Demand), 1 => Just(Asked::Prefetch)]
}

fn admit() -> impl Strategy<Value = Admit> {
    let keep = prop_oneof![4 => Just(Keep::Cached), 1 => Just(Keep::Uncached)];
    (asked(), keep).prop_map(|(asked, keep)| Admit { asked, keep })
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..96u64;
    let len = prop_oneof![0..200usize, 1000..9000usize, 20_000..150_000usize];
    let hold = || prop::bool::weighted(0.2);
    prop_oneof![
        30 => (key(), asked(), hold()).prop_map(|(key, asked, hold)| Step::Read { key, asked, hold }),
        30 => (key(), len, admit(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
            |(key, len, how, shorten, frequent)| Step::Fill { key, len, how, shorten, frequent }
        ),
        5 => (prop::bool::ANY, prop::bool::ANY, 0..40usize, hold()).prop_map(|(is_mru, is_tail, limit, hold)| {
            let state = if is_mru { State::Mru } else { State::Mfu };
            Step::Walk { state, from: if is_tail { End::Tail } else { End::Head }, limit, hold }
        }),
        25 => Just(Step::Publish),
        2 => Just(Step::Abandon),
        5 => (key(), hold()).prop_map(|(key, hold)| Step::Peek { key, hold }),
        5 => key().prop_map(|key| Step::Remove { key }),
        15 => any::<usize>().prop_map(|nth| Step::Unpin { nth }),
        3 => any::<usize>().prop_map(|nth| Step::Repin { nth }),
        3 => (0..2 * SIZE_MAX).prop_map(|size| Step::Resize { size }),
        2 => (0..SIZE_MAX).prop_map(|bytes| Step::Shrink { bytes }),
        2 => (0..SIZE_MAX / 2).prop_map(|bytes| Step::Charge { bytes }),
        3 => Just(Step::Discharge),
        1 => any::<bool>().prop_map(|held| Step::NoGrow { held }),
    ]
}

fn block(key: u64) -> BlockKey {
    BlockKey::new(ObjectId(9), key)
}

fn kind(key: u64) -> Kind {
    if key.is_multiple_of(3) { Kind::Metadata } else { Kind::Data }
}

fn fill(bytes: &mut [u8], key: u64, version: u64) {
    let word = block(key).hash() ^ version.wrapping_mul(0x9e37_79b9);
    bytes.iter_mut().zip(word.to_le_bytes().into_iter().cycle()).for_each(|(to, from)| *to = from);
}

/// What was published under a key last.
type Version = (u64, usize);

struct Model {
    cache: Cache,
    latest: HashMap<u64, Version>,
    pins: Vec<(Pin, Version)>,
    anons: Vec<(Anon, u64)>,
    charged: Vec<u64>,
    cursor: Cursor,
    lookups: u64,
    versions: u64,
}

impl Model {
    fn new(lists: ListKind) -> Self {
        let config = Config { lists, sublists: Some(3), size_min: 16 << 10, ..Config::new(SIZE_MAX) };
        Model {
            cache: Cache::new(config),
            latest: HashMap::new(),
            pins: Vec::new(),
            anons: Vec::new(),
            charged: Vec::new(),
            cursor: Cursor::new(),
            lookups: 0,
            versions: 0,
        }
    }

    fn check_pin(pin: &Pin, (version, len): Version) {
        let mut expected = vec![0; len];
        fill(&mut expected, pin.key().index, version);
        assert_eq!(**pin, *expected, "bytes of {pin:?}");
    }

    fn found(&mut self, key: u64, pin: Option<Pin>, hold: bool) {
        let Some(pin) = pin else { return };
        let version = *self.latest.get(&key).expect("what was removed or never published is not found");
        Self::check_pin(&pin, version);
        if hold {
            self.pins.push((pin, version));
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Read { key, asked, hold } => {
                self.lookups += 1;
                let pin = self.cache.lookup(block(key), kind(key), asked);
                self.found(key, pin, hold);
            }
            Step::Peek { key, hold } => {
                let pin = self.cache.peek(block(key));
                assert_eq!(pin.is_some(), self.cache.contains(block(key)));
                self.found(key, pin, hold);
            }
            Step::Fill { key, len, how, shorten, frequent } => {
                if let Ok(mut anon) = self.cache.admit(block(key), kind(key), len, how) {
                    assert_eq!(anon.len(), len);
                    if shorten {
                        anon.truncate(len / 2).unwrap();
                    }
                    if frequent {
                        anon.was_frequent();
                    }
                    anon.may_feed(frequent);
                    self.anons.push((anon, key));
                }
            }
            Step::Walk { state, from, limit, hold } => {
                let mut met = Vec::new();
                let (cache, cursor) = (&self.cache, &mut self.cursor);
                cache.candidates(state, Kind::Data, from, cursor, limit, &mut |one| met.push(one.pin));
                met.iter().for_each(|pin| pin.set_on_flash(true));
                met.into_iter().for_each(|pin| self.found(pin.key().index, Some(pin), hold));
            }
            Step::Publish => self.publish(),
            Step::Abandon => drop(self.anons.pop()),
            Step::Remove { key } => {
                assert_eq!(self.cache.contains(block(key)), self.cache.remove(block(key)));
                assert!(!self.cache.contains(block(key)));
                self.latest.remove(&key);
            }
            Step::Unpin { nth } if !self.pins.is_empty() => {
                let (pin, version) = self.pins.swap_remove(nth % self.pins.len());
                Self::check_pin(&pin, version);
            }
            Step::Repin { nth } if !self.pins.is_empty() => {
                let again = self.pins[nth % self.pins.len()].clone();
                self.pins.push(again);
            }
            Step::Resize { size } => self.cache.set_size_max(size),
            Step::Shrink { bytes } => drop(self.cache.shrink(bytes)),
            Step::Charge { bytes } => {
                self.charged.push(bytes);
                self.cache.charge(bytes);
            }
            Step::Discharge => self.cache.discharge(self.charged.pop().unwrap_or(0)),
            Step::NoGrow { held } => self.cache.no_grow(held),
            Step::Unpin { .. } | Step::Repin { .. } => {}
        }
        self.check();
    }

    fn publish(&mut self) {
        let Some((mut anon, key)) = self.anons.pop() else { return };
        self.versions += 1;
        fill(&mut anon, key, self.versions);
        let version = (self.versions, anon.len());
        let pin = anon.publish();
        Self::check_pin(&pin, version);
        self.latest.insert(key, version);
        if self.versions.is_multiple_of(8) {
            self.pins.push((pin, version));
        }
    }

    fn check(&self) {
        self.cache.validate().unwrap();
        self.cache.refresh_gauges();
        let stats = self.cache.stats();
        self.cache.refresh_gauges();
        assert_eq!(stats.hits.value() + stats.misses.value(), self.lookups);
        // Peeked blocks stay on their lists though they cannot go, and with pages all that are pinned.
        let peeked_at_most: u64 = self.pins.iter().map(|(pin, _)| pin.len() as u64 / 32 * 33 + 5000).sum();
        let evictable = [
            &stats.mru_evictable_data,
            &stats.mru_evictable_metadata,
            &stats.mfu_evictable_data,
            &stats.mfu_evictable_metadata,
        ];
        let evictable: u64 = evictable.iter().map(|gauge| gauge.value()).sum();
        if stats.size.value() > stats.c.value() {
            assert!(evictable <= peeked_at_most, "over the target with {evictable} bytes to evict");
        }
    }

    fn finish(mut self) {
        for (pin, version) in self.pins.drain(..) {
            Self::check_pin(&pin, version);
        }
        self.anons.clear();
        self.check();
        let stats = self.cache.stats();
        assert_eq!(stats.anon_data.value() + stats.anon_metadata.value(), 0);
        let other = stats.other_size.value();
        assert!(stats.size.value() <= stats.c.value().max(other), "nothing is in use: the target holds");
        assert_eq!(other, self.charged.iter().sum::<u64>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_done_everything_stays_true(
        steps in prop::collection::vec(step(), 1..300),
        lists in prop_oneof![Just(ListKind::Single), Just(ListKind::Multilist), Just(ListKind::Pages)],
    ) {
        let mut model = Model::new(lists);
        steps.into_iter().for_each(|step| model.step(step));
        model.finish();
    }
}
