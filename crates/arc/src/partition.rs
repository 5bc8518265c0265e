//! A partition: lists, ghosts and shares that belong together. The cache has one; a dataset with a
//! quota of its own will have another over the same table.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arcwell_base::Kind;

use crate::config::{Config, ListKind, Policy};
use crate::duel::{Allowed, Duel, Request, SAMPLE_ALL, is_sampled};
use crate::ghost::Ghosts;
use crate::header::State;
use crate::list::{List, Multilist, Pages, Single};
use crate::policy::{ByRank, GhostHit, Rank, Shares, Sizes};
use crate::sync::Mutex;

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

/// The lists of the states that have some, the ghosts, and what was learned.
#[derive(Debug)]
pub(crate) struct Partition {
    lists: Vec<[Box<dyn List>; 2]>,
    pub(crate) ghosts: Ghosts,
    shares: Mutex<Shares>,
    trial: Option<Trial>,
    /// Keys whose requests the trial wants to know; none without one. Looked at on every hit.
    sample: AtomicU64,
    /// Whether a hit in mru moves a block to mfu: what a hit must know of the rule.
    promotes_hits: AtomicBool,
    /// What each state holds, pinned blocks included.
    resident: [ByKind; State::ALL.len()],
    /// The part of mru that prefetch has read and nobody has asked for.
    guesses: ByKind,
    /// The part of anon that is being filled, by the state that it is meant for.
    filling: [ByKind; State::ALL.len()],
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
            ghosts: Ghosts::new(sublists),
            shares: Mutex::named("arc.shares"),
            trial: (config.policy == Policy::Adaptive).then(Trial::default),
            sample: AtomicU64::new(if config.policy == Policy::Adaptive { SAMPLE_ALL } else { 0 }),
            promotes_hits: AtomicBool::new(true),
            resident: Default::default(),
            guesses: Default::default(),
            filling: Default::default(),
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
        *self.shares.lock()
    }

    /// Forgets a ghost because its block was asked for again, and learns from it. Returns what the
    /// policy is to judge it by.
    pub(crate) fn learn(&self, hash: u64, room: u64, balance: u64) -> Option<(GhostHit, Shares, Sizes)> {
        let mut shares = self.shares.lock();
        let sizes = self.sizes(room);
        let hit = self.ghosts.remove(hash)?;
        shares.learn(hit, &sizes, balance);
        Some((hit, *shares, sizes))
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
            let mut shares = self.shares.lock();
            // What was learned before the other rule held is of another time. Its shadow went on.
            shares.rule = rule;
            shares.recency = [duel.recency(); 2];
            self.promotes_hits.store(shares.promotes_hits(), Ordering::Relaxed);
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
        self.promotes_hits.load(Ordering::Relaxed)
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
        let of = |table: &[ByKind; 4], state: State, kind: Kind| {
            table[state.index()][kind.index()].load(Ordering::Relaxed)
        };
        let by_rank = |each: &dyn Fn(State, Kind) -> u64| -> ByRank {
            Rank::ALL.map(|rank| Kind::ALL.map(|kind| each(rank.into(), kind)))
        };
        Sizes {
            room,
            resident: by_rank(&|state, kind| of(&self.resident, state, kind)),
            arriving: Kind::ALL.map(|kind| of(&self.filling, State::Mru, kind)),
            guesses: Kind::ALL.map(|kind| self.guesses(kind)),
            held: Kind::ALL.map(|kind| State::ALL.iter().map(|&s| of(&self.resident, s, kind)).sum()),
            ghosts: self.ghosts.bytes(),
            distant: self.ghosts.distant(),
            evictable: by_rank(&|state, kind| self.list(state, kind).bytes()),
        }
    }

    /// Bytes in one state, of one kind.
    pub(crate) fn bytes(&self, state: State, kind: Kind) -> u64 {
        self.resident[state.index()][kind.index()].load(Ordering::Relaxed)
    }

    /// Bytes in all states.
    pub(crate) fn size(&self) -> u64 {
        self.resident.iter().flatten().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Bytes being filled, of one kind.
    pub(crate) fn filling(&self, kind: Kind) -> u64 {
        self.filling.iter().map(|row| row[kind.index()].load(Ordering::Relaxed)).sum()
    }

    /// Bytes in mru that prefetch has read and nobody has asked for.
    pub(crate) fn guesses(&self, kind: Kind) -> u64 {
        self.guesses[kind.index()].load(Ordering::Relaxed)
    }

    /// Counts a block of mru as a guess.
    pub(crate) fn enter_guess(&self, kind: Kind, bytes: u64) {
        self.guesses[kind.index()].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a block of mru as no guess any more.
    pub(crate) fn leave_guess(&self, kind: Kind, bytes: u64) {
        self.guesses[kind.index()].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts bytes into a state.
    pub(crate) fn enter(&self, state: State, kind: Kind, bytes: u64) {
        self.resident[state.index()][kind.index()].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes out of a state.
    pub(crate) fn leave(&self, state: State, kind: Kind, bytes: u64) {
        self.resident[state.index()][kind.index()].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts bytes from one state into another. First in, then out: a sum taken meanwhile is too
    /// large for a moment, never too small.
    pub(crate) fn shift(&self, from: State, to: State, kind: Kind, bytes: u64) {
        self.enter(to, kind, bytes);
        self.leave(from, kind, bytes);
    }

    /// Counts bytes that are going to be filled for `goal`.
    pub(crate) fn reserve(&self, goal: State, kind: Kind, bytes: u64) {
        self.filling[goal.index()][kind.index()].fetch_add(bytes, Ordering::Relaxed);
        self.enter(State::Anon, kind, bytes);
    }

    /// Counts reserved bytes out again.
    pub(crate) fn unreserve(&self, goal: State, kind: Kind, bytes: u64) {
        self.leave(State::Anon, kind, bytes);
        self.filling[goal.index()][kind.index()].fetch_sub(bytes, Ordering::Relaxed);
    }
}
