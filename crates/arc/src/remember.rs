//! What is left of a block: its entry in the table leads to a ghost, until the block comes back or the ghost is
//! too old.
//!
//! Ghosts go until their lists are as short as the policy says. The sizes that it judges by are taken once and
//! carried along: to sum them up for each ghost costs more than the ghost.

use arcwell_base::Kind;

use crate::header::{Header, State, Word};
use crate::noted::Event;
use crate::policy::{GhostHit, Past, Rank, Shares, Sizes};
use crate::shared::Shared;
use crate::sync::Ordering;
use crate::table::Entry;

/// Where blocks are so small that ghosts take more than one part in so many of the target, there are
/// no distant ones.
const GHOSTS_DIVISOR: u64 = 16;

/// Distant ghosts that are forgotten for one that becomes distant, at most: there may be many when the rule
/// changes.
const DISTANT_BATCH: usize = 8;

/// Ghosts that are looked up together, so that their entries are fetched from memory together.
const AT_ONCE: usize = 8;

impl Shared {
    /// Counts a block that is evicted, and returns the entry of its ghost unless it was a guess that failed.
    pub(crate) fn note_eviction(&self, header: Header<'_>, word: Word, hash: u64) -> Option<Entry> {
        let bytes = self.bytes(header);
        self.noted.happened(Event::Evicted, 1);
        self.noted.happened(Event::EvictedBytes, bytes);
        self.note_unfed(header, word, bytes);
        if word.has(Word::GUESS) {
            self.stats.prefetch_unused.add(1);
            return None;
        }
        let past = word.state().and_then(State::rank)?.into();
        let (kind, tick) = (word.kind(), header.tick());
        Some(Entry::Ghost(self.partition.ghosts.insert(hash, GhostHit { past, kind, bytes, tick })))
    }

    /// What level 2 wants to know of a block that is evicted. What was not to stay was none of its.
    fn note_unfed(&self, header: Header<'_>, word: Word, bytes: u64) {
        if word.state().and_then(State::rank).is_none() {
            return;
        }
        if !self.is_warm.load(Ordering::Relaxed) {
            self.is_warm.store(true, Ordering::Relaxed);
        }
        if header.has_mark(Header::MAY_BE_FED) && !header.has_mark(Header::ON_FLASH) {
            self.noted.happened(Event::EvictedUnfed, 1);
            self.noted.happened(Event::EvictedUnfedBytes, bytes);
        }
    }

    /// Whether an entry of this hash is that of its ghost.
    pub(crate) fn is_its_ghost(&self, entry: Entry, hash: u64) -> bool {
        matches!(entry, Entry::Ghost(place) if self.partition.ghosts.is_of(hash, place))
    }

    /// Forgets the ghost that an entry of this hash leads to, if it leads to one.
    pub(crate) fn forget(&self, entry: Option<Entry>, hash: u64) -> Option<GhostHit> {
        match entry? {
            Entry::Ghost(place) => Some(self.partition.ghosts.remove(hash, place)),
            Entry::Block(_) => None,
        }
    }

    /// Takes the ghost of a block that is asked for again.
    pub(crate) fn recall(&self, hash: u64) -> Option<GhostHit> {
        if !self.table.may_remember(hash) {
            return None;
        }
        let is_it = |entry| self.is_its_ghost(entry, hash);
        self.table.change(hash, is_it, |found| (None, self.forget(found, hash)))
    }

    /// Forgets ghosts until their lists are as short as the policy says.
    pub(crate) fn trim_ghosts(&self) {
        self.trim_ghosts_of(&mut self.sizes());
    }

    /// The same with sizes that were just taken, and brings those up to date.
    pub(crate) fn trim_ghosts_of(&self, sizes: &mut Sizes) {
        let (shares, mut forgotten) = (self.partition.shares(), 0);
        for kind in Kind::ALL {
            while let Some(rank) = shares.surplus(kind, sizes) {
                let is_over = |sizes: &Sizes| shares.surplus(kind, sizes) == Some(rank);
                let gone = match rank {
                    Rank::Mru if shares.remembers_distant() => self.age_ghosts(kind, sizes, is_over),
                    _ => self.drop_ghosts(rank.into(), kind, sizes, is_over),
                };
                if gone == 0 {
                    break;
                }
                forgotten += gone;
            }
        }
        self.trim_distant_of(&shares, sizes, DISTANT_BATCH * (1 + forgotten));
    }

    /// Forgets up to `batch` distant ghosts of either kind, if there are too many.
    pub(crate) fn trim_distant(&self, batch: usize) {
        self.trim_distant_of(&self.partition.shares(), &mut self.sizes(), batch);
    }

    fn trim_distant_of(&self, shares: &Shares, sizes: &mut Sizes, batch: usize) {
        for kind in Kind::ALL {
            let mut gone = 0;
            let is_over = |sizes: &Sizes| {
                let charged = self.partition.ghosts.len() * self.overhead.of_ghost();
                let is_dear = charged > self.target() / GHOSTS_DIVISOR;
                sizes.distant[kind.index()] > 0 && (is_dear || shares.has_distant_surplus(kind, sizes))
            };
            while gone < batch && is_over(sizes) {
                match self.drop_ghosts(Past::Distant, kind, sizes, is_over) {
                    0 => break,
                    more => gone += more,
                }
            }
        }
    }

    /// Forgets some of the oldest ghosts of a past and kind, as long as there are too many. Returns how many are gone,
    /// by whomever; none when there are none.
    fn drop_ghosts(
        &self,
        past: Past,
        kind: Kind,
        sizes: &mut Sizes,
        is_over: impl Fn(&Sizes) -> bool,
    ) -> usize {
        let oldest = self.partition.ghosts.oldest(past, kind, AT_ONCE);
        oldest.iter().for_each(|(hash, _)| self.table.prefetch(*hash));
        let (mut gone, seen) = (0, oldest.len());
        for (hash, place) in oldest {
            if !is_over(sizes) {
                break;
            }
            let is_it = |entry| entry == Entry::Ghost(place);
            let forgotten = self.table.change(hash, is_it, |found| (None, self.forget(found, hash)));
            if let Some(GhostHit { past, kind, bytes, .. }) = forgotten {
                sizes.forget(past, kind, bytes);
                sizes.room += self.overhead.of_ghost();
                gone += 1;
            }
        }
        if gone == 0 && seen > 0 {
            // Others were at the same ones: what they forgot is not counted here yet.
            *sizes = self.sizes();
            return seen;
        }
        gone
    }

    /// Makes some of the oldest ghosts of mru distant ones. As [`Shared::drop_ghosts`].
    fn age_ghosts(&self, kind: Kind, sizes: &mut Sizes, is_over: impl Fn(&Sizes) -> bool) -> usize {
        self.partition.ghosts.age_oldest(kind, AT_ONCE, |bytes| {
            sizes.forget(Past::Mru, kind, bytes);
            sizes.remember(Past::Distant, kind, bytes);
            is_over(sizes)
        })
    }
}
