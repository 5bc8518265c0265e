//! The daemon as its control socket sees it.

use std::error::Error as AnyError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use arcwell::table::{Kstats, Sample, Setting};
use arcwell::{
    ByteSize, CachedReport, Cause, Class, Condition, Dataset, DeviceReport, Error, MachineMemory,
    OriginStats, Pool, Result,
};
use arcwell_front::control::{
    AddRequest, CacheStatus, Cached, CachedRow, ControlPlane, DatasetStatus, DeviceCondition, DeviceStatus,
    Health, PrimeProgress, Status, Take, WirePath,
};
use parking_lot::Mutex;

use crate::assembly::Plan;
use crate::cache_device::{CacheDevice, RefusedDevice};
use crate::cache_size::{self, Asked};
use crate::preflight::{self, Places};
use crate::signals::Bell;

/// How long an origin may take to show that it lives before it is called degraded.
const HEALTH_LIMIT: Duration = Duration::from_secs(2);

/// For how long a file may still count as open though its program has closed it: the kernel tells of that
/// later, and does not wait for us.
const CLOSING_LIMIT: Duration = Duration::from_millis(500);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Statistics that tell of work that is not finished.
const PENDING: [&str; 3] = ["pool.queued", "pool.running", "pool.identities_pending"];

/// A dataset and where it is seen.
pub(crate) struct Served {
    /// The dataset.
    pub(crate) dataset: Arc<Dataset>,
    /// Where programs see it.
    pub(crate) mountpoint: PathBuf,
    /// What its origin was asked for.
    pub(crate) stats: Arc<OriginStats>,
}

/// What the control socket asks.
pub(crate) struct Plane {
    pool: Arc<Pool>,
    served: Served,
    places: Places,
    /// Cache devices that were asked for and could not be had.
    refused: Mutex<Vec<RefusedDevice>>,
    /// Why the cache is as large as it is.
    reason: String,
    state: PathBuf,
    bell: Arc<Bell>,
    since: SystemTime,
    started: Instant,
}

impl Plane {
    /// The plane of a pool that serves one dataset. `bell` is rung when the end is asked for.
    pub(crate) fn new(
        pool: Arc<Pool>,
        served: Served,
        plan: &Plan,
        refused: Vec<RefusedDevice>,
        bell: Arc<Bell>,
    ) -> Plane {
        Plane {
            pool,
            served,
            places: plan.places.clone(),
            refused: Mutex::new(refused),
            reason: plan.size.reason.clone(),
            state: plan.state.clone(),
            bell,
            since: SystemTime::now(),
            started: Instant::now(),
        }
    }

    /// Cache devices that were asked for and could not be had.
    pub(crate) fn refused_devices(&self) -> Vec<RefusedDevice> {
        self.refused.lock().clone()
    }

    /// The present values of statistics, all of one moment.
    pub(crate) fn values<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        let samples = self.samples();
        names.map(|name| samples.iter().find(|sample| sample.row.name == name).map_or(0, |s| s.value))
    }

    /// The path below the mountpoint.
    fn inside<'path>(&self, path: &'path Path) -> Result<&'path Path> {
        path.strip_prefix(&self.served.mountpoint)
            .map_err(|_| Error::invalid("path", "is not in this mount").about(path))
    }

    /// Asks the origin something that it cannot have cached, on a worker, for a moment.
    fn health(&self) -> Health {
        let (tell, told) = channel();
        let dataset = Arc::clone(&self.served.dataset);
        self.served.dataset.workers().run(
            Class::Query,
            move || dataset.stat_fs(),
            move |answer| drop(tell.send(answer)),
        );
        match told.recv_timeout(HEALTH_LIMIT) {
            Ok(Ok(_)) => Health::Online,
            Ok(Err(error)) => Health::Degraded { why: error.to_string() },
            Err(_) => Health::Degraded { why: format!("no answer within {HEALTH_LIMIT:?}") },
        }
    }

    /// Files that are open and stay so.
    fn open_files(&self) -> u64 {
        let end = Instant::now() + CLOSING_LIMIT;
        loop {
            let [open] = self.values(["znode.open"]);
            if open == 0 || Instant::now() >= end {
                return open;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn devices(&self) -> Vec<DeviceStatus> {
        let mut devices: Vec<DeviceStatus> = self.pool.cache_devices().iter().map(device_on_wire).collect();
        let missing = |device: &RefusedDevice| DeviceStatus {
            path: device.path.as_path().into(),
            condition: DeviceCondition::Absent { why: device.why.clone() },
            size: 0,
            used: 0,
            blocks: 0,
            hits: 0,
            errors: 0,
            is_buffered: false,
            rebuild: None,
        };
        devices.extend(self.refused.lock().iter().map(missing));
        devices
    }

    fn dataset_status(&self) -> DatasetStatus {
        let origin = self.served.dataset.origin_info();
        let properties = self.served.dataset.properties();
        let properties = [
            ("primarycache", properties.primarycache.to_string()),
            ("secondarycache", properties.secondarycache.to_string()),
            ("recordsize", ByteSize(properties.recordsize.into()).to_string()),
            ("coherence", properties.coherence.to_string()),
            ("attr_timeout", format!("{:?}", properties.attr_timeout)),
            ("readonly", if properties.readonly { "on" } else { "off" }.to_owned()),
            ("prefetch", properties.prefetch.to_string()),
        ];
        DatasetStatus {
            name: self.served.dataset.name().to_owned(),
            mountpoint: self.served.mountpoint.as_path().into(),
            origin: origin.name.clone(),
            filesystem: origin.filesystem.clone(),
            health: self.health(),
            properties: properties.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }
}

impl ControlPlane for Plane {
    fn samples(&self) -> Vec<Sample> {
        let mut samples = self.pool.samples();
        samples.extend(self.served.stats.samples());
        samples
    }

    fn status(&self) -> Status {
        let [size, target, limit] = self.values(["arc.size", "arc.c", "arc.c_max"]);
        let pending = PENDING.iter().map(|name| (*name).to_owned()).zip(self.values(PENDING));
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            since: self.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs(),
            uptime: self.started.elapsed().as_secs(),
            cache: CacheStatus {
                size,
                target,
                limit,
                reason: self.reason.clone(),
                state: self.state.as_path().into(),
            },
            datasets: vec![self.dataset_status()],
            devices: self.devices(),
            pending: pending.filter(|(_, value)| *value > 0).collect(),
        }
    }

    fn settings(&self) -> Vec<Setting> {
        self.pool.all_tunables().iter().flat_map(|table| table.settings()).collect()
    }

    fn set(&self, name: &str, value: &str) -> std::result::Result<(), Box<dyn AnyError + Send + Sync>> {
        if name == "arc.size_max"
            && let Ok(size) = value.parse::<ByteSize>()
        {
            cache_size::choose(Asked::Bytes(size.0), name, &MachineMemory::read()?)?;
        }
        self.pool.set_tunable(name, value)?;
        tracing::info!(name, value, "a tunable is set");
        Ok(())
    }

    fn prime(&self, path: &Path, progress: &mut dyn FnMut(PrimeProgress) -> bool) -> Result<PrimeProgress> {
        let inside = self.inside(path)?;
        let last = self.served.dataset.prime(inside, &mut |now| progress(on_wire(&now)));
        last.map(|last| on_wire(&last)).map_err(|e| e.about(path))
    }

    fn cached(&self, path: &Path) -> Result<Cached> {
        self.served.dataset.cached(self.inside(path)?).map(report_on_wire).map_err(|e| e.about(path))
    }

    fn record(&self, dataset: &str, has_names: bool) -> Result<Take> {
        let served = &self.served.dataset;
        if served.name() != dataset {
            let line = format!("there is no dataset '{dataset}' here, but '{}'", served.name());
            return Err(Error::invalid("record", line));
        }
        let mut recording = served.record(has_names)?;
        tracing::info!(dataset, has_names, "a recording begins");
        Ok(Box::new(move |out| recording.take(out)))
    }

    fn add_cache(&self, request: &AddRequest) -> Result<()> {
        let device = CacheDevice { path: request.path.0.clone(), size: request.size.map(ByteSize) };
        preflight::cache_device(&device.path, &self.places)?;
        self.pool.add_cache_device(Arc::new(device.open()?), request.force)?;
        self.refused.lock().retain(|refused| refused.path != device.path);
        tracing::info!(path = %device.path.display(), "a cache device is added");
        Ok(())
    }

    fn remove_cache(&self, path: &Path) -> Result<()> {
        let is_it = |refused: &mut RefusedDevice| refused.path == path;
        if self.refused.lock().extract_if(.., is_it).count() > 0 {
            return Ok(());
        }
        let devices = self.pool.cache_devices();
        let found = devices.iter().find(|device| Path::new(&device.name) == path);
        let missing = || Error::invalid("remove a cache device", "there is none of that path").about(path);
        self.pool.remove_cache_device(found.ok_or_else(missing)?.id)?;
        tracing::info!(path = %path.display(), "a cache device is removed");
        Ok(())
    }

    fn unmount(&self, force: bool) -> Result<()> {
        let open = if force { 0 } else { self.open_files() };
        if open > 0 {
            let what = if open == 1 { "a file is".to_owned() } else { format!("{open} files are") };
            let line = format!("{what} open; close first, or use --force");
            return Err(Error::new("unmount", Cause::Other(line.into())).about(&*self.served.mountpoint));
        }
        tracing::info!(force, "the control socket asks for the end");
        self.bell.ring();
        Ok(())
    }
}

fn device_on_wire(device: &DeviceReport) -> DeviceStatus {
    DeviceStatus {
        path: Path::new(&device.name).into(),
        condition: match device.condition {
            Condition::Online => DeviceCondition::Online,
            Condition::Degraded => DeviceCondition::Degraded,
            Condition::Faulted => DeviceCondition::Faulted,
        },
        size: device.bytes,
        used: device.size,
        blocks: device.blocks,
        hits: device.hits,
        errors: device.checksums_bad + device.io_errors + device.write_errors,
        is_buffered: device.is_buffered,
        rebuild: device.rebuild,
    }
}

fn on_wire(progress: &arcwell::PrimeProgress) -> PrimeProgress {
    PrimeProgress {
        files_done: progress.files_done,
        files_total: progress.files_total,
        bytes_done: progress.bytes_done,
        bytes_total: progress.bytes_total,
        path: progress.path.as_path().into(),
    }
}

fn report_on_wire(report: CachedReport) -> Cached {
    let row = |(path, bytes, bytes_cached): (PathBuf, u64, u64)| CachedRow {
        path: WirePath(path),
        bytes,
        bytes_cached,
    };
    Cached {
        files: report.files,
        blocks: report.blocks,
        blocks_cached: report.blocks_cached,
        bytes: report.bytes,
        bytes_cached: report.bytes_cached,
        rows: report.rows.into_iter().map(row).collect(),
    }
}
