//! Other file systems on top of the origin and below it. Needs root: each test mounts something, in
//! a mount namespace of its own thread, which nobody else sees and which ends with the thread.

use std::ffi::OsStr;
use std::path::Path;

use arcwell_base::origin::{NewNode, Origin};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::{At, DirOptions, DirOrigin, is_root, myself};

/// Runs `test` in a thread that may mount; says so when it may not.
fn with_own_mounts(name: &'static str, test: impl FnOnce() + Send + 'static) {
    if !is_root(name) {
        return;
    }
    let run = move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNS) {
            eprintln!("SKIPPED {name}: no mount namespace of its own: {error}");
            return;
        }
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
        test();
    };
    std::thread::spawn(run).join().unwrap();
}

fn mount_tmpfs(on: &Path) {
    mount(Some("tmpfs"), on, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
}

#[test]
fn a_mount_over_the_origin_hides_nothing() {
    with_own_mounts("a_mount_over_the_origin_hides_nothing", || {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("dir")).unwrap();
        std::fs::write(dir.path().join("dir/file"), "below").unwrap();
        let origin = DirOrigin::open(dir.path(), DirOptions { descriptors_max: 1 }).unwrap();
        let root = At::root(&origin);
        mount_tmpfs(dir.path());
        assert!(!dir.path().join("dir").exists(), "the control: by path, the origin is hidden");

        assert_eq!(origin.root().unwrap().id, root.id());
        let names: Vec<_> = origin.list(&root).unwrap().1.into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["dir"]);
        let inner = root.child(&origin, "dir");
        let file = inner.child(&origin, "file");
        origin.stat(&root.child(&origin, "dir")).unwrap();
        let mut buffer = [0; 5];
        origin.read(&file, 0, &mut buffer).unwrap();
        assert_eq!(&buffer, b"below");
        origin.create(&root, OsStr::new("new"), 0o600, myself()).unwrap();
        origin.sync(&root, false).unwrap();
        origin.list_xattr(&root).unwrap();
        assert_eq!(origin.list(&root).unwrap().1.len(), 2);
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    });
}

#[test]
fn files_of_a_mount_below_have_numbers_of_their_own() {
    with_own_mounts("files_of_a_mount_below_have_numbers_of_their_own", || {
        let dir = tempfile::tempdir().unwrap();
        for (top, inner) in [("a", 7), ("b", 7)] {
            let mounted = dir.path().join(top);
            std::fs::create_dir(&mounted).unwrap();
            mount_tmpfs(&mounted);
            (0..inner).for_each(|n| std::fs::write(mounted.join(n.to_string()), top).unwrap());
        }
        let origin = DirOrigin::open(dir.path(), DirOptions { descriptors_max: 2 }).unwrap();
        let root = At::root(&origin);
        let mut seen = std::collections::HashSet::new();
        for top in ["a", "b"] {
            let mounted = root.child(&origin, top);
            assert!(seen.insert(mounted.id().ino));
            for entry in origin.list(&mounted).unwrap().1 {
                let file = mounted.child(&origin, entry.name.to_str().unwrap());
                assert_eq!(file.id().ino, entry.ino);
                assert!(seen.insert(entry.ino) && entry.ino > 1, "a number of two files");
                let mut buffer = [0; 9];
                assert_eq!(origin.read(&file, 0, &mut buffer).unwrap(), 1);
                assert_eq!(&buffer[..1], top.as_bytes());
            }
        }
        let name = OsStr::new("x");
        let made = origin.make(&root.child(&origin, "a"), name, &NewNode::Directory, 0o700, myself());
        assert!(seen.insert(made.unwrap().id.ino));
    });
}

#[test]
fn an_overlay_goes_on_after_a_copy_up() {
    with_own_mounts("an_overlay_goes_on_after_a_copy_up", || {
        let dir = tempfile::tempdir().unwrap();
        mount_tmpfs(dir.path());
        for part in ["lower", "upper", "work", "merged"] {
            std::fs::create_dir(dir.path().join(part)).unwrap();
        }
        std::fs::write(dir.path().join("lower/file"), "old").unwrap();
        let at = |part: &str| dir.path().join(part).display().to_string();
        let options = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
        let merged = dir.path().join("merged");
        let mounted =
            mount(Some("overlay"), &merged, Some("overlay"), MsFlags::empty(), Some(options.as_str()));
        if let Err(error) = mounted {
            eprintln!("SKIPPED an_overlay_goes_on_after_a_copy_up: no overlay here: {error}");
            return;
        }
        let origin = DirOrigin::open(&merged, DirOptions { descriptors_max: 9 }).unwrap();
        assert_eq!(origin.info().filesystem, "overlay");
        let file = At::root(&origin).child(&origin, "file");
        let mut buffer = [0; 3];
        origin.read(&file, 0, &mut buffer).unwrap();
        let written = origin.write(&file, 0, b"new", false).unwrap();
        assert_eq!(written.stat.id, file.id(), "a copy-up does not make another file of it");
        origin.read(&file, 0, &mut buffer).unwrap();
        assert_eq!(&buffer, b"new");
        assert_eq!(At::root(&origin).child(&origin, "file").id(), file.id());
    });
}
