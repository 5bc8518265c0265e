//! Where something other than bytes runs out, where all keys agree, and where a few blocks fill the cache: at
//! the edges nothing stops, nothing is lost, nothing young goes for old.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};

use arcwell_arc::{Admit, Asked, Cache, Config, Keep};
use arcwell_base::{BlockKey, Kind, ObjectId};

const HOW: Admit = Admit { asked: Asked::Demand, keep: Keep::Cached };

fn key(index: u64) -> BlockKey {
    BlockKey::new(ObjectId(1), index)
}

fn put(cache: &Cache, key: BlockKey, len: usize) -> bool {
    cache.admit(key, Kind::Data, len, HOW).map(|anon| drop(anon.publish())).is_ok()
}

fn look(cache: &Cache, key: BlockKey) -> bool {
    cache.lookup(key, Kind::Data, Asked::Demand).is_some()
}

/// Of some that are put in, none is refused, and the last ones are there.
fn goes_on(cache: &Cache, blocks: u64, len: usize) {
    for index in 0..blocks {
        assert!(put(cache, key(index), len), "block {index} of {blocks}");
    }
    cache.refresh_gauges();
    assert!((blocks - 10..blocks).all(|index| cache.contains(key(index))));
    assert!(cache.stats().evicted.value() > 0);
    cache.validate().unwrap();
}

#[test]
fn a_cache_that_grew_beyond_its_headers_evicts_for_them() {
    let cache = Cache::new(Config::new(1 << 20));
    cache.set_size_max(64 << 20);
    goes_on(&cache, 300_000, 1);
}

#[test]
fn a_cache_that_grew_beyond_its_address_space_evicts_for_it() {
    let cache = Cache::new(Config::new(1 << 20));
    cache.set_size_max(4 << 30);
    goes_on(&cache, 40_000, 64 << 10);
}

/// Pages of few slots, made sparse by hits at random as fast as that can be.
#[test]
fn pages_do_not_run_out() {
    let cache = Cache::new(Config::new(1 << 20));
    cache.set_size_max(16 << 20);
    let (blocks, mut dice) = (150_000, 1u64);
    (0..blocks).for_each(|index| assert!(put(&cache, key(index), 1)));
    for round in 0..200_000 {
        for _ in 0..8 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            look(&cache, key((dice >> 33) % blocks));
        }
        assert!(put(&cache, key(blocks + round), 1));
    }
    cache.validate().unwrap();
}

/// For one index the hash knows nothing of the object.
#[test]
fn blocks_whose_hashes_agree_are_all_found() {
    let all: Vec<BlockKey> =
        (0..1000).map(|object| BlockKey::new(ObjectId(object), 0xd6e8_feb8_6659_fd93)).collect();
    assert!(all.iter().all(|key| key.hash() == all[0].hash()), "the worst case there is");
    let cache = Cache::new(Config::new(64 << 20));
    assert!(all.iter().all(|key| put(&cache, *key, 100)));
    assert!(all.iter().all(|key| look(&cache, *key)));
    cache.validate().unwrap();
    assert!(all.iter().all(|key| cache.remove(*key)));
    cache.validate().unwrap();
}

/// While others admit, what one has just put in is not what goes.
#[test]
fn the_newest_does_not_go_for_the_oldest() {
    const EACH: u64 = 200_000;
    let (cache, gone) = (Cache::new(Config::new(64 << 20)), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (cache, gone) = (&cache, &gone);
            scope.spawn(move || {
                for index in 0..EACH {
                    let key = key(thread << 40 | index);
                    drop(cache.admit_phantom(key, Kind::Data, 8192, HOW).unwrap().publish());
                    gone.fetch_add(u64::from(!cache.contains(key)), Ordering::Relaxed);
                }
            });
        }
    });
    let gone = gone.into_inner();
    // One that loses its processor for long finds that a whole cache has come in.
    assert!(gone < EACH / 1000, "{gone} of {} blocks were gone at once", 4 * EACH);
    cache.validate().unwrap();
}

/// A list of one page, which one thread has taken out to look at while the others look for something to evict.
#[test]
fn few_large_blocks_are_not_refused() {
    const LEN: usize = 16 << 20;
    let (cache, refused) = (Cache::new(Config::new(1 << 30)), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (cache, refused) = (&cache, &refused);
            scope.spawn(move || {
                for index in 0..2000 {
                    match cache.admit_phantom(key(thread << 40 | index), Kind::Data, LEN, HOW) {
                        Ok(anon) => drop(anon.publish()),
                        Err(_) => _ = refused.fetch_add(1, Ordering::Relaxed),
                    }
                }
            });
        }
    });
    let refused = refused.into_inner();
    assert!(refused < 10, "{refused} of 32,000");
    cache.validate().unwrap();
}
