//! Level 2's tunables and statistics, one row each.

arcwell_base::tunables! {
    /// What can be set of level 2.
    pub struct L2Tunables {
        /// Bytes that may be written to each cache device in a second.
        "l2arc.write_max": write_max, Bytes = 64 << 20, 65_536..=1_099_511_627_776, live;
        /// Bytes a second beyond that while a device has not been written once all round.
        "l2arc.write_boost": write_boost, Bytes = 64 << 20, 0..=1_099_511_627_776, live;
        /// Of each list so many times as much is looked at as may be written; 0 looks at all of it.
        "l2arc.headroom": headroom, Count = 8, 0..=1000, live;
        /// What the feed leaves out: nothing (0), what is not frequent (1), data that is not frequent (2).
        "l2arc.mfuonly": mfuonly, Count = 0, 0..=2, live;
        /// Whether blocks that prefetch read and nobody used are left out.
        "l2arc.noprefetch": noprefetch, Switch = 1, 0..=1, live;
        /// After so many steps in a row that fed metadata alone, one leaves metadata out; 0 never does.
        "l2arc.meta_cycles": meta_cycles, Count = 2, 0..=1000, live;
        /// Per cent of a device that may be written in a day once it was written all round; 0 is no limit.
        "l2arc.dwpd_limit": dwpd_limit, Percent = 100, 0..=100_000, live;
        /// The share of the cache's target that the index may take before the feed stops.
        "l2arc.meta_percent": meta_percent, Percent = 33, 0..=100, live;
        /// Bytes that are written to a cache device at a time. Shorter on small devices; for new ones only.
        "l2arc.segment_size": segment_size, Bytes = 8 << 20, 65_536..=67_108_864, live;
        /// Whether what memory holds is written to cache devices at a clean stop, for ten seconds at most.
        "l2arc.save_on_exit": save_on_exit, Switch = 1, 0..=1, live;
        /// Failed reads in a row that take a device out of use; of writes, that stop its feed.
        "l2arc.errors_max": errors_max, Count = 8, 1..=10_000, live;
    }
}

arcwell_base::kstats! {
    /// What level 2 counts.
    pub struct L2Stats {
        /// Blocks that level 2 had.
        "l2.hits": hits, Counter;
        /// Blocks that it was asked for and did not have, or could not give.
        "l2.misses": misses, Counter;
        /// Bytes of blocks that it had.
        "l2.read_bytes": read_bytes, Counter;
        /// Bytes written to cache devices, tables included.
        "l2.write_bytes": write_bytes, Counter;
        /// Segments written.
        "l2.writes": writes, Counter;
        /// Blocks whose bytes, or whose length, were not what was written.
        "l2.cksum_bad": cksum_bad, Counter;
        /// Blocks that were overwritten or forgotten while they were read.
        "l2.rw_clash": rw_clash, Counter;
        /// Reads of cache devices that failed.
        "l2.io_errors": io_errors, Counter;
        /// Writes of cache devices that failed.
        "l2.write_errors": write_errors, Counter;
        /// Blocks copied into segments.
        "l2.fed_blocks": fed_blocks, Counter;
        /// Their bytes.
        "l2.fed_bytes": fed_bytes, Counter;
        /// Blocks that were overwritten by the hand without ever having been read.
        "l2.fed_never_read": fed_never_read, Counter;
        /// Steps of the feed that stopped at what may be written.
        "l2.feed_skipped_rate": feed_skipped_rate, Counter;
        /// Steps of the feed left out since the index takes its share of memory.
        "l2.feed_skipped_memory": feed_skipped_memory, Counter;
        /// Bytes of memory that the index takes.
        "l2.index_bytes": index_bytes, Gauge;
        /// Blocks on cache devices.
        "l2.index_entries": index_entries, Gauge;
        /// Bytes of blocks on cache devices.
        "l2.size": size, Gauge;
        /// Bytes of the segments that hold them.
        "l2.asize": asize, Gauge;
        /// Blocks known again from tables.
        "l2.rebuilt_blocks": rebuilt_blocks, Counter;
        /// Segments whose tables were read for that.
        "l2.rebuild_segments": rebuild_segments, Counter;
        /// Segments whose table should have been there and was not, or was damaged.
        "l2.rebuild_lost": rebuild_lost, Counter;
        /// Bytes read for that.
        "l2.rebuild_bytes": rebuild_bytes, Counter;
        /// Blocks left out of it because the pool did not want them any more.
        "l2.rebuild_unwanted": rebuild_unwanted, Counter;
        /// Segments with blocks that the hand has overwritten.
        "l2.evicted_segments": evicted_segments, Counter;
        /// Blocks that left level 2 because the pool forgot them.
        "l2.forgotten": forgotten, Counter;
    }
}
