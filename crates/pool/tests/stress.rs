//! Many threads at once on the same few files: no torn block, no lost write, and at the end what is
//! read is what the origin has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use arcwell_arc::ListKind;
use arcwell_base::origin::{RenameMode, SetAttr};
use arcwell_pool::{CacheMode, Coherence, OpenHow, WriteHow};
use bed::{Bed, Plan, lettered, same};

const RECORD: usize = 4096;
const RECORDS: u64 = 24;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Each write fills whole records with one byte, each truncation leaves whole records: whoever sees
/// two bytes in a record saw two writes.
fn check(bytes: &[u8], offset: usize) {
    let mut rest = bytes;
    let mut at = offset;
    while !rest.is_empty() {
        let (record, behind) = rest.split_at((RECORD - at % RECORD).min(rest.len()));
        assert!(record.iter().all(|byte| *byte == record[0]), "torn at {at}");
        at += record.len();
        rest = behind;
    }
}

/// One of many things with one of the files; that it is gone or was renamed is no failure.
fn step(bed: &Bed, random: &mut Random) -> arcwell_base::Result<()> {
    let name = NAMES[random.below(4) as usize];
    let root = bed.root();
    let Some(stat) = bed.look(root, name)? else {
        bed.create(root, name)?;
        return Ok(());
    };
    let ino = stat.id.ino;
    match random.below(20) {
        0..=7 => {
            let file = bed.dataset.open(ino, OpenHow::default())?;
            let offset = random.below(RECORDS * RECORD as u64);
            let read = file.read(offset, random.below(60_000) as u32)?;
            check(&read.to_vec(), offset as usize);
        }
        8..=13 => {
            let file = bed.open_ino(ino)?;
            let (first, count) = (random.below(RECORDS), 1 + random.below(4));
            let data = vec![random.below(256) as u8; count as usize * RECORD];
            file.write(first * RECORD as u64, &data, WriteHow::default())?;
        }
        14 => {
            let size = random.below(RECORDS) * RECORD as u64;
            bed.dataset.set_attr(ino, &SetAttr { size: Some(size), ..SetAttr::default() })?;
        }
        15 | 16 => {
            let to = NAMES[random.below(4) as usize];
            let mode = if random.below(2) == 0 { RenameMode::Replace } else { RenameMode::Exchange };
            bed.dataset.rename((root, OsStr::new(name)), (root, OsStr::new(to)), mode)?;
        }
        17 => bed.dataset.unlink(root, OsStr::new(name))?,
        18 => drop(bed.names(root)?),
        _ => {
            bed.clock.advance(std::time::Duration::from_millis(300));
            bed.forget_all();
        }
    }
    Ok(())
}

/// Errors that a program without locks must reckon with.
fn is_race(error: &arcwell_base::Error) -> bool {
    use rustix::io::Errno;
    [Errno::NOENT, Errno::EXIST, Errno::STALE].contains(&error.errno())
}

fn run(plan: Plan, rounds: u64) {
    let bed = plan.recordsize(RECORD as u32).bed();
    for name in NAMES {
        lettered(&bed.origin(name), RECORDS as usize, RECORD);
    }
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let bed = &bed;
            scope.spawn(move || {
                let mut random = Random(thread * 7919 + 1);
                for _ in 0..rounds {
                    if let Err(error) = step(bed, &mut random) {
                        assert!(is_race(&error), "{error:?}");
                    }
                }
            });
        }
    });
    agrees(&bed);
    bed.finish();
}

/// Without asking anew more than the coherence asks for.
fn agrees(bed: &Bed) {
    for name in NAMES {
        let found = bed.look(bed.root(), name).unwrap();
        let truth = fs::metadata(bed.origin(name)).ok();
        assert_eq!(found.map(|stat| stat.id.ino), truth.as_ref().map(MetadataExt::ino), "{name}");
        let (Some(found), Some(truth)) = (found, truth) else { continue };
        let shown = bed.stat(found.id.ino).unwrap();
        assert_eq!((shown.size, u64::from(shown.nlink)), (truth.len(), truth.nlink()), "{name}");
        same(&bed.contents(name), &fs::read(bed.origin(name)).unwrap());
    }
}

#[test]
fn nothing_is_torn_when_we_alone_write() {
    run(Plan::new(Coherence::Exclusive).cache(256 << 10).prefetch(CacheMode::All), 1500);
}

#[test]
fn nothing_is_torn_with_single_lists_and_no_data_cached() {
    let plan = Plan::new(Coherence::Exclusive).cache(256 << 10).lists(ListKind::Single);
    run(plan.primarycache(CacheMode::Metadata), 1000);
}

#[test]
fn nothing_is_torn_where_others_may_write() {
    run(Plan::new(Coherence::Timeout).cache(256 << 10).prefetch(CacheMode::All), 1000);
    run(Plan::new(Coherence::Notify).cache(256 << 10).prefetch(CacheMode::All), 1000);
}

/// Each thread has a record of its own in one file, and always finds there what it wrote last.
#[test]
fn nobody_loses_a_write() {
    for coherence in [Coherence::Exclusive, Coherence::Timeout, Coherence::Notify] {
        // Larger than the parts that are written: each write patches what others wrote.
        let bed = Plan::new(coherence).recordsize(16_384).cache(128 << 10).bed();
        let file = bed.create(bed.root(), "f").unwrap();
        bed::write_at(&file, 0, &[0; 64 << 10]);
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let file = &file;
                scope.spawn(move || {
                    for round in 0..200u64 {
                        // Eight parts of one block, in turn in each of four blocks.
                        let offset = (round % 4) * 16_384 + thread * 2048;
                        let bytes = [(thread * 31 + round) as u8; 2048];
                        bed::write_at(file, offset, &bytes);
                        same(&file.read(offset, 2048).unwrap().to_vec(), &bytes);
                    }
                });
            }
        });
        same(&bed.contents("f"), &fs::read(bed.origin("f")).unwrap());
        drop(file);
        bed.finish();
    }
}

/// Readers at the moving end of a file see no bytes that were never there.
#[test]
fn the_end_of_a_file_moves_under_its_readers() {
    let bed = Plan::new(Coherence::Exclusive).cache(256 << 10).bed();
    let file = bed.create(bed.root(), "f").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let bytes = file.read(0, 100_000).unwrap().to_vec();
                    assert!(bytes.iter().all(|byte| *byte == b'x'), "a hole was seen");
                }
            });
        }
        for round in 0..300u64 {
            let how = WriteHow { append: true, ..WriteHow::default() };
            file.write(0, &[b'x'; 1000], how).unwrap();
            if round % 7 == 0 {
                let half = SetAttr { size: Some(file.size() / 2), ..SetAttr::default() };
                bed.dataset.set_attr(file.ino(), &half).unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    same(&bed.contents("f"), &fs::read(bed.origin("f")).unwrap());
    drop(file);
    bed.finish();
}

#[test]
fn what_the_attributes_show_can_be_read() {
    let bed = Plan::new(Coherence::Exclusive).bed();
    let file = bed.create(bed.root(), "log").unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let how = WriteHow { append: true, ..WriteHow::default() };
            for _ in 0..300 {
                assert_eq!(file.write(0, &[b'x'; 100_000], how).unwrap(), 100_000);
            }
            is_done.store(true, Ordering::Release);
        });
        while !is_done.load(Ordering::Acquire) {
            // Asks the origin, which may be ahead of what the writer has taken note of.
            let size = bed.dataset.stat(file.ino()).unwrap().stat.size;
            let length = size.min(100);
            let read = file.read(size - length, length as u32).unwrap();
            assert_eq!(read.len() as u64, length, "at {size}");
        }
    });
    drop(file);
    bed.finish();
}
