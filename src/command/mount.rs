//! `arcwell mount`: shows a directory through the cache.

use std::path::PathBuf;
use std::time::Duration;

use arcwell::size::{ByteSize, parse_duration};
use arcwell::{CacheMode, Coherence, Error, ListKind, MachineMemory, Profile, Properties, Result, StateDir};
use arcwell_front::control::socket;

use super::set::Assignment;
use crate::assembly::{Instance, Plan};
use crate::cache_device::CacheDevice;
use crate::cache_size::{self, Asked, BadSize, Chosen};
use crate::daemon::{self, Voice};
use crate::signals::{Awaited, Signals};
use crate::{Failure, announcement, preflight, say};

/// The tunable that `--arc-max` sets.
const SIZE_MAX: &str = "arc.size_max";

const EXAMPLES: &str = "\
Examples:
  arcwell mount /net/archive ~/archive              a slow directory, cached in half of the free memory
  arcwell mount --over --arc-max 4GiB /data         in front of itself: programs keep their paths
  arcwell mount --simulate hdd --foreground . /mnt  as if it lay on a hard disk
  arcwell mount --cache /fast/l2:200GiB /slow /mnt  with a file on flash for what memory has no room for
  arcwell stat 1                                    what the cache does, every second";

/// Show the directory ORIGIN at MOUNTPOINT through the cache
///
/// Goes on in the background until arcwell umount, SIGTERM or SIGINT.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The slow directory; it stays as it is
    origin: PathBuf,

    /// An empty directory to show it at
    #[arg(required_unless_present = "over")]
    mountpoint: Option<PathBuf>,

    /// Show ORIGIN at its own place, in front of itself
    #[arg(long, conflicts_with = "mountpoint")]
    over: bool,

    /// Most memory the cache takes; auto is half of what is available
    #[arg(long, value_name = "SIZE|auto", default_value = "auto")]
    arc_max: Asked,

    /// A file or block device for what memory has no room for; PATH:SIZE makes a file. May be given several times
    #[arg(long = "cache", value_name = "PATH[:SIZE]")]
    caches: Vec<CacheDevice>,

    /// What is kept in memory: all, metadata or none
    #[arg(long, value_name = "WHAT", default_value = "all")]
    primarycache: CacheMode,

    /// What of it is kept on cache devices: all, metadata or none
    #[arg(long, value_name = "WHAT", default_value = "all")]
    secondarycache: CacheMode,

    /// Bytes a block for files not seen before: a power of two, 512 to 16M
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = record_size)]
    recordsize: u32,

    /// How changes made elsewhere are noticed: exclusive (there are none), notify or timeout
    #[arg(long, value_name = "MODE", default_value = "timeout")]
    coherence: Coherence,

    /// How long attributes are believed before the origin is asked again
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    attr_timeout: Duration,

    /// Make the origin as slow as: hdd, nfs or s3
    #[arg(long, value_name = "WHAT")]
    simulate: Option<Profile>,

    /// Where to remember things from one run to the next
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Refuse all writing
    #[arg(long)]
    read_only: bool,

    /// Let other users in
    #[arg(long)]
    allow_other: bool,

    /// Stay in the foreground and log to standard error
    #[arg(long, short)]
    foreground: bool,

    /// Kind of lists: single, multilist or pages
    #[arg(long, value_name = "KIND", default_value = "pages", value_parser = list_kind)]
    lists: ListKind,

    /// Set a tunable at start; see arcwell get
    #[arg(short = 'o', value_name = "NAME=VALUE")]
    settings: Vec<Assignment>,

    #[arg(long, hide = true)]
    detached: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> std::result::Result<(), Failure> {
        crate::allocator::settle();
        if self.foreground {
            let signals = Signals::block()?;
            let Some(instance) = self.begin(&signals, true)? else { return Ok(()) };
            return Ok(until_end(instance, &signals)?);
        }
        if !self.detached {
            say(&daemon::launch()?)?;
            return Ok(());
        }
        let begun = Signals::block().and_then(|signals| Ok((self.begin(&signals, false)?, signals)));
        match begun {
            Ok((Some(instance), signals)) => Ok(until_end(instance, &signals)?),
            Ok((None, _)) => Ok(()),
            Err(error) => Err(daemon::failed(&error).into()),
        }
    }

    /// Mounts, and says so; `None` when whoever asked for it has gone away meanwhile. The signals are
    /// blocked by now, before any thread was started.
    fn begin(self, _blocked: &Signals, in_foreground: bool) -> Result<Option<Instance>> {
        let mut notes = Vec::new();
        let plan = self.plan(&mut notes)?;
        let state = StateDir::open(&plan.state, &plan.pool_name(), None)?;
        let voice = match in_foreground {
            true => Voice::Terminal,
            false => Voice::Parent { log: plan.state.join("arcwell.log") },
        };
        voice.settle()?;
        // Nothing of this process shall keep another file system busy.
        let _ = std::env::set_current_dir("/");
        let instance = Instance::start(&plan, state)?;
        let (origin, mountpoint) = (plan.places.origin.display(), plan.places.mountpoint.display());
        tracing::info!(%origin, %mountpoint, cache = %ByteSize(plan.size.bytes), "mounted");
        notes.extend(instance.plane().refused_devices().iter().map(ToString::to_string));
        if let Err(error) = voice.ready(announcement::text(&plan, &notes)) {
            tracing::warn!(%error, "nobody waits for this mount any more");
            instance.stop()?;
            return Ok(None);
        }
        Ok(Some(instance))
    }

    /// The size of the cache. The tunable of that name is another way to say it, with the same bounds.
    fn size(&self) -> Result<Chosen> {
        let memory = MachineMemory::read()?;
        match self.settings.iter().rev().find(|set| set.name == SIZE_MAX) {
            None => cache_size::choose(self.arc_max, "--arc-max", &memory),
            Some(Assignment { name, value }) => {
                let asked: Asked =
                    value.parse().map_err(|bad: BadSize| Error::invalid("-o", bad.to_string()))?;
                cache_size::choose(asked, name, &memory)
            }
        }
    }

    /// Checks everything that can be checked before anything is touched.
    fn plan(self, notes: &mut Vec<String>) -> Result<Plan> {
        let size = self.size()?;
        preflight::open_files()?;
        preflight::fuse_device()?;
        if self.allow_other {
            preflight::allow_other()?;
        }
        let places =
            preflight::places(&self.origin, self.mountpoint.as_deref(), &mut |note| notes.push(note))?;
        let state = match &self.state {
            Some(directory) => std::path::absolute(directory)
                .map_err(|e| Error::new("find the state directory", e).about(directory.clone()))?,
            None => StateDir::default_path(&socket::label(&places.origin))?,
        };
        preflight::state(&state, &places)?;
        let caches = self.caches.into_iter().map(|device| device.absolute()).collect::<Result<Vec<_>>>()?;
        for device in &caches {
            preflight::cache_device(&device.path, &places)?;
            device.check()?;
        }
        let properties = Properties {
            primarycache: self.primarycache,
            secondarycache: self.secondarycache,
            recordsize: self.recordsize,
            coherence: self.coherence,
            attr_timeout: self.attr_timeout,
            readonly: self.read_only,
            ..Properties::default()
        };
        Ok(Plan {
            places,
            size,
            lists: self.lists,
            properties,
            simulate: self.simulate,
            state,
            allow_other: self.allow_other,
            caches,
            settings: self.settings.into_iter().filter(|set| set.name != SIZE_MAX).collect(),
        })
    }
}

/// Serves until the mount is gone or the end is asked for.
fn until_end(instance: Instance, signals: &Signals) -> Result<()> {
    if instance.wait_for_end(signals)? == Awaited::Signal {
        tracing::info!("a signal asks for the end");
    }
    instance.stop()
}

fn record_size(text: &str) -> std::result::Result<u32, Failure> {
    let ByteSize(bytes) = text.parse()?;
    let recordsize = u32::try_from(bytes).ok();
    let sound =
        recordsize.filter(|&recordsize| Properties { recordsize, ..Properties::default() }.check().is_ok());
    sound.ok_or_else(|| format!("'{text}' is not a power of two between 512 and 16M").into())
}

pub(super) fn list_kind(text: &str) -> std::result::Result<ListKind, Failure> {
    let names = || ListKind::ALL.map(ListKind::name).join(", ");
    let kind = ListKind::ALL.into_iter().find(|kind| kind.name() == text);
    kind.ok_or_else(|| format!("'{text}' is not one of {}", names()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_sizes_are_powers_of_two_in_range() {
        assert_eq!(record_size("128K").unwrap(), 128 << 10);
        assert_eq!(record_size("16M").unwrap(), 16 << 20);
        for bad in ["100", "3000", "32M", "8T", "0"] {
            let line = record_size(bad).unwrap_err().to_string();
            assert_eq!(line, format!("'{bad}' is not a power of two between 512 and 16M"));
        }
        assert!(record_size("x").unwrap_err().to_string().contains("is not a size such as"));
    }
}
