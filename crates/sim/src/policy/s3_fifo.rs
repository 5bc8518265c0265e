//! S3-FIFO: a small queue sifts newcomers before a large one takes them.
//!
//! J. Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, Algorithm 1. The
//! small queue has a tenth of the capacity, and a block goes from there to the main queue when it was
//! asked for at least twice. The ghost remembers as many as the main queue may hold, exactly: the
//! paper's table of fingerprints is an approximation of this.

use super::chain::Chains;
use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// Newcomers.
const SMALL: usize = 0;
/// Those that proved themselves.
const MAIN: usize = 1;
/// Names of newcomers that did not; no bytes.
const GHOST: usize = 2;

/// The mark counts requests since the block was queued, up to this.
const MOST_COUNTED: u8 = 3;

/// The three queues and what they may hold.
pub(super) struct S3Fifo {
    queues: Chains<3>,
    capacity: u64,
    most_main: u64,
}

impl S3Fifo {
    pub(super) fn new(capacity: u64, blocks: u32) -> Self {
        let small = (capacity / 10).max(1);
        S3Fifo { queues: Chains::new(blocks), capacity, most_main: capacity.saturating_sub(small) }
    }

    fn resident(&self) -> u64 {
        self.queues.sum(SMALL) + self.queues.sum(MAIN)
    }

    /// One step at a time, until `size` more units fit. What may be taken is asked before each: a
    /// newcomer that proved itself can make the main queue too long.
    fn make_room(&mut self, size: u64) {
        while self.resident() + size > self.capacity {
            let is_main = self.queues.sum(MAIN) > self.most_main || self.queues.is_empty(SMALL);
            let Some(block) = self.queues.oldest(if is_main { MAIN } else { SMALL }) else { return };
            let count = self.queues.mark(block);
            if is_main && count == 0 {
                self.queues.remove(block);
            } else if is_main {
                self.queues.renew(MAIN, block);
                self.queues.set_mark(block, count - 1);
            } else if count > 1 {
                self.queues.renew(MAIN, block);
            } else {
                self.queues.renew(GHOST, block);
                while self.queues.sum(GHOST) > self.most_main {
                    self.queues.pop(GHOST);
                }
            }
        }
    }
}

impl Policy for S3Fifo {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        let list = self.queues.list(block);
        let hit = matches!(list, Some(SMALL | MAIN));
        if hit && u64::from(size) <= self.capacity {
            self.queues.set_mark(block, (self.queues.mark(block) + 1).min(MOST_COUNTED));
            self.queues.resize(block, size);
            self.make_room(0);
            return true;
        }
        // The ghost is asked before room is made: making room can push the name out of it.
        if list.is_some() {
            self.queues.remove(block);
        }
        if u64::from(size) <= self.capacity {
            self.make_room(u64::from(size));
            self.queues.push(if list.is_some() { MAIN } else { SMALL }, block, size);
        }
        hit
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.resident() <= self.capacity, "the capacity holds")?;
        ensure(self.queues.sum(GHOST) <= self.most_main, "the ghost is no longer than the main queue")?;
        self.queues.validate()
    }
}
