//! A server that a bench has started: its process, its mount, and their certain end.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cpu::CpuClock;
use crate::{Result, interrupt, mountpoint};

/// How long a server may take to begin.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to end before it is killed.
const END_PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(10);

/// How a server is asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// By SIGTERM: it takes off its mount.
    Terminate,
    /// By taking off its mount: it ends then.
    Unmount,
}

/// A running server. Dropping it ends it and takes off its mount.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    mountpoint: PathBuf,
    log: PathBuf,
    ending: Ending,
}

impl Daemon {
    /// Starts `command` in a process group of its own, so that a Ctrl-C is ours to handle. What it
    /// says goes to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, mountpoint: &Path, log: &Path, ending: Ending) -> Result<Self> {
        let file = File::create(log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = interrupt::spawn(&mut command)
            .map_err(|error| format!("start {}: {error}", command.get_program().display()))?;
        Ok(Daemon { child, mountpoint: mountpoint.to_owned(), log: log.to_owned(), ending })
    }

    /// Waits until `is_ready`, while the process lives.
    ///
    /// # Errors
    /// With what it said, when it ends instead or takes too long.
    pub fn wait_until(&mut self, is_ready: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + START_PATIENCE;
        while !is_ready() {
            interrupt::check()?;
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("it ended ({status}): {}", self.said()).into());
            }
            if Instant::now() > end {
                return Err(format!("it was not ready in time: {}", self.said()).into());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Waits until its mount is there.
    ///
    /// # Errors
    /// As [`Daemon::wait_until`].
    pub fn wait_until_mounted(&mut self) -> Result<()> {
        let mountpoint = self.mountpoint.clone();
        self.wait_until(|| mountpoint::is_mounted(&mountpoint))
    }

    /// The last lines of its log, in one.
    pub fn said(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its CPU clock.
    ///
    /// # Errors
    /// When it has ended.
    pub fn clock(&self) -> Result<CpuClock> {
        CpuClock::of(self.pid())
    }

    /// A size from `/proc/PID/status`, such as `VmRSS`, in bytes.
    ///
    /// # Errors
    /// When it has ended.
    pub fn memory(&self, row: &str) -> Result<u64> {
        memory_of(self.pid(), row)
    }

    /// How many descriptors it holds.
    ///
    /// # Errors
    /// When it has ended.
    pub fn descriptors(&self) -> Result<u64> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.pid()))?.count() as u64)
    }

    fn ended_in_time(&mut self) -> Option<ExitStatus> {
        let end = Instant::now() + END_PATIENCE;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(PAUSE),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
        None
    }
}

/// A size from `/proc/PID/status` of a process, such as `VmRSS`, in bytes.
///
/// # Errors
/// When it has ended.
pub fn memory_of(pid: u32, row: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let value = status.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(':'));
    let kilobytes = value.and_then(|value| value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kilobytes.ok_or_else(|| format!("no {row} of process {pid}"))? << 10)
}

impl Drop for Daemon {
    fn drop(&mut self) {
        match self.ending {
            Ending::Terminate => {
                if let (Ok(None), Ok(pid)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
                }
            }
            Ending::Unmount => mountpoint::take_off(&self.mountpoint),
        }
        if self.ended_in_time().is_none() {
            eprintln!("warning: a server did not end and is killed: {}", self.said());
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        mountpoint::take_off(&self.mountpoint);
    }
}
