//! What is mounted where, according to `/proc/self/mountinfo`, and how to get rid of it.
//!
//! Nothing here touches the mounted file system itself unless it says so: a mount whose daemon died
//! answers every question with `ENOTCONN`, and one whose daemon hangs does not answer at all.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use arcwell_base::{Error, Result};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

/// The type under which our mounts are listed.
pub(crate) const TYPE: &str = "fuse.arcwell";
/// How long a mount may take to say whether it is alive.
const PATIENCE: Duration = Duration::from_secs(5);
/// Stale mounts that are taken off one mountpoint at once.
const STALE_MAX: usize = 16;

/// One line of `mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountEntry {
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// `major:minor` of its device number.
    pub device: String,
    /// Type of the file system, with FUSE's subtype (`fuse.arcwell`).
    pub filesystem: String,
    /// What was mounted.
    pub source: OsString,
}

impl MountEntry {
    /// Whether it is one of ours.
    pub fn is_arcwell(&self) -> bool {
        self.filesystem == TYPE
    }
}

/// What is mounted at `path`, topmost when several are. Does not touch the mounted file system, so it
/// answers even when that is dead or hangs.
///
/// # Errors
/// When `/proc/self/mountinfo` cannot be read.
pub fn mounted_at(path: &Path) -> Result<Option<MountEntry>> {
    let path = resolve(path);
    Ok(mounts()?.into_iter().rev().find(|entry| entry.mountpoint == path))
}

/// Everything that is mounted, in order of mounting.
///
/// # Errors
/// When `/proc/self/mountinfo` cannot be read.
pub fn mounts() -> Result<Vec<MountEntry>> {
    let file = Path::new("/proc/self/mountinfo");
    let text = std::fs::read(file).map_err(|error| Error::new("read", error).about(file))?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// Takes off what a daemon that died has left at `mountpoint`. `true` when there was something.
///
/// # Errors
/// When it is there but cannot be taken off.
pub fn detach_stale(mountpoint: &Path) -> Result<bool> {
    let mut found = false;
    for _ in 0..STALE_MAX {
        match mounted_at(mountpoint)? {
            Some(entry) if entry.is_arcwell() && is_dead(&entry.mountpoint) => {
                detach(&entry.mountpoint)?;
                found = true;
            }
            _ => break,
        }
    }
    Ok(found)
}

/// Whether the file system mounted at `mountpoint` has lost its daemon. Asks it, on another thread: a
/// daemon that hangs is not dead. Asks for its space: attributes the kernel may still know.
fn is_dead(mountpoint: &Path) -> bool {
    let (sender, receiver) = mpsc::channel();
    let path = mountpoint.to_owned();
    let asker = std::thread::Builder::new().name("arcwell-is-dead".into()).spawn(move || {
        // The receiver may have lost its patience.
        let _ = sender.send(rustix::fs::statfs(&path).err());
    });
    match asker {
        Ok(asker) => match receiver.recv_timeout(PATIENCE) {
            Ok(answer) => {
                // It has said its last word, so this does not wait.
                let _ = asker.join();
                answer == Some(Errno::NOTCONN)
            }
            // The asker cannot be joined: it sits in the kernel until the daemon answers.
            Err(_) => false,
        },
        Err(_) => false,
    }
}

/// Takes the topmost mount off `mountpoint` even when it is in use.
pub(crate) fn detach(mountpoint: &Path) -> Result<()> {
    match unmount(mountpoint, UnmountFlags::DETACH) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => fusermount(&["-u", "-z", "--"], mountpoint),
        Err(errno) => Err(Error::new("unmount", errno).about(mountpoint)),
    }
}

/// Takes the topmost mount off `mountpoint`; `EBUSY` when it is in use.
pub(crate) fn take_off(mountpoint: &Path) -> Result<()> {
    match unmount(mountpoint, UnmountFlags::empty()) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => fusermount(&["-u", "--"], mountpoint),
        Err(errno) => Err(Error::new("unmount", errno).about(mountpoint)),
    }
}

/// Lets the setuid program of libfuse do what only root may.
fn fusermount(arguments: &[&str], mountpoint: &Path) -> Result<()> {
    let output = Command::new("fusermount3")
        .args(arguments)
        .arg(mountpoint)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::new("run fusermount3 (package fuse3)", error))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("busy") {
        return Err(Error::new("unmount", Errno::BUSY).about(mountpoint));
    }
    Err(Error::invalid("unmount", text.trim().to_owned()).about(mountpoint))
}

/// An absolute path without links, found without asking the file system that may be mounted there.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    const LINKS_MAX: usize = 40;
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for _ in 0..LINKS_MAX {
        let Some(parent) = path.parent() else { break };
        let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
        let Some(name) = path.file_name() else { break };
        path = parent.join(name);
        match rustix::fs::readlink(&path, Vec::new()) {
            Ok(target) => path = parent.join(OsString::from_vec(target.into_bytes())),
            Err(_) => break,
        }
    }
    path
}

fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut words = line.split(|byte| *byte == b' ');
    let device = String::from_utf8(words.nth(2)?.to_vec()).ok()?;
    let mountpoint = PathBuf::from(unescape(words.nth(1)?));
    // Optional fields end with a lone dash.
    words.find(|word| *word == b"-")?;
    let filesystem = String::from_utf8(words.next()?.to_vec()).ok()?;
    let source = unescape(words.next()?);
    Some(MountEntry { mountpoint, device, filesystem, source })
}

/// Blanks, tabs, line ends and backslashes are written as three octal digits.
fn unescape(word: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match octal {
            Some(digits) if *first == b'\\' => {
                plain.push(digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8) + (digit - b'0')));
                rest = &after[3..];
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(plain)
}

/// Whether `name` can stand in a list of mount options as it is.
pub(crate) fn escape_option(name: &str) -> String {
    name.replace('\\', "\\\\").replace(',', "\\,")
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let line =
            br"36 35 0:98 /root /mnt/a\040b\134c rw,noatime master:1 shared:2 - fuse.arcwell /data\011x rw";
        let entry = parse(line).unwrap();
        assert_eq!(entry.mountpoint.as_os_str().as_bytes(), b"/mnt/a b\\c");
        assert_eq!(entry.device, "0:98");
        assert!(entry.is_arcwell());
        assert_eq!(entry.source, "/data\tx");
    }

    #[test]
    fn a_line_without_optional_fields_is_taken_apart() {
        let entry = parse(b"21 1 0:19 / /proc rw - proc proc rw").unwrap();
        assert_eq!((entry.filesystem.as_str(), entry.mountpoint.as_path()), ("proc", Path::new("/proc")));
        assert!(parse(b"").is_none());
    }

    #[test]
    fn proc_is_mounted_and_nothing_else_is_said_to_be() {
        assert_eq!(
            mounted_at(Path::new("/proc")).unwrap().map(|entry| entry.filesystem),
            Some("proc".into())
        );
        assert_eq!(mounted_at(Path::new("/proc/self/nothing")).unwrap(), None);
        assert!(!detach_stale(Path::new("/proc")).unwrap());
    }

    #[test]
    fn links_on_the_way_are_followed() {
        let place = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc", place.path().join("link")).unwrap();
        assert_eq!(resolve(&place.path().join("link")), Path::new("/proc"));
    }
}
