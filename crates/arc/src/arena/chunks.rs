//! Which chunks, of the size of a huge page, the kernel was asked to fill at once.
//!
//! A huge page is there as a whole or not at all, and while a chunk is marked for them the kernel also
//! fills its holes, behind our back and whenever it likes. So the mark is taken away before the first
//! hole is made.
//!
//! - **R3** A marked chunk is hollow as a whole, or has no hollow page.
//!
//! The kernel keeps a record for each stretch of the region that is marked alike, and a process may have
//! 65,530 of them. When marks have become that scattered they are all taken away: pages that are huge
//! remain so, only new ones are not made until memory has been given back and taken again.

use crate::arena::extents::Pages;
use crate::arena::region::{HUGE_PAGE, PAGE, Region};

/// Pages of a chunk.
pub(super) const CHUNK: u32 = (HUGE_PAGE / PAGE) as u32;

/// How often marked and unmarked chunks may be neighbours.
const MOST_EDGES: usize = 8192;

/// The marks.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    marks: Vec<bool>,
    edges: usize,
    refused: bool,
}

impl Chunks {
    /// Whether chunk `at` is marked.
    pub(super) fn is_huge(&self, at: u32) -> bool {
        self.marks.get(at as usize).copied().unwrap_or(false)
    }

    /// Asks the kernel to fill chunk `at` at once, or no longer to. Says whether the chunk is marked
    /// then: the kernel may know no huge pages.
    pub(super) fn mark(&mut self, region: &Region, at: u32, huge: bool) -> bool {
        if self.is_huge(at) == huge || (huge && self.refused) {
            return self.is_huge(at);
        }
        if !region.want_huge(bytes(at * CHUNK..(at + 1) * CHUNK), huge) {
            if huge {
                self.refused = true;
            } else {
                // There is no room for another record: fewer are needed if none is marked.
                self.unmark_all(region);
            }
            return false;
        }
        let here = at as usize;
        if self.marks.len() <= here {
            self.marks.resize(here + 1, false);
        }
        let around = [at.checked_sub(1).is_some_and(|before| self.is_huge(before)), self.is_huge(at + 1)];
        let apart = around.into_iter().filter(|neighbour| *neighbour != huge).count();
        self.marks[here] = huge;
        self.edges = self.edges + 2 * apart - 2;
        if self.edges > MOST_EDGES {
            self.unmark_all(region);
        }
        self.is_huge(at)
    }

    fn unmark_all(&mut self, region: &Region) {
        region.want_huge(bytes(0..self.marks.len() as u32 * CHUNK), false);
        self.marks.fill(false);
        self.edges = 0;
    }

    /// Marked chunks, by number.
    #[cfg(test)]
    pub(super) fn marked(&self) -> impl Iterator<Item = u32> {
        self.marks.iter().enumerate().filter_map(|(at, huge)| huge.then_some(at as u32))
    }
}

/// The bytes of pages.
pub(super) fn bytes(pages: Pages) -> std::ops::Range<usize> {
    pages.start as usize * PAGE..pages.end as usize * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_kept_and_dropped_when_they_are_too_scattered() {
        let region = Region::reserve(4 * (MOST_EDGES + 4) * HUGE_PAGE).unwrap();
        let mut chunks = Chunks::default();
        if !chunks.mark(&region, 1, true) {
            return eprintln!("SKIPPED: the kernel knows no huge pages");
        }
        assert!(chunks.mark(&region, 2, true) && chunks.edges == 2);
        assert!(!chunks.mark(&region, 1, false) && chunks.edges == 2);
        assert_eq!(chunks.marked().collect::<Vec<_>>(), [2]);
        for at in 2..MOST_EDGES as u32 / 2 {
            chunks.mark(&region, 2 * at, true);
        }
        assert_eq!((chunks.edges, chunks.marked().count()), (MOST_EDGES - 2, MOST_EDGES / 2 - 1));
        for at in 0..2 {
            chunks.mark(&region, MOST_EDGES as u32 + 2 * at, true);
        }
        assert_eq!((chunks.edges, chunks.marked().count()), (0, 0));
    }
}
