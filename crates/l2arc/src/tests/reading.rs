//! What is fed is read back, what is forgotten is not, and the hand goes round.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::bed::{Bed, Lists, MFU_DATA, MRU_DATA, MRU_META, MemDevice, bytes_of, key};
use crate::Found;
use crate::read::Want;

const MIB: u64 = 1 << 20;

#[test]
fn what_is_fed_is_read_back() {
    for unit in [512, 4096] {
        let (bed, device) = (Bed::new(), MemDevice::with_unit(4 * MIB, unit));
        let id = bed.open(&device);
        let lens = [512, 4096, 8192, 100, 5000, 1, 64, 12_288, 4097];
        let mut lists = Lists::new();
        for index in 0..90 {
            let len = lens[index as usize % lens.len()];
            let list = if index % 2 == 0 { MFU_DATA } else { MRU_META };
            lists.push(list, key(index), bytes_of(key(index), 0, len));
        }
        bed.feed_all(id, &mut lists);
        bed.level2.flush(id).unwrap();
        for index in 0..90 {
            let len = lens[index as usize % lens.len()];
            assert_eq!(
                bed.get(key(index), len).as_deref(),
                Some(&bytes_of(key(index), 0, len)[..]),
                "{index}"
            );
        }
        assert_eq!((bed.stats().hits.value(), bed.stats().misses.value()), (90, 0));
        // The same keys at another length, and other keys, are misses.
        assert_eq!(bed.get(key(0), 513), None);
        assert_eq!(bed.get(key(1000), 512), None);
        assert_eq!(bed.stats().misses.value(), 2);
        bed.check();
    }
}

#[test]
fn a_batch_is_one_batch_a_device_and_tells_what_was_frequent() {
    let (bed, devices) = (Bed::new(), [MemDevice::new(4 * MIB), MemDevice::new(4 * MIB)]);
    let ids = devices.each_ref().map(|device| bed.open(device));
    let mut lists = [Lists::new(), Lists::new()];
    for index in 0..32 {
        let list = if index % 4 == 0 { MFU_DATA } else { MRU_DATA };
        lists[index as usize % 2].push(list, key(index), bytes_of(key(index), 0, 8192));
    }
    for (id, lists) in ids.into_iter().zip(&mut lists) {
        bed.feed_all(id, lists);
        bed.level2.flush(id).unwrap();
    }
    let before = devices.each_ref().map(|device| device.batches.load(Relaxed));
    let mut buffers = vec![vec![0; 8192]; 33];
    let keys = (0..33).map(key);
    let mut wants: Vec<Want<'_>> =
        keys.zip(&mut buffers).map(|(key, buffer)| Want::new(key, buffer)).collect();
    // Both devices at the same time, if the caller likes.
    bed.level2.read_by(&mut wants, &|jobs| {
        assert_eq!(jobs.len(), 2);
        std::thread::scope(|scope| jobs.into_iter().for_each(|job| _ = scope.spawn(job)));
    });
    for (index, want) in wants.iter().enumerate() {
        let expected = (index < 32).then_some(Found { is_frequent: index % 4 == 0 });
        assert_eq!(want.found, expected, "{index}");
    }
    for (device, before) in devices.iter().zip(before) {
        assert_eq!(device.batches.load(Relaxed), before + 1);
    }
    assert!((0..32).all(|index| buffers[index as usize][..] == bytes_of(key(index), 0, 8192)[..]));
}

#[test]
fn what_is_forgotten_is_not_found_wherever_it_is() {
    let (bed, device) = (Bed::new(), MemDevice::new(4 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..10, 4096);
    assert!(bed.level2.forget(key(3)));
    assert!(!bed.level2.forget(key(3)), "once");
    assert_eq!(bed.there(0..10, 4096), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    // In the segment that is being filled.
    let mut lists = Lists::new();
    (20..22).for_each(|index| _ = lists.push(MRU_DATA, key(index), bytes_of(key(index), 0, 4096)));
    bed.feed_all(id, &mut lists);
    bed.level2.forget(key(20));
    bed.level2.flush(id).unwrap();
    assert_eq!(bed.there(20..22, 4096), [21]);
    // Fed again, in another version, it is the new one.
    lists.clear();
    lists.push(MRU_DATA, key(20), bytes_of(key(20), 5, 4096));
    bed.feed_all(id, &mut lists);
    bed.level2.flush(id).unwrap();
    assert_eq!(bed.get(key(20), 4096).as_deref(), Some(&bytes_of(key(20), 5, 4096)[..]));
    bed.check();
}

#[test]
fn what_was_forgotten_while_a_step_looked_at_it_is_not_fed() {
    let (bed, device) = (Bed::new(), MemDevice::new(4 * MIB));
    let id = bed.open(&device);
    let mut lists = Lists::new();
    (0..10).for_each(|index| _ = lists.push(MRU_DATA, key(index), bytes_of(key(index), 0, 4096)));
    // Block 4 is asked about first after block 7 (from the tail: 0, 1, 2...) was forgotten.
    let forgets = |asked: &arcwell_base::BlockKey, _| {
        if *asked == key(4) {
            bed.level2.forget(key(7));
            bed.level2.forget(key(4));
            bed.level2.forget(key(2));
        }
        true
    };
    bed.level2.feed_from(id, &mut lists, &forgets);
    bed.level2.flush(id).unwrap();
    assert_eq!(bed.there(0..10, 4096), [0, 1, 3, 5, 6, 8, 9]);
    bed.check();
}

#[test]
fn the_hand_goes_round_and_takes_out_what_it_overwrites() {
    let (bed, device) = (Bed::new(), MemDevice::new(3 * MIB));
    let id = bed.open(&device);
    let (all, len) = (2000, 8192);
    for from in (0..all).step_by(50) {
        bed.put(id, from..from + 50, len);
        bed.check();
    }
    let there = bed.there(0..all, len);
    let report = &bed.level2.devices()[0];
    let most = report.bytes / len as u64;
    assert!(there.len() as u64 > most / 2 && there.len() as u64 <= most, "{} of {most}", there.len());
    assert_eq!(
        there.len() as u64,
        bed.level2.core().index.len(),
        "nothing is in the index that is not there"
    );
    assert_eq!(*there.last().unwrap(), all - 1);
    assert!(there.windows(2).all(|two| two[1] == two[0] + 1), "the newest, without gaps");
    assert_eq!(bed.stats().fed_never_read.value(), all - there.len() as u64);
    assert_eq!(bed.stats().cksum_bad.value() + bed.stats().rw_clash.value(), 0);
}

#[test]
fn what_was_read_is_not_counted_as_never_read() {
    let (bed, device) = (Bed::new(), MemDevice::new(3 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..40, 8192);
    assert_eq!(bed.there(0..40, 8192).len(), 40);
    for from in (40..2000).step_by(50) {
        bed.put(id, from..from + 50, 8192);
    }
    let overwritten = 2040 - bed.level2.core().index.len();
    assert_eq!(bed.stats().fed_never_read.value(), overwritten - 40);
}

#[test]
fn a_block_that_was_fed_elsewhere_stays_when_its_old_place_is_overwritten() {
    let (bed, devices) = (Bed::new(), [MemDevice::new(3 * MIB), MemDevice::new(3 * MIB)]);
    let [first, second] = devices.each_ref().map(|device| bed.open(device));
    bed.put(first, 0..5, 8192);
    bed.level2.forget(key(2));
    bed.put(second, 2..3, 8192);
    for from in (1000..2000).step_by(50) {
        bed.put(first, from..from + 50, 8192);
    }
    assert_eq!(bed.there(0..5, 8192), [2]);
    bed.check();
}

#[test]
fn flash_is_written_little_more_than_blocks_are_long() {
    let (bed, device) = (Bed::new(), MemDevice::new(64 * MIB));
    bed.set("l2arc.segment_size", 2 * MIB);
    let id = bed.open(&device);
    let before = device.written.load(Relaxed);
    bed.put(id, 0..3000, 8192);
    let written = device.written.load(Relaxed) - before;
    let payload = 3000 * 8192;
    assert!(written * 100 <= payload * 105, "{written} for {payload}");
    assert_eq!(bed.stats().write_bytes.value(), written);
}

#[test]
fn reading_while_the_hand_overwrites_is_a_miss_and_never_wrong() {
    let (bed, device) = (Bed::new(), MemDevice::new(2 * MIB));
    let id = bed.open(&device);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut found = 0;
            while !is_done.load(Relaxed) {
                found += bed.there(0..400, 4096).len();
            }
            found
        });
        for round in 0..60 {
            let from = round * 40 % 400;
            (from..from + 40).for_each(|index| _ = bed.level2.forget(key(index)));
            bed.put(id, from..from + 40, 4096);
        }
        is_done.store(true, Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    bed.check();
    assert_eq!(bed.stats().cksum_bad.value(), 0, "what the hand overwrites is told apart");
}
