//! What is known again after a restart, from tables alone, and what is not brought back.

use arcwell_base::atomic::Ordering;

use super::bed::{Bed, Lists, MRU_DATA, MemDevice, PAGE, bytes_of, key};
use crate::rebuild::Rebuild;

const MIB: u64 = 1 << 20;
const SEGMENT: u64 = 64 << 10;

/// The page of a table's head.
fn head_of(segment: u64) -> u64 {
    (MIB + (segment + 1) * SEGMENT) / PAGE as u64 - 1
}

#[test]
fn all_is_known_again_after_a_restart() {
    let device = MemDevice::new(4 * MIB);
    let bed = Bed::new();
    let id = bed.open(&device);
    bed.put(id, 0..100, 8192);
    (10..20).for_each(|index| _ = bed.level2.forget(key(index)));
    bed.level2.flush(id).unwrap();
    let blocks = bed.level2.core().index.len();
    drop(bed);
    let bed = Bed::new();
    let id = bed.add(&device);
    assert_eq!(bed.there(0..100, 8192).len(), 0, "before the rebuild nothing is known");
    bed.rebuild(id);
    assert_eq!(bed.there(0..100, 8192), (0..10).chain(20..100).collect::<Vec<_>>());
    assert_eq!(bed.stats().rebuilt_blocks.value(), blocks);
    assert_eq!(bed.level2.rebuild(id, 1), Rebuild::Done);
    assert_eq!(bed.level2.devices()[0].rebuild, None);
    bed.check();
}

#[test]
fn the_hand_goes_on_behind_the_newest_segment() {
    let device = MemDevice::new(2 * MIB);
    for round in 0..30 {
        let bed = Bed::new();
        let id = bed.open(&device);
        bed.put(id, round * 20..round * 20 + 20, 8192);
        bed.check();
        // 16 segments of 7 blocks; each round takes three.
        let there = bed.there(0..round * 20 + 20, 8192);
        assert!(there.len() as u64 >= (round * 20 + 20).min(80), "round {round}: {}", there.len());
        assert_eq!(there.len() as u64, bed.level2.core().index.len());
    }
}

#[test]
fn what_was_forgotten_or_fed_since_open_is_not_brought_back() {
    let device = MemDevice::new(4 * MIB);
    let bed = Bed::new();
    let id = bed.open(&device);
    bed.put(id, 0..40, 8192);
    drop(bed);
    let bed = Bed::new();
    let id = bed.add(&device);
    // Before the heads are read, and in the middle of the tables.
    bed.level2.forget(key(3));
    let mut steps = 0;
    while bed.level2.rebuild(id, 1) != Rebuild::Done {
        steps += 1;
        if steps == 52 {
            (0..40).step_by(4).for_each(|index| _ = bed.level2.forget(key(index)));
            let mut lists = Lists::new();
            lists.push(MRU_DATA, key(8), bytes_of(key(8), 1, 8192));
            bed.feed_all(id, &mut lists);
        }
    }
    assert!(steps > 52, "{steps}");
    let expected: Vec<u64> = (0..40).filter(|index| index % 4 != 0 && *index != 3).collect();
    assert_eq!(
        bed.there(9..40, 8192),
        expected.iter().copied().filter(|index| *index > 8).collect::<Vec<_>>()
    );
    assert_eq!(bed.there(0..8, 8192), [1, 2, 5, 6, 7]);
    bed.level2.flush(id).unwrap();
    let is_new = |bed: &Bed| bed.get(key(8), 8192).as_deref() == Some(&bytes_of(key(8), 1, 8192)[..]);
    assert!(is_new(&bed));
    bed.check();
    drop(bed);
    // And not by the next one either.
    let bed = Bed::new();
    bed.open(&device);
    assert!(is_new(&bed));
    assert_eq!(
        bed.there(9..40, 8192),
        expected.iter().copied().filter(|index| *index > 8).collect::<Vec<_>>()
    );
    assert_eq!(bed.there(0..8, 8192), [1, 2, 5, 6, 7]);
}

#[test]
fn a_damaged_table_costs_its_segment() {
    let device = MemDevice::new(4 * MIB);
    let bed = Bed::new();
    let id = bed.open(&device);
    bed.put(id, 0..70, 8192);
    drop(bed);
    device.corrupt(head_of(4));
    let bed = Bed::new();
    let id = bed.open(&device);
    // Sequence 4: the fourth segment that was written.
    assert_eq!(bed.there(0..70, 8192).len(), 70 - 7);
    assert_eq!(bed.stats().rebuild_lost.value(), 1);
    // What lies there is not believed later either: nobody noted what was forgotten of it.
    device.corrupt(head_of(4));
    bed.level2.flush(id).unwrap();
    let bed = Bed::new();
    bed.open(&device);
    assert_eq!(bed.there(0..70, 8192).len(), 70 - 7);
}

#[test]
fn the_blocks_of_another_device_are_not_taken() {
    let devices = [MemDevice::new(2 * MIB), MemDevice::new(2 * MIB)];
    let bed = Bed::new();
    let ids = devices.each_ref().map(|device| bed.open(device));
    bed.put(ids[0], 0..7, 8192);
    bed.put(ids[1], 10..17, 8192);
    // The first segment of one is written over that of the other.
    devices[1].poke(MIB + SEGMENT, &devices[0].peek(MIB + SEGMENT, SEGMENT as usize));
    // And within one device to another place.
    devices[0].poke(MIB + 3 * SEGMENT, &devices[0].peek(MIB + SEGMENT, SEGMENT as usize));
    let bed = Bed::new();
    bed.open(&devices[1]);
    assert_eq!(bed.level2.core().index.len(), 0);
    bed.open(&devices[0]);
    assert_eq!(bed.there(0..20, 8192), [0, 1, 2, 3, 4, 5, 6]);
    bed.check();
}

/// Feeds blocks 0..7, forgets 2 of them and flushes; so many more segments follow.
fn with_dead(more: u64) -> std::sync::Arc<MemDevice> {
    let device = MemDevice::new(4 * MIB);
    let bed = Bed::new();
    let id = bed.open(&device);
    bed.put(id, 0..7, 8192);
    bed.level2.forget(key(2));
    bed.level2.forget(key(3));
    bed.level2.flush(id).unwrap();
    (0..more).for_each(|round| bed.put(id, 100 + round * 7..107 + round * 7, 8192));
    device
}

#[test]
fn a_lost_table_loses_nothing_of_what_it_told_to_be_dead() {
    // The blocks are in table 1, the dead in 2, and once more in 3.
    for more in [0, 1, 2, 3] {
        let device = with_dead(more);
        device.corrupt(head_of(2));
        let bed = Bed::new();
        bed.open(&device);
        let expected: &[u64] = if more == 0 { &[] } else { &[0, 1, 4, 5, 6] };
        assert_eq!(bed.there(0..7, 8192), expected, "{more} more");
        assert_eq!(bed.there(100..200, 8192).len() as u64, more * 7);
    }
    // The control: with both gone nothing older is believed; with neither all is.
    let device = with_dead(3);
    device.corrupt(head_of(2));
    device.corrupt(head_of(3));
    let bed = Bed::new();
    let id = bed.open(&device);
    assert_eq!(bed.there(0..7, 8192), []);
    assert_eq!(bed.there(100..200, 8192).len(), 14, "what is newer is");
    bed.put(id, 200..207, 8192);
    drop(bed);
    // Nor later, should they come back.
    device.corrupt(head_of(2));
    device.corrupt(head_of(3));
    let bed = Bed::new();
    bed.open(&device);
    assert_eq!(bed.there(0..7, 8192), []);
    let device = with_dead(3);
    let bed = Bed::new();
    bed.open(&device);
    assert_eq!(bed.there(0..7, 8192), [0, 1, 4, 5, 6]);
}

#[test]
fn what_the_pool_does_not_want_is_gone_for_good() {
    let device = MemDevice::new(4 * MIB);
    let bed = Bed::new();
    let id = bed.open(&device);
    bed.put(id, 0..20, 8192);
    let bed = Bed::new();
    let id = bed.add(&device);
    while bed.level2.rebuild_wanted(id, 5, &|key| key.index >= 10) != Rebuild::Done {}
    assert_eq!(bed.there(0..20, 8192), (10..20).collect::<Vec<_>>());
    assert_eq!(bed.stats().rebuild_unwanted.value(), 10);
    bed.level2.flush(id).unwrap();
    let bed = Bed::new();
    bed.open(&device);
    assert_eq!(bed.there(0..20, 8192), (10..20).collect::<Vec<_>>());
}

/// 100 GB of 8 KiB blocks: nothing but tables is read. The tables are made, not fed.
#[test]
fn a_large_device_is_known_again_by_reading_few_bytes_a_block() {
    use crate::device::dead;
    use crate::layout::{Superblock, Table, TableEntry};
    const BYTES: u64 = 100_000_000_000 / PAGE as u64 * PAGE as u64;
    let (segment, segments) = Superblock::divide(BYTES, 8 << 20).unwrap();
    // So many of them are full; the others were never written. All heads are read all the same.
    let full = segments / 16;
    let device = MemDevice::new(BYTES);
    let superblock =
        Superblock { generation: 1, device: 5, pool: super::bed::POOL, bytes: BYTES, segment, segments };
    device.poke(0, &superblock.encode());
    let a_table = 8_388_608 / 8192 - 5;
    for sequence in 1..=u64::from(full) {
        let entry = |place: u32| TableEntry {
            key: key(sequence * 2048 + u64::from(place)),
            checksum: 1,
            offset: place * 8192,
            len: 8192,
            is_metadata: false,
            is_frequent: false,
            is_tombstone: false,
        };
        let entries: Vec<_> = std::iter::once(dead::cover(sequence)).chain((0..a_table).map(entry)).collect();
        let table = Table { device: 5, sequence, payload: a_table * 8192, entries };
        let mut bytes = vec![0; Table::bytes_for(table.entries.len())];
        table.encode(&mut bytes).unwrap();
        device.poke(superblock.start_of(sequence as u32 + 1) - bytes.len() as u64, &bytes);
    }
    let bed = Bed::new();
    let id = bed.add(&device);
    device.read_bytes.store(0, Ordering::Relaxed);
    let mut steps = 0;
    while bed.level2.rebuild(id, 256) != Rebuild::Done {
        steps += 1;
    }
    let blocks = u64::from(full) * u64::from(a_table);
    assert!(bed.level2.core().index.len() > blocks - blocks / 1000, "but for those with the tag of another");
    let heads = u64::from(segments) * PAGE as u64;
    let read = device.read_bytes.load(Ordering::Relaxed);
    assert!(read < 64 * blocks + heads, "{read} for {blocks} blocks");
    // What a full device takes: one head, one table a segment.
    let a_block = (PAGE + Table::bytes_for(a_table as usize + 1)) as f64 / f64::from(a_table);
    assert!(a_block < 64.0);
    println!("{a_block:.1} bytes a block; {blocks} blocks in {steps} steps");
}
