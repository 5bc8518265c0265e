//! What all threads share, under one lock: the free runs, the slabs and the marks of chunks.
//!
//! It decides where memory comes from: what lies idle first, then address space that has no memory yet.
//! Idle memory above a share of what is in use is given back, short runs first: the long ones are where
//! the next buffer will fit. In a churn of 4 KiB to 1 MiB that left 7 % of the pages that are handed out to
//! be filled anew; long runs first, 33 %; high addresses first, 14 %. When much is to go it is the long
//! runs first after all, as a call of the kernel costs much and a page in it little.
//!
//! - **R6** Every page but those of the first chunk, to which nobody has a place, is in a free run, on its
//!   way back to the machine, part of a slab, or part of a buffer.

use crate::arena::chunks::{CHUNK, Chunks, bytes};
use crate::arena::extents::{Extents, Pages, Sort};
use crate::arena::region::{PAGE, Region};
use crate::arena::size::{SLAB, SLAB_PAGES, Size};
use crate::arena::slabs::{PageBits, Slabs, bit_runs};
use crate::arena::{Arena, Place, lanes};

/// Idle pages that are kept in any case: 4 MiB, so that a chunk may be filled at once.
const LEAST_IDLE: u64 = 2 * CHUNK as u64;

/// Idle pages that are kept beside these are one in so many of those in use.
const IDLE_SHARE: u64 = 44;

const _: () = assert!(1000 / IDLE_SHARE + 1000 / lanes::SHARE <= 1000 / Arena::SLACK, "idle in all");

/// Pages in use below which chunks are filled page by page: 8 MiB.
const SMALL: u64 = 4 * CHUNK as u64;

/// Runs that are taken out under one lock to be given back.
const BATCH: usize = 256;

/// See the file's opening.
#[derive(Debug)]
pub(super) struct Central {
    pub(super) extents: Extents,
    pub(super) chunks: Chunks,
    pub(super) slabs: Slabs,
    /// Pages that are on their way back to the machine.
    leaving: u64,
    total: u64,
}

impl Central {
    /// Of a region of so many pages.
    pub(super) fn new(pages: u32) -> Central {
        let mut extents = Extents::default();
        extents.put(CHUNK..pages, Sort::Hollow);
        let total = extents.pages(Sort::Hollow);
        Central { extents, chunks: Chunks::default(), slabs: Slabs::default(), leaving: 0, total }
    }

    /// Pages that memory stands behind.
    pub(super) fn held(&self) -> u64 {
        self.total - self.extents.pages(Sort::Hollow) - self.slabs.hollow_pages()
    }

    /// Pages that belong to buffers and slabs.
    pub(super) fn used(&self) -> u64 {
        self.total - self.extents.pages(Sort::Hollow) - self.extents.pages(Sort::Filled) - self.leaving
    }

    fn most_idle(&self) -> u64 {
        LEAST_IDLE.max(self.used() / IDLE_SHARE)
    }

    /// Takes pages or a slot. Nothing if no address space is left.
    pub(super) fn take(&mut self, region: &Region, size: Size) -> Option<Place> {
        let class = match size {
            Size::Pages(count) => return Some(Place::of_page(self.pages(region, count, 1)?.0)),
            Size::Slot(class) => class,
        };
        let (slab, offset) = match self.slabs.take(class) {
            Some(slot) => slot,
            None => {
                let (page, sort) = self.pages(region, SLAB_PAGES, SLAB_PAGES)?;
                let hollow = if sort == Sort::Hollow { PageBits::MAX } else { 0 };
                self.slabs.open(page / SLAB_PAGES, class, hollow);
                self.slabs.take(class)?
            }
        };
        Some(Place::of_byte(slab as usize * SLAB + offset))
    }

    /// Takes back what [`Central::take`] gave, or the last pages of it.
    pub(super) fn put(&mut self, place: Place, size: Size) {
        let class = match size {
            Size::Pages(count) => return self.extents.put(place.page()..place.page() + count, Sort::Filled),
            Size::Slot(class) => class,
        };
        let (slab, offset) = (place.byte() / SLAB, place.byte() % SLAB);
        if let Some(hollow) = self.slabs.put(slab as u32, class, offset) {
            let first = slab as u32 * SLAB_PAGES;
            for (bits, sort) in [(hollow, Sort::Hollow), (!hollow, Sort::Filled)] {
                for run in bit_runs(bits) {
                    self.extents.put(first + run.start..first + run.end, sort);
                }
            }
        }
    }

    /// `count` pages that begin at a multiple of `align`, and whether memory stands behind them.
    fn pages(&mut self, region: &Region, count: u32, align: u32) -> Option<(u32, Sort)> {
        if let Some((run, at)) = self.extents.fit(Sort::Filled, count, align) {
            self.extents.cut(run, at..at + count, Sort::Filled);
            return Some((at, Sort::Filled));
        }
        if align == 1
            && let Some(at) = self.stretch(region, count)
        {
            return Some((at, Sort::Filled));
        }
        let (run, at) = self.extents.fit(Sort::Hollow, count, align)?;
        self.take_hollow(region, run, at..at + count);
        let whole = self.chunks.is_huge(at / CHUNK) && self.chunks.is_huge((at + count - 1) / CHUNK);
        Some((at, if whole { Sort::Filled } else { Sort::Hollow }))
    }

    /// Takes a filled run and as much of the address space around it as is missing.
    fn stretch(&mut self, region: &Region, count: u32) -> Option<u32> {
        let (before, run, after) = self.extents.stretch(count)?;
        self.extents.cut(run.clone(), run.clone(), Sort::Filled);
        let missing = count - (run.end - run.start);
        let behind = missing.min(after.end - after.start);
        let at = run.start - (missing - behind);
        if at < run.start {
            self.take_hollow(region, before, at..run.start);
        }
        if behind > 0 {
            let part = after.start..after.start + behind;
            self.take_hollow(region, after, part);
        }
        Some(at)
    }

    /// Takes `part` of a hollow run.
    fn take_hollow(&mut self, region: &Region, run: Pages, part: Pages) {
        let filled = self.fill(region, &run, part.clone());
        self.extents.cut(run, filled.clone(), Sort::Hollow);
        self.extents.put(filled.start..part.start, Sort::Filled);
        self.extents.put(part.end..filled.end, Sort::Filled);
    }

    /// Prepares the chunks that `part` of a hollow `run` lies in, and names the pages that will be there
    /// once `part` has been written to: R3.
    fn fill(&mut self, region: &Region, run: &Pages, part: Pages) -> Pages {
        let room = self.extents.pages(Sort::Filled) + u64::from(CHUNK) <= self.most_idle();
        let want = room && self.held() >= SMALL;
        let mut filled = part.clone();
        for at in part.start / CHUNK..=(part.end - 1) / CHUNK {
            let chunk = at * CHUNK..(at + 1) * CHUNK;
            let whole = run.start <= chunk.start && chunk.end <= run.end;
            if self.chunks.mark(region, at, want && whole) {
                filled = filled.start.min(chunk.start)..filled.end.max(chunk.end);
            }
        }
        filled
    }

    /// Whether so much lies idle that some of it should be given back.
    pub(super) fn is_over(&self) -> bool {
        self.extents.pages(Sort::Filled) > self.most_idle()
    }

    /// Takes idle runs out that are to be given back, until no more than is worth keeping is left, or
    /// `all`. [`Central::left`] has to be told when it is done.
    pub(super) fn leave(&mut self, region: &Region, all: bool) -> Vec<Pages> {
        let most = self.most_idle();
        let keep = if all { 0 } else { most / 8 * 7 };
        let mut runs = Vec::new();
        while runs.len() < BATCH && self.extents.pages(Sort::Filled) > keep {
            let much = all || self.extents.pages(Sort::Filled) > 2 * most;
            let Some(run) = self.extents.extreme(much) else { break };
            self.extents.cut(run.clone(), run.clone(), Sort::Filled);
            self.leaving += u64::from(run.end - run.start);
            self.pierce(region, &run);
            runs.push(run);
        }
        runs
    }

    /// The memory of these runs is with the machine.
    pub(super) fn left(&mut self, runs: Vec<Pages>) {
        for run in runs {
            self.leaving -= u64::from(run.end - run.start);
            self.extents.put(run, Sort::Hollow);
        }
    }

    /// Takes the marks from chunks that will keep pages beside these: R3.
    fn pierce(&mut self, region: &Region, pages: &Pages) {
        for at in [pages.start / CHUNK, (pages.end - 1) / CHUNK] {
            if pages.start > at * CHUNK || pages.end < (at + 1) * CHUNK {
                self.chunks.mark(region, at, false);
            }
        }
    }

    /// Gives the idle pages back of the first slab, from `from` on, that has free slots. Says which slab
    /// that is, and how many pages.
    pub(super) fn hollow_out(&mut self, region: &Region, from: u32) -> Option<(u32, u64)> {
        let slab = self.slabs.next_open(from)?;
        let mut given = 0;
        for run in self.slabs.hollow_out(slab) {
            let run = slab * SLAB_PAGES + run.start..slab * SLAB_PAGES + run.end;
            self.pierce(region, &run);
            // SAFETY: no slot in use touches these pages, and none is taken while `self` is borrowed.
            unsafe { region.give_back(bytes(run.clone())) };
            given += u64::from(run.end - run.start);
        }
        Some((slab, given))
    }

    /// Recounts, and gives the bytes that buffers take, those that lanes stash among them. `stashed` is
    /// what lies in lanes.
    ///
    /// # Errors
    /// What does not hold: R1 to R6.
    pub(super) fn recount(&self, stashed: &[(Place, Size)]) -> Result<u64, String> {
        self.extents.recount()?;
        self.slabs.recount()?;
        let mut owned = Extents::default();
        let (mut in_slots, mut in_slabs) = (0, 0);
        for (slab, used, _) in self.slabs.all() {
            owned.put(slab * SLAB_PAGES..(slab + 1) * SLAB_PAGES, Sort::Filled);
            in_slots += used;
            in_slabs += u64::from(SLAB_PAGES);
        }
        for (place, size) in stashed {
            match size {
                Size::Pages(count) => owned.put(place.page()..place.page() + count, Sort::Filled),
                Size::Slot(class) => {
                    let (slab, offset) = (place.byte() / SLAB, place.byte() % SLAB);
                    if !self.slabs.in_use(slab as u32, *class, offset) {
                        return Err(format!("R4: {place:?} is stashed, but {size:?} there is not in use"));
                    }
                }
            }
        }
        for (run, sort) in self.extents.runs() {
            // Panics if what is free is a slab, or stashed.
            owned.put(run.clone(), sort);
        }
        self.check_marks()?;
        let pages = self.used().checked_sub(in_slabs).ok_or("R6: slabs have more pages than are in use")?;
        Ok(pages * PAGE as u64 + in_slots)
    }

    /// R3.
    fn check_marks(&self) -> Result<(), String> {
        let mut hollow = Extents::default();
        for (slab, _, bits) in self.slabs.all() {
            for run in bit_runs(bits) {
                hollow.put(slab * SLAB_PAGES + run.start..slab * SLAB_PAGES + run.end, Sort::Hollow);
            }
        }
        for (run, sort) in self.extents.runs() {
            if sort == Sort::Hollow {
                hollow.put(run, sort);
            }
        }
        for (run, _) in hollow.runs() {
            for at in [run.start / CHUNK, (run.end - 1) / CHUNK] {
                let whole = run.start <= at * CHUNK && (at + 1) * CHUNK <= run.end;
                if self.chunks.is_huge(at) && !whole {
                    return Err(format!("R3: chunk {at} is marked, but only {run:?} is hollow"));
                }
            }
        }
        Ok(())
    }
}
