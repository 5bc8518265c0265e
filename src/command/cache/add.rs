//! `arcwell cache add`: one more device for a running daemon.

use arcwell_front::control::AddRequest;

use crate::Failure;
use crate::cache_device::CacheDevice;
use crate::locate::Daemon;

/// Add a file or block device to what is mounted
///
/// It is kept until it is removed or the daemon ends: a later mount has to name it again, and finds it warm.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A file or block device; PATH:SIZE makes a file
    #[arg(value_name = "PATH[:SIZE]")]
    device: CacheDevice,

    /// Overwrite what is there, whatever it is
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    daemon: Daemon,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let path = std::path::absolute(&self.device.path)?;
        let size = self.device.size.map(|size| size.0);
        let request = AddRequest { path: path.as_path().into(), size, force: self.force };
        Ok(self.daemon.client()?.add_cache(&request)?)
    }
}
