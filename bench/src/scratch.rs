//! A directory for everything that a run leaves on disk; removed at the end.

use std::path::{Path, PathBuf};

use crate::Result;

/// Names the directory in which scratch directories are made, before all other rules.
pub const PLACE_VARIABLE: &str = "ARCWELL_BENCH_DIR";

/// A scratch directory.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// Makes one, in `$ARCWELL_BENCH_DIR` or the directory for temporary files.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Self> {
        let place = std::env::var_os(PLACE_VARIABLE).map_or_else(std::env::temp_dir, PathBuf::from);
        let directory =
            tempfile::Builder::new().prefix("arcwell-bench-").tempdir_in(place.canonicalize()?)?;
        Ok(Scratch(directory))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Makes a directory in it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        std::fs::create_dir(&path)?;
        Ok(path)
    }
}
