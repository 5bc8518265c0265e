//! What a mount is made of, wired together: origin, pool, dataset, control socket, FUSE.
//!
//! The only file that knows how the rooms of the workspace fit. [`Instance`] is what serves; it is
//! taken apart in the opposite order, every thread joined, within [`STOP_LIMIT`] even if the origin
//! never answers again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use arcwell::fuse::{MountOptions, Mounted, Unmounted};
use arcwell::origin::Origin;
use arcwell::table::TunableRow;
use arcwell::{
    ArcTunables, CacheConfig, Counted, Dataset, DirOptions, DirOrigin, Error, ListKind, OriginStats, Pool,
    PoolConfig, Profile, Properties, Result, Simulated, StateDir, SystemClock,
};
use arcwell_front::control::{ControlPlane, Server, socket};

use crate::cache_device::{CacheDevice, RefusedDevice};
use crate::cache_size::Chosen;
use crate::command::set::Assignment;
use crate::plane::{Plane, Served};
use crate::preflight::Places;
use crate::signals::{self, Awaited, Bell, Ear, Signals};

/// How long taking apart may last before the process ends regardless: longer than the parts' own
/// patience, which leaves no thread behind.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// What to mount, and how.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The two directories.
    pub(crate) places: Places,
    /// The size of the cache, and why.
    pub(crate) size: Chosen,
    /// The kind of lists.
    pub(crate) lists: ListKind,
    /// The dataset's properties.
    pub(crate) properties: Properties,
    /// What to make the origin as slow as.
    pub(crate) simulate: Option<Profile>,
    /// Where to remember things from one run to the next.
    pub(crate) state: PathBuf,
    /// Flash behind memory.
    pub(crate) caches: Vec<CacheDevice>,
    /// Whether other users are let in.
    pub(crate) allow_other: bool,
    /// Tunables to set before anything is served.
    pub(crate) settings: Vec<Assignment>,
}

impl Plan {
    /// What the pool is called: by its state directory it is told from others.
    pub(crate) fn pool_name(&self) -> String {
        socket::label(&self.places.origin)
    }
}

/// A mount that serves.
pub(crate) struct Instance {
    pool: Arc<Pool>,
    plane: Arc<Plane>,
    server: Server,
    mounted: Arc<Mounted>,
    watcher: JoinHandle<()>,
    ear: Ear,
}

impl Instance {
    /// Builds everything and mounts last, so that nothing is half mounted when something fails.
    ///
    /// # Errors
    /// Whatever part could not be had.
    pub(crate) fn start(plan: &Plan, state: StateDir) -> Result<Instance> {
        let stats = Arc::new(OriginStats::default());
        let origin = open_origin(plan, Arc::clone(&stats))?;
        let pool = Pool::new(PoolConfig {
            id: state.id().0,
            arc: cache_config(plan)?,
            identities: Arc::new(state),
            clock: Arc::new(SystemClock::default()),
        });
        let instance = Self::serve(&pool, origin, stats, plan);
        if instance.is_err() {
            pool.stop();
        }
        instance
    }

    fn serve(
        pool: &Arc<Pool>,
        origin: Arc<dyn Origin>,
        stats: Arc<OriginStats>,
        plan: &Plan,
    ) -> Result<Instance> {
        for Assignment { name, value } in
            plan.settings.iter().filter(|set| row_of_config(&set.name).is_none())
        {
            pool.set_tunable(name, value).map_err(|bad| Error::invalid("-o", bad.to_string()))?;
        }
        // Before there is anything that could change: what they hold is as old as what is remembered of files. One
        // that cannot be had keeps nobody from the files.
        let add = |device: &CacheDevice| pool.add_cache_device(Arc::new(device.open()?), false);
        let refused: Vec<RefusedDevice> = plan
            .caches
            .iter()
            .filter_map(|device| {
                Some(RefusedDevice { path: device.path.clone(), why: add(device).err()?.to_string() })
            })
            .collect();
        refused.iter().for_each(|device| tracing::warn!("{device}"));
        let served = Served {
            dataset: pool.add_dataset(&plan.pool_name(), origin, plan.properties.clone())?,
            mountpoint: plan.places.mountpoint.clone(),
            stats,
        };
        let dataset = Arc::clone(&served.dataset);
        let (bell, ear) = signals::bell()?;
        let bell = Arc::new(bell);
        let plane = Arc::new(Plane::new(Arc::clone(pool), served, plan, refused, Arc::clone(&bell)));
        // The socket before the mount: whoever sees the mount can ask about it.
        let control: Arc<dyn ControlPlane> = plane.clone();
        let server = Server::start(control, &socket::directory(), &plan.places.mountpoint)?;
        let mounted = Arc::new(mount(dataset, plan)?);
        let watcher = watch(Arc::clone(&mounted), bell)?;
        Ok(Instance { pool: Arc::clone(pool), plane, server, mounted, watcher, ear })
    }

    /// The daemon as its control socket sees it.
    pub(crate) fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }

    /// Waits until the mount is gone, or a signal or the control socket asks for the end.
    ///
    /// # Errors
    /// When waiting is not possible.
    pub(crate) fn wait_for_end(&self, signals: &Signals) -> Result<Awaited> {
        signals.wait(&self.ear)
    }

    /// Unmounts if need be and takes everything apart. Ends the process when that takes too long.
    ///
    /// # Errors
    /// When the mount could not be taken off.
    pub(crate) fn stop(self) -> Result<()> {
        let watchdog = Watchdog::start()?;
        let unmounted = self.mounted.unmount();
        match &unmounted {
            Ok(Unmounted::Clean) => tracing::info!("unmounted"),
            Ok(how) => tracing::warn!(?how, "unmounted while in use"),
            Err(error) => tracing::error!(%error, "not unmounted"),
        }
        if matches!(unmounted, Ok(Unmounted::Clean | Unmounted::Detached)) && self.watcher.join().is_err() {
            tracing::error!("the thread that watches the mount ended by a bug");
        }
        drop(self.mounted);
        self.pool.stop();
        // The socket last: while it is there, the daemon is not gone.
        self.server.stop();
        watchdog.dismiss();
        unmounted.map(drop)
    }
}

/// The origin with its layers: counted innermost, then made slow.
fn open_origin(plan: &Plan, stats: Arc<OriginStats>) -> Result<Arc<dyn Origin>> {
    let directory: Arc<dyn Origin> = Arc::new(DirOrigin::open(&plan.places.origin, DirOptions::default())?);
    let counted: Arc<dyn Origin> = Arc::new(Counted::new(directory, stats));
    Ok(match plan.simulate {
        Some(profile) => Arc::new(Simulated::new(counted, profile)),
        None => counted,
    })
}

/// The cache's configuration: what has to be known before it is made.
fn cache_config(plan: &Plan) -> Result<CacheConfig> {
    let mut config = CacheConfig { lists: plan.lists, ..CacheConfig::new(plan.size.bytes) };
    for Assignment { name, value } in &plan.settings {
        if let Some(row) = row_of_config(name) {
            let value = row.parse(value).map_err(|bad| Error::invalid("-o", bad.to_string()))?;
            config.set(name, value);
        }
    }
    Ok(config)
}

/// A tunable that is read when the cache is made.
fn row_of_config(name: &str) -> Option<&'static TunableRow> {
    ArcTunables::ROWS.iter().find(|row| row.name == name && !row.live)
}

fn mount(dataset: Arc<Dataset>, plan: &Plan) -> Result<Mounted> {
    let places = &plan.places;
    let options = MountOptions {
        read_only: plan.properties.readonly,
        allow_other: plan.allow_other,
        fs_name: places.origin.display().to_string(),
        over: places.origin == places.mountpoint,
        ..MountOptions::new(&places.mountpoint)
    };
    Mounted::new(dataset, &options)
}

/// Rings when the mount is gone, whoever took it off.
fn watch(mounted: Arc<Mounted>, bell: Arc<Bell>) -> Result<JoinHandle<()>> {
    let watching = move || {
        mounted.wait(None);
        bell.ring();
    };
    let name = "arcwell-watcher".to_owned();
    Builder::new().name(name).spawn(watching).map_err(|e| Error::new("start a thread", e))
}

/// Ends the process when taking it apart hangs, as it may in a system call on a dead origin.
struct Watchdog {
    calm: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watchdog {
    fn start() -> Result<Watchdog> {
        let (calm, waiting) = channel();
        let watching = move || {
            if waiting.recv_timeout(STOP_LIMIT) == Err(RecvTimeoutError::Timeout) {
                tracing::error!("something still hangs after {STOP_LIMIT:?}; ending all the same");
                std::process::exit(1);
            }
        };
        let name = "arcwell-watchdog".to_owned();
        let thread =
            Builder::new().name(name).spawn(watching).map_err(|e| Error::new("start a thread", e))?;
        Ok(Watchdog { calm, thread })
    }

    fn dismiss(self) {
        drop(self.calm);
        let _ = self.thread.join();
    }
}
