//! The cache's statistics: one row each. Gauges are brought up to date by
//! [`Cache::refresh_gauges`](crate::Cache::refresh_gauges).

arcwell_base::kstats! {
    /// What the cache counts.
    pub struct ArcStats {
        /// Lookups that found their block.
        "arc.hits": hits, Counter;
        /// Lookups that did not.
        "arc.misses": misses, Counter;
        /// Hits of data on demand.
        "arc.demand_data_hits": demand_data_hits, Counter;
        /// Misses of data on demand.
        "arc.demand_data_misses": demand_data_misses, Counter;
        /// Hits of metadata on demand.
        "arc.demand_metadata_hits": demand_metadata_hits, Counter;
        /// Misses of metadata on demand.
        "arc.demand_metadata_misses": demand_metadata_misses, Counter;
        /// Data that prefetch found in the cache.
        "arc.prefetch_data_hits": prefetch_data_hits, Counter;
        /// Data that prefetch had to read.
        "arc.prefetch_data_misses": prefetch_data_misses, Counter;
        /// Metadata that prefetch found in the cache.
        "arc.prefetch_metadata_hits": prefetch_metadata_hits, Counter;
        /// Metadata that prefetch had to read.
        "arc.prefetch_metadata_misses": prefetch_metadata_misses, Counter;
        /// Hits of blocks that had been seen once.
        "arc.mru_hits": mru_hits, Counter;
        /// Hits of blocks that had been seen more often.
        "arc.mfu_hits": mfu_hits, Counter;
        /// Hits of blocks that do not stay.
        "arc.uncached_hits": uncached_hits, Counter;
        /// Blocks read again that had been evicted from mru not long before.
        "arc.mru_ghost_hits": mru_ghost_hits, Counter;
        /// Blocks read again that had been evicted from mfu not long before.
        "arc.mfu_ghost_hits": mfu_ghost_hits, Counter;
        /// Blocks read again that had been evicted from mru long before.
        "arc.distant_ghost_hits": distant_ghost_hits, Counter;
        /// Times the other of the two rules of the adaptive policy was taken.
        "arc.rule_changes": rule_changes, Counter;
        /// Blocks read ahead that were asked for later.
        "arc.prefetch_used": prefetch_used, Counter;
        /// Blocks read ahead that were evicted before anybody asked.
        "arc.prefetch_unused": prefetch_unused, Counter;
        /// Blocks published.
        "arc.inserts": inserts, Counter;
        /// Blocks removed because they are no longer true.
        "arc.deleted": deleted, Counter;
        /// Blocks evicted.
        "arc.evicted": evicted, Counter;
        /// Bytes freed by eviction.
        "arc.evicted_bytes": evicted_bytes, Counter;
        /// Blocks evicted that might have been written to level 2 and were not.
        "arc.evicted_unfed": evicted_unfed, Counter;
        /// Bytes of those.
        "arc.evicted_unfed_bytes": evicted_unfed_bytes, Counter;
        /// Times eviction passed by a block that was in use.
        "arc.evict_skipped": evict_skipped, Counter;
        /// Times eviction passed by a block whose lock was taken.
        "arc.mutex_miss": mutex_miss, Counter;
        /// Admissions refused because nothing could be evicted.
        "arc.refused": refused, Counter;
        /// Memory in use, bytes: all states, ghosts and what is charged from elsewhere.
        "arc.size": size, Gauge;
        /// Target of the size, bytes.
        "arc.c": c, Gauge;
        /// The most that the target can be, bytes.
        "arc.c_max": c_max, Gauge;
        /// The least that the target can be, bytes.
        "arc.c_min": c_min, Gauge;
        /// Metadata's share, in units of 2^-32.
        "arc.meta": meta, Gauge;
        /// The share of mru in data, in units of 2^-32.
        "arc.pd": pd, Gauge;
        /// The share of mru in metadata, in units of 2^-32.
        "arc.pm": pm, Gauge;
        /// Data being filled, or still read after it was replaced, bytes.
        "arc.anon_data": anon_data, Gauge;
        /// Metadata being filled, or still read after it was replaced, bytes.
        "arc.anon_metadata": anon_metadata, Gauge;
        /// Data seen once, bytes.
        "arc.mru_data": mru_data, Gauge;
        /// Metadata seen once, bytes.
        "arc.mru_metadata": mru_metadata, Gauge;
        /// Data seen more often, bytes.
        "arc.mfu_data": mfu_data, Gauge;
        /// Metadata seen more often, bytes.
        "arc.mfu_metadata": mfu_metadata, Gauge;
        /// Data that does not stay, bytes.
        "arc.uncached_data": uncached_data, Gauge;
        /// Metadata that does not stay, bytes.
        "arc.uncached_metadata": uncached_metadata, Gauge;
        /// Data that ghosts of mru stand for, bytes; not in memory.
        "arc.mru_ghost_data": mru_ghost_data, Gauge;
        /// Metadata that ghosts of mru stand for, bytes; not in memory.
        "arc.mru_ghost_metadata": mru_ghost_metadata, Gauge;
        /// Data that ghosts of mfu stand for, bytes; not in memory.
        "arc.mfu_ghost_data": mfu_ghost_data, Gauge;
        /// Metadata that ghosts of mfu stand for, bytes; not in memory.
        "arc.mfu_ghost_metadata": mfu_ghost_metadata, Gauge;
        /// Data that distant ghosts stand for, bytes; not in memory.
        "arc.distant_ghost_data": distant_ghost_data, Gauge;
        /// Metadata that distant ghosts stand for, bytes; not in memory.
        "arc.distant_ghost_metadata": distant_ghost_metadata, Gauge;
        /// The rule in force: 0 the paper's, 1 by inter-reference recency.
        "arc.rule": rule, Gauge;
        /// Blocks that the adaptive policy's trial runs remember.
        "arc.shadows": shadows, Gauge;
        /// Data in mru that nobody uses, bytes.
        "arc.mru_evictable_data": mru_evictable_data, Gauge;
        /// Metadata in mru that nobody uses, bytes.
        "arc.mru_evictable_metadata": mru_evictable_metadata, Gauge;
        /// Data in mfu that nobody uses, bytes.
        "arc.mfu_evictable_data": mfu_evictable_data, Gauge;
        /// Metadata in mfu that nobody uses, bytes.
        "arc.mfu_evictable_metadata": mfu_evictable_metadata, Gauge;
        /// Bookkeeping, bytes: ghosts, the trial of the two rules, and headers with their tables (which their states count too).
        "arc.overhead_size": overhead_size, Gauge;
        /// Memory held elsewhere on the cache's behalf, bytes.
        "arc.other_size": other_size, Gauge;
        /// Blocks in memory.
        "arc.blocks": blocks, Gauge;
        /// Ghosts remembered.
        "arc.ghosts": ghosts, Gauge;
    }
}
