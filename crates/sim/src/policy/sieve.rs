//! SIEVE: CLOCK whose spared blocks keep their place, so that newcomers stand apart from old hands.
//!
//! Y. Zhang et al., "SIEVE is Simpler than LRU: an Efficient Turn-Key Eviction Algorithm for Web
//! Caches", NSDI 2024, Algorithm 1.

use super::chain::Chains;
use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// One queue in order of arrival; the mark says that a block was asked for since the hand passed.
pub(super) struct Sieve {
    queue: Chains<1>,
    /// Where the hand stands; at the old end when nowhere.
    hand: Option<u32>,
    capacity: u64,
}

impl Sieve {
    pub(super) fn new(capacity: u64, blocks: u32) -> Self {
        Sieve { queue: Chains::new(blocks), hand: None, capacity }
    }

    /// Takes a block out; the hand never points to what is gone.
    fn remove(&mut self, block: u32) {
        if self.hand == Some(block) {
            self.hand = self.queue.newer(block);
        }
        self.queue.remove(block);
    }

    /// Moves the hand towards the new end until `size` more units fit.
    fn make_room(&mut self, size: u64) {
        while self.queue.sum(0) + size > self.capacity
            && let Some(block) = self.hand.or(self.queue.oldest(0))
        {
            self.hand = self.queue.newer(block);
            if self.queue.mark(block) == 0 {
                self.queue.remove(block);
            } else {
                self.queue.set_mark(block, 0);
            }
        }
    }
}

impl Policy for Sieve {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        let hit = self.queue.holds(block);
        if u64::from(size) > self.capacity {
            if hit {
                self.remove(block);
            }
        } else if hit {
            self.queue.set_mark(block, 1);
            self.queue.resize(block, size);
            self.make_room(0);
        } else {
            self.make_room(u64::from(size));
            self.queue.push(0, block, size);
        }
        hit
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.queue.sum(0) <= self.capacity, "the capacity holds")?;
        ensure(self.hand.is_none_or(|block| self.queue.holds(block)), "the hand points to a block")?;
        self.queue.validate()
    }
}
