//! A partition: lists, ghosts and shares that belong together. The cache has one; a dataset with a
//! quota of its own will have another over the same table.

use std::io;

use arcwell_base::Kind;
use crossbeam_utils::CachePadded;

use crate::config::{Config, ListKind, Policy};
use crate::duel::{Allowed, Duel, Request, SAMPLE_ALL, is_sampled};
use crate::ghost::Ghosts;
use crate::header::State;
use crate::list::{List, Multilist, Pages, Single};
use crate::policy::{ByRank, GhostHit, Rank, Rule, Shares, Sizes};
use crate::sync::Mutex;
use crate::sync::plain::{AtomicU64, AtomicUsize, Ordering};

/// Bytes by kind.
type ByKind = [AtomicU64; 2];

/// The duel that chooses the rule, and what can be known of it without its lock.
#[derive(Debug)]
struct Trial {
    duel: Mutex<Duel>,
    len: AtomicUsize,
    /// How many of its entries are charged: more only from when room is made.
    charged: AtomicUsize,
}

impl Default for Trial {
    fn default() -> Self {
        Trial { duel: Mutex::named("arc.duel"), len: AtomicUsize::new(0), charged: AtomicUsize::new(0) }
    }
}

impl Trial {
    /// Makes known what can be known without the lock.
    fn publish(&self, duel: &Duel, sample: &AtomicU64) {
        sample.store(duel.sample(), Ordering::Relaxed);
        self.len.store(duel.len(), Ordering::Relaxed);
    }
}

/// What was learned. Read without the lock, which only those take who change it: who judges by a share and a
/// rule of two different moments has judged a moment earlier or later.
#[derive(Debug)]
struct Learned {
    meta: AtomicU64,
    recency: ByKind,
    rule: AtomicU64,
    changing: Mutex<()>,
}

impl Default for Learned {
    fn default() -> Self {
        let Shares { meta, recency, rule } = Shares::default();
        Learned {
            meta: AtomicU64::new(meta),
            recency: recency.map(AtomicU64::new),
            rule: AtomicU64::new(rule as u64),
            changing: Mutex::named("arc.shares"),
        }
    }
}

impl Learned {
    fn load(&self) -> Shares {
        Shares {
            meta: self.meta.load(Ordering::Relaxed),
            recency: self.recency.each_ref().map(|share| share.load(Ordering::Relaxed)),
            rule: self.rule(),
        }
    }

    #[inline]
    fn rule(&self) -> Rule {
        Rule::ALL[self.rule.load(Ordering::Relaxed) as usize % Rule::ALL.len()]
    }

    fn change<R>(&self, change: impl FnOnce(&mut Shares) -> R) -> R {
        let _alone = self.changing.lock();
        let mut shares = self.load();
        let answer = change(&mut shares);
        self.meta.store(shares.meta, Ordering::Relaxed);
        self.recency.iter().zip(shares.recency).for_each(|(to, share)| to.store(share, Ordering::Relaxed));
        self.rule.store(shares.rule as u64, Ordering::Relaxed);
        answer
    }
}

/// The lists of the states that have some, the ghosts, and what was learned.
#[derive(Debug)]
pub(crate) struct Partition {
    lists: Vec<[Box<dyn List>; 2]>,
    pub(crate) ghosts: Ghosts,
    learned: Learned,
    trial: Option<Trial>,
    /// Keys whose requests the trial wants to know; none without one. Looked at on every hit.
    sample: AtomicU64,
    sums: CachePadded<Sums>,
}

/// The running sums, in bytes. Every miss writes to them: they lie apart from what hits read.
#[derive(Debug, Default)]
struct Sums {
    /// What each state holds, pinned blocks included, and what is being filled left out.
    resident: [ByKind; State::ALL.len()],
    /// What is being filled, by the state that it is meant for.
    filling: [ByKind; State::ALL.len()],
    /// The part of mru that prefetch has read and nobody has asked for.
    guesses: ByKind,
}

impl Partition {
    /// An empty partition.
    ///
    /// # Errors
    /// The kernel's, for want of address space.
    pub(crate) fn new(config: &Config, blocks: u32) -> io::Result<Self> {
        let sublists = config.sublist_count();
        let list = || -> io::Result<Box<dyn List>> {
            Ok(match config.lists {
                ListKind::Single => Box::new(Single::default()),
                ListKind::Multilist => Box::new(Multilist::new(sublists)),
                ListKind::Pages => Box::new(Pages::reserve(blocks, config.page_slots())?),
            })
        };
        let lists = State::LISTED.iter().map(|_| Ok([list()?, list()?])).collect::<io::Result<_>>()?;
        Ok(Partition {
            lists,
            ghosts: Ghosts::new(config.ghost_parts()),
            learned: Learned::default(),
            trial: (config.policy == Policy::Adaptive).then(Trial::default),
            sample: AtomicU64::new(if config.policy == Policy::Adaptive { SAMPLE_ALL } else { 0 }),
            sums: CachePadded::default(),
        })
    }

    /// The list of a state and kind.
    ///
    /// # Panics
    /// Anon blocks are on no list (A2).
    pub(crate) fn list(&self, state: State, kind: Kind) -> &dyn List {
        let row = state.index().checked_sub(1).expect("A2: anon blocks are on no list");
        &*self.lists[row][kind.index()]
    }

    /// All lists.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &dyn List> {
        self.lists.iter().flatten().map(|list| &**list)
    }

    /// What was learned so far.
    pub(crate) fn shares(&self) -> Shares {
        self.learned.load()
    }

    /// Learns from a ghost that was taken because its block was asked for again. Returns what the policy is to
    /// judge it by.
    pub(crate) fn learn(&self, hit: GhostHit, room: u64, balance: u64) -> (Shares, Sizes) {
        self.learned.change(|shares| {
            let mut sizes = self.sizes(room);
            // The ratio is that at the moment of the hit.
            sizes.remember(hit.past, hit.kind, hit.bytes);
            shares.learn(hit, &sizes, balance);
            (*shares, sizes)
        })
    }

    /// Whether requests for a block with this hash are to be told to [`Partition::observe`].
    #[inline]
    pub(crate) fn is_on_trial(&self, hash: u64) -> bool {
        is_sampled(hash, self.sample.load(Ordering::Relaxed))
    }

    /// Takes note of a request, and goes by the other rule if that turns out to be better. `true` when
    /// the rule has changed.
    pub(crate) fn observe(&self, request: Request, allowed: Allowed) -> bool {
        let Some(trial) = &self.trial else { return false };
        let mut duel = trial.duel.lock();
        let changed = duel.observe(request, allowed);
        trial.publish(&duel, &self.sample);
        if let Some(rule) = changed {
            // Under the duel's lock: two changes at once must not end up in the wrong order.
            self.learned.change(|shares| {
                // What was learned before the other rule held is of another time. Its shadow went on.
                shares.rule = rule;
                shares.recency = [duel.recency(); 2];
            });
        }
        changed.is_some()
    }

    /// Makes the shadows so small that together they remember at most so many blocks.
    pub(crate) fn bound_shadows(&self, entries: usize) {
        if let Some(trial) = &self.trial {
            let mut duel = trial.duel.lock();
            duel.resample(entries);
            trial.publish(&duel, &self.sample);
        }
        self.charge_shadows();
    }

    /// Charges the entries that the trial's shadows have by now. Only who makes room afterwards may do so:
    /// else the size would go over the target.
    pub(crate) fn charge_shadows(&self) {
        if let Some(trial) = &self.trial {
            let len = trial.len.load(Ordering::Relaxed);
            if len != trial.charged.load(Ordering::Relaxed) {
                trial.charged.store(len, Ordering::Relaxed);
            }
        }
    }

    /// Whether a hit in mru moves the block to mfu.
    pub(crate) fn promotes_hits(&self) -> bool {
        self.learned.rule().promotes_hits()
    }

    /// Entries of the trial's shadows that are charged.
    pub(crate) fn shadows(&self) -> u64 {
        self.trial.as_ref().map_or(0, |trial| trial.charged.load(Ordering::Relaxed) as u64)
    }

    /// Recounts the trial's shadows.
    pub(crate) fn validate_trial(&self) -> Result<(), String> {
        self.trial.as_ref().map_or(Ok(()), |trial| trial.duel.lock().validate())
    }

    /// What the policy judges by.
    pub(crate) fn sizes(&self, room: u64) -> Sizes {
        let by_rank = |each: &dyn Fn(State, Kind) -> u64| -> ByRank {
            Rank::ALL.map(|rank| Kind::ALL.map(|kind| each(rank.into(), kind)))
        };
        Sizes {
            room,
            resident: by_rank(&|state, kind| self.bytes(state, kind)),
            arriving: Kind::ALL.map(|kind| load(&self.sums.filling[State::Mru.index()][kind.index()])),
            guesses: Kind::ALL.map(|kind| self.guesses(kind)),
            held: Kind::ALL.map(|kind| State::ALL.iter().map(|&state| self.bytes(state, kind)).sum()),
            ghosts: self.ghosts.bytes(),
            distant: self.ghosts.distant(),
            evictable: by_rank(&|state, kind| self.evictable(state, kind)),
        }
    }

    /// Bytes in one state, of one kind; what is being filled is anon.
    pub(crate) fn bytes(&self, state: State, kind: Kind) -> u64 {
        let filling = if state == State::Anon { self.filling(kind) } else { 0 };
        load(&self.sums.resident[state.index()][kind.index()]) + filling
    }

    /// Bytes on the list of a state and kind.
    pub(crate) fn evictable(&self, state: State, kind: Kind) -> u64 {
        // A list that does not count keeps all that is in its state.
        self.list(state, kind).bytes().unwrap_or_else(|| self.bytes(state, kind))
    }

    /// Bytes in all states.
    pub(crate) fn size(&self) -> u64 {
        // From where blocks come to where they go (filling, mru, mfu, uncached, anon): what moves meanwhile is counted
        // twice rather than not at all.
        let sum =
            |rows: &[ByKind]| -> u64 { rows.iter().flatten().map(|sum| sum.load(Ordering::Acquire)).sum() };
        let [anon, listed @ ..] = &self.sums.resident;
        let (filling, listed) = (sum(&self.sums.filling), sum(listed));
        filling + listed + sum(std::slice::from_ref(anon))
    }

    /// Bytes being filled, of one kind.
    pub(crate) fn filling(&self, kind: Kind) -> u64 {
        self.sums.filling.iter().map(|row| load(&row[kind.index()])).sum()
    }

    /// Bytes in mru that prefetch has read and nobody has asked for.
    pub(crate) fn guesses(&self, kind: Kind) -> u64 {
        load(&self.sums.guesses[kind.index()])
    }

    /// Counts a block of mru as a guess.
    pub(crate) fn enter_guess(&self, kind: Kind, bytes: u64) {
        self.sums.guesses[kind.index()].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a block of mru as no guess any more.
    pub(crate) fn leave_guess(&self, kind: Kind, bytes: u64) {
        self.sums.guesses[kind.index()].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts bytes out of a state.
    pub(crate) fn leave(&self, state: State, kind: Kind, bytes: u64) {
        self.sums.resident[state.index()][kind.index()].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts bytes from one state into another. First in, then out: a sum taken meanwhile is too
    /// large for a moment, never too small.
    pub(crate) fn shift(&self, from: State, to: State, kind: Kind, bytes: u64) {
        self.sums.resident[to.index()][kind.index()].fetch_add(bytes, Ordering::Relaxed);
        // Who sees them gone from there sees them here.
        self.sums.resident[from.index()][kind.index()].fetch_sub(bytes, Ordering::Release);
    }

    /// Counts bytes that are going to be filled for `goal`.
    pub(crate) fn reserve(&self, goal: State, kind: Kind, bytes: u64) {
        self.sums.filling[goal.index()][kind.index()].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts reserved bytes out again.
    pub(crate) fn unreserve(&self, goal: State, kind: Kind, bytes: u64) {
        self.sums.filling[goal.index()][kind.index()].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts what was reserved for `goal` into a state. As [`Partition::shift`].
    pub(crate) fn publish(&self, goal: State, state: State, kind: Kind, bytes: u64) {
        self.sums.resident[state.index()][kind.index()].fetch_add(bytes, Ordering::Relaxed);
        self.sums.filling[goal.index()][kind.index()].fetch_sub(bytes, Ordering::Release);
    }
}

fn load(sum: &AtomicU64) -> u64 {
    sum.load(Ordering::Relaxed)
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::*;

    #[test]
    fn what_rises_is_never_counted_less_than_once() {
        const ALL: u64 = 2_000_000;
        let partition = Partition::new(&Config::new(1 << 20), 1 << 16).unwrap();
        partition.reserve(State::Mru, Kind::Data, ALL);
        partition.publish(State::Mru, State::Mru, Kind::Data, ALL);
        std::thread::scope(|scope| {
            let rising =
                scope.spawn(|| (0..ALL).for_each(|_| partition.shift(State::Mru, State::Mfu, Kind::Data, 1)));
            while !rising.is_finished() {
                assert!(partition.size() >= ALL);
            }
        });
        assert_eq!(partition.size(), ALL);
    }
}
