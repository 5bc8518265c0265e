//! Admission: room is made, the block is filled as [`Anon`], then published.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use arcwell_base::{BlockKey, Kind};

use crate::buffer::Buffer;
use crate::cache::Cache;
use crate::header::State;
use crate::list::{End, Sighting, sublist_of};
use crate::pin::Pin;
use crate::policy::{GhostHit, Past, Tick};
use crate::shard::{Arrival, Shard};

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

/// A block that is being filled; nobody else sees it until it is published. Dropping it instead
/// gives its memory back; what the cache learned when it was admitted stays learned.
pub struct Anon {
    shard: Arc<Shard>,
    key: BlockKey,
    kind: Kind,
    goal: State,
    is_guess: bool,
    len: u32,
    /// Counted as anon until published; 0 afterwards.
    reserved: u64,
    /// `None` for a phantom.
    bytes: Option<Buffer>,
}

impl Cache {
    /// Makes room for a block of `len` bytes and returns it, zeroed, to be filled.
    ///
    /// Here the cache learns: when a block is admitted on demand while its ghost is remembered, the
    /// targets move before room is made.
    ///
    /// # Errors
    /// [`Full`] when the block is larger than half of the target, or when so much is pinned that
    /// even the tolerated overshoot would be exceeded.
    pub fn admit(&self, key: BlockKey, kind: Kind, len: usize, how: Admit) -> Result<Anon, Full> {
        let mut anon = self.reserve(key, kind, len, how)?;
        anon.bytes = Some(Buffer::zeroed(len));
        Ok(anon)
    }

    /// The same without memory: the block counts as if it had `len` bytes, and reads as empty. For
    /// simulation.
    ///
    /// # Errors
    /// As [`Cache::admit`].
    pub fn admit_phantom(&self, key: BlockKey, kind: Kind, len: usize, how: Admit) -> Result<Anon, Full> {
        self.reserve(key, kind, len, how)
    }

    fn reserve(&self, key: BlockKey, kind: Kind, len: usize, how: Admit) -> Result<Anon, Full> {
        let shared = &self.shared;
        let Some((len, bytes)) = shared.charge_of(len) else { return Err(self.refuse()) };
        let hash = key.hash();
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
        // Counted before room is made: threads that admit at once see each other's needs.
        shared.partition.reserve(goal, kind, bytes);
        shared.advance(bytes);
        let shard = Arc::clone(self.shard(hash));
        let anon = Anon { shard, key, kind, goal, is_guess, len, reserved: bytes, bytes: None };
        self.make_room(again);
        if shared.size() > shared.brink() { Err(self.refuse()) } else { Ok(anon) }
    }

    /// A request that was a miss: lets the rules compete for it, and learns from its ghost. Returns the
    /// ghost, and where the block is to go.
    fn learn(&self, key: BlockKey, hash: u64, bytes: u64) -> (Option<GhostHit>, State) {
        let (shared, stats) = (&self.shared, self.stats());
        if shared.partition.is_on_trial(hash) {
            // What is written over was there.
            self.observe(hash, bytes, self.contains(key));
        }
        let learned = shared.partition.learn(hash, shared.room(), shared.tunables.meta_balance());
        let Some((hit, shares, sizes)) = learned else { return (None, State::Mru) };
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
        let table = self.shards[listed.place.shard as usize].table.lock();
        table.sighted(listed, (State::Mfu, kind)).map(|header| header.tick)
    }

    #[cold]
    fn refuse(&self) -> Full {
        self.shared.stats.refused.add(1);
        Full
    }
}

impl Anon {
    /// Which block this will be.
    pub fn key(&self) -> BlockKey {
        self.key
    }

    /// Shortens the block (at the end of a file, say) and gives the rest back. A length that is not
    /// shorter changes nothing.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len as usize {
            return;
        }
        self.len = len as u32;
        if let Some(bytes) = &mut self.bytes {
            bytes.truncate(len);
        }
        let needed = self.shard.shared.overhead.of_block(len);
        self.shard.shared.partition.unreserve(self.goal, self.kind, self.reserved - needed);
        self.reserved = needed;
    }

    /// Makes the block findable. A block with the same key is replaced; who has it pinned keeps the
    /// bytes that it had.
    pub fn publish(mut self) -> Pin {
        let buffer = match self.bytes.take() {
            Some(bytes) => Arc::new(bytes),
            None => Arc::clone(&self.shard.shared.blank),
        };
        self.reserved = 0;
        let Anon { key, kind, goal, is_guess, len, .. } = self;
        self.shard.publish(Arrival { key, kind, goal, is_guess, len, buffer })
    }
}

impl Drop for Anon {
    fn drop(&mut self) {
        self.shard.shared.partition.unreserve(self.goal, self.kind, self.reserved);
    }
}

impl Deref for Anon {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Anon {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.as_deref_mut().unwrap_or_default()
    }
}

impl fmt::Debug for Anon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "anon {:?} ({:?}, {} bytes)", self.key, self.kind, self.len)
    }
}
