//! `arcwell umount`: ends a mount, and clears away what a daemon that died left behind.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arcwell::{Error, fuse};
use arcwell_front::control::{Client, socket};

use crate::{Failure, preflight, say};

/// How long a daemon may take to end after its mount is gone.
const END_LIMIT: Duration = Duration::from_secs(15);

/// Unmount, and wait for the daemon to end
///
/// A mount whose daemon died is detached.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where it is mounted
    mountpoint: PathBuf,

    /// Unmount even while files are open: programs that use them get errors
    #[arg(long, short)]
    force: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mountpoint = preflight::absolute(&self.mountpoint)?;
        let directory = socket::directory();
        let socket = directory.join(socket::name(&mountpoint));
        if socket::is_alive(&socket) {
            Client::new(&socket)?.unmount(self.force)?;
            wait_until_ended(&socket, &mountpoint)?;
            say(&format_args!("unmounted {}", mountpoint.display()))?;
            return Ok(());
        }
        if fuse::detach_stale(&mountpoint)? {
            let place = mountpoint.display();
            say(&format_args!("detached {place}, which a daemon that died had left mounted"))?;
            return Ok(());
        }
        let why = if fuse::mounted_at(&mountpoint)?.is_some_and(|entry| entry.is_arcwell()) {
            "is mounted by a daemon of another user or another runtime directory"
        } else {
            "is not mounted by arcwell"
        };
        Err(Error::invalid("umount", why).about(mountpoint).into())
    }
}

/// The socket goes last: when it is gone, so is everything else.
fn wait_until_ended(socket: &Path, mountpoint: &Path) -> Result<(), Failure> {
    let deadline = Instant::now() + END_LIMIT;
    while socket.exists() && socket::is_alive(socket) {
        if Instant::now() > deadline {
            let why = format!("is unmounted, but its daemon still runs after {END_LIMIT:?}; see its log");
            return Err(Error::invalid("umount", why).about(mountpoint).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
