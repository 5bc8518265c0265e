//! What the feed takes, in which order and how much, on a clock that stands until it is told to move.

use std::time::Duration;

use super::bed::{Bed, Lists, MFU_DATA, MFU_META, MRU_DATA, MRU_META, MemDevice, bytes_of, key};
use crate::feed::ListOf;

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;
const SECOND: Duration = Duration::from_secs(1);

fn fill(lists: &mut Lists, list: ListOf, keys: std::ops::Range<u64>) {
    keys.for_each(|index| _ = lists.push(list, key(index), bytes_of(key(index), 0, 8192)));
}

fn fed(lists: &Lists, list: ListOf) -> Vec<u64> {
    let pieces = lists.of(list).iter();
    let is_fed = |piece: &&super::bed::Piece| piece.is_fed.load(std::sync::atomic::Ordering::Relaxed);
    pieces.filter(is_fed).map(|piece| piece.key.index).collect()
}

/// A bed that feeds so many bytes a second, without boost.
fn bed(rate: u64) -> Bed {
    let bed = Bed::new();
    bed.set("l2arc.write_max", rate);
    bed.set("l2arc.write_boost", 0);
    bed
}

#[test]
fn frequent_metadata_goes_first_and_data_seen_once_last() {
    let bed = bed(128 * KIB);
    bed.set("l2arc.meta_cycles", 0);
    let id = bed.open(&MemDevice::new(16 * MIB));
    let mut lists = Lists::new();
    let order = [MFU_META, MRU_META, MFU_DATA, MRU_DATA];
    for (place, list) in order.into_iter().enumerate() {
        fill(&mut lists, list, place as u64 * 100..place as u64 * 100 + 16);
    }
    for step in 0..8 {
        bed.feed(id, &mut lists);
        bed.clock.advance(SECOND);
        for (place, list) in order.into_iter().enumerate() {
            let expected = ((step + 1) * 16_i32 - place as i32 * 16).clamp(0, 16);
            let fed = fed(&lists, list).len() as i32;
            assert!((fed - expected).abs() <= 1, "step {step}, list {place}: {fed} for {expected}");
        }
    }
}

#[test]
fn it_begins_at_the_tail_and_while_cold_at_the_head() {
    for is_cold in [false, true] {
        let bed = bed(64 * KIB);
        let id = bed.open(&MemDevice::new(16 * MIB));
        let mut lists = Lists::new();
        lists.is_cold = is_cold;
        fill(&mut lists, MRU_DATA, 0..100);
        bed.feed(id, &mut lists);
        // From head to tail: 99 is the newest.
        let expected: Vec<u64> = if is_cold { (92..100).rev().collect() } else { (0..8).rev().collect() };
        assert_eq!(fed(&lists, MRU_DATA), expected);
    }
}

#[test]
fn nothing_is_looked_at_twice_within_a_pass() {
    let bed = bed(128 * KIB);
    let id = bed.open(&MemDevice::new(64 * MIB));
    let mut lists = Lists::new();
    fill(&mut lists, MRU_DATA, 0..1000);
    let mut wrote = 0;
    while fed(&lists, MRU_DATA).len() < 1000 {
        wrote += bed.feed(id, &mut lists).wrote;
        bed.clock.advance(SECOND);
    }
    assert_eq!(lists.looked, 1000);
    assert!(wrote >= 1000 * 8192);
}

#[test]
fn mfuonly_leaves_out_what_it_says() {
    for (mfuonly, expected) in [(0, [5, 5, 5, 5]), (1, [5, 0, 5, 0]), (2, [5, 5, 5, 0])] {
        let bed = Bed::new();
        bed.set("l2arc.mfuonly", mfuonly);
        let id = bed.open(&MemDevice::new(16 * MIB));
        let mut lists = Lists::new();
        let order = [MFU_META, MRU_META, MFU_DATA, MRU_DATA];
        for (place, list) in order.into_iter().enumerate() {
            fill(&mut lists, list, place as u64 * 100..place as u64 * 100 + 5);
        }
        bed.feed_all(id, &mut lists);
        assert_eq!(order.map(|list| fed(&lists, list).len()), expected, "mfuonly {mfuonly}");
    }
}

#[test]
fn unused_guesses_are_left_out_unless_wanted() {
    for noprefetch in [1, 0] {
        let bed = Bed::new();
        bed.set("l2arc.noprefetch", noprefetch);
        let id = bed.open(&MemDevice::new(16 * MIB));
        let mut lists = Lists::new();
        fill(&mut lists, MRU_DATA, 0..5);
        lists.push(MRU_DATA, key(9), bytes_of(key(9), 0, 8192)).is_guess = true;
        bed.feed_all(id, &mut lists);
        assert_eq!(fed(&lists, MRU_DATA).contains(&9), noprefetch == 0);
    }
}

#[test]
fn only_what_is_eligible_is_fed() {
    let bed = Bed::new();
    let id = bed.open(&MemDevice::new(16 * MIB));
    let mut lists = Lists::new();
    fill(&mut lists, MRU_DATA, 0..10);
    bed.level2.feed_from(id, &mut lists, &|key, _| key.index % 2 == 0);
    assert_eq!(fed(&lists, MRU_DATA), [8, 6, 4, 2, 0]);
}

/// Bytes that these devices take in so many seconds.
fn takes(devices: usize, rate: u64, seconds: u64) -> u64 {
    let bed = bed(rate);
    let ids: Vec<_> = (0..devices).map(|_| bed.open(&MemDevice::new(64 * MIB))).collect();
    let mut lists = Lists::new();
    fill(&mut lists, MRU_DATA, 0..8000);
    let mut wrote = 0;
    for _ in 0..seconds {
        wrote += ids.iter().map(|id| bed.feed(*id, &mut lists).wrote).sum::<u64>();
        bed.clock.advance(SECOND);
    }
    wrote
}

#[test]
fn two_devices_take_twice_as_much_in_the_same_time() {
    let one = takes(1, MIB, 12);
    let two = takes(2, MIB, 12);
    assert!(one.abs_diff(12 * MIB) < 64 * KIB, "{one}");
    assert!(two.abs_diff(24 * MIB) < 128 * KIB, "{two}");
    assert!(takes(1, 2 * MIB, 12).abs_diff(24 * MIB) < 64 * KIB);
}

#[test]
fn until_a_device_was_written_all_round_it_may_take_more() {
    let bed = Bed::new();
    bed.set("l2arc.write_max", 256 * KIB);
    bed.set("l2arc.write_boost", 512 * KIB);
    let id = bed.open(&MemDevice::new(4 * MIB));
    let mut lists = Lists::new();
    fill(&mut lists, MRU_DATA, 0..4000);
    let mut each = Vec::new();
    for _ in 0..20 {
        each.push(bed.feed(id, &mut lists).wrote);
        bed.clock.advance(SECOND);
    }
    let near = |wrote: u64, to: u64| wrote.abs_diff(to) <= 16 * KIB;
    assert!(each[..3].iter().all(|wrote| near(*wrote, 768 * KIB)), "{each:?}");
    assert!(each[8..].iter().all(|wrote| near(*wrote, 256 * KIB)), "{each:?}");
    assert!(bed.stats().feed_skipped_rate.value() >= 20);
}

#[test]
fn after_the_first_pass_a_day_takes_no_more_than_its_share() {
    let day = |percent: u64| {
        let bed = bed(2 * MIB);
        bed.set("l2arc.dwpd_limit", percent);
        // Longer than what the first day may take beyond its share.
        let id = bed.open(&MemDevice::new(8 * MIB));
        let mut lists = Lists::new();
        let mut wrote = 0;
        for second in 0..60 {
            lists.clear();
            fill(&mut lists, MRU_DATA, second * 300..second * 300 + 300);
            wrote += bed.feed(id, &mut lists).wrote;
            bed.clock.advance(SECOND);
        }
        wrote
    };
    let (free, limited) = (day(0), [100, 50, 18].map(day));
    assert!(free > limited[0] && limited[0] > limited[1] && limited[1] > limited[2], "{free} {limited:?}");
    assert!(limited[0] < 24 * MIB && free > 100 * MIB, "{free} {limited:?}");
}

#[test]
fn metadata_does_not_keep_data_away_for_ever() {
    for cycles in [2, 0] {
        let bed = bed(64 * KIB);
        bed.set("l2arc.meta_cycles", cycles);
        let id = bed.open(&MemDevice::new(16 * MIB));
        let mut lists = Lists::new();
        fill(&mut lists, MFU_META, 0..1000);
        fill(&mut lists, MFU_DATA, 2000..3000);
        let mut data = Vec::new();
        for _ in 0..9 {
            let before = fed(&lists, MFU_DATA).len();
            bed.feed(id, &mut lists);
            bed.clock.advance(SECOND);
            data.push(fed(&lists, MFU_DATA).len() > before);
        }
        let every_third = [false, false, true].repeat(3);
        assert_eq!(data, if cycles == 2 { every_third } else { vec![false; 9] });
    }
}

#[test]
fn the_feed_stops_before_the_index_takes_too_much_memory() {
    let bed = Bed::new();
    let id = bed.open(&MemDevice::new(16 * MIB));
    let mut lists = Lists::new();
    fill(&mut lists, MRU_DATA, 0..500);
    bed.feed_all(id, &mut lists);
    bed.level2.flush(id).unwrap();
    let takes = bed.level2.core().index.bytes();
    fill(&mut lists, MRU_DATA, 500..600);
    // A third of the cache is more than it takes, or less.
    lists.target = takes * 2;
    assert_eq!(bed.feed(id, &mut lists).wrote, 0);
    assert_eq!(bed.stats().feed_skipped_memory.value(), 1);
    lists.target = takes * 4;
    assert!(bed.feed(id, &mut lists).wrote > 0);
    assert_eq!(bed.stats().feed_skipped_memory.value(), 1);
}

#[test]
fn more_than_the_device_holds_a_second_ends_and_goes_round() {
    let bed = Bed::new();
    bed.set("l2arc.write_max", 1 << 40);
    bed.set("l2arc.headroom", 0);
    let device = MemDevice::new(2 * MIB);
    let id = bed.open(&device);
    let mut lists = Lists::new();
    fill(&mut lists, MRU_DATA, 0..1000);
    let one = bed.feed(id, &mut lists);
    assert!(one.wrote <= MIB && one.next > Duration::ZERO, "{one:?}");
    for _ in 0..20 {
        bed.feed(id, &mut lists);
        bed.clock.advance(SECOND);
        bed.check();
    }
    assert!(bed.stats().evicted_segments.value() > 16);
    assert_eq!(fed(&lists, MRU_DATA).len(), 1000);
}

#[test]
fn what_cannot_be_fed_is_left_out() {
    let bed = Bed::new();
    let id = bed.open(&MemDevice::new(4 * MIB));
    let mut lists = Lists::new();
    // Longer than a segment, empty, and of the objects that tombstones mean something else by.
    lists.push(MRU_DATA, key(1), bytes_of(key(1), 0, 65_536));
    lists.push(MRU_DATA, key(2), bytes_of(key(2), 0, 0));
    lists.push(MRU_DATA, (0, 3).into(), bytes_of((0, 3).into(), 0, 4096));
    lists.push(MRU_DATA, (u64::MAX, 4).into(), bytes_of((u64::MAX, 4).into(), 0, 4096));
    lists.push(MRU_DATA, key(5), bytes_of(key(5), 0, 57_344));
    bed.feed_all(id, &mut lists);
    assert_eq!(fed(&lists, MRU_DATA), [5]);
    bed.level2.flush(id).unwrap();
    assert!(bed.get(key(5), 57_344).is_some());
}
