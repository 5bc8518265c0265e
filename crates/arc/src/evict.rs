//! Eviction: bringing the size under the target.
//!
//! No lock is held from one block to the next. A list offers the blocks at its tail; each block's header is
//! then only tried, and says whether the block still stands where it was seen. A header is waited for only
//! when a whole list gave nothing: then nothing is held that anybody could wait for.

use arcwell_base::Kind;

use crate::cache::Cache;
use crate::header::State;
use crate::list::{End, Evict, List, Listed, Passed, Sighting};
use crate::policy::{GhostHit, Rank, Sizes};
use crate::shared::Shared;
use crate::sync::{Ordering, fence, wait_a_moment};

/// Of the target, what may be evicted at most before the policy is asked again: larger steps cost
/// hits.
const STEP_DIVISOR: u64 = 64;

/// Blocks moved from mru to mfu at most, for one that is evicted. So many, because what is evicted meanwhile
/// leaves a hole among blocks that stay, and the allocator gives nothing back that has a hole: with 8, a cache
/// that had to make room for a million files kept 140 MiB more.
const FILL_BATCH: usize = 512;

/// How often one thread makes room for others who go on meanwhile, before another of them has to.
const ROUNDS: usize = 4;

/// Of the slack, how many times as much one thread evicts for others at most, while they need not help.
const SHARE: u64 = 32;

/// How often one who finds nothing to evict waits for others who are looking at it.
const PASSES: u32 = 64;

/// How a busy header is dealt with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    PassBy,
    Wait,
}

impl Cache {
    /// Makes room for what was reserved. `again` is the ghost hit that it is made for.
    ///
    /// With slack, one evicts for all: whoever comes meanwhile goes on, unless the size has come so far over the
    /// target that he has to help. Nobody waits for another here.
    pub(crate) fn make_room(&self, again: Option<GhostHit>) {
        let shared = &self.shared;
        if shared.slack() == 0 {
            // Each admission makes its own room, and comes upon ghosts that are too many.
            return self.bring_down(again, u64::MAX);
        }
        for _ in 0..ROUNDS {
            let Some(excess) = self.excess(0) else { return self.mark_over(false) };
            // Our bytes were counted before this: the one who evicts sees them, or we see that he is done.
            fence(Ordering::SeqCst);
            let alone = shared.evicting.try_lock();
            if alone.is_none() && excess <= shared.leeway() {
                return;
            }
            self.bring_down(again, SHARE * shared.slack());
            drop(alone);
            // Who came while this one evicted counted his bytes before he saw that: they are seen here.
            fence(Ordering::SeqCst);
            if shared.is_over.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Evicts until the size is at most the target less the slack, or nothing can be evicted, and trims the ghosts.
    /// When `share` bytes have gone it ends as soon as others need not help: while they go on, there is always more.
    pub(crate) fn bring_down(&self, again: Option<GhostHit>, mut share: u64) {
        let (shared, slack) = (&self.shared, self.shared.slack());
        let nothing_barren = [[false; 2]; State::ALL.len()];
        let (mut barren, mut is_second, mut is_stuck, mut tries) = (nothing_barren, false, false, 0);
        shared.partition.charge_shadows();
        loop {
            // At every step: ghosts take memory too, and those that a lower target no longer allows
            // shall go before blocks do.
            let mut sizes = shared.sizes();
            shared.trim_ghosts_of(&mut sizes);
            let Some(need) = self.excess(slack) else { break };
            if share == 0 && need <= slack + shared.leeway() / 2 {
                break;
            }
            self.fill_mfu(&mut sizes);
            let Some((state, kind)) = self.victim(sizes, again, &barren) else {
                if !std::mem::replace(&mut is_second, true) || self.waits_for_pass(&mut tries) {
                    // Blocks that had been used since were spared, and now stand elsewhere.
                    barren = nothing_barren;
                    continue;
                }
                // What is left is held elsewhere: even the shadows have to go.
                shared.partition.bound_shadows(0);
                is_stuck = true;
                break;
            };
            let step = need.min((shared.target() / STEP_DIVISOR).max(1));
            match self.evict_from(state, kind, step) {
                0 => barren[state.index()][kind.index()] = true,
                freed => share = share.saturating_sub(freed),
            }
        }
        // Not because others came in meanwhile: they make their own room.
        self.mark_over(is_stuck && self.excess(0).is_some());
    }

    /// Waits a little for others who have taken blocks out of a list to look at them. `false` when there are none, or
    /// they take too long: they may have lost their processor.
    fn waits_for_pass(&self, tries: &mut u32) -> bool {
        let others = self.shared.partition.lists().any(List::is_passed);
        *tries += u32::from(others);
        let waits = others && *tries <= PASSES;
        if waits {
            wait_a_moment(*tries);
        }
        waits
    }

    /// Evicts some of what the policy thinks of least, for want of something else than bytes. `false` when nothing
    /// can be evicted.
    pub(crate) fn evict_some(&self, bytes: u64) -> bool {
        let nothing_barren = [[false; 2]; State::ALL.len()];
        let victim = self.victim(self.shared.sizes(), None, &nothing_barren);
        victim.is_some_and(|(state, kind)| self.evict_from(state, kind, bytes.max(1)) > 0)
    }

    fn mark_over(&self, is_over: bool) {
        if is_over != self.shared.is_over.load(Ordering::Relaxed) {
            self.shared.is_over.store(is_over, Ordering::Relaxed);
        }
    }

    /// Drops the oldest blocks that were read ahead and are not to stay, until `coming` more bytes
    /// fit into their share.
    pub(crate) fn bound_uncached(&self, coming: u64) {
        let allowed = self.shared.target() / 100 * self.shared.tunables.uncached_max();
        let waiting = |kind: Kind| self.shared.partition.evictable(State::Uncached, kind);
        loop {
            let [data, metadata] = Kind::ALL.map(waiting);
            let excess = (data + metadata + coming).saturating_sub(allowed);
            let kind = if data >= metadata { Kind::Data } else { Kind::Metadata };
            if excess == 0 || data + metadata == 0 || self.evict_from(State::Uncached, kind, excess) == 0 {
                break;
            }
        }
    }

    /// Moves some of the oldest blocks of mru to mfu, if the policy wants it filled from there.
    fn fill_mfu(&self, sizes: &mut Sizes) {
        let partition = &self.shared.partition;
        if partition.promotes_hits() {
            return;
        }
        let shares = partition.shares();
        for kind in Kind::ALL {
            let list = partition.list(State::Mru, kind);
            for _ in 0..FILL_BATCH {
                let mut seen = Sighting::new();
                let fits = |bytes| shares.fills_mfu(kind, sizes, bytes);
                // Nothing is looked at where not even the smallest block would fit.
                if !fits(1) {
                    break;
                }
                list.look(self.shared.rising_sublist(list.sublists()), End::Tail, 1, &mut seen);
                let promoted =
                    seen.first().and_then(|&listed| self.shared.promote_listed(listed, kind, fits));
                let Some(bytes) = promoted else { break };
                sizes.promote(kind, bytes);
            }
        }
    }

    /// By how much the size is more than `slack` under the target.
    fn excess(&self, slack: u64) -> Option<u64> {
        let allowed = self.shared.target().saturating_sub(slack);
        self.shared.size().checked_sub(allowed).filter(|&excess| excess > 0)
    }

    /// The list to evict from, other than the barren ones. Uncached blocks are few and about to be
    /// used: they go last.
    fn victim(
        &self,
        mut sizes: Sizes,
        again: Option<GhostHit>,
        barren: &[[bool; 2]; 4],
    ) -> Option<(State, Kind)> {
        let partition = &self.shared.partition;
        let is_barren = |state: State, kind: Kind| barren[state.index()][kind.index()];
        for (rank, kind) in Rank::ALL.into_iter().flat_map(|rank| Kind::ALL.map(|kind| (rank, kind))) {
            if is_barren(rank.into(), kind) {
                sizes.evictable[rank.index()][kind.index()] = 0;
            }
        }
        if let Some((rank, kind)) = partition.shares().victim(&sizes, again) {
            return Some((rank.into(), kind));
        }
        let passing = |kind: &Kind| {
            partition.evictable(State::Uncached, *kind) > 0 && !is_barren(State::Uncached, *kind)
        };
        Kind::ALL.into_iter().find(passing).map(|kind| (State::Uncached, kind))
    }

    /// Evicts up to a batch of blocks from the tail of one sublist, from the next one if that has
    /// none to give. Returns the bytes that are free now.
    fn evict_from(&self, state: State, kind: Kind, need: u64) -> u64 {
        let list = self.shared.partition.list(state, kind);
        let (count, batch) = (list.sublists(), self.shared.tunables.evict_batch() as usize);
        let first = self.shared.victim_sublist(count);
        let typical = self.shared.partition.evictable(state, kind) / (list.len() as u64).max(1);
        let want = (need / typical.max(1)).saturating_add(1).min(batch as u64) as usize;
        let passes = [Manner::PassBy, Manner::Wait].into_iter();
        passes
            .flat_map(|manner| (0..count).map(move |step| ((first + step) % count, manner)))
            .map(|(sublist, manner)| self.evict_sublist((state, kind), sublist, need, want, manner))
            .find(|&freed| freed > 0)
            .unwrap_or(0)
    }

    fn evict_sublist(&self, of: (State, Kind), sublist: usize, need: u64, want: usize, how: Manner) -> u64 {
        let list = self.shared.partition.list(of.0, of.1);
        let mut pass =
            Pass { shared: &self.shared, of, waits: how == Manner::Wait, missing: need, expected: None };
        list.pass(sublist, want, &mut pass)
    }
}

/// A pass through the tail of a list.
struct Pass<'a> {
    shared: &'a Shared,
    /// The list's state and kind.
    of: (State, Kind),
    waits: bool,
    /// Bytes that are still to be freed.
    missing: u64,
    /// The last header of which was told that it will be offered.
    expected: Option<u32>,
}

impl Evict for Pass<'_> {
    /// Fetches its header from memory, and the bucket of the one before, whose header has come meanwhile.
    fn expect(&mut self, listed: Listed) {
        self.shared.headers.prefetch(listed.number);
        if let Some(before) = self.expected.replace(listed.number) {
            self.shared.table.prefetch(self.shared.headers.at(before).key().hash());
        }
    }

    fn evict(&mut self, listed: Listed) -> Passed {
        let freed = self.shared.evict(listed, self.of, self.waits);
        self.missing = self.missing.saturating_sub(freed);
        if self.missing == 0 { Passed::Enough(freed) } else { Passed::Freed(freed) }
    }
}
