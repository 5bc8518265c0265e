//! W-TinyLFU: a newcomer replaces a block only if it was asked for more often.
//!
//! G. Einziger, R. Friedman and B. Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM
//! Transactions on Storage 13(4), 2017, section 4, with the sizes that it proposes and that stay as
//! they are: a window of one hundredth, and a segmented LRU (R. Karedla, J. S. Love and B. G. Wherry,
//! 1994) of which four fifths are for blocks that were asked for there. Which hits it has depends on
//! the hash of its sketch, so that two programs agree about, not exactly.

use super::chain::Chains;
use super::sketch::Sketch;
use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// Newcomers, in order of last use.
const WINDOW: usize = 0;
/// Admitted, not asked for since.
const PROBATION: usize = 1;
/// Asked for after that.
const PROTECTED: usize = 2;

/// Three queues and a memory of frequencies.
pub(super) struct TinyLfu {
    queues: Chains<3>,
    sketch: Sketch,
    capacity: u64,
    most_window: u64,
    most_protected: u64,
}

impl TinyLfu {
    pub(super) fn new(capacity: u64, blocks: u32) -> Self {
        // In bytes the cache never has more blocks than the trace.
        let sketch = Sketch::new(capacity.min(u64::from(blocks)));
        let main = capacity - capacity.div_ceil(100);
        TinyLfu {
            queues: Chains::new(blocks),
            sketch,
            capacity,
            most_window: capacity - main,
            most_protected: main / 5 * 4 + main % 5 * 4 / 5,
        }
    }

    fn resident(&self) -> u64 {
        self.queues.sum(WINDOW) + self.queues.sum(PROBATION) + self.queues.sum(PROTECTED)
    }

    /// What the window cannot hold asks to be admitted; whoever was asked for less often goes.
    fn settle(&mut self) {
        while self.queues.sum(PROTECTED) > self.most_protected
            && let Some(block) = self.queues.oldest(PROTECTED)
        {
            self.queues.renew(PROBATION, block);
        }
        while self.queues.sum(WINDOW) > self.most_window
            && let Some(candidate) = self.queues.oldest(WINDOW)
        {
            self.queues.renew(PROBATION, candidate);
            while self.resident() > self.capacity {
                let victim = self.victim(candidate);
                let wins = self.sketch.estimate(candidate) > self.sketch.estimate(victim);
                self.queues.remove(if wins { victim } else { candidate });
                if !wins {
                    break;
                }
            }
        }
        // Only a block that grew leaves the cache too full now.
        while self.resident() > self.capacity {
            let is_empty = self.queues.is_empty(PROBATION);
            self.queues.pop(if is_empty { PROTECTED } else { PROBATION });
        }
    }

    /// Whom the candidate, the newest on probation, is compared with.
    fn victim(&self, candidate: u32) -> u32 {
        let oldest = self.queues.oldest(PROBATION).filter(|&block| block != candidate);
        oldest.or_else(|| self.queues.oldest(PROTECTED)).unwrap_or(candidate)
    }
}

impl Policy for TinyLfu {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        self.sketch.count(block);
        let list = self.queues.list(block);
        if list.is_some() {
            self.queues.remove(block);
        }
        if u64::from(size) <= self.capacity {
            let to = if matches!(list, None | Some(WINDOW)) { WINDOW } else { PROTECTED };
            self.queues.push(to, block, size);
            self.settle();
        }
        list.is_some()
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.resident() <= self.capacity, "the capacity holds")?;
        ensure(self.queues.sum(WINDOW) <= self.most_window, "the window keeps to its share")?;
        ensure(self.queues.sum(PROTECTED) <= self.most_protected, "the protected keep to their share")?;
        self.queues.validate()
    }
}
