//! What a cache is made with.

use crate::footprint::Overhead;

/// Sublists at most, unless asked for: beyond this, eviction strays further from the oldest block
/// than fewer waits are worth.
const SUBLISTS_MAX: u64 = 8;

/// Blocks a sublist at least: shorter ones cost about a point of hit ratio.
const SUBLIST_BLOCKS_MIN: u64 = 512;

/// The kind of lists (`arc.lists`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListKind {
    /// One lock a state and kind; exact order.
    Single,
    /// Several sublists with a lock each; nearly exact order.
    Multilist,
}

/// By what is decided which blocks stay (`arc.policy`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The rule of Megiddo and Modha's paper alone.
    Arc,
    /// That rule, or one by inter-reference recency where this finds more: in loops and scans that are
    /// longer than the cache.
    Adaptive,
}

/// What a cache is made with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The most memory to take, bytes.
    pub size_max: u64,
    /// The least that reclaim leaves, bytes.
    pub size_min: u64,
    /// By what is decided which blocks stay.
    pub policy: Policy,
    /// The kind of lists.
    pub lists: ListKind,
    /// Sublists a state and kind; `None` chooses by size.
    pub sublists: Option<usize>,
    /// Bytes of a typical block, for that choice.
    pub typical_block: u64,
    /// Whether bookkeeping counts within the limit.
    pub overhead: Overhead,
    /// Start of the random numbers that choose a sublist to evict from.
    pub seed: u64,
}

impl Config {
    /// The usual configuration of a cache of `size_max` bytes.
    pub fn new(size_max: u64) -> Config {
        Config {
            size_max,
            size_min: size_max / 32,
            policy: Policy::Adaptive,
            lists: ListKind::Multilist,
            sublists: None,
            typical_block: 32 << 10,
            overhead: Overhead::Counted,
            seed: 0,
        }
    }

    /// How many sublists a list will have.
    pub(crate) fn sublist_count(&self) -> usize {
        let by_size = self.size_max / self.typical_block.max(1) / SUBLIST_BLOCKS_MIN;
        match (self.lists, self.sublists) {
            (ListKind::Single, _) => 1,
            (ListKind::Multilist, Some(count)) => count.max(1),
            (ListKind::Multilist, None) => by_size.clamp(1, SUBLISTS_MAX) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_caches_get_few_sublists() {
        let count =
            |blocks: u64| Config { typical_block: 4096, ..Config::new(blocks * 4096) }.sublist_count();
        assert_eq!([count(10), count(1023), count(1024), count(2100), count(1 << 20)], [1, 1, 2, 4, 8]);
    }
}
