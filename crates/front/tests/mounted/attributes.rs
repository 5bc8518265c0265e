//! Attributes: modes, owners, times, space, extended attributes, ACLs.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arcwell_pool::Coherence;
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use super::place::{Place, outcome, same};

fn set_times(path: &Path, access: (i64, i64), modification: (i64, i64)) {
    let time = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: time(access), last_modification: time(modification) };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn times(path: &Path) -> [i64; 4] {
    let stat = fs::symlink_metadata(path).unwrap();
    [stat.atime(), stat.atime_nsec(), stat.mtime(), stat.mtime_nsec()]
}

#[test]
fn times_are_exact() {
    same(|dir| {
        let path = dir.join("f");
        fs::write(&path, "").unwrap();
        let mut seen = Vec::new();
        for (access, modification) in [
            ((1, 999_999_999), (1_700_000_000, 1)),
            ((-1, 500_000_000), (-86_400, 1)),
            ((-1, 0), (0, 0)),
            ((1 << 32, 123), ((1 << 31) + 1, 456_789_012)),
        ] {
            set_times(&path, access, modification);
            seen.push(times(&path));
        }
        std::os::unix::fs::symlink("f", dir.join("link")).unwrap();
        set_times(&dir.join("link"), (5, 6), (7, 8));
        seen.push(times(&dir.join("link")));
        seen
    });
}

#[test]
fn a_time_may_be_now_or_left_alone() {
    same(|dir| {
        const NOW: i64 = (1 << 30) - 1;
        const OMIT: i64 = (1 << 30) - 2;
        let path = dir.join("f");
        fs::write(&path, "").unwrap();
        set_times(&path, (10, 11), (12, 13));
        set_times(&path, (0, OMIT), (0, NOW));
        let [atime, atime_nsec, mtime, _] = times(&path);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + Duration::new(99, 98))).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        (atime, atime_nsec, mtime > 1_000_000_000, modified)
    });
}

#[test]
fn a_write_changes_the_times_and_a_read_does_not_change_the_contents() {
    let Some(place) = Place::new() else { return };
    let path = place.path("f");
    fs::write(&path, "x").unwrap();
    set_times(&path, (10, 0), (10, 0));
    fs::write(&path, "yy").unwrap();
    let stat = fs::metadata(&path).unwrap();
    assert!(stat.modified().unwrap() > SystemTime::now() - Duration::from_secs(3600));
    assert_eq!(stat.len(), 2);
}

#[test]
fn modes_and_owners_are_kept() {
    same(|dir| {
        let path = dir.join("f");
        fs::write(&path, "").unwrap();
        let mode = |bits| {
            fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
            fs::metadata(&path).unwrap().mode()
        };
        let modes = [mode(0o600), mode(0o6755), mode(0o1777), mode(0)];
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        // Changing the owner clears setuid, as everywhere.
        let owned = outcome(chown(&path, Some(1234), None));
        let stat = fs::metadata(&path).unwrap();
        (modes, owned, stat.uid(), stat.gid(), stat.mode())
    });
}

#[test]
fn a_directory_hands_down_its_group() {
    same(|dir| {
        let parent = dir.join("d");
        fs::create_dir(&parent).unwrap();
        chown(&parent, None, Some(4321)).unwrap();
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o2775)).unwrap();
        fs::write(parent.join("f"), "").unwrap();
        rustix::fs::mkdir(parent.join("e"), Mode::from_raw_mode(0o777)).unwrap();
        let seen = |name| fs::metadata(parent.join(name)).map(|stat| (stat.gid(), stat.mode())).unwrap();
        (seen("f"), seen("e"))
    });
}

#[test]
fn the_root_and_the_space_are_the_origins() {
    let Some(place) = Place::new() else { return };
    let (seen, real) = (fs::metadata(place.path("")).unwrap(), fs::metadata(place.origin("")).unwrap());
    assert_eq!((seen.ino(), seen.mode(), seen.uid()), (real.ino(), real.mode(), real.uid()));
    fs::create_dir(place.path("d")).unwrap();
    assert_eq!(fs::metadata(place.path("d/..")).unwrap().ino(), real.ino());
    let space = |path: &Path| rustix::fs::statvfs(path).unwrap();
    let (seen, real) = (space(&place.path("")), space(&place.origin("")));
    assert_eq!(
        (seen.f_blocks, seen.f_namemax, seen.f_frsize),
        (real.f_blocks, real.f_namemax, real.f_frsize)
    );
}

#[test]
fn whoever_asks_for_the_time_of_birth_gets_the_rest() {
    let Some(place) = Place::new() else { return };
    fs::write(place.path("f"), "four").unwrap();
    let seen = fs::metadata(place.path("f")).unwrap();
    assert!(seen.created().is_err());
    assert_eq!(seen.len(), 4);
}

#[test]
fn extended_attributes_are_kept() {
    same(|dir| {
        let path = dir.join("f");
        fs::write(&path, "").unwrap();
        let set = |value: &[u8], flags| rustix::fs::setxattr(&path, "user.a", value, flags);
        let get = |room: usize| {
            let mut buffer = vec![0u8; room];
            rustix::fs::getxattr(&path, "user.a", &mut buffer[..]).map(|length| (length, buffer))
        };
        let list = || {
            let mut buffer = vec![0u8; 1000];
            let length = rustix::fs::listxattr(&path, &mut buffer[..]).unwrap();
            let names = buffer[..length].split(|byte| *byte == 0).map(<[u8]>::to_vec);
            let mut names: Vec<_> = names.filter(|name| name.starts_with(b"user.")).collect();
            names.sort();
            names
        };
        (
            (get(10), set(b"x", XattrFlags::REPLACE)),
            (set(b"value", XattrFlags::CREATE), set(b"other", XattrFlags::CREATE)),
            (get(10), get(5), get(3), get(0)),
            (set(b"", XattrFlags::empty()), get(10), list()),
            (rustix::fs::removexattr(&path, "user.a"), rustix::fs::removexattr(&path, "user.a"), list()),
        )
    });
}

/// `user::rw-, user:1234:rwx, group::r--, mask::rwx, other::---`.
fn acl() -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in
        [(1u16, 6u16, u32::MAX), (2, 7, 1234), (4, 4, u32::MAX), (0x10, 7, u32::MAX), (0x20, 0, u32::MAX)]
    {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(perm.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn an_acl_changes_the_mode_and_is_handed_down() {
    same(|dir| {
        let (path, parent) = (dir.join("f"), dir.join("d"));
        fs::write(&path, "").unwrap();
        fs::create_dir(&parent).unwrap();
        let before = fs::metadata(&path).unwrap().mode();
        let access = rustix::fs::setxattr(&path, "system.posix_acl_access", &acl(), XattrFlags::empty());
        if access == Err(Errno::OPNOTSUPP) {
            return None;
        }
        let default = rustix::fs::setxattr(&parent, "system.posix_acl_default", &acl(), XattrFlags::empty());
        fs::write(parent.join("child"), "").unwrap();
        let mut buffer = vec![0u8; 100];
        let length = rustix::fs::getxattr(parent.join("child"), "system.posix_acl_access", &mut buffer[..]);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode();
        Some((before, access, default, mode(&path), mode(&parent.join("child")), length, buffer))
    });
}

#[test]
fn a_read_only_mount_refuses_changes() {
    let Some(place) = Place::with(Coherence::Exclusive, |options| options.read_only = true) else { return };
    fs::write(place.origin("f"), "text").unwrap();
    assert_eq!(fs::read_to_string(place.path("f")).unwrap(), "text");
    for result in
        [fs::write(place.path("f"), ""), fs::create_dir(place.path("d")), fs::remove_file(place.path("f"))]
    {
        assert_eq!(outcome(result), Err(Some(Errno::ROFS.raw_os_error())));
    }
}

#[test]
fn a_stranger_who_changes_a_file_takes_its_setgid_away() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can ask as somebody else");
        return;
    }
    let Some(place) = Place::new() else { return };
    let root = place.path("");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    let by = |uid, gid, mode, script: &str| {
        fs::write(root.join("f"), "text").unwrap();
        fs::set_permissions(root.join("f"), fs::Permissions::from_mode(mode)).unwrap();
        let mut who = Command::new("sh");
        let done = who.args(["-c", script]).current_dir(&root).uid(uid).gid(gid).status();
        assert!(done.unwrap().success(), "{script}");
        fs::metadata(root.join("f")).unwrap().mode() & 0o7777
    };
    for script in ["echo more >> f", "echo > f", "truncate -s 1 f", "fallocate -l 9999 f"] {
        for mode in [0o2666, 0o6666] {
            assert_eq!(by(1234, 1234, mode, script), 0o666, "{script}, {mode:o}");
            assert_eq!(by(0, 0, mode, script), mode, "{script}, {mode:o}, root");
        }
        assert_eq!(by(1234, 0, 0o2666, script), 0o2666, "{script}, one of the group");
    }
}
