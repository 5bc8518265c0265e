//! One instance at a time: a lock that ends with the process, however that ends.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use arcwell_base::error::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The file that is locked; it holds the process id of who did.
pub(super) const FILE: &str = "lock";

/// Held while the state directory is open.
#[derive(Debug)]
pub(super) struct Lock {
    /// The lock is the open file's: it passes to a child at a fork and ends with the last of them.
    _file: File,
}

impl Lock {
    pub(super) fn take(dir: &Path) -> Result<Lock> {
        let path = dir.join(FILE);
        let failed = |error: std::io::Error| Error::new("lock state directory", error).about(dir);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(in_use(dir, &mut file)),
            Err(errno) => return Err(failed(errno.into())),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Lock { _file: file })
    }
}

fn in_use(dir: &Path, file: &mut File) -> Error {
    let mut holder = String::new();
    let what = match file.read_to_string(&mut holder) {
        Ok(1..) => format!("in use by another instance (process {})", holder.trim()),
        _ => "in use by another instance".to_owned(),
    };
    Error::invalid("lock state directory", what).about(dir)
}
