//! [`CacheStats`]: what a cache has done and what it holds, at one moment.

use std::fmt;

use arcwell_base::ByteSize;
use arcwell_base::table::Counter;

use super::Cache;

/// What is counted here and not in the engine.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) fetches: Counter,
    pub(super) failed: Counter,
    pub(super) joined: Counter,
    pub(super) overtaken: Counter,
    pub(super) aside: Counter,
}

/// Counters since a cache was made, and sizes of now; see [`Cache::stats`]. Sizes are bytes.
///
/// Each field is true for itself; while other threads work, their sums need not fit to the last one.
/// [`Display`](fmt::Display) prints the whole in four lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CacheStats {
    /// Lookups that found their block: by `get_or_fetch`, `pin`, `read_many`.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Calls of a fetch.
    pub fetches: u64,
    /// Fetches that returned an error.
    pub failed: u64,
    /// Misses that were answered by somebody else's fetch.
    pub joined: u64,
    /// Fetches done in vain, as the block was inserted or removed meanwhile.
    pub overtaken: u64,
    /// Fetches into memory beside the cache, for want of room.
    pub aside: u64,
    /// Blocks put into the cache, by a fetch or by `insert`.
    pub inserts: u64,
    /// Blocks taken out by `remove`, or by an `insert` that had no room.
    pub removed: u64,
    /// Blocks evicted.
    pub evicted: u64,
    /// Bytes that this freed.
    pub evicted_bytes: u64,
    /// Times that nothing could be evicted, or a block was too large.
    pub refused: u64,
    /// Misses of blocks that had been evicted not long before: what the cache learns from.
    pub ghost_hits: u64,
    /// Memory in use: blocks, and all that is remembered.
    pub size: u64,
    /// What `size` is kept under: between `size_min` and `size_max`, lowered by `shrink`, raised by
    /// what comes in.
    pub target: u64,
    /// The most that the target can be.
    pub size_max: u64,
    /// Part of `size`: blocks that were asked for once.
    pub seen_once: u64,
    /// Part of `size`: blocks that were asked for again.
    pub seen_again: u64,
    /// Part of `size`: blocks being filled, or replaced or removed while somebody reads them.
    pub anon: u64,
    /// Bookkeeping: ghosts, and headers, which the parts above count too.
    pub overhead: u64,
    /// Blocks in memory.
    pub blocks: u64,
    /// Evicted blocks that are remembered.
    pub ghosts: u64,
}

impl CacheStats {
    /// Hits in all lookups, from 0 to 1; 0 when there was none.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }

    pub(super) fn of(cache: &Cache) -> CacheStats {
        let (engine, tally) = (&cache.shared.engine, &cache.shared.tally);
        engine.refresh_gauges();
        let arc = engine.stats();
        let ghost_hits = [&arc.mru_ghost_hits, &arc.mfu_ghost_hits, &arc.distant_ghost_hits];
        CacheStats {
            hits: arc.hits.value(),
            misses: arc.misses.value(),
            fetches: tally.fetches.value(),
            failed: tally.failed.value(),
            joined: tally.joined.value(),
            overtaken: tally.overtaken.value(),
            aside: tally.aside.value(),
            inserts: arc.inserts.value(),
            removed: arc.deleted.value(),
            evicted: arc.evicted.value(),
            evicted_bytes: arc.evicted_bytes.value(),
            refused: arc.refused.value(),
            ghost_hits: ghost_hits.map(Counter::value).iter().sum(),
            size: arc.size.value(),
            target: arc.c.value(),
            size_max: arc.c_max.value(),
            seen_once: arc.mru_data.value() + arc.mru_metadata.value(),
            seen_again: arc.mfu_data.value() + arc.mfu_metadata.value(),
            anon: arc.anon_data.value() + arc.anon_metadata.value(),
            overhead: arc.overhead_size.value(),
            blocks: arc.blocks.value(),
            ghosts: arc.ghosts.value(),
        }
    }
}

impl fmt::Display for CacheStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CacheStats { hits, misses, fetches, failed, joined, overtaken, aside, .. } = self;
        let CacheStats { inserts, removed, evicted, refused, blocks, ghosts, .. } = self;
        let [size, target, size_max] = [self.size, self.target, self.size_max].map(ByteSize);
        let [once, again, freed] = [self.seen_once, self.seen_again, self.evicted_bytes].map(ByteSize);
        writeln!(f, "lookups  {hits} hits, {misses} misses: {:.1} % hits", 100.0 * self.hit_ratio())?;
        writeln!(
            f,
            "fetches  {fetches}, {failed} failed, {overtaken} overtaken, {aside} beside the cache; \
             {joined} lookups joined one"
        )?;
        writeln!(
            f,
            "blocks   {inserts} in, {evicted} evicted ({freed}), {removed} removed, {refused} refused"
        )?;
        write!(
            f,
            "memory   {size} of {target} (at most {size_max}): {blocks} blocks, {once} seen once, \
             {again} again; {ghosts} ghosts"
        )
    }
}
