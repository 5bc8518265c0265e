//! Bringing the gauges up to date.

use arcwell_base::Kind;

use crate::admit::Asked;
use crate::cache::Cache;
use crate::header::State;
use crate::noted::Event;
use crate::policy::Rank;
use crate::sync::plain::{AtomicU64, Ordering};

impl Cache {
    /// Blocks that were evicted though they might have been fed to level 2 and were not: `arc.evicted_unfed` as of now.
    pub fn evicted_unfed(&self) -> u64 {
        self.shared.noted.times(Event::EvictedUnfed)
    }

    /// Brings the gauges of [`Cache::stats`] up to date.
    pub fn refresh_gauges(&self) {
        let (shared, stats) = (&self.shared, self.stats());
        shared.settle_notes();
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let blocks = shared.blocks();
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
        self.refresh_lookups();
    }

    /// Lookups are counted by what they found; the rows are sums of that. The other rows are sums over the lanes.
    fn refresh_lookups(&self) {
        let (stats, noted) = (self.stats(), &self.shared.noted);
        let found = |kind: Kind, asked: Asked| {
            State::LISTED.iter().map(|state| noted.counted(kind, asked, Some(*state))).sum::<u64>()
        };
        let (mut hits, mut misses) = (0, 0);
        for (kind, asked, rows) in [
            (Kind::Data, Asked::Demand, (&stats.demand_data_hits, &stats.demand_data_misses)),
            (Kind::Metadata, Asked::Demand, (&stats.demand_metadata_hits, &stats.demand_metadata_misses)),
            (Kind::Data, Asked::Prefetch, (&stats.prefetch_data_hits, &stats.prefetch_data_misses)),
            (
                Kind::Metadata,
                Asked::Prefetch,
                (&stats.prefetch_metadata_hits, &stats.prefetch_metadata_misses),
            ),
        ] {
            let (hit, missed) = (found(kind, asked), noted.counted(kind, asked, None));
            rows.0.set_total(hit);
            rows.1.set_total(missed);
            (hits, misses) = (hits + hit, misses + missed);
        }
        stats.inserts.set_total(noted.times(Event::Published));
        stats.evicted.set_total(noted.times(Event::Evicted));
        stats.evicted_bytes.set_total(noted.times(Event::EvictedBytes));
        stats.evicted_unfed.set_total(noted.times(Event::EvictedUnfed));
        stats.evicted_unfed_bytes.set_total(noted.times(Event::EvictedUnfedBytes));
        stats.hits.set_total(hits);
        stats.misses.set_total(misses);
        for (state, row) in [
            (State::Mru, &stats.mru_hits),
            (State::Mfu, &stats.mfu_hits),
            (State::Uncached, &stats.uncached_hits),
        ] {
            let each = Kind::ALL.into_iter().flat_map(|kind| {
                [Asked::Demand, Asked::Prefetch].map(|asked| noted.counted(kind, asked, Some(state)))
            });
            row.set_total(each.sum());
        }
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
                evictable_gauges[kind.index()].set(partition.evictable(rank.into(), kind));
            }
        }
    }
}
