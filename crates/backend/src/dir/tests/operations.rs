//! Each operation, compared with what `std::fs` sees of the same directory.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use arcwell_base::error::Cause;
use arcwell_base::origin::{
    Access, Allocate, FileType, NewNode, Origin, RenameMode, Seek, SetAttr, SetTime, Timestamp,
};
use rustix::io::Errno;

use super::{At, DirOptions, DirOrigin, myself, origin, origin_with};

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

#[test]
fn attributes_are_those_of_std() {
    let (dir, origin, root) = origin();
    std::fs::write(dir.path().join("file"), "content").unwrap();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    symlink("file", dir.path().join("link")).unwrap();
    for (entry, kind) in
        [("file", FileType::Regular), ("dir", FileType::Directory), ("link", FileType::Symlink)]
    {
        let stat = origin.lookup(&root, name(entry)).unwrap();
        let seen = dir.path().join(entry).symlink_metadata().unwrap();
        assert_eq!(stat.kind, kind);
        assert_eq!((stat.id.ino, stat.size, stat.blocks), (seen.ino(), seen.size(), seen.blocks()));
        assert_eq!(u32::from(stat.perm), seen.mode() & 0o7777);
        assert_eq!((stat.uid, stat.gid, u64::from(stat.nlink)), (seen.uid(), seen.gid(), seen.nlink()));
        assert_eq!(stat.mtime, Timestamp { sec: seen.mtime(), nsec: seen.mtime_nsec() as u32 });
        assert_eq!(origin.stat(&root.child(&origin, entry)).unwrap(), stat);
    }
    assert_eq!(origin.root().unwrap().id.ino, dir.path().metadata().unwrap().ino());
    let link = root.child(&origin, "link");
    assert_eq!(origin.read_link(&link).unwrap(), Path::new("file"));
    assert_eq!(origin.read_link(&root).unwrap_err().errno(), Errno::INVAL);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let (dir, origin, root) = origin();
    std::fs::write(dir.path().join("file"), "").unwrap();
    for bad in ["", ".", "..", "a/b", "file/.."] {
        assert_eq!(origin.lookup(&root, name(bad)).unwrap_err().errno(), Errno::INVAL, "{bad:?}");
        let caller = myself();
        assert_eq!(origin.create(&root, name(bad), 0o644, caller).unwrap_err().errno(), Errno::INVAL);
    }
    let file = root.child(&origin, "file");
    assert_eq!(origin.lookup(&file, name("x")).unwrap_err().errno(), Errno::NOTDIR);
    assert_eq!(origin.list(&file).unwrap_err().errno(), Errno::NOTDIR);
    let long = "n".repeat(256);
    assert_eq!(origin.lookup(&root, name(&long)).unwrap_err().errno(), Errno::NAMETOOLONG);
}

#[test]
fn a_listing_is_whole() {
    let (dir, origin, root) = origin();
    let mut names = BTreeSet::new();
    for n in 0..3000 {
        let entry = format!("entry with a rather long name {n:05}");
        std::fs::write(dir.path().join(&entry), "").unwrap();
        names.insert(entry);
    }
    let (stat, entries) = origin.list(&root).unwrap();
    assert_eq!(stat.id, root.id());
    assert!(entries.iter().all(|entry| entry.kind == Some(FileType::Regular)));
    let listed: BTreeSet<String> =
        entries.iter().map(|entry| entry.name.to_str().unwrap().to_owned()).collect();
    assert_eq!((entries.len(), listed), (names.len(), names));
    let first = &entries[0];
    assert_eq!(origin.lookup(&root, &first.name).unwrap().id.ino, first.ino);
}

#[test]
fn bytes_go_where_they_were_meant() {
    let (dir, origin, root) = origin();
    origin.create(&root, name("file"), 0o600, myself()).unwrap();
    let file = root.child(&origin, "file");
    let written = origin.write(&file, 5, b"middle", false).unwrap();
    assert_eq!((written.offset, written.bytes, written.stat.size), (5, 6, 11));
    let appended = origin.write(&file, 0, b" end", true).unwrap();
    assert_eq!((appended.offset, appended.bytes, appended.stat.size), (11, 4, 15));
    assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"\0\0\0\0\0middle end");
    let mut buffer = [9; 20];
    assert_eq!(origin.read(&file, 3, &mut buffer).unwrap(), 12);
    assert_eq!(&buffer[..12], b"\0\0middle end");
    assert_eq!(origin.read(&file, 99, &mut buffer).unwrap(), 0);
    assert_eq!(origin.write(&file, 3, b"", false).unwrap().bytes, 0);
    origin.sync(&file, true).unwrap();
    origin.sync(&root, false).unwrap();
    // Reading may have changed the time of the last read, and nothing else.
    assert_eq!(appended.stat.version(), origin.stat(&file).unwrap().version());
}

#[test]
fn appenders_never_overwrite_each_other() {
    const RECORD: usize = 100;
    let (dir, origin, root) = origin();
    origin.create(&root, name("log"), 0o600, myself()).unwrap();
    let log = root.child(&origin, "log");
    std::thread::scope(|scope| {
        for writer in 0..4u8 {
            let (origin, log) = (&origin, &log);
            scope.spawn(move || {
                for _ in 0..200 {
                    let written = origin.write(log, 0, &[b'a' + writer; RECORD], true).unwrap();
                    let mut back = [0; RECORD];
                    origin.read(log, written.offset, &mut back).unwrap();
                    assert_eq!(back, [b'a' + writer; RECORD], "the offset that was told is the true one");
                }
            });
        }
        // A foreign appender at the same time.
        let path = dir.path().join("log");
        scope.spawn(move || {
            use std::io::Write;
            let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
            (0..200).for_each(|_| file.write_all(&[b'z'; RECORD]).unwrap());
        });
    });
    let bytes = std::fs::read(dir.path().join("log")).unwrap();
    assert_eq!(bytes.len(), 5 * 200 * RECORD);
    assert!(bytes.chunks(RECORD).all(|record| record.iter().all(|byte| *byte == record[0])));
}

#[test]
fn every_kind_of_node_is_made() {
    let (dir, origin, root) = origin();
    let node = |kind| NewNode::Node { kind, rdev: 0 };
    let fifo = origin.make(&root, name("fifo"), &node(FileType::Fifo), 0o640, myself()).unwrap();
    assert_eq!((fifo.kind, fifo.perm), (FileType::Fifo, 0o640));
    origin.make(&root, name("socket"), &node(FileType::Socket), 0o600, myself()).unwrap();
    origin.make(&root, name("plain"), &node(FileType::Regular), 0o666, myself()).unwrap();
    origin.make(&root, name("dir"), &NewNode::Directory, 0o777, myself()).unwrap();
    let target = NewNode::Symlink(PathBuf::from("../away"));
    origin.make(&root, name("link"), &target, 0o777, myself()).unwrap();
    let seen = |entry: &str| dir.path().join(entry).symlink_metadata().unwrap();
    assert!(seen("fifo").file_type().is_fifo() && seen("socket").file_type().is_socket());
    assert_eq!((seen("plain").mode() & 0o777, seen("dir").mode() & 0o777), (0o644, 0o755));
    assert_eq!(std::fs::read_link(dir.path().join("link")).unwrap(), Path::new("../away"));
    let again = origin.make(&root, name("dir"), &NewNode::Directory, 0o777, myself()).unwrap_err();
    assert_eq!(again.errno(), Errno::EXIST);
    assert_eq!(origin.open(&root.child(&origin, "fifo"), Access::Read).unwrap_err().errno(), Errno::NXIO);
    assert_eq!(origin.open(&root.child(&origin, "link"), Access::Read).unwrap_err().errno(), Errno::LOOP);
    assert_eq!(origin.open(&root, Access::Write).unwrap_err().errno(), Errno::ISDIR);
    origin.open(&root.child(&origin, "plain"), Access::Write).unwrap();
}

#[test]
fn create_opens_nothing_that_is_there() {
    let (dir, origin, root) = origin();
    std::fs::write(dir.path().join("file"), "kept").unwrap();
    symlink("nowhere", dir.path().join("link")).unwrap();
    for there in ["file", "link"] {
        let refused = origin.create(&root, name(there), 0o600, myself()).unwrap_err();
        assert_eq!(refused.errno(), Errno::EXIST);
    }
}

#[test]
fn a_file_without_a_name_lives_as_long_as_its_hold() {
    let (dir, origin, root) = origin();
    let (stat, hold) = match origin.create_unnamed(&root, 0o640, myself()) {
        Err(error) if error.errno() == Errno::OPNOTSUPP => return,
        created => created.unwrap(),
    };
    assert_eq!((stat.nlink, stat.perm), (0, 0o640));
    let file = At { id: stat.id, path: None };
    assert_eq!(origin.write(&file, 0, b"kept", false).unwrap().bytes, 4);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(origin.link(&file, &root, name("named")).unwrap().nlink, 1);
    assert_eq!(std::fs::read(dir.path().join("named")).unwrap(), b"kept");
    drop(hold);
    assert_eq!(origin.stat(&file).unwrap_err().errno(), Errno::STALE);
}

#[test]
fn names_come_go_and_move() {
    let (dir, origin, root) = origin();
    let seen = |entry: &str| dir.path().join(entry).exists();
    std::fs::write(dir.path().join("a"), "a").unwrap();
    std::fs::write(dir.path().join("b"), "b").unwrap();
    let a = root.child(&origin, "a");
    assert_eq!(origin.link(&a, &root, name("hard")).unwrap().nlink, 2);
    let kept = origin.rename((&root, name("a")), (&root, name("b")), RenameMode::NoReplace).unwrap_err();
    assert_eq!(kept.errno(), Errno::EXIST);
    origin.rename((&root, name("a")), (&root, name("b")), RenameMode::Exchange).unwrap();
    assert_eq!(std::fs::read(dir.path().join("b")).unwrap(), b"a");
    origin.rename((&root, name("b")), (&root, name("a")), RenameMode::Replace).unwrap();
    assert!(!seen("b") && std::fs::read(dir.path().join("a")).unwrap() == b"a");
    origin.unlink(&root, name("a")).unwrap();
    assert!(!seen("a") && seen("hard"));
    assert!(origin.unlink(&root, name("a")).unwrap_err().is_absence());
    origin.make(&root, name("dir"), &NewNode::Directory, 0o755, myself()).unwrap();
    std::fs::write(dir.path().join("dir/x"), "").unwrap();
    assert_eq!(origin.rmdir(&root, name("dir")).unwrap_err().errno(), Errno::NOTEMPTY);
    assert_eq!(origin.unlink(&root, name("dir")).unwrap_err().errno(), Errno::ISDIR);
    let inner = root.child(&origin, "dir");
    origin.unlink(&inner, name("x")).unwrap();
    origin.rmdir(&root, name("dir")).unwrap();
    assert!(!seen("dir"));
}

#[test]
fn links_to_links_are_links() {
    let (dir, origin, root) = origin();
    symlink("nowhere", dir.path().join("link")).unwrap();
    let link = root.child(&origin, "link");
    let stat = origin.link(&link, &root, name("second")).unwrap();
    assert_eq!((stat.kind, stat.nlink), (FileType::Symlink, 2));
    assert_eq!(std::fs::read_link(dir.path().join("second")).unwrap(), Path::new("nowhere"));
}

#[test]
fn attributes_change_as_asked() {
    let (dir, origin, root) = origin();
    std::fs::write(dir.path().join("file"), "0123456789").unwrap();
    let file = root.child(&origin, "file");
    let before_1970 = Timestamp { sec: -10, nsec: 250_000_000 };
    let change = SetAttr {
        perm: Some(0o640),
        size: Some(4),
        atime: Some(SetTime::At(Timestamp { sec: 1_000_000_000, nsec: 123_456_789 })),
        mtime: Some(SetTime::At(before_1970)),
        ..SetAttr::default()
    };
    let stat = origin.set_attr(&file, &change).unwrap();
    assert_eq!((stat.perm, stat.size, stat.mtime), (0o640, 4, before_1970));
    assert_eq!(stat.atime, Timestamp { sec: 1_000_000_000, nsec: 123_456_789 });
    let now = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
    let stat = origin.set_attr(&file, &now).unwrap();
    assert!(stat.mtime.sec > 1_700_000_000 && stat.atime.sec == 1_000_000_000);
    assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"0123");
    let wrong = SetAttr { size: Some(0), ..SetAttr::default() };
    assert_eq!(origin.set_attr(&root, &wrong).unwrap_err().errno(), Errno::ISDIR);
    let perm = SetAttr { perm: Some(0o700), ..SetAttr::default() };
    assert_eq!(origin.set_attr(&root, &perm).unwrap().perm, 0o700);
}

#[test]
fn links_have_times_but_no_mode() {
    let (dir, origin, root) = origin();
    std::fs::write(dir.path().join("file"), "").unwrap();
    symlink("file", dir.path().join("link")).unwrap();
    let link = root.child(&origin, "link");
    let time = Timestamp { sec: 5, nsec: 6 };
    let times = SetAttr { mtime: Some(SetTime::At(time)), ..SetAttr::default() };
    assert_eq!(origin.set_attr(&link, &times).unwrap().mtime, time);
    assert_ne!(dir.path().join("file").metadata().unwrap().mtime(), 5);
    let perm = SetAttr { perm: Some(0o600), ..SetAttr::default() };
    assert_eq!(origin.set_attr(&link, &perm).unwrap_err().errno(), Errno::OPNOTSUPP);
}

#[test]
fn files_are_sparse_where_they_are() {
    let (_dir, origin, root) = origin();
    origin.create(&root, name("file"), 0o600, myself()).unwrap();
    let file = root.child(&origin, "file");
    origin.write(&file, 1 << 20, &[1; 4096], false).unwrap();
    assert_eq!(origin.seek(&file, 0, Seek::Data).unwrap(), 1 << 20);
    assert_eq!(origin.seek(&file, 0, Seek::Hole).unwrap(), 0);
    assert_eq!(origin.seek(&file, 1 << 20, Seek::Hole).unwrap(), (1 << 20) + 4096);
    assert_eq!(origin.seek(&file, 2 << 20, Seek::Data).unwrap_err().errno(), Errno::NXIO);
    assert_eq!(origin.seek(&file, u64::MAX, Seek::Data).unwrap_err().errno(), Errno::NXIO);
    let range = |mode: i32, offset, length| Allocate { mode: mode as u32, offset, length };
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let grown = origin.allocate(&file, range(0, 0, 4 << 20)).unwrap();
    assert_eq!((grown.size, grown.blocks >= 8192), (4 << 20, true));
    let punched = origin.allocate(&file, range(punch, 1 << 20, 4096)).unwrap();
    assert!(punched.size == 4 << 20 && punched.blocks < grown.blocks);
    let mut buffer = [9; 4096];
    origin.read(&file, 1 << 20, &mut buffer).unwrap();
    assert_eq!(buffer, [0; 4096]);
    let unknown = origin.allocate(&file, range(0x4000_0000, 0, 1)).unwrap_err();
    assert_eq!(unknown.errno(), Errno::OPNOTSUPP);
}

#[test]
fn ranges_are_copied_within_the_origin() {
    let (dir, origin, root) = origin();
    std::fs::write(dir.path().join("from"), "0123456789").unwrap();
    std::fs::write(dir.path().join("to"), "abc").unwrap();
    let (from, to) = (root.child(&origin, "from"), root.child(&origin, "to"));
    let copied = origin.copy_range((&from, 4), (&to, 2), 100).unwrap();
    assert_eq!((copied.offset, copied.bytes, copied.stat.size), (2, 6, 8));
    assert_eq!(std::fs::read(dir.path().join("to")).unwrap(), b"ab456789");
}

#[test]
fn extended_attributes_of_files_and_directories() {
    let (_dir, origin, root) = origin();
    origin.create(&root, name("file"), 0o600, myself()).unwrap();
    let file = root.child(&origin, "file");
    let large = vec![7; 3000];
    for node in [&file, &root] {
        origin.set_xattr(node, name("user.small"), b"1", 0).unwrap();
        origin.set_xattr(node, name("user.large"), &large, libc::XATTR_CREATE as u32).unwrap();
        let again = origin.set_xattr(node, name("user.large"), b"", libc::XATTR_CREATE as u32);
        assert_eq!(again.unwrap_err().errno(), Errno::EXIST);
        assert_eq!(origin.get_xattr(node, name("user.large")).unwrap(), large);
        let names = origin.list_xattr(node).unwrap();
        let names: BTreeSet<&[u8]> = names.split(|byte| *byte == 0).collect();
        assert!(names.contains(&b"user.small"[..]) && names.contains(&b"user.large"[..]));
        origin.remove_xattr(node, name("user.small")).unwrap();
        let gone = origin.get_xattr(node, name("user.small")).unwrap_err();
        assert_eq!(gone.errno(), Errno::NODATA);
    }
}

#[test]
fn extended_attributes_of_links_and_fifos_are_their_own() {
    let (dir, origin, root) = origin();
    if !super::is_root("extended_attributes_of_links_and_fifos_are_their_own") {
        return;
    }
    std::fs::write(dir.path().join("file"), "").unwrap();
    symlink("file", dir.path().join("link")).unwrap();
    let fifo = NewNode::Node { kind: FileType::Fifo, rdev: 0 };
    origin.make(&root, name("fifo"), &fifo, 0o600, myself()).unwrap();
    for entry in ["link", "fifo"] {
        let node = root.child(&origin, entry);
        origin.set_xattr(&node, name("trusted.arcwell"), entry.as_bytes(), 0).unwrap();
        assert_eq!(origin.get_xattr(&node, name("trusted.arcwell")).unwrap(), entry.as_bytes());
        assert_eq!(origin.list_xattr(&node).unwrap(), b"trusted.arcwell\0");
        let user = origin.set_xattr(&node, name("user.x"), b"", 0).unwrap_err();
        assert_eq!(user.errno(), Errno::PERM);
    }
    let file = root.child(&origin, "file");
    assert_eq!(origin.get_xattr(&file, name("trusted.arcwell")).unwrap_err().errno(), Errno::NODATA);
}

#[test]
fn what_the_file_system_says_is_passed_on() {
    let (dir, origin, _root) = origin();
    let answer = origin.stat_fs().unwrap();
    let seen = rustix::fs::statvfs(dir.path()).unwrap();
    assert_eq!((answer.blocks, u64::from(answer.fragment)), (seen.f_blocks, seen.f_frsize));
    assert_eq!(answer.name_max, 255);
    let info = origin.info();
    assert!(info.name_max == 255 && !info.granularity.is_zero() && !info.filesystem.is_empty());
}

#[test]
fn errors_name_operation_and_file() {
    let (dir, origin, root) = origin();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let file = root.child(&origin, "file");
    let error = origin.list(&file).unwrap_err();
    let expected = format!("list {}: Not a directory", dir.path().join("file").display());
    assert_eq!(error.to_string(), expected);
    let missing = DirOrigin::open(&dir.path().join("missing"), DirOptions::default()).unwrap_err();
    assert!(matches!(missing.cause(), Cause::Os(Errno::NOENT)));
}

#[test]
fn five_thousand_files_with_sixty_four_descriptors() {
    let (dir, origin, root) = origin_with(64);
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    for n in 0..5000 {
        std::fs::write(dir.path().join(format!("{n}")), format!("content {n}")).unwrap();
    }
    let files: Vec<At> = (0..5000).map(|n| root.child(&origin, &n.to_string())).collect();
    for (n, file) in files.iter().enumerate() {
        let mut buffer = [0; 32];
        let bytes = origin.read(file, 0, &mut buffer).unwrap();
        assert_eq!(&buffer[..bytes], format!("content {n}").as_bytes());
    }
    assert!(origin.tree.table.count() <= 64);
    // Other tests of this process open files too; 5,000 more would still be seen.
    assert!(open() < 2000);
    let last = SetAttr { perm: Some(0o600), ..SetAttr::default() };
    assert_eq!(origin.set_attr(&files[0], &last).unwrap().perm, 0o600);
    assert_eq!(dir.path().join("0").metadata().unwrap().permissions().mode() & 0o777, 0o600);
}
