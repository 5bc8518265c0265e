//! Many threads do everything at once. Each block is filled with words derived from its key and a
//! version: a torn or foreign byte shows. At the end everything is recounted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arcwell_arc::{Admit, Asked, Cache, Config, Keep, ListKind, Pin, Policy};
use arcwell_base::{BlockKey, Kind, ObjectId};

const THREADS: u64 = 8;
const ROUNDS: u64 = 4_000;
const KEYS: u64 = 300;

fn key(index: u64) -> BlockKey {
    BlockKey::new(ObjectId(3), index)
}

fn kind(index: u64) -> Kind {
    if index.is_multiple_of(4) { Kind::Metadata } else { Kind::Data }
}

/// One version through the whole block, mixed with the key.
fn check(pin: &Pin) {
    let mut words = pin.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let first = words.next().unwrap();
    assert!(words.all(|word| word == first), "torn: {pin:?}");
    let version = first ^ pin.key().hash();
    assert!(version < THREADS * ROUNDS, "foreign bytes in {pin:?}");
}

fn write(cache: &Cache, index: u64, len: usize, how: Admit, version: u64) -> Option<Pin> {
    let mut anon = cache.admit(key(index), kind(index), len, how).ok()?;
    let word = (version ^ key(index).hash()).to_le_bytes();
    anon.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&word));
    Some(anon.publish())
}

fn work(cache: &Cache, thread: u64) {
    let mut held: Vec<Pin> = Vec::new();
    for round in 0..ROUNDS {
        let version = thread * ROUNDS + round;
        let dice = BlockKey::new(ObjectId(thread), round).hash();
        let index = (dice >> 32) % KEYS * ((dice >> 20) % 8 + 1) / 8;
        let asked = if dice & 0x700 == 0 { Asked::Prefetch } else { Asked::Demand };
        let keep = if dice & 0x3800 == 0 { Keep::Uncached } else { Keep::Cached };
        match dice % 64 {
            0 => drop(cache.remove(key(index))),
            1 => cache.set_size_max(((dice >> 16) % 4 + 1) * (128 << 10)),
            2 => drop(cache.shrink(64 << 10)),
            3 => held.extend(cache.peek(key(index))),
            4 => {
                cache.charge(10_000);
                cache.discharge(10_000);
            }
            5 => drop(cache.admit(key(index), kind(index), 4096, Admit { asked, keep })),
            6..12 => held.extend(write(
                cache,
                index,
                1024 * (1 + dice as usize % 7),
                Admit { asked, keep },
                version,
            )),
            _ => match cache.lookup(key(index), kind(index), asked) {
                Some(pin) => {
                    check(&pin);
                    held.push(pin);
                }
                None => held.extend(write(cache, index, 2048, Admit { asked, keep }, version)),
            },
        }
        if held.len() > 4 {
            held.drain(..).for_each(|pin| check(&pin.clone()));
        }
    }
}

fn storm(lists: ListKind) {
    let config = Config { lists, sublists: Some(4), size_min: 64 << 10, ..Config::new(512 << 10) };
    let cache = Arc::new(Cache::new(config));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let cache = &cache;
                    move || work(cache, thread)
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    cache.validate().unwrap();
    cache.adjust();
    cache.validate().unwrap();
    cache.refresh_gauges();
    let stats = cache.stats();
    assert!(stats.size.value() <= stats.c.value(), "nothing is in use: the target holds");
    assert_eq!(stats.anon_data.value() + stats.anon_metadata.value(), 0);
    assert!(stats.hits.value() > 0 && stats.evicted.value() > 0);
}

#[test]
fn a_storm_on_single_lists_loses_nothing() {
    storm(ListKind::Single);
}

#[test]
fn a_storm_on_multilists_loses_nothing() {
    storm(ListKind::Multilist);
}

#[test]
fn threads_storm_pages() {
    storm(ListKind::Pages);
}

#[test]
fn everything_may_go_to_another_thread() {
    fn travels<T: Send + Sync>() {}
    travels::<Cache>();
    travels::<Pin>();
    travels::<arcwell_arc::Anon>();
}

#[test]
fn pins_outlive_their_cache() {
    let cache = Cache::new(Config::new(1 << 20));
    let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
    let pin = write(&cache, 1, 4096, how, 7).unwrap();
    drop(cache);
    check(&pin);
    check(&pin.clone());
}

#[test]
fn readers_of_one_block_do_not_disturb_each_other() {
    let cache = Cache::new(Config { policy: Policy::Arc, ..Config::new(1 << 20) });
    let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
    drop(write(&cache, 1, 4096, how, 7));
    // From here on it stands in mfu, which the writes below leave alone, as the paper's rule has it.
    drop(cache.lookup(key(1), kind(1), Asked::Demand));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    check(&cache.lookup(key(1), kind(1), Asked::Demand).unwrap());
                }
            });
        }
        for index in 2..2_000 {
            drop(write(&cache, index, 2048, how, 8));
        }
        stop.store(true, Ordering::Relaxed);
    });
    cache.validate().unwrap();
}
