//! Works `find` and `list`: going through a tree, with and without asking for attributes.

use std::path::Path;

use crate::{Result, interrupt};

/// The kernel's own caches of names and attributes: dropped before each walk, or kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelCaches {
    /// The server is asked for everything.
    Dropped,
    /// The kernel answers what it knows; only listings are asked for.
    Kept,
}

impl KernelCaches {
    /// Drops them, which takes root.
    pub fn drop_all() -> Self {
        // 2: names and inodes, not pages. What is busy with them is let go first.
        match std::fs::write("/proc/sys/vm/drop_caches", "2") {
            Ok(()) => KernelCaches::Dropped,
            Err(_) => KernelCaches::Kept,
        }
    }
}

/// Whether attributes are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Of every entry, as `find` with a test on size or time.
    Attributes,
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
                Depth::Attributes => std::fs::symlink_metadata(entry.path())?.is_dir(),
            };
            if is_directory {
                waiting.push(entry.path());
            }
        }
    }
    Ok(count)
}
