//! Bringing the gauges up to date.

use arcwell_base::Kind;

use crate::cache::Cache;
use crate::header::State;
use crate::policy::Rank;

impl Cache {
    /// Brings the gauges of [`Cache::stats`] up to date.
    pub fn refresh_gauges(&self) {
        let (shared, stats) = (&self.shared, self.stats());
        let load = |value: &std::sync::atomic::AtomicU64| value.load(std::sync::atomic::Ordering::Relaxed);
        let blocks = load(&shared.blocks);
        let ghosts = shared.partition.ghosts.len();
        let shadows = shared.partition.shadows();
        let remembered = ghosts * shared.overhead.of_ghost() + shadows * shared.overhead.of_shadow();
        let bookkeeping = blocks * shared.overhead.of_header() + remembered;
        stats.size.set(shared.size());
        stats.c.set(shared.target());
        stats.c_max.set(load(&shared.ceiling));
        stats.c_min.set(shared.floor());
        stats.overhead_size.set(bookkeeping);
        stats.other_size.set(load(&shared.other));
        stats.blocks.set(blocks);
        stats.ghosts.set(ghosts);
        stats.shadows.set(shadows);
        let shares = shared.partition.shares();
        stats.meta.set(shares.meta);
        stats.pd.set(shares.recency[Kind::Data.index()]);
        stats.pm.set(shares.recency[Kind::Metadata.index()]);
        stats.rule.set(shares.rule as u64);
        let [data, metadata] = shared.partition.ghosts.distant();
        stats.distant_ghost_data.set(data);
        stats.distant_ghost_metadata.set(metadata);
        self.refresh_states();
    }

    fn refresh_states(&self) {
        let (partition, stats) = (&self.shared.partition, self.stats());
        for (state, gauges) in [
            (State::Anon, [&stats.anon_data, &stats.anon_metadata]),
            (State::Mru, [&stats.mru_data, &stats.mru_metadata]),
            (State::Mfu, [&stats.mfu_data, &stats.mfu_metadata]),
            (State::Uncached, [&stats.uncached_data, &stats.uncached_metadata]),
        ] {
            for kind in Kind::ALL {
                gauges[kind.index()].set(partition.bytes(state, kind));
            }
        }
        let ghosts = partition.ghosts.bytes();
        for (rank, ghost_gauges, evictable_gauges) in [
            (
                Rank::Mru,
                [&stats.mru_ghost_data, &stats.mru_ghost_metadata],
                [&stats.mru_evictable_data, &stats.mru_evictable_metadata],
            ),
            (
                Rank::Mfu,
                [&stats.mfu_ghost_data, &stats.mfu_ghost_metadata],
                [&stats.mfu_evictable_data, &stats.mfu_evictable_metadata],
            ),
        ] {
            for kind in Kind::ALL {
                ghost_gauges[kind.index()].set(ghosts[rank.index()][kind.index()]);
                evictable_gauges[kind.index()].set(partition.list(rank.into(), kind).bytes());
            }
        }
    }
}
