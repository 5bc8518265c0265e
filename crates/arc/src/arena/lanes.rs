//! What lies ready so that threads need not wait for each other: a few freed pieces in each *lane*.
//!
//! A thread has a lane that it prefers, and takes the next one that nobody is in. In a lane, pieces lie by
//! their exact size, and the last one in is the first one out. What a lane may hold is a small share of all
//! there is; nothing in it is lost, as whoever wants memory back empties the lanes first.
//!
//! A lane also counts what was taken through it less what was given back through it: of one lane that may
//! be less than nothing, and the sum over all lanes is what buffers take.

use arcwell_base::lane::lane;
use arcwell_base::lock::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;

use crate::arena::Place;
use crate::arena::size::{CLASSES, Size};
use crate::sync::plain::{AtomicU64, Ordering};

/// How many lanes there are.
pub(super) const LANES: usize = 16;

/// Runs of more pages never lie in a lane: copying them takes so long that a common lock is no matter.
const MOST_PAGES: u32 = 64;

/// Pieces of one size in a lane.
const MOST_PIECES: usize = 64;

/// A piece never takes more than one in so many bytes of a lane.
const FEWEST: u64 = 4;

/// Pieces that are fetched at once for an empty lane.
const FETCHED: u64 = 16;

/// All lanes may hold one part in so many of what is in use.
pub(super) const SHARE: u64 = 128;

/// What a lane may hold in any case, and at most, in bytes.
const BOUNDS: [u64; 2] = [64 << 10, 1 << 20];

/// Pieces by size.
#[derive(Debug)]
pub(super) struct Lane {
    stash: Vec<Vec<Place>>,
    idle: u64,
}

/// All lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: [CachePadded<(Mutex<Lane>, AtomicU64)>; LANES],
    limit: CachePadded<AtomicU64>,
}

/// A lane that nobody else is in.
pub(super) struct Mine<'a> {
    lane: MutexGuard<'a, Lane>,
    payload: &'a AtomicU64,
    limit: u64,
}

fn bin(size: Size) -> Option<usize> {
    match size {
        Size::Slot(class) => Some(usize::from(class)),
        Size::Pages(count) if count <= MOST_PAGES => Some(CLASSES + count as usize - 1),
        Size::Pages(_) => None,
    }
}

fn size(bin: usize) -> Size {
    if bin < CLASSES { Size::Slot(bin as u8) } else { Size::Pages((bin - CLASSES + 1) as u32) }
}

impl Default for Lanes {
    fn default() -> Self {
        let lane = || {
            let stash = vec![Vec::new(); CLASSES + MOST_PAGES as usize];
            CachePadded::new((Mutex::new("arc.arena.lane", Lane { stash, idle: 0 }), AtomicU64::new(0)))
        };
        let limit = CachePadded::new(AtomicU64::new(BOUNDS[0]));
        Lanes { lanes: std::array::from_fn(|_| lane()), limit }
    }
}

impl Lanes {
    /// A lane that is free: the thread's own, if possible.
    #[inline]
    pub(super) fn mine(&self) -> Mine<'_> {
        let first = lane() % LANES;
        let limit = self.limit.load(Ordering::Relaxed);
        for at in first..first + LANES {
            let (lane, payload) = &*self.lanes[at % LANES];
            if let Some(lane) = lane.try_lock() {
                return Mine { lane, payload, limit };
            }
        }
        let (lane, payload) = &*self.lanes[first];
        Mine { lane: lane.lock(), payload, limit }
    }

    /// Sets what a lane may hold, by the bytes that are in use.
    pub(super) fn set_limit(&self, in_use: u64) {
        // To a power of two, so that it is seldom written to.
        let share =
            1_u64.checked_shl((in_use / SHARE / LANES as u64).checked_ilog2().unwrap_or(0)).unwrap_or(1);
        let limit = share.clamp(BOUNDS[0], BOUNDS[1]);
        if limit != self.limit.load(Ordering::Relaxed) {
            self.limit.store(limit, Ordering::Relaxed);
        }
    }

    /// What buffers take.
    pub(super) fn payload(&self) -> u64 {
        self.lanes.iter().fold(0, |sum, lane| sum.wrapping_add(lane.1.load(Ordering::Relaxed)))
    }

    /// Every lane, one after the other.
    pub(super) fn all(&self) -> impl Iterator<Item = MutexGuard<'_, Lane>> {
        self.lanes.iter().map(|lane| lane.0.lock())
    }
}

impl Lane {
    /// Takes everything out.
    pub(super) fn empty(&mut self, mut out: impl FnMut(Place, Size)) {
        self.idle = 0;
        for (at, pieces) in self.stash.iter_mut().enumerate() {
            pieces.drain(..).for_each(|place| out(place, size(at)));
        }
    }

    /// What lies in it.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (Place, Size)> {
        let of_bin = |(at, pieces): (usize, &Vec<Place>)| {
            let with_size = move |place| (place, size(at));
            pieces.clone().into_iter().map(with_size)
        };
        self.stash.iter().enumerate().flat_map(of_bin)
    }
}

impl Mine<'_> {
    /// Counts bytes that a buffer takes.
    #[inline]
    pub(super) fn count_taken(&mut self, bytes: u64) {
        // Only who is in the lane writes to it.
        self.payload.store(self.payload.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    /// Counts bytes that a buffer gave back.
    #[inline]
    pub(super) fn count_given(&mut self, bytes: u64) {
        self.payload.store(self.payload.load(Ordering::Relaxed).wrapping_sub(bytes), Ordering::Relaxed);
    }

    /// A piece that lies ready.
    #[inline]
    pub(super) fn pop(&mut self, size: Size) -> Option<Place> {
        let place = self.lane.stash[bin(size)?].pop()?;
        self.lane.idle -= size.bytes();
        Some(place)
    }

    /// How many more pieces to fetch when one of this size was not there.
    pub(super) fn wants(&self, size: Size) -> u64 {
        let room = self.limit.saturating_sub(self.lane.idle) / 2 / size.bytes();
        if self.keeps(size).is_some() { room.min(FETCHED - 1) } else { 0 }
    }

    /// Puts a piece in that was fetched.
    pub(super) fn stash(&mut self, place: Place, size: Size) {
        if let Some(bin) = bin(size) {
            self.lane.stash[bin].push(place);
            self.lane.idle += size.bytes();
        }
    }

    /// Puts a piece in, if there is room for it.
    #[inline]
    pub(super) fn push(&mut self, place: Place, size: Size) -> bool {
        let Some(bin) = self.keeps(size) else { return false };
        let fits = self.lane.idle + size.bytes() <= self.limit && self.lane.stash[bin].len() < MOST_PIECES;
        if fits {
            self.lane.idle += size.bytes();
            self.lane.stash[bin].push(place);
        }
        fits
    }

    /// Takes pieces out until there is room for many of this size: half of them if these are too many, or
    /// else everything.
    pub(super) fn make_room(&mut self, size: Size, mut out: impl FnMut(Place, Size)) {
        let Some(bin) = self.keeps(size) else { return };
        let pieces = &mut self.lane.stash[bin];
        if pieces.len() < MOST_PIECES {
            return self.lane.empty(out);
        }
        pieces.drain(..MOST_PIECES / 2).for_each(|place| out(place, size));
        self.lane.idle -= MOST_PIECES as u64 / 2 * size.bytes();
    }

    #[inline]
    fn keeps(&self, size: Size) -> Option<usize> {
        bin(size).filter(|_| size.bytes() * FEWEST <= self.limit)
    }
}
