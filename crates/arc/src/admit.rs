//! Admission: room is made, the block is filled as [`Anon`], then published.

use std::fmt;

use arcwell_base::{BlockKey, Kind};

use crate::arena::Place;
use crate::block::Arrival;
use crate::cache::Cache;
use crate::duel::Request;
use crate::header::State;
use crate::list::{End, Sighting, sublist_of};
use crate::pin::Anon;
use crate::policy::{GhostHit, Past, Tick};

/// Who asked for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A reader who waits for it.
    Demand,
    /// Read-ahead: nobody may ever want it.
    Prefetch,
}

/// Whether a block may stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// For as long as the policy thinks.
    Cached,
    /// Until it was used.
    Uncached,
}

/// How a block comes into the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admit {
    /// Who asked for it.
    pub asked: Asked,
    /// Whether it may stay.
    pub keep: Keep,
}

/// The block does not fit: it is larger than half of the cache, or nothing can be evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room in the cache: all of it is in use")
    }
}

impl std::error::Error for Full {}

impl Cache {
    /// Makes room for a block of `len` bytes and returns it, to be filled. What is in it before is no
    /// secret of another process, but may be what some other block of this cache held.
    ///
    /// Here the cache learns: when a block is admitted on demand while its ghost is remembered, the
    /// targets move before room is made.
    ///
    /// # Errors
    /// [`Full`] when the block is larger than half of the target, or when so much is pinned that
    /// even the tolerated overshoot would be exceeded.
    pub fn admit(&self, key: BlockKey, kind: Kind, len: usize, how: Admit) -> Result<Anon, Full> {
        self.reserve(key, kind, len, how, false)
    }

    /// The same without memory: the block counts as if it had `len` bytes, and reads as empty. For
    /// simulation.
    ///
    /// # Errors
    /// As [`Cache::admit`].
    pub fn admit_phantom(&self, key: BlockKey, kind: Kind, len: usize, how: Admit) -> Result<Anon, Full> {
        self.reserve(key, kind, len, how, true)
    }

    fn reserve(
        &self,
        key: BlockKey,
        kind: Kind,
        len: usize,
        how: Admit,
        is_phantom: bool,
    ) -> Result<Anon, Full> {
        let shared = &self.shared;
        let Some((len, bytes)) = shared.charge_of(len) else { return Err(self.refuse()) };
        let hash = key.hash();
        if shared.owes_notes() {
            shared.settle_notes();
        }
        shared.grow(bytes);
        if bytes > shared.target() / 2 {
            return Err(self.refuse());
        }
        let is_guess = how.asked == Asked::Prefetch;
        let (again, goal) = match how.keep {
            Keep::Uncached => (None, State::Uncached),
            Keep::Cached if is_guess => (None, State::Mru),
            Keep::Cached => self.learn(key, hash, bytes),
        };
        if goal == State::Uncached && is_guess {
            self.bound_uncached(bytes);
        }
        let Some(number) = shared.headers.take() else { return Err(self.refuse()) };
        // Counted before room is made: threads that admit at once see each other's needs.
        shared.partition.reserve(goal, kind, bytes);
        shared.advance(bytes);
        let (may_be_fed, place) = (false, Place::NONE);
        let arrival = Arrival { key, kind, goal, is_guess, may_be_fed, len, place, number };
        let mut anon = Anon::new(shared.clone(), arrival, bytes);
        self.make_room(again);
        if shared.size() > shared.brink() || !(is_phantom || anon.has_memory()) {
            return Err(self.refuse());
        }
        Ok(anon)
    }

    /// A request that was a miss: lets the rules compete for it, and learns from its ghost. Returns the
    /// ghost, and where the block is to go.
    fn learn(&self, key: BlockKey, hash: u64, bytes: u64) -> (Option<GhostHit>, State) {
        let (shared, stats) = (&self.shared, self.stats());
        if shared.partition.is_on_trial(hash) {
            // What is written over was there.
            shared.observe(Request { hash, bytes, was_hit: self.contains(key) });
        }
        let Some(hit) = shared.recall(hash) else { return (None, State::Mru) };
        let (shares, sizes) = shared.partition.learn(hit, shared.room(), shared.tunables.meta_balance());
        match hit.past {
            Past::Mru => stats.mru_ghost_hits.add(1),
            Past::Mfu => stats.mfu_ghost_hits.add(1),
            Past::Distant => stats.distant_ghost_hits.add(1),
        }
        let oldest = || self.oldest_mfu(hit.kind, hash);
        let goal = if shares.readmits(hit, &sizes, oldest) { State::Mfu } else { State::Mru };
        (Some(hit), goal)
    }

    /// When the block at the tail of mfu was last asked for: of that sublist which `hash` would go to.
    fn oldest_mfu(&self, kind: Kind, hash: u64) -> Option<Tick> {
        let list = self.shared.partition.list(State::Mfu, kind);
        let mut seen = Sighting::new();
        list.look(sublist_of(hash, list.sublists()), End::Tail, 1, &mut seen);
        let &listed = seen.first()?;
        let header = self.shared.headers.at(listed.number);
        let tick = header.tick();
        self.shared.stands(&header, listed, (State::Mfu, kind)).then_some(tick)
    }

    #[cold]
    fn refuse(&self) -> Full {
        self.shared.stats.refused.add(1);
        Full
    }
}
