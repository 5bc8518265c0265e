//! The log: to standard error, which for a daemon is a file in its state directory.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use arcwell::{Error, Result};
use tracing_subscriber::EnvFilter;

/// Sets what is logged, in the syntax of `RUST_LOG`.
const VARIABLE: &str = "ARCWELL_LOG";

/// Starts logging to standard error.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    // Only the second call of a process fails, and it is of no consequence.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init();
}

/// Opens a daemon's log for appending.
///
/// # Errors
/// When the file cannot be made.
pub(crate) fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options.open(path).map_err(|e| Error::new("open the log", e).about(path))
}
