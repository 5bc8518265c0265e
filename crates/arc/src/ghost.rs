//! Ghosts: what is remembered of blocks that were evicted.
//!
//! A ghost is found through the entry of the [table](crate::table) that its block had: so nothing is at once
//! resident and a ghost, and a look that misses has seen already whether there is a ghost. It is known by 56 bits
//! of its key's hash alone: two keys that share them would at worst move a target by one block. Ghosts are spread
//! over a few parts, in each of which they are in the order of eviction: one part where there are few.
//!
//! A ghost comes and goes with its entry, under the lock of its bucket; under a part's lock, which is taken
//! last, no other is.

use arcwell_base::Kind;
use arcwell_base::lock::Mutex;
use crossbeam_utils::CachePadded;
use smallvec::SmallVec;

use crate::policy::{ByRank, GhostHit, Past, Rank, Tick};
use crate::slab::{Chain, End, Linked, Links, Slab};
use crate::sync::plain::{AtomicU64, AtomicUsize, Ordering};

/// What is left of a block.
#[derive(Debug, Default)]
pub(crate) struct Ghost {
    name: Name,
    links: Links,
    bytes: u32,
    tick: Tick,
}

const _: () = assert!(size_of::<Ghost>() <= 24, "ghosts are many");

/// The lower 56 bits of a hash, and in the room of the others where the ghost belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Name(u64);

impl Name {
    const KNOWN: u32 = 56;

    fn new(hash: u64, past: Past, kind: Kind) -> Name {
        Name(known_bits(hash) | ((past.index() * 2 + kind.index()) as u64) << Name::KNOWN)
    }

    fn is_of(self, hash: u64) -> bool {
        known_bits(self.0) == known_bits(hash)
    }

    fn past(self) -> Past {
        Past::ALL[(self.0 >> Name::KNOWN) as usize / 2]
    }

    fn kind(self) -> Kind {
        Kind::ALL[(self.0 >> Name::KNOWN) as usize % 2]
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
    ghosts: Slab<Ghost>,
    chains: [[Chain; 2]; Past::ALL.len()],
}

impl Part {
    fn chain(&mut self, past: Past, kind: Kind) -> (&mut Chain, &mut Slab<Ghost>) {
        (&mut self.chains[past.index()][kind.index()], &mut self.ghosts)
    }

    fn insert(&mut self, hash: u64, hit: GhostHit) -> u32 {
        let bytes = u32::try_from(hit.bytes).expect("A8: no block is as large as 4 GiB");
        let name = Name::new(hash, hit.past, hit.kind);
        let place = self.ghosts.insert(Ghost { name, links: Links::default(), bytes, tick: hit.tick });
        let (chain, ghosts) = self.chain(hit.past, hit.kind);
        chain.push(ghosts, place);
        place
    }

    fn remove(&mut self, place: u32) -> GhostHit {
        let Ghost { name, bytes, tick, .. } = self.ghosts[place];
        let (chain, ghosts) = self.chain(name.past(), name.kind());
        chain.unlink(ghosts, place);
        self.ghosts.remove(place);
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

/// Ghosts that are about to be forgotten: of each the hash, as far as it is known, and the place.
pub(crate) type Oldest = SmallVec<[(u64, u32); 16]>;

/// The ghosts of a partition.
#[derive(Debug)]
pub(crate) struct Ghosts {
    parts: Box<[CachePadded<Shelf>]>,
    len: CachePadded<AtomicU64>,
    turn: AtomicUsize,
}

/// A part, and the bytes that its ghosts stand for: written under the lock, read without.
#[derive(Debug)]
struct Shelf {
    part: Mutex<Part>,
    bytes: [[AtomicU64; 2]; Past::ALL.len()],
}

impl Shelf {
    /// Adds to a sum. Under the lock.
    fn count(&self, past: Past, kind: Kind, bytes: u64) {
        let sum = &self.bytes[past.index()][kind.index()];
        sum.store(sum.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }
}

impl Ghosts {
    /// No ghosts yet, to be kept in `parts` parts.
    pub(crate) fn new(parts: usize) -> Self {
        Ghosts {
            parts: (0..parts.max(1))
                .map(|_| {
                    let part = Mutex::named("arc.ghosts");
                    CachePadded::new(Shelf { part, bytes: Default::default() })
                })
                .collect(),
            len: CachePadded::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// The bytes that those which are not distant stand for.
    pub(crate) fn bytes(&self) -> ByRank {
        Rank::ALL.map(|rank| Kind::ALL.map(|kind| self.sum(rank.into(), kind)))
    }

    /// The bytes that the distant ones stand for, by kind.
    pub(crate) fn distant(&self) -> [u64; 2] {
        Kind::ALL.map(|kind| self.sum(Past::Distant, kind))
    }

    /// Remembers a block that was just evicted, and says where.
    pub(crate) fn insert(&self, hash: u64, ghost: GhostHit) -> u32 {
        let shelf = self.shelf(hash);
        let mut part = shelf.part.lock();
        shelf.count(ghost.past, ghost.kind, ghost.bytes);
        self.len.fetch_add(1, Ordering::Relaxed);
        part.insert(hash, ghost)
    }

    /// Whether the ghost to which an entry of this hash leads is of this hash.
    pub(crate) fn is_of(&self, hash: u64, place: u32) -> bool {
        self.shelf(hash).part.lock().ghosts[place].name.is_of(hash)
    }

    /// Forgets the ghost to which an entry of this hash leads, and says what it was.
    pub(crate) fn remove(&self, hash: u64, place: u32) -> GhostHit {
        let shelf = self.shelf(hash);
        let mut part = shelf.part.lock();
        let ghost = part.remove(place);
        shelf.count(ghost.past, ghost.kind, ghost.bytes.wrapping_neg());
        self.len.fetch_sub(1, Ordering::Relaxed);
        ghost
    }

    /// The oldest ghosts of a past and kind, at most `want`: one of each part in turn, and then the next one of each.
    pub(crate) fn oldest(&self, past: Past, kind: Kind, want: usize) -> Oldest {
        let (count, mut seen) = (self.parts.len(), Oldest::new());
        let share = want.div_ceil(count);
        for shelf in self.in_turn() {
            if seen.len() >= want {
                break;
            }
            let part = shelf.part.lock();
            let chain = part.chains[past.index()][kind.index()].walk(&part.ghosts, End::Tail);
            seen.extend(chain.map(|place| (known_bits(part.ghosts[place].name.0), place)).take(share));
        }
        seen
    }

    /// Makes the oldest ghosts of mru distant ones, one of each part in turn, at most `want` and for as long as `more`
    /// says so, which is told the bytes of each. Returns how many.
    pub(crate) fn age_oldest(&self, kind: Kind, want: usize, mut more: impl FnMut(u64) -> bool) -> usize {
        let (share, mut aged) = (want.div_ceil(self.parts.len()), 0);
        for shelf in self.in_turn() {
            if aged >= want {
                break;
            }
            let mut part = shelf.part.lock();
            for _ in 0..share {
                let Some(bytes) = part.age(kind) else { break };
                shelf.count(Past::Distant, kind, bytes);
                shelf.count(Past::Mru, kind, bytes.wrapping_neg());
                aged += 1;
                if !more(bytes) {
                    return aged;
                }
            }
        }
        aged
    }

    /// All parts, from another one on each time.
    fn in_turn(&self) -> impl Iterator<Item = &Shelf> {
        let count = self.parts.len();
        let first = self.turn.load(Ordering::Relaxed);
        if count > 1 {
            // Two who write the same take turns all the same.
            self.turn.store(first.wrapping_add(1), Ordering::Relaxed);
        }
        (0..count).map(move |step| &*self.parts[first.wrapping_add(step) % count])
    }

    fn sum(&self, past: Past, kind: Kind) -> u64 {
        let of = |shelf: &Shelf| shelf.bytes[past.index()][kind.index()].load(Ordering::Relaxed);
        self.parts.iter().map(|shelf| of(shelf)).sum()
    }

    fn shelf(&self, hash: u64) -> &Shelf {
        // By bits that an entry of the table keeps: so an entry alone names one ghost.
        &self.parts[(hash >> 16) as u16 as usize % self.parts.len()]
    }

    /// Recounts everything (A4, A5). `leads` tells whether the table leads from a hash to the ghost at a place,
    /// and `is_resident` whether a block with this hash is in the cache; of the hash the upper bits are not known.
    pub(crate) fn validate(
        &self,
        leads: impl Fn(u64, u32) -> bool,
        is_resident: impl Fn(u64) -> bool,
    ) -> Result<(), String> {
        let (mut bytes, mut len) = ([[0; 2]; Past::ALL.len()], 0);
        for shelf in &self.parts {
            let part = shelf.part.lock();
            let mut linked = 0;
            for (past, kind) in Past::ALL.into_iter().flat_map(|past| Kind::ALL.map(|kind| (past, kind))) {
                for place in part.chains[past.index()][kind.index()].walk(&part.ghosts, End::Tail) {
                    let ghost = &part.ghosts[place];
                    bytes[past.index()][kind.index()] += u64::from(ghost.bytes);
                    linked += 1;
                    let (belongs, hash) =
                        ((ghost.name.past(), ghost.name.kind()) == (past, kind), known_bits(ghost.name.0));
                    if !belongs || !leads(hash, place) {
                        return Err(format!("A5: {ghost:?} is in the wrong list or not in the table"));
                    }
                    if is_resident(hash) {
                        return Err(format!("A5: {ghost:?} is resident too"));
                    }
                }
            }
            if part.ghosts.len() != linked {
                return Err(format!("A5: {linked} ghosts linked, {} there", part.ghosts.len()));
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
    hash & ((1 << Name::KNOWN) - 1)
}
