//! ARC: what was used once lately against what was used often, in the proportion that lately paid.
//!
//! N. Megiddo and D. S. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003,
//! Figure 4, rule for rule. Over sizes the rules are the same with units in place of blocks: a ghost
//! hit moves the target by the block's size times the ratio, and each list gives up as many blocks as
//! the newcomer needs.

use super::chain::Chains;
use super::{Broken, Policy, ensure};
use crate::trace::Access;

/// Used once, in the cache.
const T1: usize = 0;
/// Used again, in the cache.
const T2: usize = 1;
/// Names of blocks that left T1; no bytes.
const B1: usize = 2;
/// Names of blocks that left T2; no bytes.
const B2: usize = 3;

/// What a step of the target may be.
pub(super) enum Target {
    /// The figure's: any real number.
    Real,
    /// As some implementations have it: the ratio of the ghosts is cut to a whole number.
    Whole,
}

/// The four lists and p.
pub(super) struct Figure4 {
    lists: Chains<4>,
    capacity: u64,
    /// p: the units that T1 should have.
    target: f64,
    kind: Target,
}

impl Figure4 {
    pub(super) fn new(capacity: u64, blocks: u32, kind: Target) -> Self {
        Figure4 { lists: Chains::new(blocks), capacity, target: 0.0, kind }
    }

    fn sum(&self, list: usize) -> u64 {
        self.lists.sum(list)
    }

    fn resident(&self) -> u64 {
        self.sum(T1) + self.sum(T2)
    }

    fn all(&self) -> u64 {
        self.resident() + self.sum(B1) + self.sum(B2)
    }

    /// δ: how far a hit in the ghost `own` moves the target.
    fn step(&self, size: u32, own: usize, other: usize) -> f64 {
        let ratio = (self.sum(other) as f64 / self.sum(own).max(1) as f64).max(1.0);
        let ratio = match self.kind {
            Target::Real => ratio,
            Target::Whole => ratio.floor(),
        };
        f64::from(size) * ratio
    }

    /// REPLACE, until `size` more units fit.
    fn make_room(&mut self, size: u64, is_from_b2: bool) {
        while self.resident() + size > self.capacity {
            let held = self.sum(T1) as f64;
            let is_over = held > self.target || is_from_b2 && held == self.target;
            let is_first = self.lists.is_empty(T2) || is_over && !self.lists.is_empty(T1);
            let (from, to) = if is_first { (T1, B1) } else { (T2, B2) };
            let Some(block) = self.lists.oldest(from) else { return };
            self.lists.renew(to, block);
        }
    }

    /// Case IV: the lists give up what they must before a block comes that none of them knows.
    fn forget(&mut self, size: u64) {
        while self.sum(T1) + self.sum(B1) + size > self.capacity {
            if self.lists.pop(B1).is_none() && self.lists.pop(T1).is_none() {
                return;
            }
        }
        self.trim(size);
    }

    /// All lists together remember twice the capacity at most.
    fn trim(&mut self, size: u64) {
        while self.all() + size > self.capacity.saturating_mul(2) {
            if self.lists.pop(B2).is_none() && self.lists.pop(B1).is_none() {
                return;
            }
        }
    }
}

impl Policy for Figure4 {
    fn request(&mut self, Access { block, size, .. }: Access) -> bool {
        let list = self.lists.list(block);
        match list {
            Some(B1) => {
                self.target = (self.target + self.step(size, B1, B2)).min(self.capacity as f64);
            }
            Some(B2) => self.target = (self.target - self.step(size, B2, B1)).max(0.0),
            _ => {}
        }
        if list.is_some() {
            self.lists.remove(block);
        }
        let units = u64::from(size);
        if units <= self.capacity {
            if list.is_none() {
                self.forget(units);
            }
            self.make_room(units, list == Some(B2));
            self.trim(units);
            self.lists.push(if list.is_some() { T2 } else { T1 }, block, size);
        }
        matches!(list, Some(T1 | T2))
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.resident() <= self.capacity, "the capacity holds")?;
        ensure(self.sum(T1) + self.sum(B1) <= self.capacity, "T1 and B1 are one capacity at most")?;
        ensure(self.all() <= self.capacity.saturating_mul(2), "all lists are two capacities at most")?;
        ensure((0.0..=self.capacity as f64).contains(&self.target), "0 ≤ p ≤ c")?;
        self.lists.validate()
    }
}
