//! zfs-fuse, Debian's package: a pool on a file, measured beside arcwell where it is installed.
//!
//! It is given what helps it: no access times, no checks of access by attributes that expire (the
//! kernel may believe names and attributes for an hour), and files that were written just before.
//! Its reads shall be served by its own ARC, as arcwell's are, so its files are opened with `O_DIRECT`:
//! otherwise the kernel's page cache answers, even with `--disable-page-cache`, and the server does
//! nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Result;
use crate::daemon::{Daemon, Ending};
use crate::scratch::Scratch;
use crate::tree::Shape;

/// How often the pool is asked to go.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(300);
/// `-m`, in MiB.
const CACHE_MEGABYTES: u64 = 2048;

/// Why it cannot be measured here, if it cannot.
pub fn obstacle() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("it needs root".into());
    }
    let is_there = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    };
    if let Some(missing) = ["zfs-fuse", "zpool", "zfs"].into_iter().find(|program| !is_there(program)) {
        return Some(format!("no {missing} on the PATH (Debian: zfs-fuse)"));
    }
    let runs = std::fs::read_dir("/proc").into_iter().flatten().flatten().any(|process| {
        std::fs::read_to_string(process.path().join("comm")).is_ok_and(|name| name.trim() == "zfs-fuse")
    });
    // One socket for all of a machine: a second one would disturb the first.
    runs.then(|| "another zfs-fuse runs on this machine".into())
}

/// A running zfs-fuse with one pool.
#[derive(Debug)]
pub struct Zfs {
    pool: Pool,
    /// Its process.
    pub daemon: Daemon,
}

impl Zfs {
    /// Starts it, makes a pool and fills it.
    ///
    /// # Errors
    /// With what it said when something does not work.
    pub fn start(scratch: &Scratch, shape: &Shape) -> Result<Self> {
        let mountpoint = scratch.directory("zfs-mount")?;
        let vdev = scratch.path().join("zfs-vdev");
        std::fs::File::create(&vdev)?.set_len(shape.data_bytes() + (2 << 30))?;
        let mut command = Command::new("zfs-fuse");
        command.args(["--no-daemon", "--no-kstat-mount", "-a", "3600", "-e", "3600"]);
        command.arg("-m").arg(CACHE_MEGABYTES.to_string());
        let log = scratch.path().join("zfs.log");
        let mut daemon = Daemon::start(command, &mountpoint, &log, Ending::Terminate)?;
        daemon.wait_until(|| run(Command::new("zpool").arg("list")).is_ok())?;
        let pool = Pool { name: format!("arcwellbench{}", std::process::id()), mountpoint };
        let mut create = Command::new("zpool");
        // Not remembered for the next start: the file is gone by then.
        create
            .args(["create", "-o", "cachefile=none", "-m"])
            .arg(&pool.mountpoint)
            .arg(&pool.name)
            .arg(&vdev);
        run(&mut create)?;
        run(Command::new("zfs").args(["set", "atime=off", &pool.name]))?;
        let zfs = Zfs { pool, daemon };
        shape.make(zfs.mountpoint())?;
        Ok(zfs)
    }

    /// Where its pool is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.pool.mountpoint
    }
}

/// A pool; destroyed when dropped, while its daemon still lives.
#[derive(Debug)]
struct Pool {
    name: String,
    mountpoint: PathBuf,
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Closed files are let go a little later.
        for attempt in 1..=ATTEMPTS {
            match run(Command::new("zpool").args(["destroy", "-f", &self.name])) {
                Ok(()) => return,
                Err(failure) if attempt == ATTEMPTS => {
                    eprintln!("warning: the pool {} ends with its daemon: {failure}", self.name);
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}", command.get_program().display(), said.trim()).into())
}
