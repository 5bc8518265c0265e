//! The servers that take turns: which there are, and one that runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arcwell::{Arcwell, Mounting};
use crate::bare;
use crate::cpu::CpuClock;
use crate::daemon::{Daemon, Ending};
use crate::read::Opening;
use crate::scratch::Scratch;
use crate::tree::Shape;
use crate::zfs::{self, Zfs};
use crate::{Failure, Result};

/// A server to measure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The real program with its default record size.
    Arcwell,
    /// The same with records as long as the reads.
    #[value(name = "arcwell-8k")]
    #[serde(rename = "arcwell-8k")]
    ArcwellEight,
    /// The floor.
    Bare,
    /// Debian's zfs-fuse.
    ZfsFuse,
}

impl Kind {
    /// Its name in all reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Arcwell => "arcwell",
            Kind::ArcwellEight => "arcwell-8k",
            Kind::Bare => "bare",
            Kind::ZfsFuse => "zfs-fuse",
        }
    }

    /// Whether it is arcwell.
    pub fn is_ours(self) -> bool {
        matches!(self, Kind::Arcwell | Kind::ArcwellEight)
    }

    /// How its files are opened for random reads: each server's own cache shall answer.
    pub fn opening(self) -> Opening {
        match self {
            // It lets the kernel's page cache answer, whatever it is told.
            Kind::ZfsFuse => Opening::Direct,
            Kind::Arcwell | Kind::ArcwellEight | Kind::Bare => Opening::Plain,
        }
    }

    /// Why it cannot be measured here, if it cannot.
    pub fn obstacle(self) -> Option<String> {
        if self == Kind::ZfsFuse { zfs::obstacle() } else { None }
    }
}

/// What servers are made from.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// Where everything lies.
    pub scratch: &'a Scratch,
    /// What is shown.
    pub shape: &'a Shape,
    /// The directory that arcwell shows.
    pub origin: &'a Path,
    /// The arcwell to measure; needed by arcwell only.
    pub program: Option<&'a Path>,
}

#[derive(Debug)]
enum Process {
    Arcwell(Arcwell),
    Bare(Daemon),
    Zfs(Zfs),
}

/// A server that runs and shows the tree.
#[derive(Debug)]
pub struct Server {
    /// Which it is.
    pub kind: Kind,
    /// Where its tree is to be seen.
    pub root: PathBuf,
    process: Process,
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    /// With its name and what it said when it does not serve.
    pub fn start(kind: Kind, ground: &Ground<'_>) -> Result<Self> {
        let started = match kind {
            Kind::Arcwell => start_arcwell(kind, None, ground),
            Kind::ArcwellEight => start_arcwell(kind, Some("8K"), ground),
            Kind::Bare => start_bare(ground),
            Kind::ZfsFuse => Zfs::start(ground.scratch, ground.shape)
                .map(|zfs| (zfs.mountpoint().to_owned(), Process::Zfs(zfs))),
        };
        let (root, process) =
            started.map_err(|failure| Failure::from(format!("{} does not serve: {failure}", kind.name())))?;
        Ok(Server { kind, root, process })
    }

    /// The CPU clock of its process.
    ///
    /// # Errors
    /// When it has ended.
    pub fn clock(&self) -> Result<CpuClock> {
        match &self.process {
            Process::Arcwell(arcwell) => arcwell.daemon.clock(),
            Process::Bare(daemon) => daemon.clock(),
            Process::Zfs(zfs) => zfs.daemon.clock(),
        }
    }

    /// Operations that have reached what lies behind a cache, where that is known.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn origin_operations(&self) -> Result<Option<u64>> {
        match &self.process {
            Process::Arcwell(arcwell) => arcwell.origin_operations().map(Some),
            Process::Bare(_) | Process::Zfs(_) => Ok(None),
        }
    }
}

fn start_arcwell(kind: Kind, recordsize: Option<&str>, ground: &Ground<'_>) -> Result<(PathBuf, Process)> {
    let program = ground.program.ok_or("no program")?;
    let how = Mounting {
        name: kind.name().to_owned(),
        // All fits: data, and metadata many times over.
        arc_max: 2 * ground.shape.data_bytes() + (1 << 30),
        recordsize: recordsize.map(str::to_owned),
        descriptors: None,
    };
    let arcwell = Arcwell::mount(program, ground.origin, ground.scratch, &how)?;
    Ok((arcwell.mountpoint.clone(), Process::Arcwell(arcwell)))
}

fn start_bare(ground: &Ground<'_>) -> Result<(PathBuf, Process)> {
    let mountpoint = ground.scratch.directory("bare-mount")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(bare::Options::arguments(mountpoint.clone(), ground.shape));
    let log = ground.scratch.path().join("bare.log");
    let mut daemon = Daemon::start(command, &mountpoint, &log, Ending::Unmount)?;
    daemon.wait_until_mounted()?;
    Ok((mountpoint, Process::Bare(daemon)))
}
