//! The cache as the pool and the simulator see it.

use std::io;

use arcwell_base::table::Tunables;
use arcwell_base::{BlockKey, Kind};

use crate::admit::Asked;
use crate::block::Purpose;
use crate::config::Config;
use crate::duel::Request;
use crate::header::{State, Word};
use crate::list::{End, Sighting};
use crate::pin::Pin;
use crate::pin::owner::Owner;
use crate::shared::Shared;
use crate::stat::ArcStats;
use crate::sync::plain::{Ordering, fence};
use crate::tunable::ArcTunables;

/// How many times as large as when it was made a cache may become, if address space is there for it.
const GROWTHS: [u64; 3] = [16, 4, 1];

/// Keys of a batch whose lines are fetched ahead of the one that is looked at.
const AHEAD: usize = 4;

/// The adaptive replacement cache. Shared between threads behind a `std::sync::Arc`; pins keep what
/// they need alive by themselves.
pub struct Cache {
    pub(crate) shared: Owner,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("shared", &*self.shared).finish()
    }
}

impl Cache {
    /// An empty cache.
    ///
    /// # Panics
    /// Where [`Cache::try_new`] fails.
    pub fn new(config: Config) -> Cache {
        Cache::try_new(&config).expect("address space for the cache")
    }

    /// An empty cache. It reserves address space for what it may grow to later: about a hundred times `size_max`, or
    /// less where the process may not have so much.
    ///
    /// # Errors
    /// The kernel's, when there is not even enough for `size_max`.
    pub fn try_new(config: &Config) -> io::Result<Cache> {
        let [most, less, least] = GROWTHS;
        let made = |growth| move |_: io::Error| Shared::new(config, growth);
        let shared = Shared::new(config, most).or_else(made(less)).or_else(made(least))?;
        Ok(Cache { shared: Owner::new(shared) })
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
    #[inline]
    pub fn lookup(&self, key: BlockKey, kind: Kind, asked: Asked) -> Option<Pin> {
        self.lookup_hashed(key, key.hash(), kind, asked)
    }

    #[inline]
    fn lookup_hashed(&self, key: BlockKey, hash: u64, kind: Kind, asked: Asked) -> Option<Pin> {
        let (purpose, marks) = match asked {
            // A guess is not marked as used by its first use: the second is still of interest.
            Asked::Demand if self.shared.keeps_used => (Purpose::Demand, Word::USED),
            Asked::Demand => (Purpose::Demand, 0),
            Asked::Prefetch => (Purpose::Prefetch, 0),
        };
        let mark = |word: Word| match (purpose, word.has(Word::GUESS)) {
            (Purpose::Demand, true) => word.without(Word::GUESS),
            _ => word.with(marks),
        };
        let found = self.find(key, hash, mark);
        let Some((pin, before)) = found else {
            self.shared.noted.count(kind, asked, Word::vacant(0));
            return None;
        };
        self.shared.noted.count(kind, asked, before);
        self.shared.use_block(&pin, before, hash, purpose);
        Some(pin)
    }

    #[inline]
    fn find(&self, key: BlockKey, hash: u64, mark: impl Fn(Word) -> Word) -> Option<(Pin, Word)> {
        self.shared.table.find(hash, |number| Pin::take(&self.shared, number, key, &mark))
    }

    /// Looks up many blocks, and hands out each with its place in `keys`, in order; `None` where it is not there.
    /// While `each` is busy with one, what the look-up of the next ones will need is fetched from memory, and the
    /// beginning of the next one's bytes: so a batch costs less than its look-ups one by one.
    pub fn lookup_many(
        &self,
        keys: &[BlockKey],
        kind: Kind,
        asked: Asked,
        mut each: impl FnMut(usize, Option<Pin>),
    ) {
        let mut ahead = Ahead { shared: &self.shared, keys, hashes: [0; 2 * AHEAD] };
        (0..2 * AHEAD - 1).for_each(|place| ahead.fetch_bucket(place));
        (0..AHEAD).for_each(|place| ahead.fetch_header(place));
        for (place, &key) in keys.iter().enumerate() {
            let hash = ahead.hashes[place % (2 * AHEAD)];
            ahead.fetch_bucket(place + 2 * AHEAD - 1);
            ahead.fetch_header(place + AHEAD);
            ahead.fetch_bytes(place + 1);
            each(place, self.lookup_hashed(key, hash, kind, asked));
        }
    }

    /// Finds a block and pins it, without counting and without changing its standing.
    pub fn peek(&self, key: BlockKey) -> Option<Pin> {
        self.find(key, key.hash(), |word| word).map(|(pin, _)| pin)
    }

    /// Tells that a block is used by someone whose lookup missed it, and who then waited for prefetch to
    /// read it: its first use, if nobody used it before. Counts no hit.
    pub fn use_guess(&self, pin: &Pin) {
        debug_assert!(pin.is_of(&self.shared));
        let header = self.shared.headers.at(pin.number());
        let before = header.update(|word| word.has(Word::GUESS).then(|| word.without(Word::GUESS)));
        let Some(before) = before else { return };
        header.set_tick(self.shared.now());
        self.shared.count_first_use(header, before);
        if before.can_be_found() && before.state() != Some(State::Uncached) {
            let (hash, bytes) = (header.key().hash(), self.shared.bytes(header));
            self.shared.observe(Request { hash, bytes, was_hit: false });
        }
    }

    /// Whether a block is in memory.
    pub fn contains(&self, key: BlockKey) -> bool {
        self.number_of(key).is_some()
    }

    /// The number of a block's header, which nothing keeps from becoming another's.
    pub(crate) fn number_of(&self, key: BlockKey) -> Option<u32> {
        let is_it = |number| {
            let header = self.shared.headers.at(number);
            let word = header.load();
            let is_its = word.can_be_found() && header.key() == key;
            // The key is read before the word is looked at again.
            fence(Ordering::Acquire);
            (is_its && header.load().generation() == word.generation()).then_some(number)
        };
        self.shared.table.find(key.hash(), is_it)
    }

    /// Forgets a block, and its ghost; `true` when there was a block. It may be pinned: readers keep
    /// their bytes, but it is no longer found.
    pub fn remove(&self, key: BlockKey) -> bool {
        let (hash, shared) = (key.hash(), &self.shared);
        let taken = shared.table.change(
            hash,
            |entry| shared.is_entry_of(entry, key, hash),
            |found| {
                shared.forget(found, hash);
                let block = shared.block_of(found);
                (None, block.map(|(number, word)| (number, word.generation())))
            },
        );
        if let Some((number, generation)) = taken {
            shared.detach(number, generation);
        }
        self.stats().deleted.add(taken.is_some().into());
        taken.is_some()
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
        self.bring_down(None, u64::MAX);
        // What went left ghosts, and these made others old.
        self.shared.trim_distant(usize::MAX);
        // What is free now goes to the machine, and does not wait here for the next block.
        self.shared.arena.give_back();
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
        self.shared.settle_notes();
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
            let header = self.shared.headers.at(listed.number);
            let key = header.key();
            self.shared.stands(&header, *listed, (state, kind)).then_some(key)
        };
        in_turn.filter_map(key).take(limit).collect()
    }
}

/// What is fetched from memory ahead of the look-ups of a batch: the bucket first, which tells the header, which
/// tells where the bytes lie. All of it is a guess: another may change any of it before its turn comes.
struct Ahead<'a> {
    shared: &'a Shared,
    keys: &'a [BlockKey],
    /// The hashes of the next keys, by their place modulo the length.
    hashes: [u64; 2 * AHEAD],
}

impl Ahead<'_> {
    #[inline]
    fn fetch_bucket(&mut self, place: usize) {
        if let Some(key) = self.keys.get(place) {
            let hash = key.hash();
            self.hashes[place % (2 * AHEAD)] = hash;
            self.shared.table.prefetch(hash);
        }
    }

    #[inline]
    fn header(&self, place: usize) -> Option<u32> {
        let known = place < self.keys.len();
        known.then(|| self.shared.table.guess(self.hashes[place % (2 * AHEAD)])).flatten()
    }

    #[inline]
    fn fetch_header(&self, place: usize) {
        if let Some(number) = self.header(place) {
            self.shared.headers.prefetch(number);
        }
    }

    #[inline]
    fn fetch_bytes(&self, place: usize) {
        if let Some(number) = self.header(place) {
            let header = self.shared.headers.at(number);
            self.shared.arena.prefetch(header.place(), header.len() as usize);
        }
    }
}
