//! Contents: whatever is written is read, through every way of reading and writing.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, SeekFrom as Search};

use super::place::{Place, outcome, same};

/// Bytes that tell where they are.
fn pattern(offset: u64, length: usize) -> Vec<u8> {
    (offset..offset + length as u64).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn read_write(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

#[test]
fn what_is_written_is_read_at_any_offset() {
    same(|dir| {
        let file = read_write(&dir.join("f"));
        let length = 3 * (1 << 20) + 77;
        file.write_all_at(&pattern(0, length), 0).unwrap();
        let mut seen = Vec::new();
        for (offset, length) in
            [(0, 1), (131_071, 2), (8192, 8192), (1, 2 << 20), (3_145_700, 400), (9 << 20, 10)]
        {
            let mut buffer = vec![0; length];
            let read = file.read_at(&mut buffer, offset).unwrap();
            assert_eq!(buffer[..read], pattern(offset, read));
            seen.push(read);
        }
        // Again from the cache, and through another descriptor.
        assert_eq!(fs::read(dir.join("f")).unwrap(), pattern(0, length));
        (seen, fs::metadata(dir.join("f")).unwrap().len())
    });
}

#[test]
fn the_origin_has_what_was_acknowledged() {
    let Some(place) = Place::new() else { return };
    fs::write(place.path("f"), pattern(0, 300_000)).unwrap();
    assert_eq!(fs::read(place.origin("f")).unwrap(), pattern(0, 300_000));
    fs::write(place.origin("g"), pattern(5, 300_000)).unwrap();
    assert_eq!(fs::read(place.path("g")).unwrap(), pattern(5, 300_000));
}

#[test]
fn holes_read_as_zeroes_and_are_found() {
    same(|dir| {
        let file = read_write(&dir.join("f"));
        file.write_all_at(b"tail", 1 << 20).unwrap();
        let mut head = vec![1; 4096];
        file.read_exact_at(&mut head, 0).unwrap();
        assert!(head.iter().all(|byte| *byte == 0));
        let data = rustix::fs::seek(&file, Search::Data(0)).unwrap();
        let hole = rustix::fs::seek(&file, Search::Hole(0)).unwrap();
        let beyond = rustix::fs::seek(&file, Search::Data(2 << 20)).map_err(|errno| errno.raw_os_error());
        (data, hole, beyond)
    });
}

#[test]
fn truncation_cuts_and_extends() {
    same(|dir| {
        let path = dir.join("f");
        fs::write(&path, pattern(0, 200_000)).unwrap();
        let file = read_write(&path);
        file.set_len(100_001).unwrap();
        file.set_len(150_000).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes[..100_001], pattern(0, 100_001));
        assert!(bytes[100_001..].iter().all(|byte| *byte == 0));
        let cut = File::options().write(true).truncate(true).open(&path).unwrap();
        cut.write_all_at(b"x", 3).unwrap();
        fs::read(&path).unwrap()
    });
}

#[test]
fn two_appenders_lose_nothing() {
    const LINES: usize = 200;
    let Some(place) = Place::new() else { return };
    let path = place.path("log");
    std::thread::scope(|scope| {
        for who in ["a", "b"] {
            let path = &path;
            scope.spawn(move || {
                let mut file = File::options().append(true).create(true).open(path).unwrap();
                for number in 0..LINES {
                    file.write_all(format!("{who}{number:09}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(&path).unwrap();
    for who in ["a", "b"] {
        let numbers: Vec<usize> =
            text.lines().filter_map(|line| line.strip_prefix(who)).map(|n| n.parse().unwrap()).collect();
        assert_eq!(numbers, (0..LINES).collect::<Vec<_>>());
    }
}

#[test]
fn an_appender_ignores_where_it_is() {
    same(|dir| {
        let path = dir.join("f");
        fs::write(&path, "head").unwrap();
        let mut file = File::options().read(true).append(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"tail").unwrap();
        let after = file.stream_position().unwrap();
        (fs::read(&path).unwrap(), after)
    });
}

#[test]
fn direct_io_works() {
    same(|dir| {
        const BLOCK: usize = 4096;
        let path = dir.join("f");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(&path)
            .unwrap();
        let mut space = vec![0; 4 * BLOCK];
        let start = space.as_ptr().align_offset(BLOCK);
        let buffer = &mut space[start..start + 2 * BLOCK];
        buffer.copy_from_slice(&pattern(0, 2 * BLOCK));
        file.write_all_at(buffer, BLOCK as u64).unwrap();
        buffer.fill(0);
        let read = file.read_at(buffer, 2 * BLOCK as u64).unwrap();
        (read, buffer[..BLOCK] == pattern(BLOCK as u64, BLOCK), fs::read(&path).unwrap().len())
    });
}

#[test]
fn a_program_on_the_mount_runs() {
    // Running a program maps it privately.
    let Some(place) = Place::new() else { return };
    let program = place.path("true");
    fs::copy("/bin/true", &program).unwrap();
    assert!(Command::new(&program).status().unwrap().success());
    let held = File::options().write(true).open(place.path("true"));
    assert!(held.is_ok());
}

#[test]
fn ranges_are_allocated_punched_and_zeroed() {
    same(|dir| {
        let path = dir.join("f");
        fs::write(&path, pattern(0, 65_536)).unwrap();
        let file = read_write(&path);
        let mut seen = Vec::new();
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for (mode, offset, length) in [
            (punch, 8192, 8192),
            (punch, 4000, 200),
            (FallocateFlags::empty(), 60_000, 20_000),
            (FallocateFlags::KEEP_SIZE, 0, 200_000),
        ] {
            seen.push(rustix::fs::fallocate(&file, mode, offset, length).is_ok());
        }
        (seen, fs::read(&path).unwrap())
    });
}

#[test]
fn ranges_are_copied() {
    same(|dir| {
        fs::write(dir.join("from"), pattern(0, 300_000)).unwrap();
        let from = File::open(dir.join("from")).unwrap();
        let to = read_write(&dir.join("to"));
        let (mut at, mut to_at, mut left) = (1000, 500, 250_000);
        while left > 0 {
            let copied =
                rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut to_at), left).unwrap();
            assert!(copied > 0);
            left -= copied;
        }
        fs::read(dir.join("to")).unwrap()
    });
}

#[test]
fn a_file_without_a_name_lives_while_it_is_open() {
    same(|dir| {
        let path = dir.join("f");
        let mut file = read_write(&path);
        file.write_all(b"before").unwrap();
        fs::remove_file(&path).unwrap();
        file.write_all(b" and after").unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        file.set_len(3).unwrap();
        fs::write(&path, "another").unwrap();
        let length = file.metadata().unwrap().len();
        (text, length, outcome(file.sync_all()), fs::read(&path).unwrap())
    });
}

#[test]
fn access_modes_are_kept() {
    same(|dir| {
        let path = dir.join("f");
        fs::write(&path, "text").unwrap();
        let read_only = File::open(&path).unwrap();
        let write_only = File::options().write(true).open(&path).unwrap();
        (outcome(read_only.write_at(b"x", 0)), outcome(write_only.read_at(&mut [0; 4], 0)))
    });
}

/// A file without a name in `dir`, where there is such a thing.
fn unnamed(dir: &Path) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE.bits() as i32;
    File::options().read(true).write(true).mode(0o640).custom_flags(flags).open(dir)
}

#[test]
fn a_file_may_be_made_without_a_name_and_get_one() {
    same(|dir| {
        let mut file = match unnamed(dir) {
            Err(error) => return Err(error.raw_os_error()),
            Ok(file) => file,
        };
        file.write_all(&pattern(0, 10_000)).unwrap();
        let before = (file.metadata().unwrap().nlink(), fs::read_dir(dir).unwrap().count());
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        let follow = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(CWD, itself, CWD, dir.join("named"), follow).unwrap();
        file.write_all(b"more").unwrap();
        drop(file);
        let found = fs::metadata(dir.join("named")).unwrap();
        assert_eq!(fs::read(dir.join("named")).unwrap()[..10_000], pattern(0, 10_000));
        Ok((before, found.nlink(), found.len(), found.mode()))
    });
}

#[test]
fn a_file_that_is_never_named_leaves_nothing() {
    let Some(place) = Place::new() else { return };
    let Ok(file) = unnamed(&place.path("")) else { return };
    file.write_all_at(b"text", 0).unwrap();
    let mut text = [0; 4];
    file.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"text");
    drop(file);
    assert_eq!(fs::read_dir(place.origin("")).unwrap().count(), 0);
}

#[test]
fn writes_that_ask_for_it_are_durable_when_they_are_acknowledged() {
    const DSYNC: i32 = 0o10000;
    let Some(place) = Place::new() else { return };
    let syncs = || place.counts.syncs.value();
    for (flags, expected) in [(0, 0), (DSYNC, 2), (OFlags::SYNC.bits() as i32, 2)] {
        let mut options = File::options();
        let file = options.write(true).create(true).custom_flags(flags).open(place.path("f")).unwrap();
        let before = syncs();
        file.write_all_at(b"one", 0).unwrap();
        file.write_all_at(b"two", 3).unwrap();
        assert_eq!(syncs() - before, expected, "{flags:o}");
    }
    let file = read_write(&place.path("f"));
    let before = syncs();
    let part = [std::io::IoSlice::new(b"x")];
    rustix::io::pwritev2(&file, &part, 0, rustix::io::ReadWriteFlags::DSYNC).unwrap();
    assert_eq!(syncs() - before, 1);
}
