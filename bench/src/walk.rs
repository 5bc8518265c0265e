//! Works `find`, `statx` and `list`: going through a tree, with and without asking for attributes.
//!
//! Attributes are asked for with `lstat`, as `find` and `ls` do. The standard library's `metadata` asks
//! for the birth time too (`statx`), which no listing and no look-up brings: a server that knows birth
//! times is asked for each file again, one that does not is asked once and never more. That is a work
//! of its own.

use std::path::Path;

use nix::sys::stat::{SFlag, lstat};

use crate::{Result, interrupt};

/// The kernel's own caches of names and attributes: dropped before each walk, or kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelCaches {
    /// The server is asked for everything, and has just been told to forget every file.
    Dropped,
    /// The server is asked for listings, and knows every file; the kernel answers the rest.
    Kept,
}

impl KernelCaches {
    /// Sees to it, as far as can be: dropping takes root. What was done.
    pub fn prepare(self) -> Self {
        match self {
            // 2: names and inodes, not pages.
            KernelCaches::Dropped if std::fs::write("/proc/sys/vm/drop_caches", "2").is_ok() => self,
            _ => KernelCaches::Kept,
        }
    }
}

/// Whether attributes are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Of every entry, as `find` with a test on size or time.
    Attributes,
    /// And of its birth time, as a program in Rust.
    BirthTimes,
    /// Names and kinds only, as a plain `find`.
    Names,
}

/// Walks what lies below `root`; how many entries that were.
///
/// # Errors
/// When a directory or an entry cannot be read; an interruption.
pub fn walk(root: &Path, depth: Depth) -> Result<u64> {
    let mut count = 0;
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        interrupt::check()?;
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            count += 1;
            let is_directory = match depth {
                Depth::Names => entry.file_type()?.is_dir(),
                Depth::Attributes => is_directory(&entry.path())?,
                Depth::BirthTimes => std::fs::symlink_metadata(entry.path())?.is_dir(),
            };
            if is_directory {
                waiting.push(entry.path());
            }
        }
    }
    Ok(count)
}

fn is_directory(path: &Path) -> Result<bool> {
    let mode = SFlag::from_bits_truncate(lstat(path)?.st_mode);
    Ok(mode & SFlag::S_IFMT == SFlag::S_IFDIR)
}
