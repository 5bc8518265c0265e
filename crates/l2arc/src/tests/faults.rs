//! A device that does what it should not: costs time and blocks, never a wrong byte.

use arcwell_base::atomic::Ordering::Relaxed;

use super::bed::{Bed, Lists, MRU_DATA, MemDevice, PAGE, bytes_of, key};
use crate::Condition;

const MIB: u64 = 1 << 20;

fn condition(bed: &Bed) -> Condition {
    bed.level2.devices()[0].condition
}

#[test]
fn lost_torn_and_misdirected_writes_are_misses() {
    for fault in 0..3 {
        let (bed, device) = (Bed::new(), MemDevice::new(4 * MIB));
        let id = bed.open(&device);
        bed.put(id, 0..7, 8192);
        match fault {
            0 => device.loses_writes.store(true, Relaxed),
            1 => device.tears_writes.store(true, Relaxed),
            _ => device.misses_by.store(8192, Relaxed),
        }
        bed.put(id, 10..17, 8192);
        let there = bed.there(0..20, 8192);
        assert!(there.len() < 14 && there.len() >= 7 - 2, "fault {fault}: {there:?}");
        assert_eq!(bed.stats().cksum_bad.value(), 14 - there.len() as u64);
        assert_eq!(bed.there(0..20, 8192), there, "and is asked for no more");
        bed.check();
        drop(bed);
        let bed = Bed::new();
        bed.open(&device);
        bed.there(0..20, 8192);
        bed.check();
    }
}

#[test]
fn stale_bytes_of_the_same_block_are_not_taken_for_the_new_ones() {
    let (bed, device) = (Bed::new(), MemDevice::new(2 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..1, 8192);
    // All round, so that the block lies where its earlier version did; and that write is lost.
    for round in 1..16 {
        bed.put(id, round * 10..round * 10 + 1, 8192);
    }
    device.loses_writes.store(true, Relaxed);
    let mut lists = Lists::new();
    lists.push(MRU_DATA, key(0), bytes_of(key(0), 1, 8192));
    bed.level2.forget(key(0));
    bed.feed_all(id, &mut lists);
    bed.level2.flush(id).unwrap();
    assert!(bed.level2.contains(key(0)));
    assert_eq!(bed.get(key(0), 8192), None);
    assert_eq!(bed.stats().cksum_bad.value(), 1);
}

#[test]
fn every_damaged_unit_costs_its_blocks_and_no_more() {
    let (bed, device) = (Bed::new(), MemDevice::new(2 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..70, 8192);
    device.corrupt((MIB + (64 << 10)) / PAGE as u64);
    assert_eq!(bed.there(0..70, 8192), (1..70).collect::<Vec<_>>());
    assert_eq!(bed.stats().cksum_bad.value(), 1);
    bed.check();
}

#[test]
fn a_write_that_fails_costs_its_blocks_only() {
    let (bed, device) = (Bed::new(), MemDevice::new(4 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..7, 8192);
    bed.level2.forget(key(0));
    let mut lists = Lists::new();
    (10..17).for_each(|index| _ = lists.push(MRU_DATA, key(index), bytes_of(key(index), 0, 8192)));
    bed.feed_all(id, &mut lists);
    device.fails_writes.store(true, Relaxed);
    assert!(bed.level2.flush(id).is_err());
    assert_eq!((condition(&bed), bed.stats().write_errors.value()), (Condition::Degraded, 1));
    device.fails_writes.store(false, Relaxed);
    assert_eq!(bed.there(0..20, 8192), [1, 2, 3, 4, 5, 6]);
    bed.put(id, 20..27, 8192);
    assert_eq!(condition(&bed), Condition::Online);
    bed.check();
    // What was forgotten before the failure is durable all the same.
    let bed = Bed::new();
    bed.open(&device);
    assert_eq!(bed.there(0..30, 8192), (1..7).chain(20..27).collect::<Vec<_>>());
}

#[test]
fn what_a_failed_flush_leaves_in_doubt_is_written_again() {
    let (bed, device) = (Bed::new(), MemDevice::new(4 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..7, 8192);
    bed.level2.forget(key(0));
    device.fails_flushes.store(true, Relaxed);
    assert!(bed.level2.flush(id).is_err());
    device.fails_flushes.store(false, Relaxed);
    // What was written before the flush that failed is lost; what comes after it is not.
    device.crash(|_| false);
    bed.level2.flush(id).unwrap();
    device.crash(|_| false);
    let bed = Bed::new();
    bed.open(&device);
    assert_eq!(bed.there(0..7, 8192), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_device_that_became_read_only_is_read_and_fed_no_more() {
    let (bed, device) = (Bed::new(), MemDevice::new(4 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..7, 8192);
    device.fails_writes.store(true, Relaxed);
    for round in 1..20 {
        let mut lists = Lists::new();
        (0..7).for_each(|n| _ = lists.push(MRU_DATA, key(round * 10 + n), bytes_of(key(n), 0, 8192)));
        bed.feed_all(id, &mut lists);
        assert!(bed.level2.flush(id).is_err());
    }
    assert_eq!(bed.stats().write_errors.value(), bed.level2.tunables().errors_max());
    assert_eq!(condition(&bed), Condition::Degraded);
    assert_eq!(bed.there(0..7, 8192).len(), 7);
    bed.check();
}

#[test]
fn a_vanished_device_is_dropped_and_the_other_goes_on() {
    let (bed, devices) = (Bed::new(), [MemDevice::new(4 * MIB), MemDevice::new(4 * MIB)]);
    let ids = devices.each_ref().map(|device| bed.open(device));
    bed.put(ids[0], 0..70, 8192);
    bed.put(ids[1], 100..170, 8192);
    devices[0].fails_reads.store(true, Relaxed);
    devices[0].fails_writes.store(true, Relaxed);
    assert_eq!(bed.there(0..2, 8192), []);
    assert_eq!(condition(&bed), Condition::Degraded, "said at the first error");
    assert_eq!(bed.there(0..200, 8192), (100..170).collect::<Vec<_>>());
    assert_eq!(condition(&bed), Condition::Faulted);
    assert_eq!(bed.stats().io_errors.value(), bed.level2.tunables().errors_max());
    assert_eq!(bed.level2.core().index.len(), 70);
    assert!(bed.level2.flush(ids[0]).is_err());
    bed.put(ids[1], 200..207, 8192);
    bed.check();
    // Back again: what it missed nobody knows.
    bed.level2.remove(ids[0]).unwrap_err();
    devices[0].fails_reads.store(false, Relaxed);
    devices[0].fails_writes.store(false, Relaxed);
    let id = bed.open(&devices[0]);
    assert_eq!(bed.there(0..70, 8192), []);
    bed.put(id, 0..7, 8192);
    assert_eq!(bed.there(0..70, 8192).len(), 7);
}

#[test]
fn a_read_that_fails_once_costs_its_block_also_after_a_restart() {
    let (bed, device) = (Bed::new(), MemDevice::new(4 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..7, 8192);
    device.fails_reads.store(true, Relaxed);
    assert_eq!(bed.get(key(3), 8192), None);
    device.fails_reads.store(false, Relaxed);
    // It is not in the index, and so forgetting it says nothing; yet it must not come back.
    assert!(!bed.level2.forget(key(3)));
    bed.level2.flush(id).unwrap();
    let bed = Bed::new();
    bed.open(&device);
    assert_eq!(bed.there(0..7, 8192), [0, 1, 2, 4, 5, 6]);
}

#[test]
fn a_table_that_the_hand_cannot_read_leaks_nothing() {
    let (bed, device) = (Bed::new(), MemDevice::new(2 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..100, 8192);
    let before = bed.level2.core().index.len();
    (0..16).for_each(|segment| device.corrupt((MIB + (segment + 1) * (64 << 10)) / PAGE as u64 - 1));
    bed.put(id, 1000..1200, 8192);
    bed.check();
    let there = bed.there(1000..1200, 8192).len() as u64;
    assert!(before > 80 && there > 80, "{before} {there}");
    assert_eq!(bed.level2.core().index.len(), there, "nothing of the older ones is left");
}
