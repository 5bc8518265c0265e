//! `arcwell cache remove`: takes a device from a running daemon.

use std::path::PathBuf;

use crate::Failure;
use crate::locate::Daemon;

/// Take a cache device out of what is mounted; nothing but speed is lost
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The path by which it was added
    path: PathBuf,

    #[command(flatten)]
    daemon: Daemon,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        Ok(self.daemon.client()?.remove_cache(&std::path::absolute(self.path)?)?)
    }
}
