//! The pool's tunables and statistics, one row each.

arcwell_base::tunables! {
    /// What can be set of a pool.
    pub struct PoolTunables {
        /// Threads that may wait for origins at the same time.
        "pool.workers_max": workers_max, Count = 64, 1..=1024, live;
        /// Jobs that may wait for a thread before new ones are refused.
        "pool.queue_max": queue_max, Count = 4096, 4..=1_000_000, live;
        /// How long a read or a question to an origin may take before the asker gets ETIMEDOUT.
        "pool.origin_timeout": origin_timeout, Millis = 20_000, 10..=3_600_000, live;
        /// How long a change of the origin may take before the asker gets ETIMEDOUT.
        "pool.change_timeout": change_timeout, Millis = 120_000, 10..=3_600_000, live;
        /// How long an fsync may take before the asker gets ETIMEDOUT.
        "pool.sync_timeout": sync_timeout, Millis = 600_000, 10..=3_600_000, live;
        /// The most bytes of adjacent misses that are joined into one read of the origin.
        "pool.join_max": join_max, Bytes = 1_048_576, 4_096..=67_108_864, live;
        /// The share of the cache that znodes may take before their holders are asked to let go.
        "pool.znode_percent": znode_percent, Percent = 25, 1..=90, live;
        /// How often what has to be remembered of files is written to the state directory.
        "pool.checkpoint_interval": checkpoint_interval, Millis = 30_000, 100..=3_600_000, live;
        /// The distance up to which a new prefetch stream doubles; beyond it only late arrivals do.
        "prefetch.distance_initial": distance_initial, Bytes = 4_194_304, 0..=1_073_741_824, live;
        /// The share of the cache that may be on its way from the origin on a guess.
        "prefetch.flight_percent": flight_percent, Percent = 6, 0..=50, live;
    }
}

arcwell_base::kstats! {
    /// What a pool counts.
    pub struct PoolStats {
        /// Blocks that somebody else was already reading: waited for, not read again.
        "pool.flights_joined": flights_joined, Counter;
        /// Reads of origins for blocks.
        "pool.fills": fills, Counter;
        /// Blocks that were read from origins.
        "pool.fill_blocks": fill_blocks, Counter;
        /// Bytes that were read from origins for blocks.
        "pool.fill_bytes": fill_bytes, Counter;
        /// Blocks that could not be kept because the file changed while they were read.
        "pool.fills_unkept": fills_unkept, Counter;
        /// Reads that found the cache full of pinned blocks and passed it by.
        "pool.cache_full": cache_full, Counter;
        /// Writes through to origins.
        "pool.writes": writes, Counter;
        /// Bytes written through to origins.
        "pool.write_bytes": write_bytes, Counter;
        /// Times the origin was asked whether a file is still what it was.
        "pool.revalidations": revalidations, Counter;
        /// Changes of origins that did not come through us.
        "pool.foreign_changes": foreign_changes, Counter;
        /// Prefetches begun.
        "prefetch.issued": prefetch_issued, Counter;
        /// Blocks asked for by prefetch.
        "prefetch.blocks": prefetch_blocks, Counter;
        /// Prefetches left out because too much was under way.
        "prefetch.dropped": prefetch_dropped, Counter;
        /// Reads that found their block still on its way.
        "prefetch.late": prefetch_late, Counter;
        /// Znodes: files that somebody may hold.
        "znode.count": znodes, Gauge;
        /// Bytes of memory that znodes take.
        "znode.bytes": znode_bytes, Gauge;
        /// Files that are open.
        "znode.open": znodes_open, Gauge;
        /// Znodes that their holders were asked to let go.
        "znode.prunes": prunes, Counter;
        /// Jobs that wait for a worker.
        "pool.queued": queued, Gauge;
        /// Jobs under way.
        "pool.running": running, Gauge;
        /// Jobs that missed their deadline.
        "pool.timeouts": timeouts, Gauge;
        /// Events that a recording was too slow to take.
        "pool.trace_lost": trace_lost, Counter;
        /// Files whose identity waits for the next checkpoint.
        "pool.identities_pending": identities_pending, Gauge;
    }
}
