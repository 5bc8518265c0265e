//! The cache as the pool and the simulator see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arcwell_base::table::Tunables;
use arcwell_base::{BlockKey, Kind};

use crate::admit::Asked;
use crate::config::Config;
use crate::duel::Request;
use crate::header::State;
use crate::list::{End, Sighting};
use crate::pin::Pin;
use crate::shard::{Purpose, Shard};
use crate::shared::Shared;
use crate::stat::ArcStats;
use crate::tunable::ArcTunables;

/// Parts of the table; more than threads that run at once, so that two rarely meet.
const SHARDS: u32 = 64;

/// The adaptive replacement cache. Shared between threads behind a `std::sync::Arc`; pins keep what
/// they need alive by themselves.
#[derive(Debug)]
pub struct Cache {
    pub(crate) shared: Arc<Shared>,
    pub(crate) shards: Box<[Arc<Shard>]>,
}

impl Cache {
    /// An empty cache.
    pub fn new(config: Config) -> Cache {
        let shared = Arc::new(Shared::new(&config));
        let shards = (0..SHARDS).map(|number| Shard::new(number, Arc::clone(&shared))).collect();
        Cache { shared, shards }
    }

    /// The tunables. After storing one, call [`Cache::adjust`].
    pub fn tunables(&self) -> &ArcTunables {
        &self.shared.tunables
    }

    /// The statistics. Gauges are as old as the last [`Cache::refresh_gauges`].
    pub fn stats(&self) -> &ArcStats {
        &self.shared.stats
    }

    /// Finds a block and pins it. Counts one hit or one miss; `kind` says of what.
    pub fn lookup(&self, key: BlockKey, kind: Kind, asked: Asked) -> Option<Pin> {
        let purpose = match asked {
            Asked::Demand => Purpose::Demand,
            Asked::Prefetch => Purpose::Prefetch,
        };
        let hash = key.hash();
        let found = self.shard(hash).pin(key, hash, purpose);
        self.count(kind, asked, found.as_ref().map(|found| found.state));
        let found = found?;
        if asked == Asked::Demand && found.state != State::Uncached {
            // The first use of what prefetch read would have been a miss.
            self.observe(hash, found.bytes, !found.is_first_use);
        }
        Some(found.pin)
    }

    /// Lets the two rules compete for a request.
    pub(crate) fn observe(&self, hash: u64, bytes: u64, was_hit: bool) {
        let (partition, request) = (&self.shared.partition, Request { hash, bytes, was_hit });
        if partition.is_on_trial(hash) && partition.observe(request, self.shared.allowed_shadows()) {
            self.stats().rule_changes.add(1);
        }
    }

    /// Finds a block and pins it, without counting and without changing its standing.
    pub fn peek(&self, key: BlockKey) -> Option<Pin> {
        let hash = key.hash();
        self.shard(hash).pin(key, hash, Purpose::Peek).map(|found| found.pin)
    }

    /// Tells that a block is used by someone whose lookup missed it, and who then waited for prefetch to
    /// read it: its first use, if nobody used it before. Counts no hit.
    pub fn use_guess(&self, pin: &Pin) {
        if let Some(bytes) = pin.shard.use_guess(pin.slot) {
            self.observe(pin.key.hash(), bytes, false);
        }
    }

    /// Whether a block is in memory.
    pub fn contains(&self, key: BlockKey) -> bool {
        let hash = key.hash();
        self.shard(hash).table.lock().find(key, hash).is_some()
    }

    /// Forgets a block, and its ghost; `true` when there was a block. It may be pinned: readers keep
    /// their bytes, but it is no longer found.
    pub fn remove(&self, key: BlockKey) -> bool {
        let hash = key.hash();
        let was_there = self.shard(hash).remove(key, hash);
        self.stats().deleted.add(was_there.into());
        was_there
    }

    /// Counts memory that is held elsewhere on the cache's behalf; the lists shrink by it.
    pub fn charge(&self, bytes: u64) {
        self.shared.other.fetch_add(bytes, Ordering::Relaxed);
        self.make_room(None);
    }

    /// Bytes that are charged now.
    pub fn charged(&self) -> u64 {
        self.shared.other.load(Ordering::Relaxed)
    }

    /// Counts charged memory as given back.
    pub fn discharge(&self, bytes: u64) {
        let before = self.shared.other.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "A7: what is discharged was charged");
    }

    /// Sets `arc.size_max` and goes there at once.
    pub fn set_size_max(&self, bytes: u64) {
        self.tunables().store("arc.size_max", bytes);
        self.adjust();
    }

    /// Takes over changed tunables and brings the size under the target.
    pub fn adjust(&self) {
        let shared = &self.shared;
        let ceiling = self.tunables().size_max();
        let before = shared.ceiling.swap(ceiling, Ordering::Relaxed);
        if ceiling > before && !shared.is_held_down.load(Ordering::Relaxed) {
            shared.wish.fetch_max(ceiling, Ordering::Relaxed);
        }
        shared.wish.fetch_min(ceiling, Ordering::Relaxed);
        self.fit();
    }

    /// Reclaim: lowers the target by up to `bytes` below what is in use, never under
    /// `arc.size_min`, and evicts. Returns what was freed. Later admissions raise the target again,
    /// unless [`Cache::no_grow`] holds it.
    pub fn shrink(&self, bytes: u64) -> u64 {
        let before = self.shared.size();
        self.shared.wish.fetch_min(before.saturating_sub(bytes), Ordering::Relaxed);
        self.fit();
        before.saturating_sub(self.shared.size())
    }

    /// Brings everything under a target that may have become lower.
    fn fit(&self) {
        self.shared.partition.bound_shadows(self.shared.allowed_shadows().entries);
        // All at once: else blocks would go for what is remembered of a larger cache.
        self.shared.trim_ghosts();
        self.shared.trim_distant(usize::MAX);
        self.make_room(None);
    }

    /// While `held`, the target does not grow by itself.
    pub fn no_grow(&self, held: bool) {
        self.shared.is_held_down.store(held, Ordering::Relaxed);
    }

    /// The blocks of a state and kind that nobody uses, from the newest or the oldest on, at most
    /// `limit`. Between sublists the order is nearly right. Anon blocks are on no list.
    pub fn walk(&self, state: State, kind: Kind, from: End, limit: usize) -> Vec<BlockKey> {
        if state == State::Anon {
            return Vec::new();
        }
        let list = self.shared.partition.list(state, kind);
        let mut rows: Vec<Sighting> = Vec::new();
        for sublist in 0..list.sublists() {
            let mut seen = Sighting::new();
            list.look(sublist, from, limit, &mut seen);
            rows.push(seen);
        }
        let deepest = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let in_turn = (0..deepest).flat_map(|depth| rows.iter().filter_map(move |row| row.get(depth)));
        let key = |listed: &crate::list::Listed| {
            let table = self.shards[listed.place.shard as usize].table.lock();
            table.sighted(*listed, (state, kind)).map(|header| header.key)
        };
        in_turn.filter_map(key).take(limit).collect()
    }

    pub(crate) fn shard(&self, hash: u64) -> &Arc<Shard> {
        &self.shards[(hash >> 40) as usize % SHARDS as usize]
    }

    fn count(&self, kind: Kind, asked: Asked, found: Option<State>) {
        let stats = self.stats();
        let (all, own) = match (found.is_some(), asked, kind) {
            (true, Asked::Demand, Kind::Data) => (&stats.hits, &stats.demand_data_hits),
            (true, Asked::Demand, Kind::Metadata) => (&stats.hits, &stats.demand_metadata_hits),
            (true, Asked::Prefetch, Kind::Data) => (&stats.hits, &stats.prefetch_data_hits),
            (true, Asked::Prefetch, Kind::Metadata) => (&stats.hits, &stats.prefetch_metadata_hits),
            (false, Asked::Demand, Kind::Data) => (&stats.misses, &stats.demand_data_misses),
            (false, Asked::Demand, Kind::Metadata) => (&stats.misses, &stats.demand_metadata_misses),
            (false, Asked::Prefetch, Kind::Data) => (&stats.misses, &stats.prefetch_data_misses),
            (false, Asked::Prefetch, Kind::Metadata) => (&stats.misses, &stats.prefetch_metadata_misses),
        };
        all.add(1);
        own.add(1);
        match found {
            Some(State::Mru) => stats.mru_hits.add(1),
            Some(State::Mfu) => stats.mfu_hits.add(1),
            Some(State::Uncached) => stats.uncached_hits.add(1),
            Some(State::Anon) | None => {}
        }
    }
}
