//! Flash behind memory: what memory has no room for comes from there, and nothing old ever does: not after
//! changes, restarts, crashes, or from a device that was away.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arcwell_arc::Policy;
use arcwell_backend::MemoryIdentities;
use arcwell_backend::vdev::{FaultyVdev, MemVdev};
use arcwell_base::Result;
use arcwell_base::identity::{DatasetId, Identity, IdentityStore};
use arcwell_base::origin::FileId;
use arcwell_base::vdev::Vdev;
use arcwell_pool::{Coherence, OpenFile};
use bed::{Bed, Plan, all_of, come_of_age, same, until, write_at};

const RECORD: usize = 4096;
/// Far more than memory holds, and less than flash does.
const RECORDS: usize = 2000;
const MEMORY: u64 = 4 << 20;
const FLASH: u64 = 64 << 20;

/// Bytes that are nowhere the same in two records, nor in two versions.
fn contents(version: u64, records: Range<usize>) -> Vec<u8> {
    let record = |n: usize| {
        let word = (version << 32 | n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        word.into_iter().cycle().take(RECORD)
    };
    records.flat_map(record).collect()
}

fn plan(device: &Arc<dyn Vdev>, identities: &Arc<dyn IdentityStore>) -> Plan {
    // The other rule keeps so little of what is new that a feed by the second may come too late for it.
    let plan = Plan::new(Coherence::Exclusive).policy(Policy::Arc).cache(MEMORY);
    plan.identities(Arc::clone(identities)).device(Arc::clone(device))
}

fn parts() -> (Arc<dyn Vdev>, Arc<dyn IdentityStore>) {
    (Arc::new(MemVdev::new(FLASH).durable()), Arc::new(MemoryIdentities::default()))
}

/// Lets the feed have as much time as it wants, until nothing new comes to it.
fn feed(bed: &Bed) {
    let mut before = u64::MAX;
    until("all that is in memory is fed", || {
        bed.clock.advance(Duration::from_secs(1));
        let fed = bed.counter("l2.fed_blocks");
        std::mem::replace(&mut before, fed) == fed && {
            // It may only have slept.
            std::thread::sleep(Duration::from_millis(1050));
            bed.counter("l2.fed_blocks") == fed
        }
    });
}

/// Reads a file piece by piece, so slowly that flash gets all of it.
fn read_and_feed(bed: &Bed, file: &OpenFile) {
    let piece = (MEMORY / 2) as usize;
    let mut at = 0;
    while at < RECORDS * RECORD {
        at += file.read(at as u64, piece as u32).unwrap().len();
        feed(bed);
    }
}

fn made(bed: &Bed) {
    fs::write(bed.origin("f"), contents(0, 0..RECORDS)).unwrap();
    come_of_age();
}

#[test]
fn what_memory_has_no_room_for_comes_from_flash() {
    let (device, identities) = parts();
    let bed = plan(&device, &identities).bed();
    made(&bed);
    let file = bed.open("f");
    read_and_feed(&bed, &file);
    assert!(bed.counter("arc.size") <= MEMORY + MEMORY / 50);
    let before = (bed.counter("pool.fill_blocks"), bed.counter("l2.hits"));
    same(&all_of(&file), &contents(0, 0..RECORDS));
    let (filled, hits) = (bed.counter("pool.fill_blocks") - before.0, bed.counter("l2.hits") - before.1);
    assert!(filled < RECORDS as u64 / 10, "{filled} of {RECORDS} blocks were asked of the origin");
    assert!(hits > RECORDS as u64 / 2, "{hits} of {RECORDS} blocks came from flash");
    drop(file);
    bed.finish();
}

#[test]
fn without_a_device_the_origin_is_asked() {
    let bed = Plan::new(Coherence::Exclusive).cache(MEMORY).bed();
    made(&bed);
    let file = bed.open("f");
    all_of(&file);
    let before = bed.counter("pool.fill_blocks");
    same(&all_of(&file), &contents(0, 0..RECORDS));
    assert!(bed.counter("pool.fill_blocks") - before > RECORDS as u64 / 2);
    drop(file);
    bed.finish();
}

/// Writes, reads, truncations at random while the feed runs all the time, against the bytes in a vector.
#[test]
fn what_was_changed_never_comes_back() {
    let (device, identities) = parts();
    let bed = plan(&device, &identities).cache(2 << 20).bed();
    let mut model = contents(0, 0..1500);
    fs::write(bed.origin("f"), &model).unwrap();
    come_of_age();
    let file = bed.open("f");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                bed.clock.advance(Duration::from_secs(1));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut dice = 1u64;
        for step in 1..20_000u64 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (dice >> 33) as usize % model.len();
            let len = ((dice >> 20) as usize % (3 * RECORD)).clamp(1, model.len() - at);
            if dice >> 60 < 2 {
                let new = contents(step, 0..4);
                model[at..at + len].copy_from_slice(&new[..len]);
                write_at(&file, at as u64, &new[..len]);
            } else {
                let read = file.read(at as u64, len as u32).unwrap().to_vec();
                assert!(read == model[at..at + len], "step {step}: {len} bytes at {at}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(bed.counter("l2.hits") > 100 && bed.counter("l2.forgotten") > 100, "flash took part");
    same(&all_of(&file), &model);
    drop(file);
    bed.finish();
}

#[test]
fn a_restart_is_warm_and_a_file_that_changed_meanwhile_is_not() {
    let (device, identities) = parts();
    let bed = plan(&device, &identities).bed();
    made(&bed);
    fs::write(bed.origin("g"), contents(7, 0..RECORDS)).unwrap();
    come_of_age();
    for name in ["f", "g"] {
        read_and_feed(&bed, &bed.open(name));
    }
    let home = Arc::clone(&bed.home);
    bed.finish();
    fs::File::options().write(true).open(home.path().join("g")).unwrap().write_all_at(b"!", 5000).unwrap();
    come_of_age();
    let bed = plan(&device, &identities).over(home);
    until("the tables are read", || bed.counter("l2.rebuilt_blocks") > RECORDS as u64);
    same(&all_of(&bed.open("f")), &contents(0, 0..RECORDS));
    let filled = bed.counter("pool.fill_blocks");
    assert!(filled < RECORDS as u64 / 10, "{filled} of {RECORDS} blocks were asked of the origin");
    let mut changed = contents(7, 0..RECORDS);
    changed[5000] = b'!';
    same(&all_of(&bed.open("g")), &changed);
    bed.finish();
}

#[test]
fn a_device_that_was_away_while_files_changed_is_not_believed() {
    let (device, identities) = parts();
    let bed = plan(&device, &identities).bed();
    made(&bed);
    read_and_feed(&bed, &bed.open("f"));
    let home = Arc::clone(&bed.home);
    bed.finish();
    let bed = Plan::new(Coherence::Exclusive).cache(MEMORY).identities(Arc::clone(&identities)).over(home);
    write_at(&bed.open("f"), (100 * RECORD) as u64, &contents(1, 100..200));
    let home = Arc::clone(&bed.home);
    bed.finish();
    let bed = plan(&device, &identities).over(home);
    let mut expected = contents(0, 0..RECORDS);
    expected[100 * RECORD..200 * RECORD].copy_from_slice(&contents(1, 100..200));
    for _ in 0..2 {
        same(&all_of(&bed.open("f")), &expected);
    }
    assert_eq!(bed.counter("l2.rebuilt_blocks"), 0);
    bed.finish();
}

#[test]
fn a_device_that_comes_after_changes_is_not_believed() {
    let (device, identities) = parts();
    let bed = plan(&device, &identities).bed();
    made(&bed);
    read_and_feed(&bed, &bed.open("f"));
    let home = Arc::clone(&bed.home);
    bed.finish();
    let bed = Plan::new(Coherence::Exclusive).cache(MEMORY).identities(Arc::clone(&identities)).over(home);
    write_at(&bed.open("f"), 0, &contents(1, 0..100));
    // Before the next checkpoint: the store still calls the device trusted.
    bed.pool.add_cache_device(Arc::clone(&device), false).unwrap();
    let mut expected = contents(0, 0..RECORDS);
    expected[..100 * RECORD].copy_from_slice(&contents(1, 0..100));
    for _ in 0..2 {
        same(&all_of(&bed.open("f")), &expected);
    }
    assert_eq!(bed.counter("l2.rebuilt_blocks"), 0);
    bed.finish();
}

/// A store that at some moment stops to remember, as if the process had ended there.
#[derive(Default)]
struct Ends {
    store: MemoryIdentities,
    has_ended: AtomicBool,
}

impl Ends {
    fn unless_ended(&self, save: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.has_ended.load(Ordering::SeqCst) { Ok(()) } else { save() }
    }
}

impl IdentityStore for Ends {
    fn reserve_objects(&self, count: u64) -> Result<Range<u64>> {
        self.store.reserve_objects(count)
    }

    fn dataset(&self, origin: &Path) -> Result<DatasetId> {
        self.store.dataset(origin)
    }

    fn load(&self, dataset: DatasetId, file: FileId) -> Result<Option<Identity>> {
        self.store.load(dataset, file)
    }

    fn save(&self, dataset: DatasetId, files: &[(FileId, Identity)]) -> Result<()> {
        self.unless_ended(|| self.store.save(dataset, files))
    }

    fn forget(&self, dataset: DatasetId, files: &[FileId]) -> Result<()> {
        self.unless_ended(|| self.store.forget(dataset, files))
    }

    fn trusted_devices(&self) -> Result<Vec<u128>> {
        self.store.trusted_devices()
    }

    fn trust_devices(&self, devices: &[u128]) -> Result<()> {
        self.unless_ended(|| self.store.trust_devices(devices))
    }
}

/// Crashes at several moments: before and after what was forgotten reached the device, with and without
/// a checkpoint in between.
#[test]
fn after_a_crash_no_old_copy_is_served() {
    for (with_checkpoint, with_writes_after) in [(false, true), (true, false), (true, true)] {
        let memory = Arc::new(MemVdev::new(FLASH));
        let store = Arc::new(Ends::default());
        let (device, identities): (Arc<dyn Vdev>, Arc<dyn IdentityStore>) = (memory.clone(), store.clone());
        let bed = plan(&device, &identities).bed();
        made(&bed);
        let file = bed.open("f");
        read_and_feed(&bed, &file);
        bed.pool.checkpoint();
        let mut expected = contents(0, 0..RECORDS);
        let mut overwrite = |records: Range<usize>, version| {
            let new = contents(version, records.clone());
            expected[records.start * RECORD..records.end * RECORD].copy_from_slice(&new);
            write_at(&file, (records.start * RECORD) as u64, &new);
        };
        overwrite(10..300, 1);
        if with_checkpoint {
            bed.pool.checkpoint();
        }
        if with_writes_after {
            overwrite(200..400, 2);
        }
        store.has_ended.store(true, Ordering::SeqCst);
        memory.crash(1);
        let left = memory.snapshot();
        drop(file);
        let home = Arc::clone(&bed.home);
        bed.finish();
        memory.restore(&left);
        store.has_ended.store(false, Ordering::SeqCst);
        let bed = plan(&device, &identities).over(home);
        for _ in 0..2 {
            same(&all_of(&bed.open("f")), &expected);
        }
        bed.finish();
    }
}

#[test]
fn a_device_that_vanishes_costs_only_time() {
    let device = Arc::new(FaultyVdev::new(Arc::new(MemVdev::new(FLASH))));
    let identities: Arc<dyn IdentityStore> = Arc::new(MemoryIdentities::default());
    let vdev: Arc<dyn Vdev> = device.clone();
    let bed = plan(&vdev, &identities).bed();
    made(&bed);
    let file = bed.open("f");
    read_and_feed(&bed, &file);
    device.vanish();
    for _ in 0..3 {
        same(&all_of(&file), &contents(0, 0..RECORDS));
    }
    assert!(bed.counter("l2.io_errors") > 0);
    assert_ne!(bed.pool.cache_devices()[0].condition, arcwell_l2arc::Condition::Online);
    drop(file);
    bed.finish();
}

#[test]
fn devices_come_and_go_while_it_is_read() {
    let (device, identities) = parts();
    let bed = plan(&device, &identities).bed();
    made(&bed);
    let file = bed.open("f");
    read_and_feed(&bed, &file);
    let id = bed.pool.cache_devices()[0].id;
    bed.pool.remove_cache_device(id).unwrap();
    assert!(bed.pool.remove_cache_device(id).is_err());
    write_at(&file, 0, &contents(3, 0..50));
    bed.pool.add_cache_device(Arc::clone(&device), false).unwrap();
    assert!(bed.pool.add_cache_device(Arc::clone(&device), false).is_err(), "it is in use");
    let mut expected = contents(0, 0..RECORDS);
    expected[..50 * RECORD].copy_from_slice(&contents(3, 0..50));
    for _ in 0..2 {
        same(&all_of(&file), &expected);
    }
    drop(file);
    bed.finish();
}
