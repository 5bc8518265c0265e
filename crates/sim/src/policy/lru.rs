//! LRU: who was not asked for longest goes first.
//!
//! The oldest of them all and everybody's yardstick: P. J. Denning, "The Working Set Model for Program
//! Behavior", CACM 11(5), 1968, gives the reason why it works.

use super::chain::Chains;
use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// One queue, in order of last use.
pub(super) struct Lru {
    queue: Chains<1>,
    capacity: u64,
}

impl Lru {
    pub(super) fn new(capacity: u64, blocks: u32) -> Self {
        Lru { queue: Chains::new(blocks), capacity }
    }
}

impl Policy for Lru {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        let hit = self.queue.holds(block);
        if hit {
            self.queue.remove(block);
        }
        if u64::from(size) <= self.capacity {
            while self.queue.sum(0) + u64::from(size) > self.capacity {
                self.queue.pop(0);
            }
            self.queue.push(0, block, size);
        }
        hit
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.queue.sum(0) <= self.capacity, "the capacity holds")?;
        self.queue.validate()
    }
}
