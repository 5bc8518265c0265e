//! Where a walk through a list stands between two looks at it.
//!
//! A walk goes from one end of a list inwards, a few blocks at a time, and holds nothing in between: blocks come,
//! move and go meanwhile as ever. What it remembers is therefore only a hint, which the list proves before it
//! believes it. How that is done depends on the kind of the list: see [`pages`](super::pages) for a page and a
//! slot, and [`sublist`](super::sublist) for the last blocks that were seen. A block that stays where it is is met
//! once.

use smallvec::SmallVec;

use super::Listed;

/// Blocks that are looked at in one go at most: where a lock is held for it, no longer than for so many.
pub(crate) const AT_ONCE: usize = 64;

/// Blocks of a sublist that are looked at before it is the next one's turn.
pub(super) const A_TURN: usize = 16;

/// The blocks that a walk through a sublist has seen last. If one of them is still there, it goes on behind it.
pub(super) const TRAIL: usize = 8;

/// See the module's doc. The default stands before the first block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stand {
    /// In a list of pages.
    pub(super) page: PageStand,
    /// In each sublist.
    pub(super) rows: SmallVec<[RowStand; 1]>,
    /// Whose turn it is.
    pub(super) turn: usize,
}

/// Where a walk through pages stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageStand {
    /// The newest page when the walk began. What moves to the head meanwhile is not met: so the walk has an end.
    pub(super) newest: Option<u64>,
    /// The sequence of the page in which it stands; without one, where it looks for the next.
    pub(super) sequence: u64,
    pub(super) within: Option<Within>,
}

/// A page, and what of it was looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Within {
    pub(super) number: u32,
    pub(super) generation: u64,
    /// From the tail, slots below were looked at; from the head, those from this one on.
    pub(super) slot: usize,
}

/// Where a walk through a sublist stands.
#[derive(Clone, Debug, Default)]
pub(super) struct RowStand {
    /// What it has seen last, the latest at the end.
    pub(super) trail: SmallVec<[Listed; TRAIL]>,
    /// Blocks that it will look at yet, at most: to begin with, as many as there were. So the walk has an end.
    pub(super) left: Option<usize>,
}

impl RowStand {
    /// Takes note of what was seen.
    pub(super) fn pass(&mut self, met: &[Listed]) {
        let kept = TRAIL.saturating_sub(met.len());
        let gone = self.trail.len().saturating_sub(kept);
        self.trail.drain(..gone);
        self.trail.extend_from_slice(&met[met.len().saturating_sub(TRAIL)..]);
    }
}
