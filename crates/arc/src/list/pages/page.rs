//! A page: a short array of slots that is filled once, from the first to the last, and emptied in any
//! order.
//!
//! Its word says how many slots were given out, how many of them still hold a block, and which of the
//! pages that used this memory one after the other it is. A slot is given out by one addition to that
//! word, and the block's number is then put into it; a block leaves by a mark in place of its number,
//! which only who has its header's lock puts there, and one subtraction. So a slot whose block is still on the
//! way is told from one that was left. Memory of pages is never given to anything else, so that who comes late
//! finds a page of another generation, and not something that is no page.

use crate::arena::line::Line;
use crate::sync::{AtomicU64, Ordering};

/// The page's own line comes first, its slots in the lines behind.
pub(super) const SLOTS_A_LINE: usize = 8;

/// What is known of a page at a moment.
#[derive(Clone, Copy)]
pub(super) struct Fill(u64);

impl Fill {
    const LIVE: u64 = 1;
    const GIVEN: u64 = 1 << 20;
    const COUNT: u64 = (1 << 20) - 1;
    const GENERATION_SHIFT: u32 = 40;
    /// Bits of a generation that are kept.
    pub(super) const GENERATION: u64 = (1 << 24) - 1;

    /// Slots that were given out.
    pub(super) fn given(self) -> u64 {
        (self.0 / Fill::GIVEN) & Fill::COUNT
    }

    /// Slots that hold a block, or are about to.
    pub(super) fn live(self) -> u64 {
        self.0 & Fill::COUNT
    }

    pub(super) fn generation(self) -> u64 {
        self.0 >> Fill::GENERATION_SHIFT
    }
}

/// A page, seen as what it holds.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    line: &'a Line,
    slots: &'a [Line],
}

impl<'a> Page<'a> {
    const COMING: u64 = 0;
    const LEFT: u64 = u64::MAX;

    /// The page whose lines these are.
    pub(super) fn of(lines: &'a [Line]) -> Page<'a> {
        Page { line: &lines[0], slots: &lines[1..] }
    }

    fn word(self) -> &'a AtomicU64 {
        &self.line.0[0]
    }

    /// Its place in the order of all pages of the list.
    pub(super) fn sequence(self) -> &'a AtomicU64 {
        &self.line.0[1]
    }

    /// Slots before this one are empty for good.
    pub(super) fn start(self) -> &'a AtomicU64 {
        &self.line.0[2]
    }

    fn slot(self, number: usize) -> &'a AtomicU64 {
        &self.slots[number / SLOTS_A_LINE].0[number % SLOTS_A_LINE]
    }

    /// The block in a slot.
    pub(super) fn block(self, slot: usize) -> Option<u32> {
        match self.slot(slot).load(Ordering::Acquire) {
            Page::COMING | Page::LEFT => None,
            block => Some((block - 1) as u32),
        }
    }

    /// Puts a block into a slot that was given out for it.
    pub(super) fn fill_slot(self, slot: usize, block: u32) {
        self.slot(slot).store(u64::from(block) + 1, Ordering::Release);
    }

    /// Whether the block of a slot has come and gone.
    pub(super) fn was_left(self, slot: usize) -> bool {
        self.slot(slot).load(Ordering::Acquire) == Page::LEFT
    }

    pub(super) fn size(self) -> u64 {
        (self.slots.len() * SLOTS_A_LINE) as u64
    }

    /// Slots that were given out.
    pub(super) fn given(self) -> usize {
        self.fill().given() as usize
    }

    pub(super) fn fill(self) -> Fill {
        Fill(self.word().load(Ordering::Acquire))
    }

    /// Begins to be another page. Nobody may have the old one in a chain.
    pub(super) fn begin(self, sequence: u64) -> u64 {
        let generation = (self.fill().generation() + 1) & Fill::GENERATION;
        self.sequence().store(sequence, Ordering::Relaxed);
        self.start().store(0, Ordering::Relaxed);
        self.slots
            .iter()
            .flat_map(|line| &line.0)
            .for_each(|slot| slot.store(Page::COMING, Ordering::Relaxed));
        self.word().store(generation << Fill::GENERATION_SHIFT, Ordering::Release);
        generation
    }

    /// Gives a slot out; `None` when the page is full, or is no longer the one that was meant.
    pub(super) fn reserve(self, generation: u64) -> Option<usize> {
        let size = self.size();
        let reserved = self.word().fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let fits = Fill(word).generation() == generation && Fill(word).given() < size;
            fits.then_some(word + Fill::GIVEN + Fill::LIVE)
        });
        reserved.ok().map(|word| Fill(word).given() as usize)
    }

    /// Lets nobody have a slot any more.
    pub(super) fn close(self) {
        let size = self.size();
        let _closed = self.word().fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let missing = size.checked_sub(Fill(word).given()).filter(|missing| *missing > 0)?;
            Some(word + missing * Fill::GIVEN)
        });
    }

    /// Empties a slot; `true` when nothing is left in the page and nothing can come.
    pub(super) fn clear(self, slot: usize) -> bool {
        debug_assert!(self.block(slot).is_some(), "a block leaves the list once");
        self.slot(slot).store(Page::LEFT, Ordering::Release);
        let before = Fill(self.word().fetch_sub(Fill::LIVE, Ordering::AcqRel));
        before.live() == 1 && before.given() >= self.size()
    }
}
