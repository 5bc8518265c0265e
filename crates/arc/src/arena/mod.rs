//! Memory of the cache's own: the island of unsafe code where its bytes come from.
//!
//! An [`Arena`] gives out buffers in one stretch of reserved address space, so that a [`Place`] is an
//! offset, good for as long as the arena is. Bytes of a page or more begin on a page and take whole pages;
//! fewer take a slot of 16 bytes or more. What it holds of the machine's memory beyond what buffers take
//! is bounded: a 32nd that lies idle for the next buffer ([`Arena::SLACK`]), what slabs have in free slots,
//! and 5 MiB in any case. Holes between buffers cost address space and no memory: what is idle beyond the
//! bound goes back to the machine, wherever it lies. So reserve several times what the buffers will ever
//! take.
//!
//! # Contract
//!
//! - A buffer's bytes are initialised: zeroes, or what an earlier buffer left.
//! - Whoever holds a place alone reads and writes its bytes; who shares it orders accesses itself. A
//!   place is given back once, with the length that it was asked for or shrunk to. That is what `unsafe`
//!   stands for here; `Buffer` keeps these promises for the tests.
//! - All sums are kept in safe code; `region` asks the kernel, `central` and [`Arena`] tell it what may
//!   go, `buffer` and `line` make references of addresses. There is no unsafe code elsewhere.
//!
//! # Who locks what
//!
//! A lane's lock, and under it the central one. Steady work on buffers of up to 256 KiB takes a lane's lock
//! that nobody waits for. Memory goes back to the machine while no lock is held, but for pages of slabs.

#[cfg(test)]
mod buffer;
mod central;
mod chunks;
mod extents;
#[cfg(test)]
mod figures;
pub(crate) mod hint;
mod lanes;
pub(crate) mod line;
pub(crate) mod region;
mod size;
mod slabs;
#[cfg(test)]
mod tests;

use std::io;
use std::ptr::NonNull;

use arcwell_base::lock::Mutex;
use crossbeam_utils::CachePadded;

use crate::arena::central::Central;
use crate::arena::chunks::bytes;
use crate::arena::lanes::{Lanes, Mine};
use crate::arena::region::{HUGE_PAGE, PAGE, Region};
use crate::arena::size::{GRAIN, Size};
use crate::check::Violation;
use crate::sync::plain::{AtomicU64, Ordering};

/// Where a buffer lies: its distance from the region's beginning, in units of 16 bytes. It takes 40 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place(u64);

impl Place {
    /// Where nothing lies.
    pub(crate) const NONE: Place = Place(0);

    /// The place that [`Place::to_bits`] gave.
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Place {
        Place(bits)
    }

    /// 40 bits, zero for [`Place::NONE`] alone.
    #[inline]
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    fn of_byte(byte: usize) -> Place {
        Place((byte / GRAIN) as u64)
    }

    fn of_page(page: u32) -> Place {
        Place::of_byte(page as usize * PAGE)
    }

    #[inline]
    fn byte(self) -> usize {
        self.0 as usize * GRAIN
    }

    fn page(self) -> u32 {
        debug_assert!(self.byte().is_multiple_of(PAGE), "{self:?} is no page");
        (self.byte() / PAGE) as u32
    }
}

/// See the module's opening.
#[derive(Debug)]
pub(crate) struct Arena {
    region: Region,
    lanes: Lanes,
    central: CachePadded<Mutex<Central>>,
    held: AtomicU64,
}

/// Address space that an arena can have: pages are counted in 32 bits.
const MOST: u64 = PAGE as u64 * (1 << 32) - 2 * HUGE_PAGE as u64;

impl Arena {
    /// One part in so many of what buffers take lies idle, at most, when that is more than 5 MiB: a 44th
    /// among the free runs, a 128th in lanes.
    pub(crate) const SLACK: u64 = 32;

    /// An arena in `reserve` bytes of address space, at most 16 TiB.
    ///
    /// # Errors
    /// The kernel's, for want of address space; `InvalidInput` if that is more than an arena can have.
    pub(crate) fn new(reserve: u64) -> io::Result<Arena> {
        if reserve > MOST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // The first chunk is no buffer's, so that zero is no place.
        let region = Region::reserve(reserve as usize + HUGE_PAGE)?;
        let central = Central::new((region.len() / PAGE) as u32);
        let held = AtomicU64::new(0);
        Ok(Arena {
            region,
            lanes: Lanes::default(),
            central: CachePadded::new(Mutex::new("arc.arena", central)),
            held,
        })
    }

    /// Bytes that a buffer of `len` bytes takes.
    #[inline]
    pub(crate) fn taken(len: usize) -> u64 {
        if len == 0 { 0 } else { Size::of(len).bytes() }
    }

    /// Room for `len` bytes, more than none and fewer than 4 GiB, with any bytes in it. Nothing if no
    /// address space is left.
    #[inline]
    pub(crate) fn alloc(&self, len: usize) -> Option<Place> {
        if len == 0 || len > u32::MAX as usize {
            return None;
        }
        let size = Size::of(len);
        let mut lane = self.lanes.mine();
        let place = match lane.pop(size) {
            Some(place) => place,
            None => match self.fetch(&mut lane, size) {
                Some(place) => place,
                None => {
                    drop(lane);
                    return self.alloc_at_last(size);
                }
            },
        };
        lane.count_taken(size.bytes());
        Some(place)
    }

    /// Takes a piece from all threads' free ones, and some more for the lane.
    #[cold]
    fn fetch(&self, lane: &mut Mine<'_>, size: Size) -> Option<Place> {
        self.with_central(|central| {
            let place = central.take(&self.region, size)?;
            for _ in 0..lane.wants(size) {
                match central.take(&self.region, size) {
                    Some(more) => lane.stash(more, size),
                    None => break,
                }
            }
            Some(place)
        })
    }

    /// When address space is short: what lies in lanes, or has memory behind it and so is kept apart, may be
    /// what is missing.
    #[cold]
    fn alloc_at_last(&self, size: Size) -> Option<Place> {
        self.give_back();
        let place = self.with_central(|central| central.take(&self.region, size))?;
        self.lanes.mine().count_taken(size.bytes());
        Some(place)
    }

    /// Gives a buffer of `len` bytes back.
    ///
    /// # Safety
    /// [`Arena::alloc`] or [`Arena::shrink`] of this arena gave `place` for this length, and nobody uses
    /// it from now on.
    #[inline]
    pub(crate) unsafe fn free(&self, place: Place, len: usize) {
        self.put(place, Size::of(len));
    }

    /// Keeps the first `to` bytes of a buffer of `from` bytes. Says where they are now: they stay where
    /// they are unless `to` is less than a page, and takes less. Nothing if no address space is left to
    /// move them to, and the buffer is as before.
    ///
    /// # Safety
    /// As for [`Arena::free`], with `from` for the length; `to` is neither zero nor more than that. The new
    /// place counts as given for `to` bytes.
    pub(crate) unsafe fn shrink(&self, place: Place, from: usize, to: usize) -> Option<Place> {
        debug_assert!(0 < to && to <= from);
        match (Size::of(from), Size::of(to)) {
            (before, after) if before == after => Some(place),
            (Size::Pages(before), Size::Pages(after)) => {
                self.put(Place::of_page(place.page() + after), Size::Pages(before - after));
                Some(place)
            }
            (before, Size::Slot(_)) => {
                let shorter = self.alloc(to)?;
                // SAFETY: both have at least `to` bytes, and the new one is nobody else's yet.
                unsafe { self.bytes(place).copy_to_nonoverlapping(self.bytes(shorter), to) };
                self.put(place, before);
                Some(shorter)
            }
            (Size::Slot(_), Size::Pages(_)) => unreachable!("{to} bytes are no more than {from}"),
        }
    }

    /// Where the bytes of a place begin.
    ///
    /// # Safety
    /// The place is of this arena. For [`Place::NONE`] it is an address that nothing may be read from.
    #[inline]
    pub(crate) unsafe fn bytes(&self, place: Place) -> NonNull<u8> {
        // SAFETY: a place lies within the region.
        unsafe { self.region.base().add(place.byte()) }
    }

    /// Has the beginning of the bytes of a place fetched from memory, even if it is none any more.
    #[inline]
    pub(crate) fn prefetch(&self, place: Place, len: usize) {
        hint::fetch_beginning(self.region.base().as_ptr().wrapping_add(place.byte()), len);
    }

    fn put(&self, place: Place, size: Size) {
        let mut lane = self.lanes.mine();
        lane.count_given(size.bytes());
        if lane.push(place, size) {
            return;
        }
        let over = self.with_central(|central| {
            lane.make_room(size, |place, size| central.put(place, size));
            central.put(place, size);
            central.is_over()
        });
        drop(lane);
        if over {
            self.relieve(false);
        }
    }

    /// Gives idle memory back: what is more than worth keeping, or `all`.
    #[cold]
    fn relieve(&self, all: bool) -> u64 {
        let mut given = 0;
        loop {
            let runs = self.with_central(|central| central.leave(&self.region, all));
            if runs.is_empty() {
                return given;
            }
            for run in &runs {
                // SAFETY: the run was free, and nobody can take it until it has left.
                unsafe { self.region.give_back(bytes(run.clone())) };
                given += bytes(run.clone()).len() as u64;
            }
            self.with_central(|central| central.left(runs));
        }
    }

    /// Gives all memory back to the machine that no buffer needs, and says how many bytes that were.
    pub(crate) fn give_back(&self) -> u64 {
        for mut lane in self.lanes.all() {
            self.with_central(|central| lane.empty(|place, size| central.put(place, size)));
        }
        let mut given = self.relieve(true);
        let mut from = 0;
        // One slab at a time, as others wait meanwhile.
        while let Some((slab, pages)) = self.with_central(|central| central.hollow_out(&self.region, from)) {
            given += pages * PAGE as u64;
            from = slab + 1;
        }
        given
    }

    fn with_central<T>(&self, act: impl FnOnce(&mut Central) -> T) -> T {
        let mut central = self.central.lock();
        let done = act(&mut central);
        self.held.store(central.held() * PAGE as u64, Ordering::Relaxed);
        self.lanes.set_limit(central.used() * PAGE as u64);
        done
    }

    /// Bytes that buffers take: the sum of [`Arena::taken`].
    pub(crate) fn payload(&self) -> u64 {
        self.lanes.payload()
    }

    /// Bytes of the machine's memory that buffers and what lies idle between them take.
    pub(crate) fn resident(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Walks everything and recounts. Buffers may be outstanding, but no other thread may use the arena.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub(crate) fn validate(&self) -> Result<(), Violation> {
        let stashed: Vec<_> = self.lanes.all().flat_map(|lane| lane.pieces().collect::<Vec<_>>()).collect();
        let central = self.central.lock();
        let counted = central.recount(&stashed)? - stashed.iter().map(|(_, size)| size.bytes()).sum::<u64>();
        if counted != self.payload() {
            return Err(format!("R6: buffers take {counted} bytes, counted {}", self.payload()).into());
        }
        let held = central.held() * PAGE as u64;
        if held != self.resident() {
            return Err(format!("R6: {held} bytes are held, counted {}", self.resident()).into());
        }
        Ok(())
    }
}
