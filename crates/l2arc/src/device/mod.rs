//! One cache device: a ring of segments, of which one is being filled.
//!
//! # The ring
//!
//! Segments are written in order, all round. The one with sequence *n* lies at *n* modulo the number of segments, so that
//! every table tells whether it is where it belongs, and one that is further behind the newest than the ring is long is
//! nobody's, however whole it is: the hand has passed it, even if what it wrote there was lost.
//!
//! # Who locks what
//!
//! Two locks. *Work* is for whoever writes: a step of the feed, of the rebuild, a flush; one at a time, and it is
//! held while this device reads and writes for them. *Pending* is what `forget` meets them at: what lies in the segment
//! that is being filled or written, the tombstones for the next table, and what is dead for the rebuild. It is
//! held for moments and never across I/O; under it one shard of the index at a time. Reads of blocks take neither.
//!
//! # Invariants
//!
//! - **D1** What lies in a table that counts is in the index at that place, or is older than a tombstone of it,
//!   written or waiting. Hence all that leaves the index is *buried*; only what the hand overwrites is not, since its
//!   table goes with it.
//! - **D2** A block gets into the index when its bytes and its table have been written, and not if it was
//!   forgotten since it was copied.
//! - **D3** A tombstone waits until a flush has succeeded after it was written.
//! - **D4** Tombstones stand in two tables in a row, so that one lost table loses none. A rebuild that finds more lost
//!   than that believes nothing older.

pub(crate) mod dead;
pub(crate) mod hand;
pub(crate) mod health;
pub(crate) mod label;
mod note;
mod packing;
pub(crate) mod pending;

use std::sync::Arc;

use arcwell_base::atomic::{AtomicU32, AtomicU64, Ordering};
use arcwell_base::lock::{Mutex, MutexGuard};
use arcwell_base::vdev::{Shape, Vdev};

use self::health::Health;
use self::label::DeviceId;
use self::packing::Packing;
use self::pending::Pending;
use crate::feed::Feeding;
use crate::index::Entry;
use crate::layout::{Aligned, Superblock, TableEntry};
use crate::level2::Core;
use crate::rebuild::Progress;

/// See the module's doc.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) id: DeviceId,
    /// Its number in the index.
    pub(crate) slot: u8,
    pub(crate) vdev: Arc<dyn Vdev>,
    pub(crate) shape: Shape,
    /// Where the first segment begins, how long one is and how many there are: never changes.
    pub(crate) superblock: Superblock,
    pub(crate) health: Health,
    /// The sequence of the segment that is being filled; 0 while a rebuild has not found out.
    next: AtomicU64,
    /// What each segment has in the index.
    live: Box<[Live]>,
    pub(crate) work: Mutex<Work>,
    pub(crate) pending: Mutex<Pending>,
    pub(crate) counts: Counts,
}

/// What a segment has in the index.
#[derive(Debug, Default)]
struct Live {
    blocks: AtomicU32,
    bytes: AtomicU32,
}

/// What a device counts for itself.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hits: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) write_bytes: AtomicU64,
    pub(crate) checksums_bad: AtomicU64,
    pub(crate) io_errors: AtomicU64,
    pub(crate) write_errors: AtomicU64,
    /// Rebuilt of so many segments: done, and all.
    pub(crate) rebuilt: AtomicU32,
    pub(crate) rebuild_of: AtomicU32,
}

/// What the writer of a device needs. See [`Device`] for the lock.
#[derive(Debug)]
pub(crate) struct Work {
    /// The id that its tables carry now: a new one after a rebuild that lost tombstones.
    pub(crate) superblock: Superblock,
    /// A segment's bytes, once there is something to fill it with.
    pub(crate) buffer: Option<Aligned>,
    pub(crate) packing: Packing,
    /// New tombstones of the last table that was written, and its sequence.
    last: (u64, Vec<TableEntry>),
    /// Tombstones written since the last flush that succeeded.
    unflushed: Vec<TableEntry>,
    /// The newest table with new tombstones: written, and noted as durable.
    newest_dead: u64,
    noted: u64,
    /// Whether something was written since the last flush.
    is_unflushed: bool,
    /// Whether a write or flush failed, and no later segment tells that the older ones are passed.
    is_unsettled: bool,
    pub(crate) progress: Progress,
    /// Heads of tables that could not be read.
    pub(crate) unread_heads: u64,
    pub(crate) feeding: Feeding,
}

impl Device {
    /// A device under this superblock. `holds` says whether what lies on it may be believed.
    pub(crate) fn new(slot: u8, vdev: Arc<dyn Vdev>, superblock: Superblock, holds: bool) -> Device {
        let (progress, next) = if holds { (Progress::new(), 0) } else { (Progress::Done, 1) };
        let work = Work {
            superblock: superblock.clone(),
            buffer: None,
            packing: Packing::default(),
            last: (0, Vec::new()),
            unflushed: Vec::new(),
            newest_dead: 0,
            noted: 0,
            is_unflushed: false,
            is_unsettled: false,
            progress,
            unread_heads: 0,
            feeding: Feeding::default(),
        };
        Device {
            id: DeviceId(superblock.device),
            slot,
            shape: vdev.shape(),
            vdev,
            health: Health::default(),
            next: AtomicU64::new(next),
            live: (0..superblock.segments).map(|_| Live::default()).collect(),
            work: Mutex::new("l2.work", work),
            pending: Mutex::new("l2.pending", Pending::new(superblock.device, holds)),
            superblock,
            counts: Counts::default(),
        }
    }

    /// Waits until nobody else writes.
    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock()
    }

    pub(crate) fn work_if_idle(&self) -> Option<MutexGuard<'_, Work>> {
        self.work.try_lock()
    }

    /// The sequence of the segment that is being filled; 0 while nobody knows.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    pub(crate) fn set_next(&self, sequence: u64) {
        self.next.store(sequence, Ordering::Release);
    }

    /// Where the segment with this sequence lies.
    pub(crate) fn segment_of(&self, sequence: u64) -> u32 {
        (sequence % u64::from(self.superblock.segments)) as u32
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.superblock.segments) * self.superblock.segment
    }

    /// Whether it has been written once all round.
    pub(crate) fn is_full(&self) -> bool {
        self.next() > u64::from(self.superblock.segments)
    }

    /// Segment and place within it.
    fn split(&self, offset: u64) -> (u32, u32) {
        let from = offset.saturating_sub(self.superblock.start_of(0));
        ((from / self.superblock.segment) as u32, (from % self.superblock.segment) as u32)
    }

    /// Notes that a block came into the index.
    pub(crate) fn came(&self, entry: &Entry) {
        if let Some(live) = self.live.get(self.split(entry.offset).0 as usize) {
            live.blocks.fetch_add(1, Ordering::Relaxed);
            live.bytes.fetch_add(entry.len, Ordering::Relaxed);
        }
    }

    /// Notes that a block left the index.
    pub(crate) fn left(&self, entry: &Entry) {
        if let Some(live) = self.live.get(self.split(entry.offset).0 as usize) {
            live.blocks.fetch_sub(1, Ordering::Relaxed);
            live.bytes.fetch_sub(entry.len, Ordering::Relaxed);
        }
    }

    /// Blocks that a segment has in the index.
    pub(crate) fn blocks_of(&self, segment: u32) -> u32 {
        self.live[segment as usize].blocks.load(Ordering::Relaxed)
    }

    fn clear(&self, segment: u32) {
        let live = &self.live[segment as usize];
        live.blocks.store(0, Ordering::Relaxed);
        live.bytes.store(0, Ordering::Relaxed);
    }

    /// Blocks in the index, their bytes, and those of the segments that hold them.
    pub(crate) fn sizes(&self) -> (u64, u64, u64) {
        let mut sizes = (0, 0, 0);
        for live in &self.live {
            let blocks = live.blocks.load(Ordering::Relaxed);
            sizes.0 += u64::from(blocks);
            sizes.1 += u64::from(live.bytes.load(Ordering::Relaxed));
            sizes.2 += if blocks > 0 { self.superblock.segment } else { 0 };
        }
        sizes
    }

    /// Sees to it that what left the index does not come back (D1).
    pub(crate) fn bury(&self, entry: &Entry) {
        let (segment, offset) = self.split(entry.offset);
        let segments = u64::from(self.superblock.segments);
        let next = self.next();
        // The newest sequence before the next that lies there.
        let behind = (next + segments - 1 - u64::from(segment)) % segments + 1;
        if let Some(sequence) = next.checked_sub(behind) {
            self.pending.lock().bury(dead::place(sequence, offset));
        }
    }

    /// Takes the device out of use: what it holds is dropped.
    pub(crate) fn drop_blocks(&self, core: &Core) {
        self.pending.lock().is_gone = true;
        core.index.remove_device(self.slot);
        (0..self.superblock.segments).for_each(|segment| self.clear(segment));
    }

    /// Notes what came of a read.
    pub(crate) fn note_read(&self, core: &Core, is_good: bool) {
        if !is_good {
            core.stats.io_errors.add(1);
            self.counts.io_errors.fetch_add(1, Ordering::Relaxed);
        }
        if self.health.read(is_good, core.tunables.errors_max()) {
            self.drop_blocks(core);
        }
    }

    /// Notes what came of a write.
    fn note_write(&self, core: &Core, is_good: bool) {
        if !is_good {
            core.stats.write_errors.add(1);
            self.counts.write_errors.fetch_add(1, Ordering::Relaxed);
        }
        self.health.wrote(is_good, core.tunables.errors_max());
    }
}
