//! Whose device it is: what is refused, and that what is refused is left alone.

use std::sync::Arc;

use arcwell_base::atomic::Ordering;
use arcwell_base::clock::ManualClock;

use super::bed::{Bed, MemDevice, PAGE, POOL, key};
use crate::checksum::checksum_of_layout;
use crate::{Add, Label, Level2};

const MIB: u64 = 1 << 20;

/// That a device is refused and untouched, and taken with force; returns what the refusal says.
fn refused(device: &Arc<MemDevice>) -> String {
    let bed = Bed::new();
    let before = device.image();
    let error = bed.level2.add(device.clone(), Add::default()).unwrap_err().to_string();
    assert!(before == device.image() && device.written.load(Ordering::Relaxed) == 0, "it was written to");
    assert_eq!(bed.level2.devices().len(), 0);
    let id = bed.level2.add(device.clone(), Add { force: true, ..Add::default() }).unwrap();
    bed.put(id, 0..5, 4096);
    assert_eq!(bed.there(0..5, 4096).len(), 5, "with force it is one like any other");
    error
}

#[test]
fn a_blank_device_is_labelled_and_known_again() {
    let (bed, device) = (Bed::new(), MemDevice::new(2 * MIB));
    assert_eq!(Level2::label(&*device).unwrap(), Label::Blank);
    let id = bed.add(&device);
    let Label::Ours { pool, device: called, bytes, segment } = Level2::label(&*device).unwrap() else {
        panic!("it has no label");
    };
    assert_eq!((pool, called, bytes, segment), (POOL, id, 2 * MIB, 64 << 10));
    assert_eq!(Bed::new().add(&device), id);
}

#[test]
fn what_is_not_ours_is_refused_and_untouched() {
    for place in [0, 1080, 4090, 32 << 10, 65_536 + 64, 1_048_575] {
        let device = MemDevice::new(2 * MIB);
        device.poke(place, b"_BHRfS_M");
        assert!(refused(&device).contains("not Arcwell's"), "bytes at {place}");
    }
    // The control: the same bytes behind what is looked at.
    let device = MemDevice::new(2 * MIB);
    device.poke(MIB, b"_BHRfS_M");
    Bed::new().add(&device);
}

#[test]
fn another_pools_device_is_refused_and_untouched() {
    let device = MemDevice::new(2 * MIB);
    Level2::new(POOL + 1, Arc::new(ManualClock::default())).add(device.clone(), Add::default()).unwrap();
    device.written.store(0, Ordering::Relaxed);
    assert!(refused(&device).contains("another pool"));
}

#[test]
fn a_later_format_is_refused_and_untouched() {
    let device = MemDevice::new(2 * MIB);
    Bed::new().add(&device);
    for at in [0, 32 << 10] {
        let mut unit = device.peek(at, PAGE);
        unit[8] = 9;
        let sum = checksum_of_layout(&unit[..PAGE - 8]);
        unit[PAGE - 8..].copy_from_slice(&sum.to_le_bytes());
        device.poke(at, &unit);
    }
    device.written.store(0, Ordering::Relaxed);
    assert_eq!(Level2::label(&*device).unwrap(), Label::Newer(9));
    assert!(refused(&device).contains("later version (format 9)"));
}

#[test]
fn one_damaged_label_is_enough_and_two_are_refused() {
    let (bed, device) = (Bed::new(), MemDevice::new(2 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..5, 4096);
    device.poke(40, &[0xff]);
    let bed = Bed::new();
    bed.open(&device);
    assert_eq!(bed.there(0..5, 4096).len(), 5);
    device.poke((32 << 10) + 40, &[0xff]);
    device.written.store(0, Ordering::Relaxed);
    assert!(refused(&device).contains("damaged"));
}

#[test]
fn a_device_that_became_shorter_is_refused() {
    let (bed, device) = (Bed::new(), MemDevice::new(4 * MIB));
    bed.add(&device);
    device.truncate(3 * MIB);
    device.written.store(0, Ordering::Relaxed);
    assert!(refused(&device).contains("when it was labelled"));
    // One that became longer is used as it is.
    device.truncate(8 * MIB);
    Bed::new().add(&device);
}

#[test]
fn what_is_too_short_or_in_use_is_refused() {
    let bed = Bed::new();
    for bytes in [0, 4096, MIB, MIB + 4096] {
        let force = Add { force: true, ..Add::default() };
        assert!(bed.level2.add(MemDevice::new(bytes), force).is_err(), "{bytes}");
    }
    let device = MemDevice::new(2 * MIB);
    bed.add(&device);
    assert!(bed.level2.add(device, Add::default()).unwrap_err().to_string().contains("in use already"));
    (1..8).for_each(|_| _ = bed.add(&MemDevice::new(2 * MIB)));
    assert!(bed.level2.add(MemDevice::new(2 * MIB), Add::default()).is_err(), "eight are the most");
}

#[test]
fn a_device_that_was_away_is_warm_only_if_it_missed_nothing() {
    let (bed, device) = (Bed::new(), MemDevice::new(4 * MIB));
    let id = bed.open(&device);
    bed.put(id, 0..10, 4096);
    bed.level2.forget(key(1));
    bed.level2.remove(id).unwrap();
    assert_eq!((bed.there(0..10, 4096).len(), bed.level2.devices().len()), (0, 0));
    let id = bed.open(&device);
    assert_eq!(bed.there(0..10, 4096), [0, 2, 3, 4, 5, 6, 7, 8, 9]);
    // Whatever is forgotten while it is away: nobody tells it.
    bed.level2.remove(id).unwrap();
    bed.level2.forget(key(5));
    let id = bed.open(&device);
    assert_eq!(bed.there(0..10, 4096).len(), 0);
    bed.put(id, 0..10, 4096);
    drop(bed);
    // The same if the pool says so.
    let bed = Bed::new();
    let id = bed.level2.add(device, Add { has_missed: true, ..Add::default() }).unwrap();
    bed.rebuild(id);
    assert_eq!(bed.there(0..10, 4096).len(), 0);
}
