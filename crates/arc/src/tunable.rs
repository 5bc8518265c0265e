//! The cache's tunables: one row each.

arcwell_base::tunables! {
    /// How the cache is run.
    pub struct ArcTunables {
        /// The most memory that the cache takes.
        "arc.size_max": size_max, Bytes = 1 << 30, 1_048_576..=u64::MAX, live;
        /// The least that reclaim leaves to the cache.
        "arc.size_min": size_min, Bytes = 32 << 20, 0..=u64::MAX, live;
        /// How much more a byte of metadata that had to be read again weighs than one of data.
        "arc.meta_balance": meta_balance, Percent = 500, 1..=100_000, live;
        /// Which sublist loses a block next: in turn strays less from the oldest, by a tenth of a point at worst.
        "arc.victim_list": victim_list, Choice(&["random", "roundrobin"]) = 1, 0..=1, live;
        /// Most blocks evicted from one sublist before the policy is asked again.
        "arc.evict_batch": evict_batch, Count = 16, 1..=1024, live;
        /// Share of the target that blocks read ahead of demand may take when they are not to stay.
        "arc.uncached_max": uncached_max, Percent = 10, 0..=50, live;
        /// Which blocks stay: the paper's rule alone, or that rule and one for loops longer than the cache.
        "arc.policy": policy, Choice(&["arc", "adaptive"]) = 1, 0..=1, open;
        /// Kind of lists: exact with one lock a state, nearly exact with several, or exact pages without waiting.
        "arc.lists": lists, Choice(&["single", "multilist", "pages"]) = 2, 0..=2, open;
        /// Slots of a page of arc.lists=pages; 0 chooses by the size of the cache.
        "arc.page_size": page_size, Count = 0, 0..=4096, open;
        /// Of arc.lists=pages: used blocks in so much of the list, from the head on, are not moved; 0 always moves.
        "arc.move_threshold": move_threshold, Percent = 10, 0..=90, live;
        /// Sublists a state and kind; 0 chooses by the size of the cache.
        "arc.sublists": sublists, Count = 0, 0..=1024, open;
    }
}
