//! What a cache is made with.

use crate::footprint::Overhead;
use crate::list::{SLOTS_MAX, SLOTS_MIN};

/// Sublists at most, unless asked for: beyond this, eviction strays further from the oldest block
/// than fewer waits are worth.
const SUBLISTS_MAX: u64 = 8;

/// Blocks a sublist at least: shorter ones cost about a point of hit ratio.
const SUBLIST_BLOCKS_MIN: u64 = 512;

/// Ghosts of a part at least, beside lists that are in exact order.
const GHOST_PART_MIN: u64 = 4096;

/// Pages that a list should have, where a cache is large enough.
const PAGES_MIN: u64 = 64;

/// Slots of a page, unless asked for: more make the chain shorter than is of use.
const SLOTS_USUAL: u64 = 64;

/// The kind of lists (`arc.lists`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListKind {
    /// One lock a state and kind; exact order.
    Single,
    /// Several sublists with a lock each; nearly exact order.
    Multilist,
    /// Pages of slots (MC-ARC); exact order, and a hit waits for nothing.
    Pages,
}

impl ListKind {
    /// All kinds, in the order of the values of `arc.lists`.
    pub const ALL: [ListKind; 3] = [ListKind::Single, ListKind::Multilist, ListKind::Pages];

    /// The name, as `arc.lists` and the command line have it.
    pub const fn name(self) -> &'static str {
        match self {
            ListKind::Single => "single",
            ListKind::Multilist => "multilist",
            ListKind::Pages => "pages",
        }
    }
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
    /// Slots of a page; `None` chooses by size.
    pub page_size: Option<u64>,
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
            lists: ListKind::Pages,
            sublists: None,
            page_size: None,
            typical_block: 32 << 10,
            overhead: Overhead::Counted,
            seed: 0,
        }
    }

    /// Takes over a tunable that is read when a cache is made, `value` as its row parses it. `false` when it is
    /// none of these.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        match name {
            "arc.policy" if value == 0 => self.policy = Policy::Arc,
            "arc.policy" => self.policy = Policy::Adaptive,
            "arc.lists" => self.lists = ListKind::ALL[ListKind::ALL.len().min(value as usize + 1) - 1],
            "arc.sublists" => self.sublists = usize::try_from(value).ok().filter(|&count| count > 0),
            "arc.page_size" => self.page_size = Some(value).filter(|&slots| slots > 0),
            _ => return false,
        }
        true
    }

    /// Blocks that there is room for: as many as could be if each were charged the least, and the cache
    /// became so many times as large.
    pub(crate) fn blocks_max(&self, growth: u64) -> u32 {
        const AT_LEAST: u64 = 1 << 16;
        const AT_MOST: u64 = 1 << 30;
        let blocks = self.size_max / self.overhead.of_block(0).max(1);
        blocks.saturating_mul(growth).clamp(AT_LEAST, AT_MOST) as u32
    }

    /// Address space for buffers: what is free there costs nothing.
    pub(crate) fn arena_space(&self, growth: u64) -> u64 {
        const AT_LEAST: u64 = 1 << 30;
        const AT_MOST: u64 = 15 << 40;
        self.size_max.saturating_mul(growth.max(2)).clamp(AT_LEAST, AT_MOST)
    }

    /// Slots of a page: few where there are few blocks, since a page is the least that moves.
    pub(crate) fn page_slots(&self) -> u64 {
        let by_size = self.size_max / self.typical_block.max(1) / PAGES_MIN;
        let slots = self.page_size.unwrap_or(by_size.clamp(SLOTS_MIN, SLOTS_USUAL));
        slots.clamp(SLOTS_MIN, SLOTS_MAX).next_multiple_of(SLOTS_MIN)
    }

    /// How many parts ghosts are spread over. Where there are several, the oldest is one of the oldest.
    pub(crate) fn ghost_parts(&self) -> usize {
        let by_size = self.size_max / self.typical_block.max(1) / GHOST_PART_MIN;
        match self.lists {
            ListKind::Single => 1,
            ListKind::Multilist => self.sublist_count(),
            ListKind::Pages => by_size.clamp(1, SUBLISTS_MAX) as usize,
        }
    }

    /// How many sublists a list will have.
    pub(crate) fn sublist_count(&self) -> usize {
        let by_size = self.size_max / self.typical_block.max(1) / SUBLIST_BLOCKS_MIN;
        match (self.lists, self.sublists) {
            (ListKind::Single | ListKind::Pages, _) => 1,
            (ListKind::Multilist, Some(count)) => count.max(1),
            (ListKind::Multilist, None) => by_size.clamp(1, SUBLISTS_MAX) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use arcwell_base::table::Form;

    use super::*;
    use crate::tunable::ArcTunables;

    #[test]
    fn every_tunable_that_is_read_at_the_start_can_be_set() {
        for row in ArcTunables::ROWS {
            let mut config = Config::new(1 << 30);
            assert_eq!(config.set(row.name, row.min), !row.live, "{}", row.name);
            for value in row.min..=row.max.min(3) {
                config.set(row.name, value);
                if let Form::Choice(names) = row.form
                    && row.name == "arc.lists"
                {
                    assert_eq!(config.lists.name(), names[value as usize]);
                }
            }
        }
    }

    #[test]
    fn small_caches_get_few_sublists() {
        let count = |blocks: u64| {
            Config { lists: ListKind::Multilist, typical_block: 4096, ..Config::new(blocks * 4096) }
                .sublist_count()
        };
        assert_eq!([count(10), count(1023), count(1024), count(2100), count(1 << 20)], [1, 1, 2, 4, 8]);
    }
}
