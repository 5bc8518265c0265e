//! A shadow: a small cache without bytes that goes by one rule, to see what that rule would hit.
//!
//! It stands for a cache that is larger by the inverse of its sampling rate: the keys that it sees are
//! chosen by their hash, and its capacity is the same part of the whole. So few blocks suffice that
//! several shadows cost next to nothing (C. Waldspurger and others, "Cache modeling and optimization
//! using miniature simulations", USENIX ATC 2017). What it decides by is [`crate::policy`] itself, with
//! all blocks as data; its order is exact, and nothing in it is ever in use.

use arcwell_base::Kind;
use hashbrown::HashTable;

use crate::policy::{GhostHit, Past, Rank, Rule, Shares, Sizes, Tick};
use crate::slab::{Chain, Linked, Links, Slab, give_back};

/// The kind that all blocks of a shadow have.
const ANY: Kind = Kind::Data;

/// The lists of a shadow: what it holds, and its ghosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stand {
    #[default]
    Mru,
    Mfu,
    Ghost(Past),
}

impl Stand {
    const COUNT: usize = 2 + Past::ALL.len();

    const fn index(self) -> usize {
        match self {
            Stand::Mru => 0,
            Stand::Mfu => 1,
            Stand::Ghost(past) => 2 + past.index(),
        }
    }

    const fn resident(rank: Rank) -> Stand {
        match rank {
            Rank::Mru => Stand::Mru,
            Rank::Mfu => Stand::Mfu,
        }
    }
}

/// A block that is held or remembered.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    hash: u64,
    links: Links,
    bytes: u32,
    tick: Tick,
    stand: Stand,
}

const _: () = assert!(size_of::<Entry>() <= 32, "there are some ten thousand");

impl Linked for Entry {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// See the module's doc.
#[derive(Debug)]
pub(super) struct Shadow {
    shares: Shares,
    index: HashTable<u32>,
    entries: Slab<Entry>,
    chains: [Chain; Stand::COUNT],
    bytes: [u64; Stand::COUNT],
    now: Tick,
    is_full: bool,
}

impl Shadow {
    /// An empty one that goes by `rule`.
    pub(super) fn new(rule: Rule) -> Shadow {
        Shadow {
            shares: Shares { rule, ..Shares::default() },
            index: HashTable::new(),
            entries: Slab::default(),
            chains: Default::default(),
            bytes: Default::default(),
            now: Tick::default(),
            is_full: false,
        }
    }

    /// mru's share, as learned.
    pub(super) fn recency(&self) -> u64 {
        self.shares.recency[ANY.index()]
    }

    /// How many blocks it holds.
    pub(super) fn resident(&self) -> usize {
        self.chains[Stand::Mru.index()].len() + self.chains[Stand::Mfu.index()].len()
    }

    /// How many blocks it holds or remembers.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it had to evict since the sample was last changed.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The part of its blocks that were asked for again while it held them.
    pub(super) fn proven(&self) -> f64 {
        self.chains[Stand::Mfu.index()].len() as f64 / self.resident().max(1) as f64
    }

    /// A request. `true` when it is a hit; else the block comes in, if it is not larger than half of
    /// the capacity.
    pub(super) fn access(&mut self, hash: u64, bytes: u64, capacity: u64) -> bool {
        self.now.0 = self.now.0.wrapping_add(1);
        let mut again = None;
        let mut goal = Rank::Mru;
        if let Some(place) = self.find(hash) {
            match self.entries[place].stand {
                Stand::Ghost(past) => {
                    let hit = self.ghost_hit(place, past);
                    let sizes = self.sizes(capacity, 0);
                    if self.shares.readmits(hit, &sizes, || self.oldest_mfu()) {
                        goal = Rank::Mfu;
                    }
                    self.remove(place);
                    self.shares.learn(hit, &sizes, 100);
                    again = Some(hit);
                }
                stand => {
                    let rises = stand == Stand::Mru && self.shares.rule.promotes_hits();
                    self.shift(place, if rises { Stand::Mfu } else { stand });
                    self.entries[place].tick = self.now;
                    return true;
                }
            }
        }
        let narrow = u32::try_from(bytes).ok().filter(|_| bytes <= capacity / 2);
        if let Some(bytes) = narrow {
            self.make_room(capacity, bytes.into(), goal, again);
            self.insert(hash, bytes, goal);
        }
        false
    }

    /// Forgets every block whose hash is not wanted any more.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(u64) -> bool) {
        self.is_full = false;
        let unwanted = |(place, entry): (u32, &Entry)| (!is_wanted(entry.hash)).then_some(place);
        let known = self.index.iter().map(|&place| (place, &self.entries[place]));
        let places: Vec<u32> = known.filter_map(unwanted).collect();
        places.into_iter().for_each(|place| self.remove(place));
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.index.find(hash, |&place| self.entries[place].hash == hash).copied()
    }

    fn ghost_hit(&self, place: u32, past: Past) -> GhostHit {
        let Entry { bytes, tick, .. } = self.entries[place];
        GhostHit { past, kind: ANY, bytes: bytes.into(), tick }
    }

    fn oldest_mfu(&self) -> Option<Tick> {
        self.chains[Stand::Mfu.index()].oldest().map(|place| self.entries[place].tick)
    }

    /// What the policy judges by, with `coming` bytes on their way into mru.
    fn sizes(&self, capacity: u64, coming: u64) -> Sizes {
        let resident = Rank::ALL.map(|rank| [self.bytes[Stand::resident(rank).index()], 0]);
        let past = |past: Past| self.bytes[Stand::Ghost(past).index()];
        Sizes {
            room: capacity,
            resident,
            guesses: [0; 2],
            arriving: [coming, 0],
            held: [resident[0][0] + resident[1][0] + coming, 0],
            ghosts: Rank::ALL.map(|rank| [past(rank.into()), 0]),
            distant: [past(Past::Distant), 0],
            evictable: resident,
        }
    }

    fn make_room(&mut self, capacity: u64, bytes: u64, goal: Rank, again: Option<GhostHit>) {
        let coming = if goal == Rank::Mru { bytes } else { 0 };
        loop {
            let sizes = self.sizes(capacity, coming);
            self.trim_ghosts(capacity, coming);
            if sizes.resident[0][0] + sizes.resident[1][0] + bytes <= capacity {
                break;
            }
            self.is_full = true;
            self.fill_mfu(capacity);
            let Some((rank, _)) = self.shares.victim(&self.sizes(capacity, coming), again) else { break };
            let Some(place) = self.chains[Stand::resident(rank).index()].oldest() else { break };
            self.shift(place, Stand::Ghost(rank.into()));
        }
    }

    fn fill_mfu(&mut self, capacity: u64) {
        for _ in 0..super::FILL_BATCH {
            let Some(place) = self.chains[Stand::Mru.index()].oldest() else { break };
            let bytes = self.entries[place].bytes.into();
            if !self.shares.fills_mfu(ANY, &self.sizes(capacity, 0), bytes) {
                break;
            }
            self.shift(place, Stand::Mfu);
        }
    }

    fn trim_ghosts(&mut self, capacity: u64, coming: u64) {
        while let Some(rank) = self.shares.surplus(ANY, &self.sizes(capacity, coming)) {
            let Some(place) = self.chains[Stand::Ghost(rank.into()).index()].oldest() else { break };
            if rank == Rank::Mru && self.shares.remembers_distant() {
                self.shift(place, Stand::Ghost(Past::Distant));
            } else {
                self.remove(place);
            }
        }
        while self.shares.has_distant_surplus(ANY, &self.sizes(capacity, coming)) {
            let Some(place) = self.chains[Stand::Ghost(Past::Distant).index()].oldest() else { break };
            self.remove(place);
        }
    }

    fn insert(&mut self, hash: u64, bytes: u32, goal: Rank) {
        let stand = Stand::resident(goal);
        let entry = Entry { hash, links: Links::default(), bytes, tick: self.now, stand };
        let place = self.entries.insert(entry);
        self.index.insert_unique(hash, place, |&place| self.entries[place].hash);
        self.chains[stand.index()].push(&mut self.entries, place);
        self.bytes[stand.index()] += u64::from(bytes);
    }

    /// Moves an entry to the head of a list.
    fn shift(&mut self, place: u32, to: Stand) {
        let Entry { bytes, stand, .. } = self.entries[place];
        self.chains[stand.index()].unlink(&mut self.entries, place);
        self.bytes[stand.index()] -= u64::from(bytes);
        self.chains[to.index()].push(&mut self.entries, place);
        self.bytes[to.index()] += u64::from(bytes);
        self.entries[place].stand = to;
    }

    fn remove(&mut self, place: u32) {
        let Entry { hash, bytes, stand, .. } = self.entries[place];
        self.chains[stand.index()].unlink(&mut self.entries, place);
        self.bytes[stand.index()] -= u64::from(bytes);
        if let Ok(entry) = self.index.find_entry(hash, |&found| found == place) {
            entry.remove();
        }
        self.entries.remove(place);
        give_back(&mut self.index, |&place| self.entries[place].hash);
    }

    /// Recounts the lists (A4).
    pub(super) fn validate(&self) -> Result<(), String> {
        let linked: usize = self.chains.iter().map(Chain::len).sum();
        if (linked, linked) != (self.index.len(), self.entries.len()) {
            return Err(format!("A4: a shadow links {linked} of {} entries", self.entries.len()));
        }
        for (chain, &counted) in self.chains.iter().zip(&self.bytes) {
            let bytes = |place| u64::from(self.entries[place].bytes);
            let found: u64 = chain.walk(&self.entries, crate::slab::End::Tail).map(bytes).sum();
            if found != counted {
                return Err(format!("A4: a shadow holds {found} bytes and counted {counted}"));
            }
        }
        Ok(())
    }
}
