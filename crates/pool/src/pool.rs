//! The pool: datasets, and the one cache, the workers and the identities that they share.
//!
//! One housekeeping thread looks after what nobody waits for: it writes identities to the state
//! directory every `pool.checkpoint_interval`, and asks holders to let znodes go when these take more
//! than their share of the cache.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arcwell_arc::Cache;
use arcwell_base::identity::IdentityStore;
use arcwell_base::origin::Origin;
use arcwell_base::table::{BadSetting, Kstats, Sample, Tunables};
use arcwell_base::vdev::Vdev;
use arcwell_base::{Clock, Error, Result};
use arcwell_l2arc::{DeviceId, DeviceReport};
use parking_lot::{Mutex, RwLock};

use crate::dataset::{Dataset, Shared};
use crate::flash::Flash;
use crate::object::Objects;
use crate::property::Properties;
use crate::signal::Signal;
use crate::tunable::{PoolStats, PoolTunables};
use crate::workers::Workers;
use crate::znode::ZNODE_BYTES;

/// How often housekeeping looks round.
const ROUND: Duration = Duration::from_millis(100);
/// Znodes whose holders are asked to let go in one round.
const PRUNE_MAX: u64 = 16_384;
/// How long memory is written to flash at a clean stop, at most.
const SAVE_MAX: Duration = Duration::from_secs(10);

/// What a pool is made of.
pub struct PoolConfig {
    /// Which pool it is: cache devices serve it alone.
    pub id: u128,
    /// The cache.
    pub arc: arcwell_arc::Config,
    /// Where identities are kept.
    pub identities: Arc<dyn IdentityStore>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolConfig").finish_non_exhaustive()
    }
}

/// Datasets and the cache that they share. See the module's doc.
pub struct Pool {
    shared: Shared,
    datasets: RwLock<Vec<Arc<Dataset>>>,
    housekeeping: Mutex<Option<JoinHandle<()>>>,
    checkpointing: Mutex<()>,
    signal: Arc<Signal>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("datasets", &*self.datasets.read()).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without datasets.
    pub fn new(config: PoolConfig) -> Arc<Pool> {
        let tunables = Arc::new(PoolTunables::default());
        let cache = Arc::new(Cache::new(config.arc));
        let (identities, clock) = (Arc::clone(&config.identities), Arc::clone(&config.clock));
        let shared = Shared {
            flash: Arc::new(Flash::new(config.id, Arc::clone(&cache), identities, clock)),
            cache,
            workers: Arc::new(Workers::new(Arc::clone(&tunables))),
            tunables,
            stats: Arc::default(),
            clock: config.clock,
            objects: Arc::new(Objects::new(Arc::clone(&config.identities))),
            identities: config.identities,
        };
        let signal = Arc::new(Signal::default());
        let pool = Arc::new(Pool {
            shared,
            datasets: RwLock::default(),
            housekeeping: Mutex::new(None),
            checkpointing: Mutex::new(()),
            signal: Arc::clone(&signal),
        });
        let weak = Arc::downgrade(&pool);
        let keep_house = move || {
            let mut last_checkpoint = Instant::now();
            while !signal.wait(ROUND) {
                let Some(pool) = weak.upgrade() else { return };
                pool.keep_house(&mut last_checkpoint);
            }
        };
        let thread = std::thread::Builder::new().name("arcwell-house".into()).spawn(keep_house);
        match thread {
            Ok(thread) => *pool.housekeeping.lock() = Some(thread),
            Err(error) => tracing::error!(%error, "no housekeeping: identities are written only at the end"),
        }
        pool
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.shared.cache
    }

    /// The threads that wait for origins.
    pub fn workers(&self) -> &Workers {
        &self.shared.workers
    }

    /// The pool's own tunables.
    pub fn tunables(&self) -> &PoolTunables {
        &self.shared.tunables
    }

    /// The pool's own statistics.
    pub fn stats(&self) -> &PoolStats {
        &self.shared.stats
    }

    /// Every table of tunables: the cache's, the pool's and level 2's.
    pub fn all_tunables(&self) -> Vec<&dyn Tunables> {
        vec![self.shared.cache.tunables(), &*self.shared.tunables, self.shared.flash.level2().tunables()]
    }

    /// Every statistic of the cache and the pool, as of now.
    pub fn samples(&self) -> Vec<Sample> {
        self.shared.cache.refresh_gauges();
        let load = self.shared.workers.load();
        let stats = &self.shared.stats;
        stats.znodes.set(self.datasets.read().iter().map(|dataset| dataset.znodes()).sum());
        stats.queued.set(load.queued as u64);
        stats.running.set(load.running as u64);
        stats.timeouts.set(load.expired);
        stats.identities_pending.set(self.shared.objects.pending() as u64);
        let mut samples = self.shared.cache.stats().samples();
        samples.extend(stats.samples());
        samples.extend(self.shared.flash.samples());
        samples
    }

    /// Sets a tunable while running; it takes effect before this returns.
    ///
    /// # Errors
    /// [`BadSetting`]: unknown, not allowed, or not to be changed while running.
    pub fn set_tunable(&self, name: &str, text: &str) -> std::result::Result<(), BadSetting> {
        let tables = self.all_tunables();
        let owner = tables.iter().find(|table| table.rows().iter().any(|row| row.name == name));
        owner.ok_or_else(|| BadSetting::unknown(name))?.set(name, text, true)?;
        self.shared.cache.adjust();
        Ok(())
    }

    /// Adds a dataset: `origin` behind the cache. Asks the origin for its root.
    ///
    /// # Errors
    /// The origin's; the state directory's; properties that are not allowed; a name that is taken.
    pub fn add_dataset(
        self: &Arc<Self>,
        name: &str,
        origin: Arc<dyn Origin>,
        properties: Properties,
    ) -> Result<Arc<Dataset>> {
        let is_taken = |datasets: &[Arc<Dataset>]| datasets.iter().any(|dataset| dataset.name() == name);
        let taken = || Error::invalid("add dataset", format!("there is a dataset '{name}' already"));
        if is_taken(&self.datasets.read()) {
            return Err(taken());
        }
        let dataset = Arc::new(Dataset::attach(name, origin, properties, self.shared.clone())?);
        let mut datasets = self.datasets.write();
        if is_taken(&datasets) {
            return Err(taken());
        }
        datasets.push(Arc::clone(&dataset));
        drop(datasets);
        dataset.start_watch();
        Ok(dataset)
    }

    /// Adds a cache device: flash behind memory. One that this pool had before, and that missed nothing, is warm;
    /// what is not ours is refused unless `force`.
    ///
    /// # Errors
    /// The device's; what it holds instead; as many as there may be.
    pub fn add_cache_device(&self, vdev: Arc<dyn Vdev>, force: bool) -> Result<DeviceId> {
        self.shared.flash.add(vdev, force)
    }

    /// Takes a cache device out.
    ///
    /// # Errors
    /// It is not there; its own, and then it is out all the same.
    pub fn remove_cache_device(&self, device: DeviceId) -> Result<()> {
        self.shared.flash.remove(device)
    }

    /// The cache devices.
    pub fn cache_devices(&self) -> Vec<DeviceReport> {
        self.shared.flash.devices()
    }

    /// The datasets.
    pub fn datasets(&self) -> Vec<Arc<Dataset>> {
        self.datasets.read().clone()
    }

    /// Ends all work, writes what has to be remembered, and joins the threads. A thread that is stuck
    /// in a dead origin is waited for some seconds only. Harmless when called twice.
    pub fn stop(&self) {
        self.signal.stop();
        let housekeeping = self.housekeeping.lock().take();
        if let Some(thread) = housekeeping {
            // A panic was reported by the panic hook already.
            let _ = thread.join();
        }
        self.end_datasets();
        self.shared.workers.stop();
        self.shared.flash.stop(self.save_for());
        self.save(true);
    }

    /// How long what lies in memory may be written to flash at the end.
    fn save_for(&self) -> Duration {
        match self.shared.flash.level2().tunables().save_on_exit() {
            0 => Duration::ZERO,
            _ => SAVE_MAX,
        }
    }

    /// Nobody is told of anything any more. A watch must not be left to the last who holds a dataset:
    /// that may be the watch's own thread, which cannot wait for itself.
    fn end_datasets(&self) {
        for dataset in self.datasets() {
            dataset.stop_watch();
            dataset.clear_holder();
        }
    }

    /// Writes what has to be remembered of files; as it is done every `pool.checkpoint_interval` and at the end.
    pub fn checkpoint(&self) {
        self.save(false);
    }

    fn save(&self, is_last: bool) {
        // One after the other: what the one trusts must not be what the other has found to fail.
        let _alone = self.checkpointing.lock();
        if let Err(error) = self.shared.objects.checkpoint(is_last, || self.shared.flash.settle()) {
            tracing::error!(%error, "identities could not be written: files will be new objects next time");
        }
    }

    fn keep_house(&self, last_checkpoint: &mut Instant) {
        let tunables = &self.shared.tunables;
        if last_checkpoint.elapsed() >= Duration::from_millis(tunables.checkpoint_interval()) {
            self.checkpoint();
            *last_checkpoint = Instant::now();
        }
        self.datasets().iter().for_each(Dataset::start_work_on_notices);
        self.prune();
    }

    /// Asks holders to let znodes go when these take more than their share.
    fn prune(&self) {
        let share = self.shared.znode_share();
        let held = self.shared.stats.znode_bytes.value();
        if held <= share {
            return;
        }
        // A tenth below the limit, so that it is not reached again at once.
        let excess = (held - share + share / 10) / ZNODE_BYTES;
        let datasets = self.datasets();
        let each = excess.min(PRUNE_MAX) / datasets.len().max(1) as u64 + 1;
        for dataset in datasets {
            let candidates = dataset.znodes.prunable(each as usize);
            self.shared.stats.prunes.add(candidates.len() as u64);
            dataset.tell_holder(|holder| holder.prune(&candidates));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.signal.stop();
        // The housekeeping thread itself may be the one that drops the pool.
        let housekeeping = self.housekeeping.get_mut().take();
        if let Some(thread) = housekeeping.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
        self.end_datasets();
        self.shared.workers.stop();
        self.shared.flash.stop(Duration::ZERO);
        self.save(true);
    }
}
