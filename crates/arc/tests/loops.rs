//! The second rule in the cache itself: what it keeps of loops, and of what is read ahead in them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use arcwell_arc::{Admit, Asked, Cache, Config, Keep, ListKind, Overhead, Policy};
use arcwell_base::{BlockKey, Kind, ObjectId};

const BLOCKS: u64 = 1000;

fn cache(lists: ListKind, policy: Policy) -> Cache {
    let config = Config::new(BLOCKS);
    Cache::new(Config { policy, lists, sublists: Some(2), overhead: Overhead::Ignored, ..config })
}

fn key(index: u64) -> BlockKey {
    BlockKey::new(ObjectId(1), index)
}

fn admit(cache: &Cache, index: u64, kind: Kind, asked: Asked) {
    let how = Admit { asked, keep: Keep::Cached };
    cache.admit_phantom(key(index), kind, 1, how).unwrap().publish();
}

fn read(cache: &Cache, index: u64, kind: Kind) -> bool {
    let is_hit = cache.lookup(key(index), kind, Asked::Demand).is_some();
    if !is_hit {
        admit(cache, index, kind, Asked::Demand);
    }
    is_hit
}

/// Goes round a loop and returns the hits of the last round.
fn go_round(cache: &Cache, keys: std::ops::Range<u64>, rounds: usize, kind: Kind) -> usize {
    let round = || keys.clone().filter(|&index| read(cache, index, kind)).count();
    (1..rounds).for_each(|_| _ = round());
    let hits = round();
    cache.validate().unwrap();
    hits
}

const BOTH: [ListKind; 3] = ListKind::ALL;

#[test]
fn what_fits_of_a_loop_is_hit_whatever_it_holds() {
    for lists in BOTH {
        for kind in Kind::ALL {
            let hits = go_round(&cache(lists, Policy::Adaptive), 0..2 * BLOCKS, 5, kind);
            assert!(hits > 900, "{lists:?}, {kind:?}: {hits} of {BLOCKS}");
            assert_eq!(go_round(&cache(ListKind::Single, Policy::Arc), 0..2 * BLOCKS, 5, kind), 0);
        }
    }
}

/// Blocks of more than a byte fill neither list to its last one. Once, mfu lost a block for each that was
/// moved to it then, and kept nothing of a loop.
#[test]
fn what_fits_of_a_loop_is_hit_whatever_the_size_of_its_blocks() {
    let counted = |lists| [(lists, Overhead::Ignored), (lists, Overhead::Counted)];
    for (lists, overhead) in BOTH.into_iter().flat_map(counted) {
        for (odd, spread) in [(0, 1), (3000, 1), (7000, 1), (0, 8192), (3000, 8192)] {
            let config = Config::new(BLOCKS * 8192 + odd);
            let cache = Cache::new(Config { lists, sublists: Some(2), overhead, ..config });
            let len = |index: u64| 8192 - spread / 2 + (index.wrapping_mul(2_654_435_761) % spread);
            let is_hit = |index: &u64| {
                let is_hit = cache.lookup(key(*index), Kind::Data, Asked::Demand).is_some();
                if !is_hit {
                    let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
                    let len = len(*index) as usize;
                    cache.admit_phantom(key(*index), Kind::Data, len, how).unwrap().publish();
                }
                is_hit
            };
            let round = || (0..2 * BLOCKS).filter(is_hit).count();
            let hits = (0..6).fold(0, |_, _| round());
            cache.refresh_gauges();
            let held = cache.stats().blocks.value() as usize;
            assert!(hits * 10 > held * 8, "{lists:?}, {odd} bytes more, spread {spread}: {hits} of {held}");
            cache.validate().unwrap();
        }
    }
}

#[test]
fn another_loop_takes_the_place_of_the_first() {
    for lists in BOTH {
        let cache = cache(lists, Policy::Adaptive);
        go_round(&cache, 0..3000, 5, Kind::Data);
        let hits = go_round(&cache, 10_000..11_500, 40, Kind::Data);
        assert!(hits > 500, "{lists:?}: {hits}");
    }
}

#[test]
fn what_is_read_ahead_lives_until_its_use_beside_a_loop() {
    for lists in BOTH {
        let cache = cache(lists, Policy::Adaptive);
        go_round(&cache, 0..3000, 3, Kind::Data);
        (5000..5100).for_each(|index| admit(&cache, index, Kind::Data, Asked::Prefetch));
        // Others pass, twice as many as the filter alone could hold. Sublists are not equally long.
        go_round(&cache, 100_000..100_040, 1, Kind::Data);
        let used = (5000..5100).filter(|&index| read(&cache, index, Kind::Data)).count();
        assert!(used >= 80, "{lists:?}: {used} of 100");
    }
}

#[test]
fn guesses_that_nobody_uses_take_no_more_than_their_share() {
    for lists in BOTH {
        let cache = cache(lists, Policy::Adaptive);
        go_round(&cache, 0..3000, 3, Kind::Data);
        (5000..9000).for_each(|index| admit(&cache, index, Kind::Data, Asked::Prefetch));
        let alive = (5000..9000).filter(|&index| cache.contains(key(index))).count();
        assert!(alive < 250, "{lists:?}: {alive} of {BLOCKS}");
        let hits = go_round(&cache, 0..3000, 1, Kind::Data);
        assert!(hits > 650, "{lists:?}: {hits}");
    }
}
