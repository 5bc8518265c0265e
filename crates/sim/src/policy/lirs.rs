//! LIRS: blocks are kept by the distance between their last two uses, not by the last use alone.
//!
//! S. Jiang and X. Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy to
//! Improve Buffer Cache Performance", SIGMETRICS 2002. Details that the paper leaves open are those of
//! the authors' program: one hundredth of the cache, and two blocks at least, is for blocks of high
//! distance (HIR); a cache that fills for the first time takes blocks of low distance (LIR) until only
//! that part is left; a block asked for twice in a row was asked for once; the stack is as long as it
//! becomes.

use super::chain::Chains;
use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// Marks of blocks on the stack.
const HIR: u8 = 0;
const LIR: u8 = 1;

/// The paper's stack S and queue Q.
pub(super) struct Lirs {
    /// LIR blocks, and those of the others that were used since the oldest of these: the oldest of
    /// all is always a LIR block.
    stack: Chains<1>,
    /// The HIR blocks that are in the cache.
    queue: Chains<1>,
    /// Units of LIR blocks; all are in the cache.
    low: u64,
    most_low: u64,
    capacity: u64,
    /// Block and size of the last request.
    last: Option<(u32, u32)>,
}

impl Lirs {
    pub(super) fn new(capacity: u64, blocks: u32) -> Self {
        let most_low = capacity.saturating_sub((capacity / 100).max(2));
        Lirs {
            stack: Chains::new(blocks),
            queue: Chains::new(blocks),
            low: 0,
            most_low,
            capacity,
            last: None,
        }
    }

    fn resident(&self) -> u64 {
        self.low + self.queue.sum(0)
    }

    fn is_low(&self, block: u32) -> bool {
        self.stack.holds(block) && self.stack.mark(block) == LIR
    }

    fn is_here(&self, block: u32) -> bool {
        self.is_low(block) || self.queue.holds(block)
    }

    /// Forgets what is older than the oldest LIR block.
    fn prune(&mut self) {
        while let Some(block) = self.stack.oldest(0)
            && self.stack.mark(block) == HIR
        {
            self.stack.remove(block);
        }
    }

    /// Takes a block out of stack and queue.
    fn lift(&mut self, block: u32) {
        if self.queue.holds(block) {
            self.queue.remove(block);
        }
        if self.stack.holds(block) {
            if self.stack.mark(block) == LIR {
                self.low -= u64::from(self.stack.size(block));
            }
            self.stack.remove(block);
            self.prune();
        }
    }

    /// The oldest LIR block becomes a HIR block that is in the cache. `false` if there is none.
    fn demote(&mut self) -> bool {
        let Some(block) = self.stack.oldest(0) else { return false };
        let size = self.stack.size(block);
        self.lift(block);
        self.queue.push(0, block, size);
        true
    }
}

impl Policy for Lirs {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        if self.last.replace((block, size)) == Some((block, size)) && self.is_here(block) {
            return true;
        }
        let hit = self.is_here(block);
        let was_recent = self.stack.holds(block);
        self.lift(block);
        if u64::from(size) > self.capacity {
            return hit;
        }
        while self.resident() + u64::from(size) > self.capacity {
            if self.queue.pop(0).is_none() && !self.demote() {
                break;
            }
        }
        let is_low = was_recent || self.resident() + u64::from(size) <= self.most_low;
        self.stack.push(0, block, size);
        if is_low {
            self.stack.set_mark(block, LIR);
            self.low += u64::from(size);
            while self.low > self.most_low && self.demote() {}
        } else {
            self.queue.push(0, block, size);
            self.prune();
        }
        hit
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.resident() <= self.capacity, "the capacity holds")?;
        ensure(self.low <= self.most_low, "LIR blocks keep to their share")?;
        ensure(self.stack.oldest(0).is_none_or(|block| self.is_low(block)), "the stack ends in a LIR block")?;
        let mut low = 0;
        let mut next = self.stack.oldest(0);
        while let Some(block) = next {
            if self.is_low(block) {
                ensure(!self.queue.holds(block), "a LIR block is not in the queue")?;
                low += u64::from(self.stack.size(block));
            }
            next = self.stack.newer(block);
        }
        ensure(low == self.low, "the sizes of LIR blocks add up")?;
        self.stack.validate()?;
        self.queue.validate()
    }
}
