//! Tests of the directory origin, operation by operation, against what `std::fs` sees.

mod creating;
mod identity;
mod model;
mod mounts;
mod operations;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use arcwell_base::origin::{Caller, FileId, Origin, Place};
use tempfile::TempDir;

use super::{DirOptions, DirOrigin};

/// A place as a test knows it: a file and a path that does not change.
#[derive(Clone, Debug)]
pub(crate) struct At {
    id: FileId,
    path: Option<PathBuf>,
}

impl Place for At {
    fn id(&self) -> FileId {
        self.id
    }

    fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }
}

impl At {
    pub(crate) fn root(origin: &dyn Origin) -> At {
        At { id: origin.root().unwrap().id, path: Some(PathBuf::new()) }
    }

    pub(crate) fn child(&self, origin: &dyn Origin, name: &str) -> At {
        let stat = origin.lookup(self, OsStr::new(name)).unwrap();
        At { id: stat.id, path: self.path.as_ref().map(|path| path.join(name)) }
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn without_name(&self) -> At {
        At { id: self.id, path: None }
    }

    pub(crate) fn moved(&self, path: impl AsRef<Path>) -> At {
        At { id: self.id, path: Some(path.as_ref().to_owned()) }
    }
}

/// This process itself, as a caller.
pub(crate) fn myself() -> Caller {
    Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        umask: 0o022,
        pid: std::process::id(),
    }
}

fn origin_with(descriptors_max: usize) -> (TempDir, DirOrigin, At) {
    let dir = tempfile::tempdir().unwrap();
    let origin = DirOrigin::open(dir.path(), DirOptions { descriptors_max }).unwrap();
    let root = At::root(&origin);
    (dir, origin, root)
}

fn origin() -> (TempDir, DirOrigin, At) {
    origin_with(100)
}

/// Whether this test can take on other identities; says so when it cannot.
fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(std::env::var_os("CI").is_none(), "{test} needs root in CI");
        eprintln!("SKIPPED {test}: it creates files as other users, which only root may");
    }
    root
}
