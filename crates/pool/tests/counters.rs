//! Counters are true, one flight serves all, adjacent misses are one read, and only what is read in
//! order is read ahead.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use std::sync::Barrier;
use std::time::Duration;

use arcwell_backend::{Fault, Operation};
use arcwell_pool::{CacheMode, Coherence};
use bed::{Bed, Plan, all_of, come_of_age, lettered, same};

fn requests(bed: &Bed) -> u64 {
    bed.counter("arc.demand_data_hits") + bed.counter("arc.demand_data_misses")
}

#[test]
fn every_block_asked_for_is_a_hit_or_a_miss() {
    for coherence in [Coherence::Exclusive, Coherence::Timeout, Coherence::Notify] {
        for mode in [CacheMode::All, CacheMode::Metadata, CacheMode::None] {
            let bed = Plan::new(coherence).primarycache(mode).cache(1 << 20).bed();
            let truth = lettered(&bed.origin("f"), 512, 4096);
            come_of_age();
            let file = bed.open("f");
            let mut asked = 0;
            let mut random = 1u64;
            for _ in 0..400 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let offset = (random >> 33) % (512 * 4096);
                let len = 1 + (random >> 20) % 20_000;
                let end = (offset + len).min(512 * 4096);
                asked += end.div_ceil(4096) - offset / 4096;
                same(&file.read(offset, len as u32).unwrap().to_vec(), &truth[offset as usize..end as usize]);
            }
            assert_eq!(requests(&bed), asked, "{coherence} {mode}");
            assert_eq!(bed.counter("pool.fills"), bed.asked("origin.reads"));
            assert_eq!(bed.counter("pool.fill_bytes"), bed.asked("origin.read_bytes"));
            assert_eq!(bed.counter("pool.fill_blocks"), bed.counter("arc.demand_data_misses"));
            if mode != CacheMode::All {
                assert_eq!(bed.counter("arc.demand_data_hits"), 0, "{mode}");
            }
            drop(file);
            bed.finish();
        }
    }
}

#[test]
fn one_flight_serves_all_who_ask() {
    for coherence in [Coherence::Exclusive, Coherence::Timeout] {
        let bed = Plan::new(coherence).recordsize(128 << 10).bed();
        let truth = lettered(&bed.origin("f"), 1, 128 << 10);
        come_of_age();
        let file = bed.open("f");
        bed.faulty.set_for(&[Operation::Read], Fault::Delay(Duration::from_millis(300)));
        let start = Barrier::new(32);
        std::thread::scope(|scope| {
            for n in 0..32u64 {
                let (start, file, truth) = (&start, &file, &truth);
                scope.spawn(move || {
                    start.wait();
                    let at = n as usize * 4096;
                    same(&file.read(at as u64, 4096).unwrap().to_vec(), &truth[at..at + 4096]);
                });
            }
        });
        assert_eq!(bed.asked("origin.reads"), 1, "{coherence}");
        assert_eq!(requests(&bed), 32);
        drop(file);
        bed.finish();
    }
}

#[test]
fn adjacent_misses_are_one_read() {
    let bed = Plan::new(Coherence::Exclusive).recordsize(8192).bed();
    let truth = lettered(&bed.origin("f"), 256, 8192);
    let file = bed.open("f");
    same(&file.read(0, 1 << 20).unwrap().to_vec(), &truth[..1 << 20]);
    assert_eq!(bed.asked("origin.reads"), 1);
    // A block in the middle is there: one read before it, one behind it.
    file.read((1 << 20) + 64 * 8192, 10).unwrap();
    assert_eq!(bed.asked("origin.reads"), 2);
    same(&file.read(1 << 20, 1 << 20).unwrap().to_vec(), &truth[1 << 20..]);
    assert_eq!(bed.asked("origin.reads"), 4);
    assert_eq!(bed.asked("origin.read_bytes"), 2 << 20);
    drop(file);
    bed.finish();
}

#[test]
fn what_is_read_in_order_is_read_ahead() {
    let bed = Plan::new(Coherence::Exclusive).cache(64 << 20).prefetch(CacheMode::All).bed();
    let truth = lettered(&bed.origin("f"), 2048, 4096);
    let file = bed.open("f");
    for n in 0..2048usize {
        same(&file.read(n as u64 * 4096, 4096).unwrap().to_vec(), &truth[n * 4096..][..4096]);
    }
    assert!(bed.counter("arc.prefetch_used") > 1000, "{}", bed.counter("arc.prefetch_used"));
    assert!(bed.counter("prefetch.blocks") <= 2048);
    assert_eq!(requests(&bed), 2048);
    bed::until("prefetch rests", || bed.pool.workers().load().running == 0);
    assert!(bed.asked("origin.reads") < 500, "{}", bed.asked("origin.reads"));
    drop(file);
    bed.finish();
}

#[test]
fn a_small_cache_reads_ahead_too() {
    let bed = Plan::new(Coherence::Exclusive).cache(4 << 20).prefetch(CacheMode::All).bed();
    let truth = lettered(&bed.origin("f"), 2048, 4096);
    let file = bed.open("f");
    for n in 0..2048usize {
        same(&file.read(n as u64 * 4096, 4096).unwrap().to_vec(), &truth[n * 4096..][..4096]);
    }
    assert!(bed.counter("arc.prefetch_used") > 1000, "{}", bed.counter("arc.prefetch_used"));
    drop(file);
    bed.finish();
}

#[test]
fn what_is_read_at_random_is_not_read_ahead() {
    let bed = Plan::new(Coherence::Exclusive).cache(64 << 20).prefetch(CacheMode::All).bed();
    lettered(&bed.origin("f"), 4096, 4096);
    let file = bed.open("f");
    for n in 0..300u64 {
        file.read(n * 2_654_435_761 % 4096 * 4096, 4096).unwrap();
    }
    assert!(bed.counter("prefetch.blocks") < 30, "{}", bed.counter("prefetch.blocks"));
    drop(file);
    bed.finish();
}

#[test]
fn prefetch_does_not_outlive_a_change() {
    // A guess that left before a write, with its file forgotten meanwhile, must not land behind it.
    let bed = Plan::new(Coherence::Exclusive).cache(64 << 20).prefetch(CacheMode::All).bed();
    lettered(&bed.origin("f"), 256, 4096);
    let file = bed.open("f");
    for n in 0..8u64 {
        file.read(n * 4096, 4096).unwrap();
    }
    bed::until("prefetch rests", || bed.pool.workers().load().running == 0);
    let ahead = bed.counter("prefetch.blocks") + 8;
    bed.faulty.set_for(&[Operation::Read], Fault::Hang);
    let mut next = 8;
    while bed.faulty.hanging() == 0 && next < ahead {
        file.read(next * 4096, 4096).unwrap();
        next += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(bed.faulty.hanging() > 0, "a guess is under way");
    drop(file);
    bed.forget_all();
    let again = bed.open("f");
    for n in 0..256u64 {
        bed::write_at(&again, n * 4096 + 1, b"changed");
    }
    bed.faulty.set(Fault::Pass);
    bed::until("prefetch rests", || bed.pool.workers().load().running == 0);
    same(&all_of(&again), &std::fs::read(bed.origin("f")).unwrap());
    drop(again);
    bed.finish();
}

#[test]
fn what_was_primed_is_there() {
    let bed = Plan::new(Coherence::Exclusive).cache(16 << 20).bed();
    std::fs::create_dir_all(bed.origin("d/e")).unwrap();
    for n in 0..10 {
        lettered(&bed.origin(&format!("d/f{n}")), 10, 4096);
        lettered(&bed.origin(&format!("d/e/f{n}")), 1, 100);
    }
    std::os::unix::fs::symlink("nowhere", bed.origin("d/link")).unwrap();
    let cold = bed.dataset.cached("d".as_ref()).unwrap();
    assert_eq!((cold.files, cold.blocks, cold.blocks_cached), (20, 110, 0));
    let mut calls = 0;
    let mut watch = |_| {
        calls += 1;
        true
    };
    let done = bed.dataset.prime("d".as_ref(), &mut watch).unwrap();
    assert_eq!((done.files_done, done.files_total), (20, 20));
    assert_eq!((done.bytes_done, done.bytes_total), (10 * 40_960 + 1000, 10 * 40_960 + 1000));
    assert!(calls > 20);
    let asked = bed.asked("origin.operations");
    let warm = bed.dataset.cached("d".as_ref()).unwrap();
    assert_eq!((warm.blocks_cached, warm.bytes_cached), (110, done.bytes_done));
    assert_eq!(bed.asked("origin.operations"), asked);
    assert!(bed.dataset.prime("absent".as_ref(), &mut |_| true).is_err());
    bed.finish();
}
