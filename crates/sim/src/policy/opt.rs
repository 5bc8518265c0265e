//! OPT: what nobody can beat, because it knows the future.
//!
//! L. A. Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM Systems
//! Journal 5(2), 1966: the block whose next use is farthest goes first. [`Entry::Forced`] takes every
//! block in, as a page fault must; [`Entry::Free`] lets a block pass that is worse than all that are
//! there. In blocks of one size each is the best of its kind. Over sizes the same rule is applied, and
//! then neither is a bound: the best choice is NP-hard (M. Chrobak et al., "Caching Is Hard, Even in
//! the Fault Model", Algorithmica 63, 2012).

use std::collections::BinaryHeap;

use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// The next use of what is never used again.
const NEVER: u32 = u32::MAX;

/// The size of a block that is not here.
const ABSENT: u32 = 0;

/// Whether a missed block must come in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// It must.
    Forced,
    /// It may pass by.
    Free,
}

/// A cache that knows of each request when its block is wanted again.
pub(super) struct Opt {
    /// For each request, the number of the next one for the same block.
    next: Vec<u32>,
    /// The number of the request to come.
    now: usize,
    /// Next use and block, the farthest on top. A hit adds an entry and leaves the old one, which from
    /// then on lies in the past: below all others, so that it never comes up before it is swept out.
    uses: BinaryHeap<(u32, u32)>,
    /// How many blocks are here.
    count: usize,
    sizes: Vec<u32>,
    resident: u64,
    capacity: u64,
    entry: Entry,
}

impl Opt {
    /// For exactly these requests: the numbers of their blocks, each below `blocks`.
    pub(super) fn new(capacity: u64, blocks: u32, requests: impl Iterator<Item = u32>, entry: Entry) -> Self {
        let mut last: Vec<Option<u32>> = vec![None; blocks as usize];
        let mut next = Vec::with_capacity(requests.size_hint().0);
        for (number, block) in (0..NEVER).zip(requests) {
            if let Some(before) = last[block as usize].replace(number) {
                next[before as usize] = number;
            }
            next.push(NEVER);
        }
        let sizes = vec![ABSENT; blocks as usize];
        Opt { next, now: 0, uses: BinaryHeap::new(), count: 0, sizes, resident: 0, capacity, entry }
    }

    fn take(&mut self, block: u32) {
        self.resident -= u64::from(self.sizes[block as usize]);
        self.sizes[block as usize] = ABSENT;
        self.count -= 1;
    }

    fn admit(&mut self, next: u32, block: u32, size: u32) {
        self.uses.push((next, block));
        self.resident += u64::from(size);
        self.sizes[block as usize] = size;
        self.count += 1;
        if self.uses.len() > 2 * self.count + 64 {
            let now = self.now;
            self.uses.retain(|&(next, _)| next as usize >= now);
        }
    }

    /// Evicts the farthest until `size` more units fit.
    fn make_room(&mut self, size: u64) {
        while self.resident + size > self.capacity
            && let Some((_, block)) = self.uses.pop()
        {
            self.take(block);
        }
    }
}

impl Policy for Opt {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        let next = self.next.get(self.now).copied().unwrap_or(NEVER);
        self.now += 1;
        let hit = self.sizes[block as usize] != ABSENT;
        if hit {
            self.take(block);
        }
        if u64::from(size) <= self.capacity {
            match self.entry {
                Entry::Forced => {
                    self.make_room(u64::from(size));
                    self.admit(next, block, size);
                }
                Entry::Free => {
                    self.admit(next, block, size);
                    self.make_room(0);
                }
            }
        }
        hit
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.resident <= self.capacity, "the capacity holds")?;
        let sum: u64 = self.sizes.iter().map(|&size| u64::from(size)).sum();
        ensure(sum == self.resident, "the sizes of what is here add up")?;
        let valid = self.uses.iter().filter(|&&(next, _)| next as usize >= self.now);
        let mut here: Vec<u32> = valid.map(|&(_, block)| block).collect();
        ensure(
            here.iter().all(|&block| self.sizes[block as usize] != ABSENT),
            "a use ahead is of a block here",
        )?;
        here.sort_unstable();
        here.dedup();
        ensure(here.len() == self.count, "each block here has one use ahead")
    }
}
