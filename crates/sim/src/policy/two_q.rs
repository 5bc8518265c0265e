//! 2Q: a block earns its place in the long-lived queue by being asked for again after it left.
//!
//! T. Johnson and D. Shasha, "2Q: A Low Overhead High Performance Buffer Management Replacement
//! Algorithm", VLDB 1994, the full version, with the sizes that the paper proposes.

use super::chain::Chains;
use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// Seen once, in order of arrival (A1in).
const IN: usize = 0;
/// Names of blocks that left A1in; no bytes (A1out).
const OUT: usize = 1;
/// Asked for while in A1out, in order of last use (Am).
const MAIN: usize = 2;

/// The three queues and what they may hold.
pub(super) struct TwoQ {
    queues: Chains<3>,
    capacity: u64,
    /// Kin: A1in gives blocks up while it holds more than this, a quarter of the capacity.
    most_in: u64,
    /// Kout: blocks of this many units are remembered, half of the capacity.
    most_out: u64,
}

impl TwoQ {
    pub(super) fn new(capacity: u64, blocks: u32) -> Self {
        TwoQ { queues: Chains::new(blocks), capacity, most_in: capacity / 4, most_out: capacity / 2 }
    }

    fn resident(&self) -> u64 {
        self.queues.sum(IN) + self.queues.sum(MAIN)
    }

    /// The paper's `reclaimfor`, until `size` more units fit.
    fn make_room(&mut self, size: u64) {
        while self.resident() + size > self.capacity {
            if self.queues.sum(IN) <= self.most_in && self.queues.pop(MAIN).is_some() {
                continue;
            }
            let Some(block) = self.queues.oldest(IN) else { return };
            self.queues.renew(OUT, block);
            while self.queues.sum(OUT) > self.most_out {
                self.queues.pop(OUT);
            }
        }
    }
}

impl Policy for TwoQ {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        let list = self.queues.list(block);
        let hit = matches!(list, Some(IN | MAIN));
        if list == Some(IN) && u64::from(size) <= self.capacity {
            self.queues.resize(block, size);
            self.make_room(0);
            return true;
        }
        if list.is_some() {
            self.queues.remove(block);
        }
        if u64::from(size) <= self.capacity {
            self.make_room(u64::from(size));
            self.queues.push(if list.is_some() { MAIN } else { IN }, block, size);
        }
        hit
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.resident() <= self.capacity, "the capacity holds")?;
        ensure(self.queues.sum(OUT) <= self.most_out, "A1out remembers its share at most")?;
        self.queues.validate()
    }
}
