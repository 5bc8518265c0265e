//! Hits of `arc.lists=pages` write to their block's header and to lines of their thread's own, and nowhere else.
//! Needs the feature `linestat`, without which nothing is counted.

#![cfg(feature = "linestat")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Barrier;

use arcwell_arc::linestat::{self, Traffic, Writes};
use arcwell_arc::{Admit, Asked, Cache, Config, Keep, ListKind, Policy};
use arcwell_base::{BlockKey, Kind, ObjectId};

/// Blocks that are there, of 4 KiB; not so few that they are in one bucket or on one page.
const BLOCKS: u64 = 3000;

const NOTHING: Writes = Writes { rmws: 0, stores: 0 };

fn key(index: u64) -> BlockKey {
    BlockKey::new(ObjectId(7), index)
}

/// A full cache, nothing of which has been used.
fn filled(lists: ListKind, policy: Policy, asked: Asked) -> Cache {
    let cache = Cache::new(Config { lists, policy, ..Config::new(64 << 20) });
    (0..BLOCKS).for_each(|index| fill(&cache, index, asked));
    linestat::prepare(&cache);
    cache
}

fn fill(cache: &Cache, index: u64, asked: Asked) {
    let how = Admit { asked, keep: Keep::Cached };
    drop(cache.admit(key(index), Kind::Data, 4096, how).unwrap().publish());
}

/// What a hit of a block and the drop of its pin write.
fn hit(cache: &Cache, index: u64) -> Traffic {
    let look = || cache.lookup(key(index), Kind::Data, Asked::Demand).map(drop);
    let (found, traffic) = linestat::watch(cache, &[key(index)], look);
    found.unwrap();
    traffic
}

/// What hits of all blocks write, in some order.
fn hits(cache: &Cache) -> Traffic {
    let mut sum = Traffic::default();
    (0..BLOCKS).for_each(|step| sum += hit(cache, step * 1201 % BLOCKS));
    sum
}

/// That no line of others was written to, and each header `rmws` times.
fn assert_alone(traffic: Traffic, rmws: u64, case: &str) {
    assert_eq!(traffic.other, NOTHING, "{case}: {traffic:?}");
    assert_eq!((traffic.header.rmws, traffic.own.rmws), (rmws, 0), "{case}: {traffic:?}");
}

#[test]
fn a_hit_writes_twice_to_its_header_and_else_only_to_lines_of_its_thread() {
    for policy in [Policy::Arc, Policy::Adaptive] {
        for asked in [Asked::Demand, Asked::Prefetch] {
            let cache = filled(ListKind::Pages, policy, asked);
            for round in ["first", "second", "third"] {
                let case = format!("{round} uses of what came in by {asked:?}, {policy:?}");
                let traffic = hits(&cache);
                assert_alone(traffic, 2 * BLOCKS, &case);
                assert!(traffic.own.stores >= BLOCKS, "{case}: each is counted: {traffic:?}");
                assert!(traffic.header.stores <= BLOCKS, "{case}: the time, at most: {traffic:?}");
            }
            cache.validate().unwrap();
        }
    }
}

#[test]
fn a_use_that_matters_to_lists_or_rules_leaves_its_note_in_lines_of_its_thread() {
    const COUNT: u64 = 1;
    const NOTE: u64 = 2;
    let stores = |cache: &Cache, index| {
        let traffic = hit(cache, index);
        assert_alone(traffic, 2, "one hit");
        traffic.own.stores
    };
    let paper = filled(ListKind::Pages, Policy::Arc, Asked::Demand);
    assert_eq!([5, 5].map(|index| stores(&paper, index)), [COUNT + NOTE, COUNT]);
    // As long as the cache is small, all keys are in the sample.
    let sampled = filled(ListKind::Pages, Policy::Adaptive, Asked::Demand);
    assert_eq!([5, 5].map(|index| stores(&sampled, index)), [COUNT + NOTE, COUNT + NOTE]);
    let guessed = filled(ListKind::Pages, Policy::Arc, Asked::Prefetch);
    const PROOF: u64 = 2;
    assert_eq!([5, 5].map(|index| stores(&guessed, index)), [COUNT + NOTE + PROOF, COUNT + NOTE]);
}

#[test]
fn the_time_of_use_is_stored_in_the_header_when_it_has_changed() {
    let cache = filled(ListKind::Pages, Policy::Arc, Asked::Demand);
    hits(&cache);
    assert_eq!(hits(&cache).header.stores, 0, "nothing came in meanwhile");
    (0..BLOCKS).for_each(|index| fill(&cache, BLOCKS + 1 + index, Asked::Demand));
    let traffic = hits(&cache);
    assert_alone(traffic, 2 * BLOCKS, "later");
    assert_eq!(traffic.header.stores, BLOCKS);
}

#[test]
fn batches_peeks_and_more_pins_are_no_different() {
    let keys: Vec<BlockKey> = (0..BLOCKS).map(key).collect();
    for asked in [Asked::Demand, Asked::Prefetch] {
        let cache = filled(ListKind::Pages, Policy::Adaptive, asked);
        for batch in keys.chunks(37) {
            let mut found = 0;
            let look =
                || cache.lookup_many(batch, Kind::Data, asked, |_, pin| found += u64::from(pin.is_some()));
            let ((), traffic) = linestat::watch(&cache, batch, look);
            assert_eq!(found, batch.len() as u64);
            assert_alone(traffic, 2 * found, "a batch");
        }
        let peek = || cache.peek(key(1)).map(|pin| drop(pin.clone()));
        let (found, traffic) = linestat::watch(&cache, &[key(1)], peek);
        assert!(found.is_some());
        assert_alone(traffic, 4, "a peek, and one pin more");
    }
}

#[test]
fn threads_that_hit_the_same_blocks_meet_nowhere_but_in_their_headers() {
    let cache = filled(ListKind::Pages, Policy::Adaptive, Asked::Demand);
    let start = Barrier::new(4);
    let work = || {
        linestat::prepare(&cache);
        start.wait();
        hits(&cache)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let traffic = thread.join().unwrap();
            assert_eq!((traffic.other, traffic.own.rmws), (NOTHING, 0), "{traffic:?}");
            assert!(traffic.header.rmws >= 2 * BLOCKS, "more, where somebody was faster: {traffic:?}");
        }
    });
}

#[test]
fn the_other_kinds_of_lists_write_to_lines_of_all() {
    for lists in [ListKind::Single, ListKind::Multilist] {
        let cache = filled(lists, Policy::Arc, Asked::Demand);
        for round in ["first", "second"] {
            let traffic = hits(&cache);
            // A lock is taken and let go of when the block leaves its list, and again when it is put back.
            assert!(traffic.other.rmws >= 4 * BLOCKS, "{lists:?}, {round} uses: {traffic:?}");
            assert!(traffic.header.rmws > 2 * BLOCKS, "{lists:?}, {round} uses: {traffic:?}");
        }
    }
}

#[test]
fn what_is_written_elsewhere_is_seen() {
    let cache = filled(ListKind::Pages, Policy::Arc, Asked::Demand);
    let others = |keys: &[BlockKey], work: &dyn Fn()| linestat::watch(&cache, keys, work).1.other;
    assert_eq!(others(&[], &|| cache.no_grow(false)), Writes { rmws: 0, stores: 1 });
    assert!(others(&[], &|| cache.discharge(0)).rmws == 1);
    let counts = || cache.stats().refused.add(0);
    // A thread's first count finds out where it counts.
    counts();
    assert!(others(&[], &counts).rmws == 1, "statistics");
    assert!(others(&[], &|| _ = cache.remove(key(8))).rmws > 4, "bucket, header, list");
    // The header of another block is none of ours.
    let look = || drop(cache.lookup(key(3), Kind::Data, Asked::Demand));
    assert_eq!((others(&[key(3)], &look).rmws, others(&[key(4)], &look).rmws), (0, 2));
    // A thread that has no lane yet takes one, and makes its ring.
    let first = std::thread::scope(|scope| scope.spawn(|| hit(&cache, 9)).join().unwrap());
    assert!(first.other.rmws > 0, "{first:?}");
}
