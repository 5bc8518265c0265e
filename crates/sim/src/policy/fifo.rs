//! FIFO: who came first goes first, asked for or not.
//!
//! L. A. Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM Systems
//! Journal 5(2), 1966. It has no work on a hit, which is why the newer FIFO families exist.

use super::chain::Chains;
use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// One queue, in order of arrival.
pub(super) struct Fifo {
    queue: Chains<1>,
    capacity: u64,
}

impl Fifo {
    pub(super) fn new(capacity: u64, blocks: u32) -> Self {
        Fifo { queue: Chains::new(blocks), capacity }
    }
}

impl Policy for Fifo {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        let hit = self.queue.holds(block);
        if u64::from(size) > self.capacity {
            if hit {
                self.queue.remove(block);
            }
        } else if hit {
            self.queue.resize(block, size);
        } else {
            self.queue.push(0, block, size);
        }
        while self.queue.sum(0) > self.capacity {
            self.queue.pop(0);
        }
        hit
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.queue.sum(0) <= self.capacity, "the capacity holds")?;
        self.queue.validate()
    }
}
