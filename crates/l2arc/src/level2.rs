//! The door: all cache devices of one pool, and the index of what lies on them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arcwell_arc::Cache;
use arcwell_base::atomic::Ordering;
use arcwell_base::clock::Clock;
use arcwell_base::lock::Mutex;
use arcwell_base::table::Counter;
use arcwell_base::vdev::Vdev;
use arcwell_base::{BlockKey, Cause, Error, Kind, Result};

use crate::device::Device;
use crate::device::health::Condition;
use crate::device::label::{self, DeviceId, Label};
use crate::feed::Fed;
use crate::feed::source::{CacheSource, Cursors};
use crate::index::{DEVICES, Entry, Index};
use crate::layout::Found;
use crate::read::{Job, Want};
use crate::rebuild::Rebuild;
use crate::tunable::{L2Stats, L2Tunables};

/// How long a device that has nothing to do is left alone.
pub(crate) const IDLE: Duration = Duration::from_secs(1);

/// The devices, each at its number in the index.
type Slots = [Option<Arc<Device>>; DEVICES as usize];

/// Which devices there are, and how many calls of `forget` have looked: in one hold, so that it is known of each
/// whether it saw a device.
#[derive(Default)]
struct There {
    slots: Slots,
    begun: u64,
}

/// The second level: all cache devices of one pool, and the index of what lies on them.
///
/// What changes is first replaced in, or removed from, the cache, and then forgotten here: the feed takes
/// blocks from there, and what it has taken before is refused only if it is forgotten after.
pub struct Level2 {
    core: Core,
}

/// What devices need of each other.
pub(crate) struct Core {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) index: Index,
    pub(crate) tunables: L2Tunables,
    pub(crate) stats: L2Stats,
    pool: u128,
    there: Mutex<There>,
    /// Calls of `forget` that have done their work.
    forgets: Counter,
    /// Devices that were taken out, and how many calls had begun by then: nothing if one of them may have missed it.
    absent: Mutex<HashMap<u128, Option<u64>>>,
}

/// How a device is added.
#[derive(Debug, Clone, Copy, Default)]
pub struct Add {
    /// Whether what is not ours is overwritten.
    pub force: bool,
    /// Whether the pool has run without this device, so that what it holds may be of yesterday.
    pub has_missed: bool,
}

/// What is to be said of a device.
#[derive(Debug, Clone)]
pub struct DeviceReport {
    /// Which it is.
    pub id: DeviceId,
    /// Its path.
    pub name: String,
    /// How it does.
    pub condition: Condition,
    /// Whether the machine's page cache lies in between.
    pub is_buffered: bool,
    /// Bytes of all its segments.
    pub bytes: u64,
    /// Bytes of one.
    pub segment: u64,
    /// Blocks that it holds.
    pub blocks: u64,
    /// Their bytes.
    pub size: u64,
    /// Bytes of the segments that hold them.
    pub asize: u64,
    /// Blocks that it had.
    pub hits: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub write_bytes: u64,
    /// Blocks whose bytes were not what was written.
    pub checksums_bad: u64,
    /// Reads that failed.
    pub io_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Segments that the rebuild has dealt with, and all that it has to: none once it is done.
    pub rebuild: Option<(u32, u32)>,
}

impl fmt::Debug for Level2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level 2 of pool {:032x}: {:?}", self.core.pool, self.core.index)
    }
}

impl Level2 {
    /// A second level without devices, for the pool with this id.
    pub fn new(pool: u128, clock: Arc<dyn Clock>) -> Level2 {
        let core = Core {
            clock,
            index: Index::new(),
            tunables: L2Tunables::default(),
            stats: L2Stats::default(),
            pool,
            there: Mutex::new("l2.devices", There::default()),
            forgets: Counter::default(),
            absent: Mutex::new("l2.absent", HashMap::new()),
        };
        Level2 { core }
    }

    /// What can be set.
    pub fn tunables(&self) -> &L2Tunables {
        &self.core.tunables
    }

    /// What is counted. Gauges are as old as the last [`Level2::refresh_gauges`].
    pub fn stats(&self) -> &L2Stats {
        &self.core.stats
    }

    /// Brings the gauges up to date.
    pub fn refresh_gauges(&self) {
        let (core, mut sizes) = (&self.core, (0, 0));
        for device in core.devices().iter().flatten() {
            let (_, size, asize) = device.sizes();
            sizes = (sizes.0 + size, sizes.1 + asize);
        }
        core.stats.index_bytes.set(core.index.bytes());
        core.stats.index_entries.set(core.index.len());
        core.stats.size.set(sizes.0);
        core.stats.asize.set(sizes.1);
    }

    /// Adds a device. One that is ours is known again by [`Level2::rebuild`]; a blank one is labelled.
    ///
    /// # Errors
    /// The device's, or that it is not ours, or damaged, or added already, or one too many. It was not written to then.
    pub fn add(&self, vdev: Arc<dyn Vdev>, how: Add) -> Result<DeviceId> {
        let core = &self.core;
        let refuse = |what: &str| Err(Error::invalid("add a cache device", what));
        // Held all along: of two that add the same device one must see the other.
        let mut absent = core.absent.lock();
        let devices = core.devices();
        let Some(slot) = devices.iter().position(Option::is_none) else {
            return refuse("there are as many as there may be");
        };
        let found = label::find(&*vdev)?;
        if let Found::Ours(superblock) = &found
            && devices.iter().flatten().any(|device| device.is_called(superblock.device))
        {
            return refuse("it is in use already");
        }
        let (mut superblock, mut holds) =
            label::claim(&*vdev, found, core.pool, core.tunables.segment_size(), how.force)?;
        let (known, left) = (superblock.device, absent.get(&superblock.device).copied());
        // One that was not here all the time has missed what was forgotten meanwhile.
        let has_missed = |begun: u64| how.has_missed || left.map_or(begun > 0, |at| at != Some(begun));
        let id = loop {
            let device = Arc::new(Device::new(slot as u8, Arc::clone(&vdev), superblock.clone(), holds));
            let mut there = core.there.lock();
            if !(holds && has_missed(there.begun)) {
                let id = device.id;
                there.slots[slot] = Some(device);
                break id;
            }
            drop(there);
            (superblock, holds) = (label::again(&*vdev, &superblock)?, false);
        };
        absent.remove(&known);
        Ok(id)
    }

    /// Takes a device out, after writing what waits for it. Added again, it is still warm if nothing was forgotten
    /// meanwhile.
    ///
    /// # Errors
    /// It is not here, or its own: then it is out all the same, and empty when it is added again.
    pub fn remove(&self, id: DeviceId) -> Result<()> {
        let (core, device) = (&self.core, self.device(id)?);
        let mut absent = core.absent.lock();
        let at = {
            let mut there = core.there.lock();
            there.slots[usize::from(device.slot)] = None;
            // Of calls that have not ended nobody knows what they have done to it.
            (there.begun == core.forgets.value()).then_some(there.begun)
        };
        let mut work = device.work();
        let outcome = device.flush_if_well(core, &mut work);
        device.drop_blocks(core);
        absent.insert(work.superblock.device, at.filter(|_| outcome.is_ok()));
        outcome
    }

    /// What is to be said of all devices.
    pub fn devices(&self) -> Vec<DeviceReport> {
        self.core.devices().iter().flatten().map(|device| device.report()).collect()
    }

    /// What a device holds and for which pool. Changes nothing.
    ///
    /// # Errors
    /// The device's.
    pub fn label(vdev: &dyn Vdev) -> Result<Label> {
        label::find(vdev).map(Label::from)
    }

    /// Whether a block is on a device, as far as the index can tell.
    pub fn contains(&self, key: BlockKey) -> bool {
        self.core.index.contains(key)
    }

    /// Reads what is there of a batch of blocks. What is not, or not as it was written, is a miss.
    pub fn read(&self, wants: &mut [Want<'_>]) {
        self.core.read(wants, &|jobs| jobs.into_iter().for_each(|job| job()));
    }

    /// The same; `run` does the parts that different devices have in it, at the same time if it likes, and all
    /// of them before it returns.
    pub fn read_by(&self, wants: &mut [Want<'_>], run: &dyn Fn(Vec<Job<'_>>)) {
        self.core.read(wants, run);
    }

    /// Forgets a block that was overwritten or freed. It is not found from here on, and not after the next
    /// restart if a [`Level2::flush`] of all devices succeeds before. `true` if it was here.
    pub fn forget(&self, key: BlockKey) -> bool {
        let core = &self.core;
        let devices = {
            let mut there = core.there.lock();
            there.begun += 1;
            there.slots.clone()
        };
        // In this order: what gets into the index in between is seen there.
        devices.iter().flatten().for_each(|device| device.pending.lock().forget(key));
        let entry = core.index.remove(key);
        if let Some(entry) = &entry {
            core.stats.forgotten.add(1);
            core.bury_all(std::slice::from_ref(entry));
        }
        core.forgets.add(1);
        entry.is_some()
    }

    /// One step of a device's feed: copies blocks that the cache may soon evict, that were published as ones that may be
    /// fed and are eligible still, and writes the segments that they fill. To be called again after `next`.
    pub fn feed(&self, id: DeviceId, cache: &Cache, eligible: &dyn Fn(&BlockKey, Kind) -> bool) -> Fed {
        let Ok(device) = self.device(id) else { return Fed::NOTHING };
        let mut work = device.work();
        let mut cursors = std::mem::take(&mut work.feeding.cursors);
        let fed = device.feed(&self.core, &mut work, &mut CacheSource::new(cache, &mut cursors), eligible);
        work.feeding.cursors = cursors;
        fed
    }

    /// The same, from anything that offers blocks.
    #[cfg(test)]
    pub(crate) fn feed_from<S: crate::feed::Source>(
        &self,
        id: DeviceId,
        source: &mut S,
        eligible: &dyn Fn(&BlockKey, Kind) -> bool,
    ) -> Fed {
        let Ok(device) = self.device(id) else { return Fed::NOTHING };
        let mut work = device.work();
        device.feed(&self.core, &mut work, source, eligible)
    }

    /// One step of a device's rebuild, of at most so many segments. Does nothing once it is done.
    pub fn rebuild(&self, id: DeviceId, step: usize) -> Rebuild {
        self.rebuild_wanted(id, step, &|_| true)
    }

    /// The same; blocks that the pool does not want, since they may have been overwritten after the last flush before it
    /// stopped, are left out, and for good after the next flush.
    pub fn rebuild_wanted(&self, id: DeviceId, step: usize, wanted: &dyn Fn(&BlockKey) -> bool) -> Rebuild {
        let Ok(device) = self.device(id) else { return Rebuild::Done };
        let mut work = device.work();
        device.rebuild(&self.core, &mut work, step.max(1), wanted)
    }

    /// Writes the segment that is being filled, however full, and what was forgotten, and makes it durable.
    ///
    /// # Errors
    /// The device's, or it is not here: then what was forgotten since the last flush that succeeded may come back after
    /// a restart, and the pool must still know it.
    pub fn flush(&self, id: DeviceId) -> Result<()> {
        let device = self.device(id)?;
        let mut work = device.work();
        device.flush_if_well(&self.core, &mut work)
    }

    /// Makes durable what was forgotten up to now, if anything was, and says as which device it is known: for a pool that
    /// is about to save what binds keys to files.
    ///
    /// # Errors
    /// As [`Level2::flush`]; `Busy` when the device is being fed or made known again: it is not waited for.
    pub fn settle(&self, id: DeviceId) -> Result<u128> {
        let device = self.device(id)?;
        let busy = || Error::new("settle a cache device", Cause::Busy);
        let mut work = device.work_if_idle().ok_or_else(busy)?;
        if device.owes(&work) {
            device.flush_if_well(&self.core, &mut work)?;
        }
        match device.health.is_readable() {
            true => Ok(work.superblock.device),
            false => Err(Error::new("write to a faulted cache device", Cause::Os(rustix::io::Errno::IO))),
        }
    }

    /// Feeds what the cache holds without regard to how fast a device may be written, the most frequent and the most
    /// recent first, until `is_late`; then makes it durable. For a clean stop. Returns the bytes that were copied.
    pub fn save(&self, id: DeviceId, cache: &Cache, is_late: &dyn Fn() -> bool) -> u64 {
        let Ok(device) = self.device(id) else { return 0 };
        let mut work = device.work();
        device.save(&self.core, &mut work, &mut CacheSource::new(cache, &mut Cursors::default()), is_late)
    }

    pub(crate) fn device(&self, id: DeviceId) -> Result<Arc<Device>> {
        let found = self.core.devices().into_iter().flatten().find(|device| device.id == id);
        found.ok_or_else(|| Error::invalid("find a cache device", format!("there is no {id:?}")))
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

impl Core {
    /// The devices, each at its number.
    pub(crate) fn devices(&self) -> Slots {
        self.there.lock().slots.clone()
    }

    /// Sees to it that entries that have left the index do not come back.
    pub(crate) fn bury_all(&self, entries: &[Entry]) {
        if entries.is_empty() {
            return;
        }
        let devices = self.devices();
        for entry in entries {
            if let Some(device) = &devices[usize::from(entry.device)] {
                device.left(entry);
                device.bury(entry);
            }
        }
    }

    /// Takes a block out that could not be read, if it still lies there.
    pub(crate) fn drop_block(&self, key: BlockKey, entry: &Entry) {
        if let Some(entry) = self.index.remove_at(key, entry.device, entry.offset) {
            self.bury_all(&[entry]);
        }
    }
}

impl Device {
    /// Whether this is its id, that under which it was added or a later one.
    fn is_called(&self, id: u128) -> bool {
        self.id.0 == id || self.pending.lock().id == id
    }

    fn flush_if_well(&self, core: &Core, work: &mut crate::device::Work) -> Result<()> {
        if !self.health.is_writable() {
            return Err(Error::new("write to a faulted cache device", Cause::Os(rustix::io::Errno::IO)));
        }
        if self.next() == 0 && !self.find_newest(core, work) {
            return Err(Error::new("read a cache device's tables", Cause::Os(rustix::io::Errno::IO)));
        }
        self.flush(core, work)
    }

    fn report(&self) -> DeviceReport {
        let (blocks, size, asize) = self.sizes();
        let count = |counter: &arcwell_base::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let of = self.counts.rebuild_of.load(Ordering::Relaxed);
        let done = self.counts.rebuilt.load(Ordering::Relaxed);
        DeviceReport {
            id: self.id,
            name: self.shape.name.clone(),
            condition: self.health.condition(),
            is_buffered: self.shape.is_buffered,
            bytes: self.bytes(),
            segment: self.superblock.segment,
            blocks,
            size,
            asize,
            hits: count(&self.counts.hits),
            read_bytes: count(&self.counts.read_bytes),
            write_bytes: count(&self.counts.write_bytes),
            checksums_bad: count(&self.counts.checksums_bad),
            io_errors: count(&self.counts.io_errors),
            write_errors: count(&self.counts.write_errors),
            rebuild: (done < of).then_some((done, of)),
        }
    }
}
