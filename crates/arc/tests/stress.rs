//! Threads read, write over, remove and evict the same blocks, and close the cache, as fast as they can. Every
//! eight bytes of a block tell its key and its version, so that a torn or foreign byte is found wherever it is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arcwell_arc::{Admit, Asked, Cache, Config, Keep, ListKind, Pin};
use arcwell_base::{BlockKey, Kind, ObjectId};

const KEYS: u64 = 64;
const ROUNDS: u64 = 6_000;
/// Bits of a word that are the version; the others are the key's.
const VERSION: u64 = (1 << 40) - 1;

fn key(index: u64) -> BlockKey {
    BlockKey::new(ObjectId(9), index)
}

fn kind(index: u64) -> Kind {
    if index.is_multiple_of(3) { Kind::Metadata } else { Kind::Data }
}

/// What a block of a key and version is made of.
fn word(index: u64, version: u64) -> [u8; 8] {
    (index << 40 | version & VERSION).to_le_bytes()
}

/// The version of a block, or what is wrong with it. The last bytes of an odd length count too.
fn read(bytes: &[u8], index: u64) -> Result<u64, &'static str> {
    let first: [u8; 8] = bytes.first_chunk().copied().ok_or("short")?;
    let said = u64::from_le_bytes(first);
    if said >> 40 != index {
        return Err("foreign");
    }
    let is_whole = bytes.chunks(8).all(|part| part == &first[..part.len()]);
    if is_whole { Ok(said & VERSION) } else { Err("torn") }
}

/// What all threads share: the cache, and of each key the newest version that was published, and removed.
struct Ground {
    cache: Cache,
    versions: [AtomicU64; KEYS as usize],
}

impl Ground {
    fn check(&self, pin: &Pin, index: u64) {
        let version = read(pin, index).unwrap_or_else(|what| panic!("{what}: {pin:?}"));
        let newest = self.versions[index as usize].load(Ordering::Acquire);
        assert!(version <= newest, "{pin:?} has version {version}, of {newest}");
        assert_eq!(pin.key(), key(index));
    }

    fn write(&self, index: u64, dice: u64) -> Option<Pin> {
        let asked = if dice.is_multiple_of(7) { Asked::Prefetch } else { Asked::Demand };
        let keep = if dice.is_multiple_of(11) { Keep::Uncached } else { Keep::Cached };
        let len = 8 + (dice >> 8) as usize % 9_000;
        let mut anon = self.cache.admit(key(index), kind(index), len, Admit { asked, keep }).ok()?;
        let version = 1 + self.versions[index as usize].fetch_add(1, Ordering::AcqRel);
        let word = word(index, version);
        anon.chunks_mut(8).for_each(|part| part.copy_from_slice(&word[..part.len()]));
        if dice.is_multiple_of(5) {
            anon.truncate(len / 2 + 8).unwrap();
        }
        Some(anon.publish())
    }

    /// One thread's work; returns what it holds at the end.
    fn work(&self, thread: u64) -> Vec<(u64, Pin)> {
        let mut held: Vec<(u64, Pin)> = Vec::new();
        for round in 0..ROUNDS {
            let dice = BlockKey::new(ObjectId(thread), round).hash();
            let index = (dice >> 40) % KEYS;
            let pin = match dice >> 32 & 31 {
                0 => self.cache.remove(key(index)).then_some(None).flatten(),
                1 => {
                    self.cache.shrink(dice % (64 << 10));
                    None
                }
                2 => {
                    self.cache.set_size_max((dice % 4 + 1) * (64 << 10));
                    None
                }
                3..8 => self.write(index, dice),
                8 => self.cache.peek(key(index)),
                _ => self.cache.lookup(key(index), kind(index), Asked::Demand),
            };
            let pin = pin.map(|pin| (index, pin));
            pin.iter().for_each(|(index, pin)| self.check(pin, *index));
            held.extend(pin);
            if held.len() > 6 {
                // Looked at again, after others had time to do harm.
                held.drain(..).for_each(|(index, pin)| self.check(&pin, index));
            }
        }
        held
    }
}

fn stress(lists: ListKind) {
    let config = Config { lists, sublists: Some(3), size_min: 32 << 10, ..Config::new(256 << 10) };
    let versions = std::array::from_fn(|_| AtomicU64::new(0));
    let ground = Arc::new(Ground { cache: Cache::new(config), versions });
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|thread| (thread, ground.clone())).collect();
        for (thread, ground) in threads {
            scope.spawn(move || drop(ground.work(thread)));
        }
    });
    ground.cache.validate().unwrap();
    ground.cache.refresh_gauges();
    let stats = ground.cache.stats();
    assert!(stats.hits.value() > 0 && stats.evicted.value() > 0 && stats.deleted.value() > 0);
    close(ground);
}

/// Threads end one after the other, each with blocks in hand, and the last of them closes the cache.
fn close(ground: Arc<Ground>) {
    let threads: Vec<_> = (10..14)
        .map(|thread| {
            let ground = ground.clone();
            std::thread::spawn(move || {
                let held = ground.work(thread);
                drop(ground);
                for (index, pin) in held {
                    read(&pin.clone(), index).unwrap_or_else(|what| panic!("{what}: {pin:?}"));
                }
            })
        })
        .collect();
    drop(ground);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn no_byte_is_torn_or_foreign_with_single_lists() {
    stress(ListKind::Single);
}

#[test]
fn no_byte_is_torn_or_foreign_with_multilists() {
    stress(ListKind::Multilist);
}

#[test]
fn no_byte_is_torn_or_foreign_with_pages() {
    stress(ListKind::Pages);
}

#[test]
fn one_wrong_byte_anywhere_is_found() {
    let whole: Vec<u8> = word(5, 77).iter().copied().cycle().take(1003).collect();
    assert_eq!(read(&whole, 5), Ok(77));
    assert_eq!(read(&whole, 6), Err("foreign"));
    for at in 8..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert_eq!(read(&damaged, 5), Err("torn"), "byte {at}");
    }
    // And half of another version behind half of this one.
    let mut mixed = whole.clone();
    mixed[504..].copy_from_slice(&word(5, 78).iter().copied().cycle().take(499).collect::<Vec<_>>());
    assert_eq!(read(&mixed, 5), Err("torn"));
}
