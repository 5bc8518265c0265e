//! Creating in the name of a caller: owner, group, umask, setgid directories, default ACLs.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Command, Stdio};

use arcwell_base::origin::{Caller, FileType, NewNode, Origin, SetAttr};

use super::{is_root, myself, origin};

const STRANGER: Caller = Caller { uid: 54_321, gid: 12_345, umask: 0o027, pid: 0 };

#[test]
fn the_umask_is_the_callers() {
    let (dir, origin, root) = origin();
    for (umask, mode) in [(0o000, 0o666), (0o022, 0o644), (0o077, 0o600), (0o222, 0o444)] {
        let name = format!("{umask:o}");
        let caller = Caller { umask, ..myself() };
        let stat = origin.create(&root, OsStr::new(&name), 0o666, caller).unwrap();
        assert_eq!(stat.perm, mode);
        assert_eq!(dir.path().join(&name).metadata().unwrap().mode() & 0o7777, u32::from(mode));
        // Even when the mode forbids it, the creator's descriptor writes.
        let file = root.child(&origin, &name);
        assert_eq!(origin.write(&file, 0, b"x", false).unwrap().bytes, 1);
    }
}

#[test]
fn what_is_created_belongs_to_the_caller() {
    if !is_root("what_is_created_belongs_to_the_caller") {
        return;
    }
    let (dir, origin, root) = origin();
    // A directory that the caller himself could neither search nor write: the front has judged.
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let file = origin.create(&root, OsStr::new("file"), 0o666, STRANGER).unwrap();
    let made = [
        origin.make(&root, OsStr::new("dir"), &NewNode::Directory, 0o777, STRANGER).unwrap(),
        origin.make(&root, OsStr::new("link"), &NewNode::Symlink("x".into()), 0o777, STRANGER).unwrap(),
        origin
            .make(
                &root,
                OsStr::new("device"),
                &NewNode::Node { kind: FileType::CharDevice, rdev: 0x0103 },
                0o666,
                STRANGER,
            )
            .unwrap(),
    ];
    for stat in made.iter().chain([&file]) {
        assert_eq!((stat.uid, stat.gid), (STRANGER.uid, STRANGER.gid));
    }
    assert_eq!((file.perm, made[0].perm, made[2].rdev), (0o640, 0o750, 0x0103));
    // And what comes next is ours again.
    let mine = origin.create(&root, OsStr::new("mine"), 0o666, myself()).unwrap();
    assert_eq!(mine.uid, 0);
}

#[test]
fn setgid_directories_hand_down_their_group() {
    if !is_root("setgid_directories_hand_down_their_group") {
        return;
    }
    let (dir, origin, root) = origin();
    let shared = dir.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    chown(&shared, Some(0), Some(777)).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o2777)).unwrap();
    let place = root.child(&origin, "shared");
    let caller = Caller { umask: 0, ..STRANGER };
    let file = origin.create(&place, OsStr::new("file"), 0o666, caller).unwrap();
    assert_eq!((file.uid, file.gid, file.perm), (caller.uid, 777, 0o666));
    let inner = origin.make(&place, OsStr::new("dir"), &NewNode::Directory, 0o755, caller).unwrap();
    assert_eq!((inner.gid, inner.perm), (777, 0o2755));
    // Who is not in the group may not make a program that acts for it ...
    let program = origin.create(&place, OsStr::new("program"), 0o2755, caller).unwrap();
    assert_eq!((program.gid, program.perm), (777, 0o755));
    // ... and who is, may: by his own group here.
    let member = Caller { gid: 777, ..caller };
    let program = origin.create(&place, OsStr::new("member"), 0o2755, member).unwrap();
    assert_eq!((program.gid, program.perm), (777, 0o2755));
}

#[test]
fn a_member_by_supplementary_group_may_make_setgid_programs() {
    const TEST: &str = "a_member_by_supplementary_group_may_make_setgid_programs";
    if !is_root(TEST) {
        return;
    }
    let (dir, origin, root) = origin();
    chown(dir.path(), Some(0), Some(777)).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o2777)).unwrap();
    // `cat` answers once it runs, and by then it has its groups.
    let spawned = Command::new("setpriv")
        .args(["--groups=4,777", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut member) = spawned else {
        eprintln!("SKIPPED {TEST}: no setpriv here");
        return;
    };
    member.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    member.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    for (name, pid, perm) in [("member", member.id(), 0o2755), ("unknown", 0, 0o755)] {
        let caller = Caller { umask: 0, pid, ..STRANGER };
        let stat = origin.create(&root, OsStr::new(name), 0o2755, caller).unwrap();
        assert_eq!((stat.gid, stat.perm), (777, perm), "{name}");
    }
    drop(member.stdin.take());
    member.wait().unwrap();
}

#[test]
fn default_acls_take_the_place_of_the_umask() {
    let (dir, origin, root) = origin();
    // Version 2; user::rwx, group::rwx, other::r-x, as setfacl -d writes it.
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, perm) in [(0x01u16, 7u16), (0x04, 7), (0x20, 5)] {
        acl.extend(tag.to_le_bytes());
        acl.extend(perm.to_le_bytes());
        acl.extend(u32::MAX.to_le_bytes());
    }
    match origin.set_xattr(&root, OsStr::new("system.posix_acl_default"), &acl, 0) {
        Ok(_) => {}
        Err(error) => {
            eprintln!("SKIPPED default_acls_take_the_place_of_the_umask: {error}");
            return;
        }
    }
    let caller = Caller { umask: 0o077, ..myself() };
    let file = origin.create(&root, OsStr::new("file"), 0o666, caller).unwrap();
    assert_eq!(file.perm, 0o664);
    let inner = origin.make(&root, OsStr::new("dir"), &NewNode::Directory, 0o777, caller).unwrap();
    assert_eq!(inner.perm, 0o775);
    assert_eq!(dir.path().join("file").metadata().unwrap().mode() & 0o777, 0o664);
}

#[test]
fn a_new_owner_gets_no_setuid_program() {
    if !is_root("a_new_owner_gets_no_setuid_program") {
        return;
    }
    let (dir, origin, root) = origin();
    std::fs::write(dir.path().join("program"), "").unwrap();
    let program = root.child(&origin, "program");
    let change = |change: SetAttr| origin.set_attr(&program, &change).unwrap();
    assert_eq!(change(SetAttr { perm: Some(0o6755), ..SetAttr::default() }).perm, 0o6755);
    let owned = change(SetAttr { uid: Some(99), gid: Some(98), ..SetAttr::default() });
    assert_eq!((owned.uid, owned.gid, owned.perm), (99, 98, 0o755));
    // A mode that is asked for in the same call has the last word.
    let both = change(SetAttr { uid: Some(97), perm: Some(0o4755), ..SetAttr::default() });
    assert_eq!((both.uid, both.perm), (97, 0o4755));
    let unchanged = change(SetAttr { uid: Some(u32::MAX), ..SetAttr::default() });
    assert_eq!(unchanged.uid, 97);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("program", &link).unwrap();
    let owner = SetAttr { uid: Some(5), ..SetAttr::default() };
    assert_eq!(origin.set_attr(&root.child(&origin, "link"), &owner).unwrap().uid, 5);
    assert_eq!(dir.path().join("program").metadata().unwrap().uid(), 97);
}
