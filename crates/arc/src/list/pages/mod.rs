//! Lists as chains of page arrays (MC-ARC): exact order, and blocks that stay on the list while they are
//! used, so that a hit changes nothing here.
//!
//! New blocks go into the slots of the page at the head, one after the other; when it is full, another page
//! becomes the head. A block that is to move leaves its slot empty and takes one of the head's. Eviction
//! takes the page at the tail out of the chain, so that two that evict at once never work on the same
//! blocks; what it could not take stays in the page, which goes back to the tail when the pass ends. A page
//! in which nothing is left is used again, wherever in the chain it was.
//!
//! Pages are numbered in the order in which they were the head: how far a block is from the head is
//! arithmetic on that number, and a place in the list stays meaningful however many pages come and go.
//!
//! Locks: the chain's, for a few instructions, when a page becomes the head, is taken for eviction, goes
//! back, or has become empty: for one block in as many as a page holds. Slots are taken and emptied
//! without it ([`page`]).

mod compact;
mod page;
#[cfg(all(test, not(feature = "model")))]
mod tests;
mod walk;

use std::collections::VecDeque;
use std::io;

use crossbeam_utils::CachePadded;
use smallvec::SmallVec;

use self::page::{Page, SLOTS_A_LINE};
use super::{End, Evict, List, Listed, Passed, Sighting, Stand};
use crate::arena::line::Lines;
use crate::sync::{AtomicU64, Fault, Mutex, Ordering, is_broken};

/// Slots of a page at least.
pub(crate) const SLOTS_MIN: u64 = SLOTS_A_LINE as u64;
/// And at most: places in a page are told in 20 bits.
pub(crate) const SLOTS_MAX: u64 = 4096;

/// Blocks of a page that are told of before they are offered.
const AHEAD: usize = 6;

/// A page that is no longer in the chain.
const GONE: u32 = u32::MAX;

/// The pages in order, the oldest first; the last is the head.
#[derive(Debug, Default)]
struct Chain {
    /// Sequence and number of each.
    pages: VecDeque<(u64, u32)>,
    /// Pages of those that are gone from between others.
    gone: usize,
    vacant: Vec<u32>,
    /// Pages that were ever used.
    used: u32,
    next: u64,
    /// Up to where sparse pages were looked for.
    looked_at: u64,
}

impl Chain {
    /// A page that is in no chain.
    fn take_vacant(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        })
    }

    /// Takes the page at a place out, and leaves the place.
    fn forget(&mut self, place: usize) {
        self.pages[place].1 = GONE;
        self.gone += 1;
    }

    /// Drops places that were left: those at the tail, and all when they are many.
    fn trim(&mut self) {
        while self.pages.front().is_some_and(|(_, number)| *number == GONE) {
            self.pages.pop_front();
            self.gone -= 1;
        }
        if self.gone > self.pages.len() / 2 {
            self.pages.retain(|(_, number)| *number != GONE);
            self.gone = 0;
        }
    }
}

/// See the module's doc.
#[derive(Debug)]
pub(crate) struct Pages {
    rows: Lines,
    lines_a_page: usize,
    /// The number of the page at the head, and in the upper half its generation.
    head: AtomicU64,
    /// Its sequence.
    newest: AtomicU64,
    len: CachePadded<AtomicU64>,
    /// Pages in the chain.
    filled: AtomicU64,
    chain: Mutex<Chain>,
}

impl Pages {
    /// A list of up to `blocks` blocks in pages of `slots`.
    ///
    /// # Errors
    /// The kernel's, for want of address space.
    pub(crate) fn reserve(blocks: u32, slots: u64) -> io::Result<Pages> {
        let slots = slots.clamp(SLOTS_MIN, SLOTS_MAX) as usize;
        let lines_a_page = 1 + slots.div_ceil(SLOTS_A_LINE);
        // Sparse pages are put together, so that there are about two for one that is full; and `blocks` is
        // far more than fit into the cache as it begins.
        const BLOCKS_A_PAGE: usize = 8;
        const SPARE: usize = 1024;
        let pages = blocks as usize / BLOCKS_A_PAGE + SPARE;
        let rows = Lines::reserve(pages.saturating_mul(lines_a_page))?;
        let pages = Pages {
            rows,
            lines_a_page,
            head: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            len: CachePadded::default(),
            filled: AtomicU64::new(0),
            chain: Mutex::named("arc.pages"),
        };
        pages.begin_page(&mut pages.chain.lock());
        Ok(pages)
    }

    fn page(&self, number: u32) -> Page<'_> {
        let first = number as usize * self.lines_a_page;
        Page::of(&self.rows[first..first + self.lines_a_page])
    }

    /// Makes an empty page the head.
    fn begin_page(&self, chain: &mut Chain) {
        let number = chain.take_vacant();
        let sequence = chain.next;
        chain.next += 1;
        let generation = self.page(number).begin(sequence);
        chain.pages.push_back((sequence, number));
        self.count_pages(chain);
        self.newest.store(sequence, Ordering::Relaxed);
        self.head.store(generation << 32 | u64::from(number), Ordering::Release);
    }

    /// Has another page follow the head that was `head`, if nobody has done so.
    #[cold]
    fn turn_over(&self, head: u64) {
        let mut chain = self.chain.lock();
        if self.head.load(Ordering::Acquire) == head {
            self.begin_page(&mut chain);
            self.retire(&mut chain, head as u32);
        }
    }

    /// Takes a page out of the chain if nothing is left in it.
    fn retire(&self, chain: &mut Chain, number: u32) {
        let page = self.page(number);
        let is_head = self.head.load(Ordering::Relaxed) as u32 == number;
        if is_head || page.fill().live() > 0 {
            return;
        }
        let sequence = page.sequence().load(Ordering::Relaxed);
        // Several may have one sequence, after pages were put together.
        let first = chain.pages.partition_point(|(other, _)| *other < sequence);
        let same = chain.pages.range(first..).take_while(|(other, _)| *other == sequence);
        let Some(place) = same.map(|(_, other)| *other).position(|other| other == number) else { return };
        chain.forget(first + place);
        chain.vacant.push(number);
        chain.trim();
        self.count_pages(chain);
    }

    fn count_pages(&self, chain: &Chain) {
        self.filled.store((chain.pages.len() - chain.gone) as u64, Ordering::Relaxed);
    }

    /// Takes the oldest page out of the chain, if it is no younger than `newest`. Its sequence and its number.
    fn claim(&self, newest: u64) -> Option<(u64, u32)> {
        let mut chain = self.chain.lock();
        let (sequence, page) = *chain.pages.front().filter(|(sequence, _)| *sequence <= newest)?;
        debug_assert_ne!(page, GONE, "what is gone is not left at the tail");
        if chain.pages.len() == 1 {
            if self.page(page).fill().live() == 0 {
                return None;
            }
            // The head itself: what comes from now on goes behind it.
            self.page(page).close();
            self.begin_page(&mut chain);
        }
        chain.pages.pop_front();
        chain.trim();
        self.count_pages(&chain);
        Some((sequence, page))
    }

    /// Puts a page back where it was.
    fn put_back(&self, (sequence, number): (u64, u32)) {
        // Whoever takes the last block out from here on waits for the chain, and then finds the page in it.
        let mut chain = self.chain.lock();
        if self.page(number).fill().live() == 0 && !is_broken(Fault::PutBackUnchecked) {
            chain.vacant.push(number);
            return;
        }
        // Two may have one sequence after pages were put together: the first to be put back is the older.
        let place = chain.pages.partition_point(|(other, _)| *other <= sequence);
        chain.pages.insert(place, (sequence, number));
        self.count_pages(&chain);
    }

    /// Offers the blocks of a page, the oldest first. `true` when there are enough.
    fn sweep(&self, number: u32, want: usize, freed: &mut u64, by: &mut dyn Evict) -> bool {
        let page = self.page(number);
        let (mut start, mut is_enough) = (page.start().load(Ordering::Relaxed) as usize, false);
        let block = |slot| Some(Listed { place: place_of(number, slot), number: page.block(slot)? });
        // Whoever wants one block takes the first that he meets, most of the time.
        let told = if want > 1 { start..page.given() } else { 0..0 };
        let mut told = told.filter_map(block);
        told.by_ref().take(AHEAD).for_each(|listed| by.expect(listed));
        for slot in start..page.given() {
            let Some(listed) = block(slot) else { continue };
            told.next().into_iter().for_each(|listed| by.expect(listed));
            let passed = by.evict(listed);
            let (Passed::Freed(bytes) | Passed::Enough(bytes)) = passed;
            *freed += bytes;
            is_enough = matches!(passed, Passed::Enough(_));
            if is_enough {
                break;
            }
        }
        while start < page.given() && page.was_left(start) {
            start += 1;
        }
        page.start().store(start as u64, Ordering::Relaxed);
        is_enough
    }
}

fn place_of(page: u32, slot: usize) -> u64 {
    u64::from(page) << 32 | (slot as u64 + 1)
}

fn parts_of(place: u64) -> (u32, usize) {
    ((place >> 32) as u32, (place as u32 - 1) as usize)
}

impl List for Pages {
    fn sublists(&self) -> usize {
        1
    }

    fn insert(&self, _hash: u64, number: u32, _bytes: u64) -> u64 {
        loop {
            let head = self.head.load(Ordering::Acquire);
            let page = self.page(head as u32);
            if let Some(slot) = page.reserve(head >> 32) {
                page.fill_slot(slot, number);
                self.len.fetch_add(1, Ordering::Relaxed);
                return place_of(head as u32, slot);
            }
            self.turn_over(head);
        }
    }

    fn remove(&self, _hash: u64, place: u64, _bytes: u64) {
        let (number, slot) = parts_of(place);
        self.len.fetch_sub(1, Ordering::Relaxed);
        if self.page(number).clear(slot) {
            self.retire(&mut self.chain.lock(), number);
        }
    }

    fn is_near_head(&self, place: u64, percent: u64) -> bool {
        let (number, slot) = parts_of(place);
        let (page, newest) = (self.page(number), self.newest.load(Ordering::Relaxed));
        let head = self.page(self.head.load(Ordering::Relaxed) as u32);
        let pages = newest.saturating_sub(page.sequence().load(Ordering::Relaxed));
        let behind = (pages * page.size() + head.fill().given()).saturating_sub(slot as u64);
        behind.saturating_mul(100) < percent * self.len.load(Ordering::Relaxed)
    }

    fn look(&self, _sublist: usize, from: End, want: usize, seen: &mut Sighting) {
        let chain = self.chain.lock();
        let slots = |&(_, number): &(u64, u32)| {
            let given = if number == GONE { 0 } else { self.page(number).given() };
            let start =
                if number == GONE { 0 } else { self.page(number).start().load(Ordering::Relaxed) as usize };
            (start..given).map(move |slot| (number, slot))
        };
        let block = |(number, slot)| {
            let number_of = self.page(number).block(slot)?;
            Some(Listed { place: place_of(number, slot), number: number_of })
        };
        match from {
            End::Tail => seen.extend(chain.pages.iter().flat_map(slots).filter_map(block).take(want)),
            End::Head => {
                let newest_first = chain.pages.iter().rev().flat_map(|page| slots(page).rev());
                seen.extend(newest_first.filter_map(block).take(want));
            }
        }
    }

    fn go_on(&self, from: End, stand: &mut Stand, want: usize, seen: &mut Sighting) -> bool {
        self.walk_on(from, &mut stand.page, want, seen)
    }

    fn pass(&self, _sublist: usize, want: usize, by: &mut dyn Evict) -> u64 {
        // What is moved to the head meanwhile waits for the next pass.
        let newest = self.newest.load(Ordering::Relaxed);
        let (mut freed, mut kept) = (0, SmallVec::<[(u64, u32); 4]>::new());
        while let Some(claimed) = self.claim(newest) {
            let is_enough = self.sweep(claimed.1, want, &mut freed, by);
            match self.page(claimed.1).fill().live() {
                0 => self.put_back(claimed),
                _ => kept.push(claimed),
            }
            if is_enough || freed > 0 {
                break;
            }
        }
        kept.into_iter().for_each(|claimed| self.put_back(claimed));
        freed
    }

    fn tidy(&self, moves: &mut dyn FnMut(Listed, u64) -> bool) {
        if self.is_sparse() {
            self.join_two(moves);
        }
    }

    fn bytes(&self) -> Option<u64> {
        None
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    fn validate(&self) -> Result<(), String> {
        let chain = self.chain.lock();
        let kept: Vec<u32> = chain.pages.iter().map(|(_, page)| *page).filter(|page| *page != GONE).collect();
        if kept.len() + chain.vacant.len() != chain.used as usize {
            return Err(format!("{} pages, {} and {} known", chain.used, kept.len(), chain.vacant.len()));
        }
        let head = self.head.load(Ordering::Acquire) as u32;
        if kept.last() != Some(&head) || !chain.pages.iter().is_sorted_by_key(|(sequence, _)| *sequence) {
            return Err(format!("pages are out of order, or not {head} is the last"));
        }
        for &number in &kept {
            let page = self.page(number);
            let (live, found) =
                (page.fill().live(), (0..page.given()).filter_map(|slot| page.block(slot)).count());
            if live != found as u64 || live == 0 && number != head {
                return Err(format!("page {number} holds {found} blocks, counted {live}"));
            }
        }
        Ok(())
    }
}
