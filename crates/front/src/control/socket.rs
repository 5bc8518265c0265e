//! Where control sockets lie, what they are called, and which of them are alive.
//!
//! One directory holds the sockets of one user's daemons, and only that user may enter it. A socket
//! is named after the mountpoint, readable, with a hash behind it that tells apart what reads the
//! same. Nothing else is recorded: which daemon is meant follows from a path alone, and a socket that
//! nobody listens on is the trace of a daemon that died, removed by whoever meets it.

use std::env;
use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use arcwell_base::{Cause, Error, Result};
use rustix::io::Errno;

/// Names the directory of sockets, before all other rules: for tests, and for daemons that shall
/// not meet.
pub const DIRECTORY_VARIABLE: &str = "ARCWELL_RUNTIME_DIR";

/// Characters of a mountpoint that a socket's name shows; the kernel allows 107 bytes for the whole path.
const READABLE_MAX: usize = 32;

/// The directory of this user's sockets.
///
/// `$ARCWELL_RUNTIME_DIR`; `/run/arcwell` for root, whatever a session's environment says, so that a
/// service and a shell meet; `$XDG_RUNTIME_DIR/arcwell`; else one in the temporary directory.
pub fn directory() -> PathBuf {
    let user = rustix::process::geteuid();
    if let Some(named) = absolute_variable(DIRECTORY_VARIABLE) {
        named
    } else if user.is_root() {
        PathBuf::from("/run/arcwell")
    } else if let Some(runtime) = absolute_variable("XDG_RUNTIME_DIR") {
        runtime.join("arcwell")
    } else {
        env::temp_dir().join(format!("arcwell-{}", user.as_raw()))
    }
}

fn absolute_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The name of the socket of the daemon that is mounted at `mountpoint`.
pub fn name(mountpoint: &Path) -> String {
    format!("{}.sock", label(mountpoint))
}

/// A file name that stands for a path: the end of it, readable, and a hash of the whole.
pub fn label(path: &Path) -> String {
    // Two spellings of one path (a slash at the end, `/./`) are one name.
    let path: PathBuf = path.components().collect();
    let readable: String = path
        .to_string_lossy()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
        .collect();
    // The end of a path says more than its start; a name that begins with a dot would be hidden.
    let readable = &readable[readable.len().saturating_sub(READABLE_MAX)..];
    let readable = readable.trim_matches(['-', '.']);
    let hash = xxhash_rust::xxh3::xxh3_64(path.as_os_str().as_bytes());
    format!("{readable}-{hash:016x}")
}

/// A path inside a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inside {
    /// The socket of the daemon that serves it.
    pub socket: PathBuf,
    /// The path, absolute, as the daemon knows it.
    pub path: PathBuf,
}

/// Finds the daemon whose mount contains `path`, by names alone where possible: neither the mount
/// nor the daemon is touched, so that a daemon that hangs can still be asked.
///
/// # Errors
/// When no daemon of this user serves the path.
pub fn containing(directory: &Path, path: &Path) -> Result<Inside> {
    let lexical = std::path::absolute(path).map_err(|e| Error::new("find the mount of", e).about(path))?;
    inside(directory, lexical.clone())
        .or_else(|| inside(directory, fs::canonicalize(&lexical).ok()?))
        .ok_or_else(|| Error::invalid("path", "is not in a mount of a running arcwell").about(path))
}

fn inside(directory: &Path, path: PathBuf) -> Option<Inside> {
    let sockets = path.ancestors().map(|ancestor| directory.join(name(ancestor)));
    let socket = sockets.into_iter().find(|socket| is_alive(socket))?;
    Some(Inside { socket, path })
}

/// The sockets of all living daemons of this user, by name. Those of dead ones are removed.
///
/// # Errors
/// When the directory is there and cannot be read.
pub fn alive(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::new("list", error).about(directory)),
    };
    let mut sockets: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock") && is_alive(path))
        .collect();
    sockets.sort();
    Ok(sockets)
}

/// Whether somebody listens on a socket. One that nobody listens on is removed.
pub fn is_alive(socket: &Path) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            // Refused, not absent: its daemon died. Losing the race against another finder is harmless.
            let _ = fs::remove_file(socket);
            false
        }
        Err(_) => false,
    }
}

/// A socket that is listened on; its file goes when this is dropped.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
    inode: u64,
}

impl Bound {
    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Only our own: after a lazy unmount another daemon may have taken the name.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens on the socket of `mountpoint`, for its owner only.
///
/// # Errors
/// When another daemon listens there, or the directory cannot be had or belongs to somebody else.
pub fn listen(directory: &Path, mountpoint: &Path) -> Result<(Bound, UnixListener)> {
    prepare(directory)?;
    let path = directory.join(name(mountpoint));
    let failed = |cause: Cause| Error::new("listen on", cause).about(path.as_path());
    if is_alive(&path) {
        return Err(failed(Errno::ADDRINUSE.into()));
    }
    // Nobody can connect between the two steps: nobody else may enter the directory.
    let listener = UnixListener::bind(&path).map_err(|e| failed(e.into()))?;
    fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(|e| failed(e.into()))?;
    let inode = fs::symlink_metadata(&path).map_err(|e| failed(e.into()))?.ino();
    Ok((Bound { path, inode }, listener))
}

/// Makes the directory of sockets, or checks that the one that is there is ours alone: in a
/// temporary directory somebody else may have made it first.
fn prepare(directory: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Error::new("make the runtime directory", e).about(directory);
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let found = fs::symlink_metadata(directory).map_err(failed)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(Error::invalid("runtime directory", "belongs to somebody else").about(directory));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_and_distinct() {
        let home = name(Path::new("/mnt/photos"));
        assert!(home.starts_with("mnt-photos-") && home.ends_with(".sock"), "{home}");
        assert_ne!(name(Path::new("/mnt/a b")), name(Path::new("/mnt/a-b")));
        assert!(name(Path::new(&"/long".repeat(100))).len() < 64);
        assert!(name(Path::new("/\u{e4}\u{e4}")).is_ascii());
        assert!(label(Path::new("/mnt/me/.cache")).starts_with("mnt-me-.cache-"));
        assert!(label(Path::new("/.cache")).starts_with("cache-"));
    }

    #[test]
    fn a_socket_is_found_from_any_path_inside() {
        let directory = tempfile::tempdir().unwrap();
        let (bound, listener) = listen(directory.path(), Path::new("/mnt/slow")).unwrap();
        assert_eq!(bound.path().metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(directory.path().metadata().unwrap().mode() & 0o777, 0o700);
        for inside in ["/mnt/slow", "/mnt/slow/", "/mnt/slow/a/b", "/mnt/slow/./a"] {
            assert_eq!(
                containing(directory.path(), Path::new(inside)).unwrap().socket,
                bound.path(),
                "{inside}"
            );
        }
        assert!(containing(directory.path(), Path::new("/mnt/slower")).is_err());
        drop(listener);
    }

    #[test]
    fn the_socket_of_a_dead_daemon_is_removed_and_its_name_is_free() {
        let directory = tempfile::tempdir().unwrap();
        let mountpoint = Path::new("/mnt/slow");
        let dead = directory.path().join(name(mountpoint));
        drop(UnixListener::bind(&dead).unwrap());
        assert!(dead.exists());
        assert_eq!(alive(directory.path()).unwrap(), Vec::<PathBuf>::new());
        assert!(!dead.exists());
        drop(UnixListener::bind(&dead).unwrap());
        let (bound, _listener) = listen(directory.path(), mountpoint).unwrap();
        assert_eq!(alive(directory.path()).unwrap(), [bound.path()]);
        let second = listen(directory.path(), mountpoint).unwrap_err();
        assert_eq!(second.errno(), Errno::ADDRINUSE);
        drop(bound);
        assert!(!dead.exists());
    }
}
