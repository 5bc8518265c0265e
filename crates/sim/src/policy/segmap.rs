//! segmap: a fixed window of mapped pages in front of the list of free pages that still have a name.
//!
//! So Solaris cached UFS before ZFS (J. Mauro and R. McDougall, "Solaris Internals", 2nd edition, 2006,
//! chapter 14; the defaults are those of the "Solaris Tunable Parameters Reference Manual"). What falls
//! out of the window joins the cachelist, whose oldest page is taken first when memory is needed; a hit
//! there maps the page again. In pages of one size that is LRU.
//!
//! With `freebehind` a page that was read in sequence goes to the end of the cachelist that is taken
//! first. The kernel tells sequences by file and offset and does it only while memory is short. A trace
//! knows neither: here a sequence is what is read in the order in which it was first read, and a cache
//! that is full is short of memory always.

use super::chain::Chains;
use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// Pages that are mapped, in order of last use.
const WINDOW: usize = 0;
/// Pages that are free, and reclaimed when they are asked for before they are needed.
const CACHELIST: usize = 1;

/// `segmap_percent`.
const WINDOW_PERCENT: u64 = 12;

/// `smallfile` in pages: what a sequence is long before its pages are freed behind it.
const KEPT_OF_SEQUENCE: u32 = 32_768 / 8192;

/// The mark of a page that is not to stay.
const BEHIND: u8 = 1;

/// The two levels.
pub(super) struct Segmap {
    pages: Chains<2>,
    capacity: u64,
    most_window: u64,
    is_freebehind: bool,
    /// The last request's block, and how many before it were in sequence.
    last: Option<u32>,
    sequence: u32,
}

impl Segmap {
    pub(super) fn new(capacity: u64, blocks: u32, is_freebehind: bool) -> Self {
        Segmap {
            pages: Chains::new(blocks),
            capacity,
            most_window: (capacity / 100 * WINDOW_PERCENT + capacity % 100 * WINDOW_PERCENT / 100).max(1),
            is_freebehind,
            last: None,
            sequence: 0,
        }
    }

    fn resident(&self) -> u64 {
        self.pages.sum(WINDOW) + self.pages.sum(CACHELIST)
    }

    /// Whether this request is so far into a sequence that its page need not stay.
    fn is_behind(&mut self, block: u32) -> bool {
        let follows = self.last.is_some_and(|last| last.checked_add(1) == Some(block));
        self.sequence = if follows { self.sequence.saturating_add(1) } else { 0 };
        self.last = Some(block);
        self.is_freebehind && self.sequence >= KEPT_OF_SEQUENCE
    }
}

impl Policy for Segmap {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        let mark = if self.is_behind(block) { BEHIND } else { 0 };
        let hit = self.pages.holds(block);
        if hit {
            self.pages.remove(block);
        }
        if u64::from(size) > self.capacity {
            return hit;
        }
        while self.resident() + u64::from(size) > self.capacity {
            if self.pages.pop(CACHELIST).is_none() {
                self.pages.pop(WINDOW);
            }
        }
        self.pages.push(WINDOW, block, size);
        self.pages.set_mark(block, mark);
        while self.pages.sum(WINDOW) > self.most_window
            && let Some(page) = self.pages.pop(WINDOW)
        {
            let size = self.pages.size(page);
            if self.pages.mark(page) == BEHIND {
                self.pages.push_oldest(CACHELIST, page, size);
            } else {
                self.pages.push(CACHELIST, page, size);
            }
        }
        hit
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.resident() <= self.capacity, "the capacity holds")?;
        ensure(self.pages.sum(WINDOW) <= self.most_window, "the window keeps to its share")?;
        self.pages.validate()
    }
}
