//! What only a file does: be opened or refused, be locked, end too soon; and the ring below it.

use std::fs;
use std::os::unix::fs::MetadataExt;

use arcwell_base::vdev::Vdev;
use rustix::io::{Errno, ReadWriteFlags};

use super::*;
use crate::vdev::ring::sabotage::{self, Sabotage};

fn creating(bytes: u64) -> OpenHow {
    OpenHow { create: Some(bytes), ..OpenHow::default() }
}

/// Whether `error` names the path and says this.
#[track_caller]
fn says(error: &arcwell_base::Error, path: &Path, what: &str) {
    let text = error.to_string();
    assert!(text.contains(what) && text.contains(path.to_str().unwrap()), "{text}");
}

#[test]
fn a_new_file_is_sparse_and_one_that_exists_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    assert_eq!(FileVdev::open(&path, OpenHow::default()).unwrap_err().errno(), Errno::NOENT);
    assert!(!path.exists());
    let vdev = FileVdev::open(&path, creating(1 << 30)).unwrap();
    assert_eq!(vdev.shape().bytes, 1 << 30);
    assert!(vdev.shape().name.ends_with("device"));
    let stat = fs::metadata(&path).unwrap();
    assert_eq!((stat.mode() & 0o777, stat.blocks()), (0o600, 0));
    let data = noise(1, 4096);
    vdev.write(0, &data).unwrap();
    drop(vdev);
    let vdev = FileVdev::open(&path, creating(2 << 30)).unwrap();
    assert_eq!(vdev.shape().bytes, 1 << 30);
    assert_eq!(read(&vdev, 0, 4096).unwrap()[..], data[..]);
}

#[test]
fn the_length_is_rounded_down_to_units_and_an_empty_file_gets_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    fs::File::create(&path).unwrap().set_len(SMALLEST + 5000).unwrap();
    let shape = FileVdev::open(&path, OpenHow::default()).unwrap().shape();
    assert!(shape.bytes > SMALLEST && shape.bytes <= SMALLEST + 5000, "{shape:?}");
    assert!(shape.bytes.is_multiple_of(u64::from(shape.unit)), "{shape:?}");
    assert!(shape.unit.is_power_of_two() && (512..=4096).contains(&shape.unit), "{shape:?}");
    fs::File::create(&path).unwrap().set_len(0).unwrap();
    assert_eq!(FileVdev::open(&path, creating(SMALLEST)).unwrap().shape().bytes, SMALLEST);
}

#[test]
fn what_cannot_be_a_device_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    says(&FileVdev::open(folder.path(), OpenHow::default()).unwrap_err(), folder.path(), "a directory");
    says(&FileVdev::open(folder.path(), creating(SMALLEST)).unwrap_err(), folder.path(), "a directory");
    let null = Path::new("/dev/null");
    says(&FileVdev::open(null, OpenHow::default()).unwrap_err(), null, "neither");
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    says(&FileVdev::open(&fifo, OpenHow::default()).unwrap_err(), &fifo, "neither");
    let small = folder.path().join("small");
    says(&FileVdev::open(&small, creating(SMALLEST - 1)).unwrap_err(), &small, "too few");
    assert!(!small.exists(), "nothing is made that cannot be used");
    fs::File::create(&small).unwrap().set_len(SMALLEST - 1).unwrap();
    says(&FileVdev::open(&small, OpenHow::default()).unwrap_err(), &small, "too few");
    fs::File::create(&small).unwrap().set_len(SMALLEST).unwrap();
    FileVdev::open(&small, OpenHow::default()).unwrap();
}

#[test]
fn two_instances_lock_each_other_out_and_readers_do_not() {
    let Scratch { vdev, path, _folder } = scratch(SMALLEST);
    let reading = OpenHow { read_only: true, ..OpenHow::default() };
    for how in [OpenHow::default(), reading] {
        let error = FileVdev::open(&path, how).unwrap_err();
        says(&error, &path, "in use by another instance");
        assert_eq!(error.errno(), Errno::INVAL);
    }
    vdev.write(0, &noise(1, 4096)).unwrap();
    drop(vdev);
    let readers = [(); 2].map(|()| FileVdev::open(&path, reading).unwrap());
    says(&FileVdev::open(&path, OpenHow::default()).unwrap_err(), &path, "in use by another instance");
    for reader in &readers {
        assert_eq!(read(reader, 0, 4096).unwrap()[..], noise(1, 4096)[..]);
        assert_eq!(reader.write(0, &zeros(4096)).unwrap_err().errno(), Errno::ROFS);
        assert_eq!(reader.discard(0..4096).unwrap_err().errno(), Errno::ROFS);
        assert!(!reader.shape().can_discard);
    }
    drop(readers);
    FileVdev::open(&path, OpenHow::default()).unwrap();
}

#[test]
fn a_batch_longer_than_the_ring_is_done_whole() {
    for way in Way::ALL {
        let Some(Scratch { vdev, .. }) = way.open(SMALLEST) else { continue };
        let data = noise(4, SMALLEST as usize);
        vdev.write(0, &data).unwrap();
        let mut dice = Dice::new(5);
        for count in [0, 1, 63, 64, 65, 1000] {
            let ranges: Vec<(u64, usize)> =
                (0..count).map(|_| (dice.below(4000) * 4096, dice.below(4) as usize * 4096)).collect();
            for (bytes, (offset, length)) in read_all(&vdev, &ranges).into_iter().zip(&ranges) {
                assert!(bytes.unwrap()[..] == data[*offset as usize..][..*length], "{way:?}");
            }
        }
    }
}

#[test]
fn a_bad_range_is_that_reads_error_alone() {
    for way in Way::ALL {
        let Some(Scratch { vdev, path, _folder }) = way.open(SMALLEST) else { continue };
        let data = noise(4, 16384);
        vdev.write(0, &data).unwrap();
        let mut memory = zeros(16384);
        let (first, rest) = memory.split_at_mut(4096);
        let (second, rest) = rest.split_at_mut(4096);
        let mut reads = [
            Read::new(4096, first),
            Read::new(SMALLEST, second),
            Read::new(0, &mut rest[100..4196]),
            Read::new(100, &mut []),
            Read::new(u64::MAX - 4095, &mut []),
        ];
        vdev.read(&mut reads);
        reads[0].outcome().unwrap();
        for (place, what) in [(1, "not within"), (2, "memory at"), (3, "no multiples"), (4, "not within")] {
            says(&reads[place].outcome().unwrap_err(), &path, what);
        }
        assert_eq!(memory[..4096], data[4096..8192]);
        says(&vdev.write(0, &memory[100..4196]).unwrap_err(), &path, "memory at");
        says(&vdev.write(100, &memory[..4096]).unwrap_err(), &path, "no multiples");
        says(&vdev.write(0, &memory[..100]).unwrap_err(), &path, "no multiples");
        says(&vdev.write(SMALLEST - 4096, &memory[..8192]).unwrap_err(), &path, "not within");
        says(&vdev.discard(SMALLEST..SMALLEST + 4096).unwrap_err(), &path, "not within");
        assert_eq!(fs::metadata(&path).unwrap().len(), SMALLEST);
    }
}

#[test]
fn a_file_cut_short_while_open_fails_for_what_is_gone_alone() {
    for way in Way::ALL {
        let Some(Scratch { vdev, path, _folder }) = way.open(SMALLEST) else { continue };
        let data = noise(4, SMALLEST as usize);
        vdev.write(0, &data).unwrap();
        assert!(read(&vdev, SMALLEST / 2 - 4096, 8192).is_ok());
        for left in [SMALLEST / 2, SMALLEST / 2 - 1000, 0] {
            fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
            let ranges = [(0, 4096), (SMALLEST / 2 - 4096, 8192), (SMALLEST - 4096, 4096)];
            let outcomes = read_all(&vdev, &ranges);
            assert_eq!(outcomes[0].is_ok(), left > 0, "{way:?}, {left} left");
            for outcome in &outcomes[1..] {
                says(outcome.as_ref().unwrap_err(), &path, "read device");
            }
        }
        // As the module's doc says: it grows again.
        vdev.write(8192, &noise(5, 4096)).unwrap();
        assert_eq!(read(&vdev, 4096, 8192).unwrap()[..], [&zeros(4096)[..], &noise(5, 4096)[..]].concat());
    }
}

#[test]
fn a_discard_gives_room_back() {
    for way in Way::ALL {
        let Some(Scratch { vdev, path, _folder }) = way.open(SMALLEST) else { continue };
        vdev.write(0, &noise(4, 4 << 20)).unwrap();
        vdev.flush().unwrap();
        let before = fs::metadata(&path).unwrap().blocks();
        if !vdev.shape().can_discard {
            assert_eq!(vdev.discard(0..2 << 20).unwrap_err().errno(), Errno::OPNOTSUPP);
            eprintln!("SKIPPED {way:?}: no holes here");
            continue;
        }
        vdev.discard(0..2 << 20).unwrap();
        let after = fs::metadata(&path).unwrap();
        assert!(after.blocks() <= before - (2 << 20) / 512, "{before} blocks, then {}", after.blocks());
        assert_eq!(after.len(), SMALLEST);
        assert!(read(&vdev, 2 << 20, 2 << 20).unwrap()[..] == noise(4, 4 << 20)[2 << 20..]);
        vdev.discard(4096..4096).unwrap();
    }
}

#[test]
fn tmpfs_is_buffered_and_a_buffered_file_leaves_no_pages() {
    if let Some(Scratch { vdev, .. }) = Way::ALL[5].open(SMALLEST) {
        assert!(vdev.shape().is_buffered);
    }
    for way in [Way::ALL[2], Way::ALL[3]] {
        let Some(Scratch { vdev, path, _folder }) = way.open(SMALLEST) else { continue };
        assert!(vdev.shape().is_buffered);
        let plain = fs::File::open(&path).unwrap();
        if rustix::fs::fstatfs(&plain).unwrap().f_type as u64 == 0x0102_1994 {
            eprintln!("SKIPPED {way:?}: temporary files lie in memory here");
            continue;
        }
        let cached = || {
            let mut buffer = [0; 4096];
            let mut into = [rustix::io::IoSliceMut::new(&mut buffer)];
            rustix::io::preadv2(&plain, &mut into, 8192, ReadWriteFlags::NOWAIT)
        };
        // The kernel keeps a page for a moment if somebody looks at it, its journal for one.
        let goes = |again: &dyn Fn()| {
            (0..100).any(|_| {
                again();
                std::thread::sleep(std::time::Duration::from_millis(10));
                cached() == Err(Errno::AGAIN)
            })
        };
        assert!(goes(&|| vdev.write(0, &noise(4, 65536)).unwrap()), "after a write");
        assert!(goes(&|| drop(read(&vdev, 0, 65536).unwrap())), "after a read");
        // The control: that is how a page that is there shows.
        rustix::io::pread(&plain, &mut [0; 4096][..], 8192).unwrap();
        assert!(!goes(&|| ()), "nobody dropped it");
    }
}

#[test]
fn threads_read_at_the_same_time_each_by_its_ring() {
    let Scratch { vdev, .. } = scratch(SMALLEST);
    let data = noise(4, SMALLEST as usize);
    vdev.write(0, &data).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (vdev, data) = (&vdev, &data);
            scope.spawn(move || {
                let mut dice = Dice::new(thread);
                for _ in 0..20 {
                    let ranges: Vec<(u64, usize)> =
                        (0..100).map(|_| (dice.below(4096) * 4096, 4096)).collect();
                    for (bytes, (offset, length)) in read_all(vdev, &ranges).into_iter().zip(&ranges) {
                        assert!(bytes.unwrap()[..] == data[*offset as usize..][..*length]);
                    }
                }
            });
        }
    });
}

/// A device with a ring that holds these bytes; none if there is no io_uring.
fn with_ring(data: &[u8]) -> Option<Scratch> {
    let scratch = Way::ALL[0].open(SMALLEST)?;
    scratch.vdev.write(0, data).unwrap();
    Some(scratch)
}

#[test]
fn a_submission_that_fails_half_way_loses_no_read() {
    let data = noise(4, 4 << 20);
    let Some(Scratch { vdev, .. }) = with_ring(&data) else { return };
    let ranges: Vec<(u64, usize)> = (0..200).map(|place| (place * 8192, 8192)).collect();
    for errno in [Errno::NOMEM, Errno::BADF, Errno::AGAIN, Errno::BUSY, Errno::INTR] {
        for handed in [0, 1, 17, 64] {
            sabotage::next(Sabotage::Fail(handed, errno));
            for (bytes, (offset, length)) in read_all(&vdev, &ranges).into_iter().zip(&ranges) {
                assert!(bytes.unwrap()[..] == data[*offset as usize..][..*length], "{errno}, {handed}");
            }
            assert!(sabotage::is_done());
        }
    }
    sabotage::next(Sabotage::Fail(3, Errno::NOMEM));
    let new = noise(6, 8 << 20);
    vdev.write(4096, &new).unwrap();
    assert!(sabotage::is_done());
    assert!(read(&vdev, 4096, new.len()).unwrap()[..] == new[..]);
}

#[test]
fn a_thread_that_unwinds_waits_for_what_it_handed_over() {
    let data = noise(4, 8 << 20);
    let Some(Scratch { vdev, .. }) = with_ring(&data) else { return };
    for handed in [0, 1, 30, 32] {
        let mut memories: Vec<Memory> = (0..32).map(|_| zeros(256 << 10)).collect();
        let mut reads: Vec<Read<'_>> = memories
            .iter_mut()
            .enumerate()
            .map(|(place, memory)| Read::new(place as u64 * (256 << 10), memory))
            .collect();
        sabotage::next(Sabotage::Panic(handed));
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| vdev.read(&mut reads)));
        assert!(unwound.is_err() && sabotage::is_done());
        // What was handed over has arrived, and nothing else ever will.
        for (place, memory) in memories.iter().enumerate() {
            let arrived = memory[..] == data[place * (256 << 10)..][..256 << 10];
            let is_untouched = memory[..] == zeros(256 << 10)[..];
            assert!(if place < handed as usize { arrived } else { is_untouched }, "{place} of {handed}");
        }
        assert!(read(&vdev, 0, data.len()).unwrap()[..] == data[..], "the next ring is a good one");
    }
}
