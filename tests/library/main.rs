//! `arcwell::Cache` from outside, as a program that embeds it sees it.
//!
//! Here: bytes, pins, room, settings and statistics. `flights`: who fetches, and what happens when
//! fetching fails or is overtaken. `model`: any sequence of calls against a map.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod flights;
mod model;

use std::convert::Infallible;
use std::error::Error as _;
use std::io;

use arcwell::{BlockKey, Cache, CachePolicy, Cause, FetchError, Full, Kind, ListKind, Pin};

const PAGE: usize = 8 << 10;
const MIB: u64 = 1 << 20;

fn cache(size_max: u64) -> Cache {
    Cache::builder().size_max(size_max).typical_block(PAGE as u64).build().unwrap()
}

/// A page whose every word tells its key and version.
fn page(key: BlockKey, version: u64) -> Vec<u8> {
    let word = key.hash() ^ version.wrapping_mul(0x9e37_79b9);
    word.to_le_bytes().into_iter().cycle().take(PAGE).collect()
}

fn fetched(cache: &Cache, key: BlockKey, version: u64) -> Pin {
    let fetch = |buffer: &mut [u8]| {
        buffer.copy_from_slice(&page(key, version));
        Ok::<_, Infallible>(PAGE)
    };
    cache.get_or_fetch(key, PAGE, fetch).unwrap()
}

/// Pins pages until one finds no room in the cache.
fn fill_up(cache: &Cache) -> Vec<Pin> {
    let mut pins = Vec::new();
    for index in 0..2 * cache.stats().size_max / PAGE as u64 {
        let pin = fetched(cache, (99, index).into(), 0);
        assert_eq!(*pin, *page((99, index).into(), 0));
        if !pin.is_cached() {
            return pins;
        }
        pins.push(pin);
    }
    panic!("everything is pinned, and still there is room");
}

#[test]
fn handles_and_pins_go_to_any_thread_and_outlive_each_other() {
    fn goes_anywhere<T: Send + Sync + Clone + 'static>(_: &T) {}
    let cache = cache(MIB);
    let pin = fetched(&cache, (1, 1).into(), 1);
    goes_anywhere(&cache);
    goes_anywhere(&pin);
    assert!(cache.clone().contains((1, 1)), "a clone is the same cache");
    drop(cache);
    assert_eq!(*pin.clone(), *page((1, 1).into(), 1));
}

#[test]
fn every_bit_of_a_key_counts() {
    let cache = cache(MIB);
    let numbers = [0, 1, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX];
    let keys = || numbers.iter().flat_map(|&object| numbers.map(|index| BlockKey::from((object, index))));
    for key in keys() {
        cache.insert(key, &key.hash().to_le_bytes()).unwrap();
    }
    for key in keys() {
        assert_eq!(*cache.pin(key).unwrap(), key.hash().to_le_bytes(), "{key:?}");
    }
}

#[test]
fn a_fetch_fills_zeroed_aligned_memory_and_may_be_short() {
    let cache = cache(MIB);
    for len in [0, 1, 4096, PAGE, 100_000] {
        let key = (1, len as u64);
        let fetch = |buffer: &mut [u8]| {
            assert!(buffer.len() == len && buffer.iter().all(|byte| *byte == 0));
            assert!(len < 4096 || buffer.as_ptr().addr().is_multiple_of(4096));
            buffer.fill(7);
            Ok::<_, Infallible>(len / 2)
        };
        let pin = cache.get_or_fetch(key, len, fetch).unwrap();
        assert_eq!(*pin, *vec![7; len / 2]);
        assert_eq!(*cache.pin(key).unwrap(), *pin);
    }
}

#[test]
fn who_holds_a_pin_keeps_his_bytes_when_they_are_replaced_or_removed() {
    let cache = cache(MIB);
    let key = BlockKey::from((1, 2));
    let mut pins = Vec::new();
    for version in 0..3 {
        pins.push(cache.insert(key, &page(key, version)).unwrap());
        assert_eq!(*cache.pin(key).unwrap(), *page(key, version), "others find the new bytes");
    }
    assert!(cache.remove(key) && !cache.remove(key) && !cache.contains(key) && cache.pin(key).is_none());
    // Memory that is free now would be taken by these.
    (0..1000).for_each(|index| drop(fetched(&cache, (2, index).into(), 9)));
    for (version, pin) in pins.iter().enumerate() {
        assert_eq!(**pin, *page(key, version as u64));
    }
}

#[test]
fn reads_do_not_fail_when_all_of_the_cache_is_in_use() {
    let cache = cache(MIB);
    let held = fill_up(&cache);
    let key = BlockKey::from((1, 1));
    let beside = fetched(&cache, key, 1);
    assert!(!beside.is_cached() && *beside == *page(key, 1) && !cache.contains(key));
    assert!(beside.as_ptr().addr().is_multiple_of(4096));
    assert!(cache.stats().aside >= 2 && cache.stats().refused >= 2);

    drop(held);
    assert!(fetched(&cache, key, 2).is_cached() && cache.contains(key), "there is room again");
    assert_eq!(*beside, *page(key, 1));
}

#[test]
fn a_block_larger_than_half_of_the_cache_is_read_beside_it() {
    let cache = cache(MIB);
    let fetch = |_: &mut [u8]| Ok::<_, Infallible>(600_000);
    let pin = cache.get_or_fetch((1, 1), 600_000, fetch).unwrap();
    assert!(pin.len() == 600_000 && !pin.is_cached() && !cache.contains((1, 1)));
}

#[test]
fn an_insert_without_room_leaves_nothing_that_is_old() {
    let cache = cache(MIB);
    let key = BlockKey::from((1, 1));
    cache.insert(key, &page(key, 1)).unwrap();
    let mut held = fill_up(&cache);
    // Filling up has evicted it: back it comes into the place of another, and is held.
    held.pop();
    held.push(fetched(&cache, key, 1));
    assert!(cache.contains(key));
    assert!(matches!(cache.insert(key, &vec![2; 600_000]), Err(Full)));
    assert!(!cache.contains(key), "the old bytes would be found");
    assert_eq!(**held.last().unwrap(), *page(key, 1));
}

#[test]
fn read_many_keeps_the_order_and_says_what_is_missing() {
    let cache = cache(MIB);
    let keys: Vec<BlockKey> = [5, 1, 9, 1, 0, 7].map(|index| (3, index).into()).to_vec();
    for key in keys.iter().filter(|key| key.index % 4 == 1) {
        cache.insert(*key, &page(*key, 1)).unwrap();
    }
    let mut seen = Vec::new();
    let hits = cache.read_many(&keys, |place, bytes| {
        assert!(bytes.is_none_or(|bytes| *bytes == *page(keys[place], 1)));
        seen.push((place, bytes.is_some()));
    });
    assert_eq!(seen, [(0, true), (1, true), (2, true), (3, true), (4, false), (5, false)]);
    assert_eq!((hits, cache.stats().hits, cache.stats().misses), (4, 4, 2));
    assert_eq!(cache.read_many(&[], |_, _| panic!("there is nothing to visit")), 0);
}

#[test]
fn bad_settings_get_one_clear_error() {
    let built = |size_max: u64| Cache::builder().size_max(size_max);
    for (builder, says) in [
        (Cache::builder(), "size_max is not set"),
        (built(0), "size_max is 0 B, expected 1 MiB to 128 TiB"),
        (built(u64::MAX), "expected 1 MiB to 128 TiB"),
        (built(MIB).size_min(MIB + 1), "size_min is 1.0 MiB, expected 0 B to 1 MiB"),
        (built(MIB).typical_block(0), "typical_block is 0 B, expected 1 B to 512 KiB"),
        (built(MIB).typical_block(MIB), "typical_block is 1 MiB, expected 1 B to 512 KiB"),
        (built(MIB).tunable("arc.page_sise", "8"), "arc.page_sise: there is no such tunable"),
        (built(MIB).tunable("arc.move_threshold", "91"), "arc.move_threshold"),
        (built(MIB).tunable("arc.size_max", "1G"), "arc.size_max: there is no such tunable"),
    ] {
        let error = builder.clone().build().expect_err(says);
        assert!(matches!(error.cause(), Cause::Invalid(_)));
        assert!(error.to_string().contains(says), "{error}");
    }
    let cache = cache(MIB);
    assert!(matches!(cache.resize(1).unwrap_err().cause(), Cause::Invalid(_)));
    assert_eq!(cache.stats().size_max, MIB, "a refused size changes nothing");
}

#[test]
fn every_setting_that_is_allowed_makes_a_cache_that_works() {
    for policy in [CachePolicy::Arc, CachePolicy::Adaptive] {
        for lists in ListKind::ALL {
            let builder = Cache::builder().size_max(MIB).size_min(MIB).policy(policy).lists(lists);
            let builder = builder.tunable("arc.page_size", "16").tunable("arc.move_threshold", "0");
            let cache = builder.typical_block(512).build().unwrap();
            for index in 0..500 {
                let key = (1, index).into();
                assert_eq!(*fetched(&cache, key, index), *page(key, index));
            }
            assert!(cache.stats().evicted > 300, "{policy:?}, {lists:?}");
        }
    }
}

#[test]
fn wrong_use_of_a_fetch_is_an_error_that_caches_nothing() {
    let cache = cache(MIB);
    let too_long = cache.get_or_fetch((1, 1), usize::MAX, |_| Err::<usize, _>(io::Error::other("asked")));
    assert!(matches!(too_long, Err(FetchError::TooLong { len: usize::MAX, .. })), "{too_long:?}");
    let overfilled = cache.get_or_fetch((1, 1), 10, |_| Ok::<_, io::Error>(11)).unwrap_err();
    assert!(overfilled.to_string().contains("11 bytes of a buffer of 10"), "{overfilled}");
    assert_eq!(io::Error::from(overfilled).kind(), io::ErrorKind::InvalidInput);
    assert!(!cache.contains((1, 1)));
}

#[test]
fn a_fetchs_error_keeps_its_source() {
    let lost = || io::Error::from(io::ErrorKind::NotFound);
    let error = cache(MIB).get_or_fetch((1, 1), 10, |_| Err::<usize, _>(lost())).unwrap_err();
    assert!(error.source().unwrap().is::<io::Error>());
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
}

#[test]
fn the_statistics_add_up() {
    let cache = cache(4 * MIB);
    for turn in 0..3000 {
        drop(fetched(&cache, (1, turn * turn % 800).into(), 0));
    }
    cache.insert((1, 0), &[1; PAGE]).unwrap();
    cache.remove((1, 0));
    let stats = cache.stats();
    assert_eq!(stats.hits + stats.misses, 3000);
    assert_eq!((stats.fetches, stats.inserts), (stats.misses, stats.misses + 1));
    assert_eq!((stats.removed, stats.failed, stats.joined, stats.aside), (1, 0, 0, 0));
    assert!(stats.size <= stats.target && stats.target <= stats.size_max, "{stats:?}");
    assert!(stats.blocks * PAGE as u64 <= stats.seen_once + stats.seen_again, "{stats:?}");
    assert!(stats.seen_once + stats.seen_again <= stats.size && stats.anon == 0, "{stats:?}");
    let text = stats.to_string();
    assert!(text.contains(&format!("{} hits, {} misses", stats.hits, stats.misses)), "{text}");
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn a_cache_gives_memory_back_and_takes_another_size() {
    let cache = Cache::builder().size_max(8 * MIB).size_min(2 * MIB).build().unwrap();
    let read_all = || (0..2000).for_each(|index| drop(fetched(&cache, (1, index).into(), 0)));
    read_all();
    let full = cache.stats().size;
    let freed = cache.shrink(3 * MIB);
    assert!(freed >= 3 * MIB && cache.stats().size == full - freed, "{freed} of {full}");
    cache.shrink(u64::MAX);
    assert!(cache.stats().target == 2 * MIB && cache.stats().size <= 2 * MIB);

    read_all();
    assert!(cache.stats().size > 7 * MIB, "it grows again");
    cache.resize(4 * MIB).unwrap();
    assert!(cache.stats().size <= 4 * MIB && cache.stats().size_max == 4 * MIB);
    read_all();
    assert!(cache.stats().size <= 4 * MIB, "it stays small");
}

#[test]
fn metadata_is_kept_apart_and_outlives_a_stream_of_data() {
    let survivors = |kind: Kind| {
        let cache = cache(4 * MIB);
        let nodes = cache.of_kind(kind);
        for _ in 0..2 {
            (0..32).for_each(|index| drop(fetched(&nodes, (7, index).into(), 0)));
        }
        assert!(cache.contains((7, 0)), "all handles see all blocks");
        // Data that comes back again and again would crowd out what is used as seldom.
        for turn in 0..6 * 700 {
            drop(fetched(&cache, (8, turn % 700).into(), 0));
        }
        (0..32).filter(|index| cache.contains((7, *index))).count()
    };
    assert!(survivors(Kind::Metadata) > survivors(Kind::Data));
}
