//! Ghosts: what is remembered of blocks that were evicted.
//!
//! A ghost is known by the 64-bit hash of its key alone: two keys that share one would at worst move
//! a target by one block. Ghosts are spread over as many parts as the lists are, so that one part is
//! in the order of eviction and several are nearly so.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arcwell_base::Kind;
use crossbeam_utils::CachePadded;
use hashbrown::HashTable;
use parking_lot::Mutex;

use crate::list::sublist_of;
use crate::policy::{ByRank, GhostHit, Rank};
use crate::slab::{Chain, End, Linked, Links, Slab, give_back};

/// What is left of a block.
#[derive(Debug)]
pub(crate) struct Ghost {
    hash: u64,
    links: Links,
    bytes: u32,
    rank: Rank,
    kind: Kind,
}

const _: () = assert!(size_of::<Ghost>() <= 24, "ghosts are many");

impl Default for Ghost {
    fn default() -> Self {
        Ghost { hash: 0, links: Links::default(), bytes: 0, rank: Rank::Mru, kind: Kind::Data }
    }
}

impl Linked for Ghost {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[derive(Debug, Default)]
struct Part {
    index: HashTable<u32>,
    ghosts: Slab<Ghost>,
    chains: [[Chain; 2]; 2],
}

impl Part {
    fn find(&self, hash: u64) -> Option<u32> {
        self.index.find(hash, |&place| self.ghosts[place].hash == hash).copied()
    }

    fn remove(&mut self, place: u32) -> GhostHit {
        let Ghost { hash, bytes, rank, kind, .. } = self.ghosts[place];
        self.chains[rank.index()][kind.index()].unlink(&mut self.ghosts, place);
        if let Ok(entry) = self.index.find_entry(hash, |&found| found == place) {
            entry.remove();
        }
        self.ghosts.remove(place);
        give_back(&mut self.index, |&place| self.ghosts[place].hash);
        GhostHit { rank, kind, bytes: bytes.into() }
    }
}

/// The ghosts of a partition.
#[derive(Debug)]
pub(crate) struct Ghosts {
    parts: Box<[CachePadded<Mutex<Part>>]>,
    bytes: [[AtomicU64; 2]; 2],
    len: AtomicU64,
    turn: AtomicUsize,
}

impl Ghosts {
    /// No ghosts yet, to be kept in `parts` parts.
    pub(crate) fn new(parts: usize) -> Self {
        Ghosts {
            parts: (0..parts.max(1)).map(|_| CachePadded::default()).collect(),
            bytes: Default::default(),
            len: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// The bytes that they stand for.
    pub(crate) fn bytes(&self) -> ByRank {
        Rank::ALL.map(|rank| Kind::ALL.map(|kind| self.sum(rank, kind).load(Ordering::Relaxed)))
    }

    /// Remembers a block that was just evicted.
    pub(crate) fn insert(&self, hash: u64, ghost: GhostHit) {
        let bytes = u32::try_from(ghost.bytes).expect("A8: no block is as large as 4 GiB");
        let part = &mut *self.part(hash).lock();
        if let Some(stale) = part.find(hash) {
            self.forget(part.remove(stale));
        }
        let GhostHit { rank, kind, .. } = ghost;
        let place = part.ghosts.insert(Ghost { hash, links: Links::default(), bytes, rank, kind });
        part.chains[rank.index()][kind.index()].push(&mut part.ghosts, place);
        part.index.insert_unique(hash, place, |&place| part.ghosts[place].hash);
        self.sum(rank, kind).fetch_add(ghost.bytes, Ordering::Relaxed);
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets the ghost of this hash and says what it was.
    pub(crate) fn remove(&self, hash: u64) -> Option<GhostHit> {
        let mut part = self.part(hash).lock();
        let place = part.find(hash)?;
        let ghost = part.remove(place);
        self.forget(ghost);
        Some(ghost)
    }

    /// Forgets an old ghost; `false` when there is none of this rank and kind.
    pub(crate) fn drop_oldest(&self, rank: Rank, kind: Kind) -> bool {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..self.parts.len()).any(|step| {
            let mut part = self.parts[first.wrapping_add(step) % self.parts.len()].lock();
            let Some(place) = part.chains[rank.index()][kind.index()].oldest() else { return false };
            let ghost = part.remove(place);
            self.forget(ghost);
            true
        })
    }

    fn forget(&self, ghost: GhostHit) {
        self.sum(ghost.rank, ghost.kind).fetch_sub(ghost.bytes, Ordering::Relaxed);
        self.len.fetch_sub(1, Ordering::Relaxed);
    }

    fn sum(&self, rank: Rank, kind: Kind) -> &AtomicU64 {
        &self.bytes[rank.index()][kind.index()]
    }

    fn part(&self, hash: u64) -> &Mutex<Part> {
        &self.parts[sublist_of(hash, self.parts.len())]
    }

    /// Recounts everything (A5). `is_resident` tells whether a block with this hash is in the cache.
    pub(crate) fn validate(&self, is_resident: impl Fn(u64) -> bool) -> Result<(), String> {
        let (mut bytes, mut len) = (ByRank::default(), 0);
        for part in &self.parts {
            let part = part.lock();
            let mut linked = 0;
            for (rank, kind) in Rank::ALL.into_iter().flat_map(|rank| Kind::ALL.map(|kind| (rank, kind))) {
                for place in part.chains[rank.index()][kind.index()].walk(&part.ghosts, End::Tail) {
                    let ghost = &part.ghosts[place];
                    bytes[rank.index()][kind.index()] += u64::from(ghost.bytes);
                    linked += 1;
                    if (ghost.rank, ghost.kind) != (rank, kind) || part.find(ghost.hash) != Some(place) {
                        return Err(format!("A5: {ghost:?} is in the wrong list or not in the table"));
                    }
                    if is_resident(ghost.hash) {
                        return Err(format!("A5: {ghost:?} is resident too"));
                    }
                }
            }
            if (part.index.len(), part.ghosts.len()) != (linked, linked) {
                return Err(format!("A5: {linked} ghosts linked, {} in the table", part.index.len()));
            }
            len += linked as u64;
        }
        if (bytes, len) != (self.bytes(), self.len()) {
            return Err(format!("A5: recounted {len} ghosts of {bytes:?}, counted {:?}", self.bytes()));
        }
        Ok(())
    }
}
