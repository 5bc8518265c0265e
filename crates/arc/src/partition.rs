//! A partition: lists, ghosts and shares that belong together. The cache has one; a dataset with a
//! quota of its own will have another over the same table.

use std::sync::atomic::{AtomicU64, Ordering};

use arcwell_base::Kind;
use parking_lot::Mutex;

use crate::config::ListKind;
use crate::ghost::Ghosts;
use crate::header::State;
use crate::list::{List, Multilist, Single};
use crate::policy::{ByRank, GhostHit, Rank, Shares, Sizes};

/// Bytes by kind.
type ByKind = [AtomicU64; 2];

/// The lists of the states that have some, the ghosts, and what was learned.
#[derive(Debug)]
pub(crate) struct Partition {
    lists: [[Box<dyn List>; 2]; State::LISTED.len()],
    pub(crate) ghosts: Ghosts,
    shares: Mutex<Shares>,
    /// What each state holds, pinned blocks included.
    resident: [ByKind; State::ALL.len()],
    /// The part of anon that is being filled, by the state that it is meant for.
    filling: [ByKind; State::ALL.len()],
}

impl Partition {
    /// An empty partition.
    pub(crate) fn new(kind: ListKind, sublists: usize) -> Self {
        let list = || -> Box<dyn List> {
            match kind {
                ListKind::Single => Box::new(Single::default()),
                ListKind::Multilist => Box::new(Multilist::new(sublists)),
            }
        };
        let ghost_parts = match kind {
            ListKind::Single => 1,
            ListKind::Multilist => sublists,
        };
        Partition {
            lists: State::LISTED.map(|_| Kind::ALL.map(|_| list())),
            ghosts: Ghosts::new(ghost_parts),
            shares: Mutex::default(),
            resident: Default::default(),
            filling: Default::default(),
        }
    }

    /// The list of a state and kind.
    ///
    /// # Panics
    /// Anon blocks are on no list (A2).
    pub(crate) fn list(&self, state: State, kind: Kind) -> &dyn List {
        let row = state.index().checked_sub(1).expect("A2: anon blocks are on no list");
        &*self.lists[row][kind.index()]
    }

    /// What was learned so far.
    pub(crate) fn shares(&self) -> Shares {
        *self.shares.lock()
    }

    /// Forgets a ghost because its block was asked for again, and learns from it.
    pub(crate) fn learn(&self, hash: u64, room: u64, balance: u64) -> Option<GhostHit> {
        let mut shares = self.shares.lock();
        let sizes = self.sizes(room);
        let hit = self.ghosts.remove(hash)?;
        shares.learn(hit, &sizes, balance);
        Some(hit)
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
            held: Kind::ALL.map(|kind| State::ALL.iter().map(|&s| of(&self.resident, s, kind)).sum()),
            ghosts: self.ghosts.bytes(),
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
