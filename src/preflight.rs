//! What is looked at before anything is touched: each mistake is refused with one line, and nothing
//! half mounted is left behind.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use arcwell::{Error, Result, fuse};
use rustix::io::Errno;

/// The kernel's door for file systems like ours.
const FUSE_DEVICE: &str = "/dev/fuse";
/// Where the system says what users may do with it.
const FUSE_CONFIGURATION: &str = "/etc/fuse.conf";

/// With fewer open files not even the control socket can be served.
const FILES_MIN: u64 = 64;

/// Where to mount what: absolute, without links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// The directory that holds the truth.
    pub(crate) origin: PathBuf,
    /// Where programs shall see it; the origin itself with `--over`.
    pub(crate) mountpoint: PathBuf,
}

/// Checks the two directories. Without a mountpoint, the origin is mounted over itself.
///
/// A mount that a dead daemon left at the mountpoint is detached first: `note` is told so.
///
/// # Errors
/// One line that says what is wrong and what would be right.
pub(crate) fn places(
    origin: &Path,
    mountpoint: Option<&Path>,
    note: &mut dyn FnMut(String),
) -> Result<Places> {
    let wanted = absolute(mountpoint.unwrap_or(origin))?;
    if fuse::detach_stale(&wanted)? {
        note(format!("detached {}, which a daemon that died had left mounted", wanted.display()));
    }
    let origin = directory("origin", origin)?;
    let Some(mountpoint) = mountpoint else {
        refuse_mounted(&origin)?;
        return Ok(Places { mountpoint: origin.clone(), origin });
    };
    let mountpoint = directory("mountpoint", mountpoint)?;
    let refuse = |why: &str| Err(Error::invalid("mountpoint", why).about(mountpoint.clone()));
    refuse_mounted(&mountpoint)?;
    if mountpoint == origin {
        return refuse("is the origin itself; to mount it on itself, use --over");
    }
    if mountpoint.starts_with(&origin) {
        return refuse("lies inside the origin: it would show itself; mount elsewhere, or use --over");
    }
    if origin.starts_with(&mountpoint) {
        return refuse("contains the origin, which it would hide; mount elsewhere, or use --over");
    }
    let mut entries = fs::read_dir(&mountpoint).map_err(|e| Error::new("list", e).about(&*mountpoint))?;
    if entries.next().is_some() {
        return refuse("is not empty: what is in it would be hidden");
    }
    Ok(Places { origin, mountpoint })
}

/// A path with its last component as it stands, and all before it without links: a name for a
/// mountpoint that may be found without touching what is mounted there.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    let failed = |e| Error::new("find", e).about(path);
    let whole: PathBuf = std::path::absolute(path).map_err(failed)?.components().collect();
    match fs::canonicalize(&whole) {
        Ok(resolved) => Ok(resolved),
        // A dead mount cannot be looked at, but its parent can.
        Err(_) => match (whole.parent().map(fs::canonicalize), whole.file_name()) {
            (Some(Ok(parent)), Some(name)) => Ok(parent.join(name)),
            _ => Ok(whole),
        },
    }
}

fn directory(role: &'static str, path: &Path) -> Result<PathBuf> {
    let failed = |e: std::io::Error| Error::new(role, e).about(path);
    let resolved = fs::canonicalize(path).map_err(failed)?;
    if !fs::metadata(&resolved).map_err(failed)?.is_dir() {
        return Err(Error::new(role, Errno::NOTDIR).about(path));
    }
    Ok(resolved)
}

/// Checks that the mount does not cover the state directory: it would be reached through the very
/// daemon that it belongs to, which then waits for itself.
///
/// # Errors
/// One line that says so.
pub(crate) fn state(directory: &Path, places: &Places) -> Result<()> {
    match resolved(directory).starts_with(&places.mountpoint) {
        false => Ok(()),
        true => {
            Err(Error::invalid("state directory", "the mount would cover it; name another").about(directory))
        }
    }
}

/// Checks that a cache device lies neither below the mount, for the same reason, nor in the origin, which it is to
/// relieve.
///
/// # Errors
/// One line that says so.
pub(crate) fn cache_device(path: &Path, places: &Places) -> Result<()> {
    let whole = std::path::absolute(path).map_err(|e| Error::new("find the cache device", e).about(path))?;
    let lies_in = |directory: &Path| resolved(&whole).starts_with(directory);
    match lies_in(&places.mountpoint) || lies_in(&places.origin) {
        false => Ok(()),
        true => Err(Error::invalid("--cache", "it lies in what is to be cached; name another").about(path)),
    }
}

/// A path without links, as far as it exists: what does not exist yet has none in it.
fn resolved(path: &Path) -> PathBuf {
    let above = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match above {
        Some((above, whole)) => whole.join(path.strip_prefix(above).unwrap_or(path)),
        None => path.to_owned(),
    }
}

/// Checks that this process may open enough files.
///
/// # Errors
/// One line that says how many there have to be.
pub(crate) fn open_files() -> Result<()> {
    match arcwell::raise_descriptor_limit() {
        0..FILES_MIN => {
            let why = format!("the limit is below {FILES_MIN}; some thousands are better (ulimit -n)");
            Err(Error::invalid("open files", why))
        }
        _ => Ok(()),
    }
}

fn refuse_mounted(mountpoint: &Path) -> Result<()> {
    // Another file system is what `--over` is for: a disk, an NFS directory.
    if fuse::mounted_at(mountpoint)?.is_some_and(|entry| entry.is_arcwell()) {
        let why = "is mounted by arcwell already; see arcwell status, or end it with arcwell umount";
        return Err(Error::invalid("mountpoint", why).about(mountpoint));
    }
    Ok(())
}

/// Checks that the kernel's FUSE device is there and may be opened.
///
/// # Errors
/// One line that says what to do.
pub(crate) fn fuse_device() -> Result<()> {
    device(Path::new(FUSE_DEVICE))
}

fn device(path: &Path) -> Result<()> {
    let why = match File::options().read(true).write(true).open(path) {
        Ok(_) => return Ok(()),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound) => {
            "is missing: load the kernel module (modprobe fuse), or give the container the device"
        }
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied) => {
            "may not be opened: ask for access to it (it is usually open to all)"
        }
        Err(e) => return Err(Error::new("open", e).about(path)),
    };
    Err(Error::invalid("FUSE device", why).about(path))
}

/// Checks that other users may be let in.
///
/// # Errors
/// The line that has to be added to the configuration.
pub(crate) fn allow_other() -> Result<()> {
    let configuration = fs::read_to_string(FUSE_CONFIGURATION).unwrap_or_default();
    match rustix::process::geteuid().is_root() || allows_other(&configuration) {
        true => Ok(()),
        false => Err(Error::invalid(
            "--allow-other",
            format!("only root may, unless {FUSE_CONFIGURATION} has the line user_allow_other; add it"),
        )),
    }
}

fn allows_other(configuration: &str) -> bool {
    configuration.lines().any(|line| line.trim() == "user_allow_other")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(origin: &Path, mountpoint: Option<&Path>) -> String {
        let mut notes = Vec::new();
        let error = places(origin, mountpoint, &mut |note| notes.push(note)).unwrap_err();
        assert_eq!(notes, Vec::<String>::new());
        error.to_string()
    }

    #[test]
    fn each_mistake_has_its_line() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        for name in ["origin/inside", "empty", "full/x"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        fs::write(path("file"), "").unwrap();
        let (origin, empty) = (path("origin"), path("empty"));
        for (origin, mountpoint, words) in [
            (&path("missing"), Some(&empty), "missing: No such file or directory"),
            (&path("missing"), None, "missing: No such file or directory"),
            (&path("file"), Some(&empty), "file: Not a directory"),
            (&origin, Some(&path("missing")), "missing: No such file or directory"),
            (&origin, Some(&path("file")), "file: Not a directory"),
            (&origin, Some(&path("full")), "full: is not empty"),
            (&origin, Some(&origin), "is the origin itself; to mount it on itself, use --over"),
            (&origin, Some(&path("origin/inside")), "lies inside the origin"),
            (&path("origin/inside"), Some(&origin), "contains the origin"),
        ] {
            let line = refused(origin, mountpoint.map(PathBuf::as_path));
            assert!(line.contains(words) && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn sound_places_are_absolute() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        fs::create_dir(root.join("origin")).unwrap();
        fs::create_dir(root.join("mnt")).unwrap();
        std::os::unix::fs::symlink(root.join("origin"), root.join("link")).unwrap();
        let found = places(&root.join("link"), Some(&root.join("./mnt/")), &mut |_| ()).unwrap();
        assert_eq!(found, Places { origin: root.join("origin"), mountpoint: root.join("mnt") });
        let over = places(&root.join("link"), None, &mut |_| ()).unwrap();
        assert_eq!(over.mountpoint, root.join("origin"));
    }

    #[test]
    fn a_state_that_the_mount_would_cover_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        fs::create_dir(root.join("mnt")).unwrap();
        std::os::unix::fs::symlink(root.join("mnt"), root.join("link")).unwrap();
        let places = Places { origin: root.join("mnt"), mountpoint: root.join("mnt") };
        for covered in ["mnt", "mnt/state", "mnt/a/b", "link/state"] {
            let line = state(&root.join(covered), &places).unwrap_err().to_string();
            assert!(line.ends_with("the mount would cover it; name another"), "{line}");
        }
        for beside in ["", "mnt2", "state/mnt"] {
            state(&root.join(beside), &places).unwrap();
        }
    }

    #[test]
    fn a_missing_device_says_what_to_do() {
        let line = device(Path::new("/nowhere/fuse")).unwrap_err().to_string();
        assert!(line.starts_with("FUSE device /nowhere/fuse: is missing: load"), "{line}");
    }

    #[test]
    fn only_a_whole_line_allows_others() {
        assert!(allows_other("# x\nmount_max = 9\n  user_allow_other\n"));
        assert!(!allows_other("#user_allow_other\nuser_allow_other_not\n"));
        assert!(!allows_other(""));
    }
}
