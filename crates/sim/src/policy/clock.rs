//! CLOCK: FIFO in which a block that was asked for since it came round gets another round.
//!
//! F. J. Corbató, "A Paging Experiment with the Multics System", MIT Project MAC report M-384, 1968.
//! The hand of the paper is the old end of the queue: a block that it spares goes to the new end.

use super::chain::Chains;
use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// One queue; the mark is the reference bit.
pub(super) struct Clock {
    queue: Chains<1>,
    capacity: u64,
}

impl Clock {
    pub(super) fn new(capacity: u64, blocks: u32) -> Self {
        Clock { queue: Chains::new(blocks), capacity }
    }

    /// Turns the hand until `size` more units fit.
    fn make_room(&mut self, size: u64) {
        while self.queue.sum(0) + size > self.capacity
            && let Some(block) = self.queue.oldest(0)
        {
            if self.queue.mark(block) == 0 {
                self.queue.remove(block);
            } else {
                self.queue.renew(0, block);
            }
        }
    }
}

impl Policy for Clock {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        let hit = self.queue.holds(block);
        if u64::from(size) > self.capacity {
            if hit {
                self.queue.remove(block);
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
        self.queue.validate()
    }
}
