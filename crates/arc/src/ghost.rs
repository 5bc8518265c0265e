//! Ghosts: what is remembered of blocks that were evicted.
//!
//! A ghost is known by 56 bits of its key's hash alone: two keys that share them would at worst move
//! a target by one block. Ghosts are spread over as many parts as the lists are, so that one part is
//! in the order of eviction and several are nearly so.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arcwell_base::Kind;
use arcwell_base::lock::Mutex;
use crossbeam_utils::CachePadded;
use hashbrown::HashTable;

use crate::list::sublist_of;
use crate::policy::{ByRank, GhostHit, Past, Rank, Tick};
use crate::slab::{Chain, End, Linked, Links, Slab, give_back};

/// What is left of a block.
#[derive(Debug, Default)]
pub(crate) struct Ghost {
    name: Name,
    links: Links,
    bytes: u32,
    tick: Tick,
}

const _: () = assert!(size_of::<Ghost>() <= 24, "ghosts are many");

/// The upper 56 bits of a hash, and in the room of the others where the ghost belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Name(u64);

impl Name {
    /// The bits that are not the hash's.
    const TAG: u64 = 0xff;

    fn new(hash: u64, past: Past, kind: Kind) -> Name {
        Name(known_bits(hash) | (past.index() * 2 + kind.index()) as u64)
    }

    fn is_of(self, hash: u64) -> bool {
        known_bits(self.0) == known_bits(hash)
    }

    fn past(self) -> Past {
        Past::ALL[(self.0 & Self::TAG) as usize / 2]
    }

    fn kind(self) -> Kind {
        Kind::ALL[(self.0 & Self::TAG) as usize % 2]
    }

    /// What the table goes by: the same whether made from the hash or from what is left of it, and
    /// with bits at both ends, as the table wants them.
    fn slot(bits: u64) -> u64 {
        let known = known_bits(bits);
        known ^ (known >> 32)
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
    chains: [[Chain; 2]; Past::ALL.len()],
}

impl Part {
    fn find(&self, hash: u64) -> Option<u32> {
        self.index.find(Name::slot(hash), |&place| self.ghosts[place].name.is_of(hash)).copied()
    }

    fn chain(&mut self, past: Past, kind: Kind) -> (&mut Chain, &mut Slab<Ghost>) {
        (&mut self.chains[past.index()][kind.index()], &mut self.ghosts)
    }

    fn insert(&mut self, hash: u64, hit: GhostHit) {
        let bytes = u32::try_from(hit.bytes).expect("A8: no block is as large as 4 GiB");
        let name = Name::new(hash, hit.past, hit.kind);
        let place = self.ghosts.insert(Ghost { name, links: Links::default(), bytes, tick: hit.tick });
        let (chain, ghosts) = self.chain(hit.past, hit.kind);
        chain.push(ghosts, place);
        self.index.insert_unique(Name::slot(hash), place, |&place| Name::slot(self.ghosts[place].name.0));
    }

    fn remove(&mut self, place: u32) -> GhostHit {
        let Ghost { name, bytes, tick, .. } = self.ghosts[place];
        let (chain, ghosts) = self.chain(name.past(), name.kind());
        chain.unlink(ghosts, place);
        if let Ok(entry) = self.index.find_entry(Name::slot(name.0), |&found| found == place) {
            entry.remove();
        }
        self.ghosts.remove(place);
        give_back(&mut self.index, |&place| Name::slot(self.ghosts[place].name.0));
        GhostHit { past: name.past(), kind: name.kind(), bytes: bytes.into(), tick }
    }

    /// Makes the oldest ghost of mru a distant one.
    fn age(&mut self, kind: Kind) -> Option<u64> {
        let place = self.chains[Past::Mru.index()][kind.index()].oldest()?;
        let (chain, ghosts) = self.chain(Past::Mru, kind);
        chain.unlink(ghosts, place);
        ghosts[place].name = Name::new(ghosts[place].name.0, Past::Distant, kind);
        let (chain, ghosts) = self.chain(Past::Distant, kind);
        chain.push(ghosts, place);
        Some(self.ghosts[place].bytes.into())
    }
}

/// The ghosts of a partition.
#[derive(Debug)]
pub(crate) struct Ghosts {
    parts: Box<[CachePadded<Mutex<Part>>]>,
    bytes: [[AtomicU64; 2]; Past::ALL.len()],
    len: AtomicU64,
    turn: AtomicUsize,
}

impl Ghosts {
    /// No ghosts yet, to be kept in `parts` parts.
    pub(crate) fn new(parts: usize) -> Self {
        Ghosts {
            parts: (0..parts.max(1)).map(|_| CachePadded::new(Mutex::named("arc.ghosts"))).collect(),
            bytes: Default::default(),
            len: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// The bytes that those which are not distant stand for.
    pub(crate) fn bytes(&self) -> ByRank {
        Rank::ALL.map(|rank| Kind::ALL.map(|kind| self.sum(rank.into(), kind).load(Ordering::Relaxed)))
    }

    /// The bytes that the distant ones stand for, by kind.
    pub(crate) fn distant(&self) -> [u64; 2] {
        Kind::ALL.map(|kind| self.sum(Past::Distant, kind).load(Ordering::Relaxed))
    }

    /// Remembers a block that was just evicted.
    pub(crate) fn insert(&self, hash: u64, ghost: GhostHit) {
        let mut part = self.part(hash).lock();
        if let Some(stale) = part.find(hash) {
            self.forget(part.remove(stale));
        }
        part.insert(hash, ghost);
        self.sum(ghost.past, ghost.kind).fetch_add(ghost.bytes, Ordering::Relaxed);
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

    /// Forgets an old ghost; `false` when there is none of this past and kind.
    pub(crate) fn drop_oldest(&self, past: Past, kind: Kind) -> bool {
        self.in_some_part(|part| {
            let place = part.chains[past.index()][kind.index()].oldest()?;
            self.forget(part.remove(place));
            Some(())
        })
    }

    /// Makes an old ghost of mru a distant one; `false` when there is none.
    pub(crate) fn age_oldest(&self, kind: Kind) -> bool {
        self.in_some_part(|part| {
            let bytes = part.age(kind)?;
            self.sum(Past::Distant, kind).fetch_add(bytes, Ordering::Relaxed);
            self.sum(Past::Mru, kind).fetch_sub(bytes, Ordering::Relaxed);
            Some(())
        })
    }

    /// Does something in the first part in turn where it can be done.
    fn in_some_part(&self, deed: impl Fn(&mut Part) -> Option<()>) -> bool {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..self.parts.len()).any(|step| {
            let mut part = self.parts[first.wrapping_add(step) % self.parts.len()].lock();
            deed(&mut part).is_some()
        })
    }

    fn forget(&self, ghost: GhostHit) {
        self.sum(ghost.past, ghost.kind).fetch_sub(ghost.bytes, Ordering::Relaxed);
        self.len.fetch_sub(1, Ordering::Relaxed);
    }

    fn sum(&self, past: Past, kind: Kind) -> &AtomicU64 {
        &self.bytes[past.index()][kind.index()]
    }

    fn part(&self, hash: u64) -> &Mutex<Part> {
        &self.parts[sublist_of(hash, self.parts.len())]
    }

    /// Recounts everything (A4, A5). `is_resident` tells whether a block with this hash is in the cache;
    /// of the hash the lowest bits are not known.
    pub(crate) fn validate(&self, is_resident: impl Fn(u64) -> bool) -> Result<(), String> {
        let (mut bytes, mut len) = ([[0; 2]; Past::ALL.len()], 0);
        for part in &self.parts {
            let part = part.lock();
            let mut linked = 0;
            for (past, kind) in Past::ALL.into_iter().flat_map(|past| Kind::ALL.map(|kind| (past, kind))) {
                for place in part.chains[past.index()][kind.index()].walk(&part.ghosts, End::Tail) {
                    let ghost = &part.ghosts[place];
                    bytes[past.index()][kind.index()] += u64::from(ghost.bytes);
                    linked += 1;
                    let belongs = (ghost.name.past(), ghost.name.kind()) == (past, kind);
                    if !belongs || part.find(ghost.name.0) != Some(place) {
                        return Err(format!("A5: {ghost:?} is in the wrong list or not in the table"));
                    }
                    if is_resident(known_bits(ghost.name.0)) {
                        return Err(format!("A5: {ghost:?} is resident too"));
                    }
                }
            }
            if (part.index.len(), part.ghosts.len()) != (linked, linked) {
                return Err(format!("A5: {linked} ghosts linked, {} in the table", part.index.len()));
            }
            len += linked as u64;
        }
        let [mru, mfu, distant] = bytes;
        if ([mru, mfu], distant, len) != (self.bytes(), self.distant(), self.len()) {
            return Err(format!("A4: recounted {len} ghosts of {bytes:?}, counted {:?}", self.bytes()));
        }
        Ok(())
    }
}

/// A hash without what a ghost does not know of it.
pub(crate) fn known_bits(hash: u64) -> u64 {
    hash & !Name::TAG
}
