//! Which file is meant: renames, replacements, files without a name, roots that are gone.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use arcwell_base::error::Cause;
use arcwell_base::origin::{FileId, NewNode, Origin, Place, RenameMode};
use rustix::io::Errno;

use super::{At, DirOptions, DirOrigin, myself, origin, origin_with};

#[test]
fn a_cached_directory_is_found_again_after_it_was_moved() {
    let (dir, origin, root) = origin();
    std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
    std::fs::write(dir.path().join("a/b/file"), "content").unwrap();
    let b = root.child(&origin, "a").child(&origin, "b");
    let id = origin.lookup(&b, OsStr::new("file")).unwrap().id;
    origin.rename((&root, OsStr::new("a")), (&root, OsStr::new("c")), RenameMode::Replace).unwrap();
    // The path that this place knows is wrong now; the descriptor is not.
    assert_eq!(origin.lookup(&b, OsStr::new("file")).unwrap().id, id);
    assert_eq!(origin.lookup(&b.moved("c/b"), OsStr::new("file")).unwrap().id, id);
}

/// A place whose path changes while it is asked for, as during a rename of ours.
struct Moving {
    id: FileId,
    paths: Vec<&'static str>,
    asked: AtomicUsize,
}

impl Place for Moving {
    fn id(&self) -> FileId {
        self.id
    }

    fn path(&self) -> Option<PathBuf> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        Some(PathBuf::from(self.paths[asked.min(self.paths.len() - 1)]))
    }
}

#[test]
fn a_place_that_moves_is_asked_again() {
    let (dir, origin, root) = origin();
    std::fs::write(dir.path().join("new"), "").unwrap();
    std::fs::write(dir.path().join("other"), "").unwrap();
    let id = root.child(&origin, "new").id();
    let moving = Moving { id, paths: vec!["old", "other", "new"], asked: AtomicUsize::new(0) };
    assert_eq!(origin.stat(&moving).unwrap().id, id);
    let lost = Moving { id: FileId { ino: id.ino, generation: 0 }, paths: vec!["new"], asked: 0.into() };
    assert!(matches!(origin.stat(&lost).unwrap_err().cause(), Cause::Stale));
}

#[test]
fn another_file_of_the_same_name_is_stale() {
    let (dir, origin, root) = origin_with(1);
    std::fs::write(dir.path().join("file"), "mine").unwrap();
    let file = root.child(&origin, "file");
    assert_eq!(origin.read(&file, 0, &mut [0; 4]).unwrap(), 4);
    std::fs::write(dir.path().join("new"), "theirs").unwrap();
    std::fs::rename(dir.path().join("new"), dir.path().join("file")).unwrap();
    let crowd = root.child(&origin, "file");
    origin.stat(&crowd).unwrap();
    let error = origin.read(&file, 0, &mut [0; 4]).unwrap_err();
    assert!(matches!(error.cause(), Cause::Stale) && error.errno() == Errno::STALE, "{error}");
    // The control: the file that is there now can be read.
    assert_eq!(origin.read(&crowd, 0, &mut [0; 6]).unwrap(), 6);
}

#[test]
fn a_directory_replaced_by_a_link_is_stale() {
    let (dir, origin, root) = origin_with(1);
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    std::fs::create_dir(dir.path().join("other")).unwrap();
    std::fs::write(dir.path().join("dir/file"), "").unwrap();
    std::fs::write(dir.path().join("other/file"), "").unwrap();
    let inner = root.child(&origin, "dir");
    let file = inner.child(&origin, "file");
    let other = root.child(&origin, "other");
    std::fs::rename(dir.path().join("dir"), dir.path().join("moved")).unwrap();
    std::os::unix::fs::symlink("other", dir.path().join("dir")).unwrap();
    origin.stat(&other).unwrap();
    assert!(matches!(origin.stat(&file).unwrap_err().cause(), Cause::Stale));
    assert!(matches!(origin.list(&inner).unwrap_err().cause(), Cause::Stale));
}

#[test]
fn a_reused_inode_number_is_another_file() {
    let (dir, origin, root) = origin();
    let path = dir.path().join("file");
    let mut reused = 0;
    for _ in 0..20 {
        std::fs::write(&path, "").unwrap();
        let before = root.child(&origin, "file");
        std::fs::remove_file(&path).unwrap();
        // Longer than a tick of the clock that stamps births: within one, the two would look alike.
        std::thread::sleep(origin.info().granularity * 2);
        std::fs::write(&path, "").unwrap();
        let after = root.child(&origin, "file");
        if before.id().ino == after.id().ino {
            reused += 1;
            assert_ne!(before.id(), after.id());
            assert!(matches!(origin.stat(&before).unwrap_err().cause(), Cause::Stale));
        }
        std::fs::remove_file(&path).unwrap();
    }
    if reused == 0 {
        eprintln!("SKIPPED a_reused_inode_number_is_another_file: no number was given out twice here");
    }
}

#[test]
fn identity_is_the_same_in_the_next_run() {
    let (dir, origin, root) = origin();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let before = root.child(&origin, "file").id();
    std::fs::write(dir.path().join("file"), "changed").unwrap();
    std::fs::rename(dir.path().join("file"), dir.path().join("dir/moved")).unwrap();
    drop(origin);
    let origin = DirOrigin::open(dir.path(), DirOptions::default()).unwrap();
    let root_again = At::root(&origin);
    assert_eq!(root_again.id(), root.id());
    assert_eq!(root_again.child(&origin, "dir").child(&origin, "moved").id(), before);
}

#[test]
fn files_without_a_name_live_as_long_as_they_are_held() {
    let (dir, origin, root) = origin_with(2);
    let created = origin.create(&root, OsStr::new("file"), 0o600, myself()).unwrap();
    let file = root.child(&origin, "file");
    origin.write(&file, 0, b"content", false).unwrap();
    let first = origin.hold(&file).unwrap();
    let second = origin.hold(&file).unwrap();
    origin.unlink(&root, OsStr::new("file")).unwrap();
    let nameless = file.without_name();
    for n in 0..10 {
        std::fs::write(dir.path().join(n.to_string()), "").unwrap();
        origin.read(&root.child(&origin, &n.to_string()), 0, &mut [0; 1]).unwrap();
    }
    drop(first);
    assert_eq!(origin.stat(&nameless).unwrap().nlink, 0);
    assert_eq!(origin.write(&nameless, 0, b"!", true).unwrap().offset, 7);
    let mut buffer = [0; 10];
    assert_eq!(origin.read(&nameless, 0, &mut buffer).unwrap(), 8);
    assert_eq!(&buffer[..8], b"content!");
    assert_eq!(origin.stat(&nameless).unwrap().id, created.id);
    drop(second);
    assert!(matches!(origin.stat(&nameless).unwrap_err().cause(), Cause::Stale));
}

#[test]
fn a_held_file_that_was_never_opened_can_be() {
    let (dir, origin, root) = origin();
    std::fs::write(dir.path().join("file"), "content").unwrap();
    std::fs::write(dir.path().join("other"), "new").unwrap();
    let file = root.child(&origin, "file");
    let _hold = origin.hold(&file).unwrap();
    origin.rename((&root, OsStr::new("other")), (&root, OsStr::new("file")), RenameMode::Replace).unwrap();
    let nameless = file.without_name();
    assert_eq!(origin.read(&nameless, 0, &mut [0; 10]).unwrap(), 7);
    origin.write(&nameless, 0, b"C", false).unwrap();
    assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"new");
}

#[test]
fn a_deleted_file_is_not_kept_open() {
    let (dir, origin, root) = origin();
    for n in 0..10 {
        let name = n.to_string();
        origin.create(&root, OsStr::new(&name), 0o600, myself()).unwrap();
        origin.stat(&root.child(&origin, &name)).unwrap();
    }
    assert_eq!(origin.tree.table.count(), 10);
    for n in 0..5 {
        origin.unlink(&root, OsStr::new(&n.to_string())).unwrap();
    }
    origin.rename((&root, OsStr::new("5")), (&root, OsStr::new("6")), RenameMode::Replace).unwrap();
    assert_eq!(origin.tree.table.count(), 4, "the victims of unlink and rename were let go");
    let seven = root.child(&origin, "7");
    std::fs::hard_link(dir.path().join("7"), dir.path().join("seven")).unwrap();
    origin.unlink(&root, OsStr::new("7")).unwrap();
    assert_eq!(origin.tree.table.count(), 4, "a file that has a name left stays");
    std::fs::remove_file(dir.path().join("seven")).unwrap();
    assert_eq!(origin.stat(&seven).unwrap().nlink, 0);
    assert_eq!(origin.tree.table.count(), 3, "one that others deleted goes when that is seen");
}

#[test]
fn a_root_that_is_gone_is_trouble_and_not_an_absence() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("origin");
    std::fs::create_dir_all(path.join("dir")).unwrap();
    std::fs::write(path.join("file"), "").unwrap();
    let origin = DirOrigin::open(&path, DirOptions { descriptors_max: 1 }).unwrap();
    let root = At::root(&origin);
    let dir = root.child(&origin, "dir");
    let file = root.child(&origin, "file");
    // The control: while the root lives, what is missing is absent.
    let absent = OsStr::new("absent");
    assert!(origin.lookup(&root, absent).unwrap_err().is_absence());
    assert!(origin.lookup(&dir, absent).unwrap_err().is_absence());
    std::fs::remove_dir_all(&path).unwrap();
    let name = OsStr::new("file");
    let caller = myself();
    let errors = [
        origin.lookup(&root, name).unwrap_err(),
        origin.lookup(&dir, name).unwrap_err(),
        origin.stat(&file).unwrap_err(),
        origin.root().unwrap_err(),
        origin.stat(&root).unwrap_err(),
        origin.list(&root).unwrap_err(),
        origin.list(&dir).unwrap_err(),
        origin.read(&file, 0, &mut [0]).unwrap_err(),
        origin.unlink(&root, name).unwrap_err(),
        origin.create(&root, name, 0o600, caller).unwrap_err(),
        origin.make(&root, name, &NewNode::Directory, 0o700, caller).unwrap_err(),
        origin.rename((&root, name), (&root, absent), RenameMode::Replace).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.errno(), Errno::IO, "{error}");
    }
}

#[test]
fn a_directory_that_others_removed_is_stale() {
    let (dir, origin, root) = origin();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    let inner = root.child(&origin, "dir");
    assert!(origin.list(&inner).unwrap().1.is_empty());
    std::fs::remove_dir(dir.path().join("dir")).unwrap();
    assert!(matches!(origin.lookup(&inner, OsStr::new("x")).unwrap_err().cause(), Cause::Stale));
    assert!(matches!(origin.list(&inner).unwrap_err().cause(), Cause::Stale));
    assert!(origin.lookup(&root, OsStr::new("dir")).unwrap_err().is_absence());
    // Said of an operation that began at the living root, too.
    std::fs::write(dir.path().join("file"), "").unwrap();
    let name = OsStr::new("file");
    let moved = origin.rename((&root, name), (&inner, name), RenameMode::Replace).unwrap_err();
    assert!(matches!(moved.cause(), Cause::Stale), "{moved}");
    let linked = origin.link(&root.child(&origin, "file"), &inner, name).unwrap_err();
    assert!(matches!(linked.cause(), Cause::Stale), "{linked}");
}

#[test]
fn paths_may_be_longer_than_the_kernel_takes() {
    let (dir, origin, root) = origin_with(8);
    let name = "d".repeat(200);
    let mut at = root.clone();
    let mut fd = rustix::fs::open(dir.path(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..40 {
        rustix::fs::mkdirat(&fd, &*name, rustix::fs::Mode::RWXU).unwrap();
        fd = rustix::fs::openat(&fd, &*name, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        at = at.child(&origin, &name);
    }
    assert!(at.path().unwrap().as_os_str().len() > 2 * 4096 - 200);
    origin.create(&at, OsStr::new("file"), 0o600, myself()).unwrap();
    let file = at.child(&origin, "file");
    for n in 0..20 {
        std::fs::write(dir.path().join(n.to_string()), "").unwrap();
        origin.stat(&root.child(&origin, &n.to_string())).unwrap();
    }
    assert_eq!(origin.stat(&file).unwrap().id, file.id());
    assert_eq!(origin.list(&at).unwrap().1.len(), 1);
    drop(fd);
    // `remove_dir_all` of std walks by descriptor, so the temporary directory can clean up.
}
