//! Eviction: bringing the size under the target.
//!
//! No lock is held from one block to the next. A list offers the blocks at its tail; each block's header is
//! then only tried, and says whether the block still stands where it was seen. A header is waited for only
//! when a whole list gave nothing: then nothing is held that anybody could wait for.

use std::sync::atomic::Ordering;

use arcwell_base::Kind;

use crate::cache::Cache;
use crate::header::State;
use crate::list::{End, Passed, Sighting};
use crate::policy::{GhostHit, Rank};

/// Of the target, what may be evicted at most before the policy is asked again: larger steps cost
/// hits.
const STEP_DIVISOR: u64 = 64;

/// Blocks moved from mru to mfu at most, for one that is evicted. So many, because what is evicted meanwhile
/// leaves a hole among blocks that stay, and the allocator gives nothing back that has a hole: with 8, a cache
/// that had to make room for a million files kept 140 MiB more.
const FILL_BATCH: usize = 512;

/// How a busy shard is dealt with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    PassBy,
    Wait,
}

impl Cache {
    /// Evicts until the size is at most the target, or nothing can be evicted, and trims the ghosts.
    /// `again` is the ghost hit that room is made for.
    pub(crate) fn make_room(&self, again: Option<GhostHit>) {
        let shared = &self.shared;
        let nothing_barren = [[false; 2]; State::ALL.len()];
        let (mut barren, mut is_second) = (nothing_barren, false);
        shared.partition.charge_shadows();
        loop {
            // At every step: ghosts take memory too, and those that a lower target no longer allows
            // shall go before blocks do.
            shared.trim_ghosts();
            let Some(need) = self.excess() else { break };
            self.fill_mfu();
            let Some((state, kind)) = self.victim(again, &barren) else {
                if !std::mem::replace(&mut is_second, true) {
                    // Blocks that had been used since were spared, and now stand elsewhere.
                    barren = nothing_barren;
                    continue;
                }
                // What is left is held elsewhere: even the shadows have to go.
                shared.partition.bound_shadows(0);
                break;
            };
            let step = need.min((shared.target() / STEP_DIVISOR).max(1));
            if self.evict_from(state, kind, step) == 0 {
                barren[state.index()][kind.index()] = true;
            }
        }
        let is_over = self.excess().is_some();
        if is_over != shared.is_over.load(Ordering::Relaxed) {
            shared.is_over.store(is_over, Ordering::Relaxed);
        }
    }

    /// Drops the oldest blocks that were read ahead and are not to stay, until `coming` more bytes
    /// fit into their share.
    pub(crate) fn bound_uncached(&self, coming: u64) {
        let allowed = self.shared.target() / 100 * self.shared.tunables.uncached_max();
        let waiting = |kind: Kind| self.shared.partition.list(State::Uncached, kind).bytes();
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
    fn fill_mfu(&self) {
        let partition = &self.shared.partition;
        if partition.promotes_hits() {
            return;
        }
        let shares = partition.shares();
        for kind in Kind::ALL {
            let list = partition.list(State::Mru, kind);
            for _ in 0..FILL_BATCH {
                let mut seen = Sighting::new();
                let sizes = partition.sizes(self.shared.room());
                let fits = |bytes| shares.fills_mfu(kind, &sizes, bytes);
                // Nothing is looked at where not even the smallest block would fit.
                if !fits(1) {
                    break;
                }
                list.look(self.shared.rising_sublist(list.sublists()), End::Tail, 1, &mut seen);
                let promoted =
                    seen.first().is_some_and(|&listed| self.shared.promote_listed(listed, kind, fits));
                if !promoted {
                    break;
                }
            }
        }
    }

    fn excess(&self) -> Option<u64> {
        self.shared.size().checked_sub(self.shared.target()).filter(|&excess| excess > 0)
    }

    /// The list to evict from, other than the barren ones. Uncached blocks are few and about to be
    /// used: they go last.
    fn victim(&self, again: Option<GhostHit>, barren: &[[bool; 2]; 4]) -> Option<(State, Kind)> {
        let partition = &self.shared.partition;
        let is_barren = |state: State, kind: Kind| barren[state.index()][kind.index()];
        let mut sizes = partition.sizes(self.shared.room());
        for (rank, kind) in Rank::ALL.into_iter().flat_map(|rank| Kind::ALL.map(|kind| (rank, kind))) {
            if is_barren(rank.into(), kind) {
                sizes.evictable[rank.index()][kind.index()] = 0;
            }
        }
        if let Some((rank, kind)) = partition.shares().victim(&sizes, again) {
            return Some((rank.into(), kind));
        }
        let passing = |kind: &Kind| {
            partition.list(State::Uncached, *kind).bytes() > 0 && !is_barren(State::Uncached, *kind)
        };
        Kind::ALL.into_iter().find(passing).map(|kind| (State::Uncached, kind))
    }

    /// Evicts up to a batch of blocks from the tail of one sublist, from the next one if that has
    /// none to give. Returns the bytes that are free now.
    fn evict_from(&self, state: State, kind: Kind, need: u64) -> u64 {
        let list = self.shared.partition.list(state, kind);
        let (count, batch) = (list.sublists(), self.shared.tunables.evict_batch() as usize);
        let first = self.shared.victim_sublist(count);
        let typical = list.bytes() / (list.len() as u64).max(1);
        let want = (need / typical.max(1)).saturating_add(1).min(batch as u64) as usize;
        let passes = [Manner::PassBy, Manner::Wait].into_iter();
        passes
            .flat_map(|manner| (0..count).map(move |step| ((first + step) % count, manner)))
            .map(|(sublist, manner)| self.evict_sublist((state, kind), sublist, need, want, manner))
            .find(|&freed| freed > 0)
            .unwrap_or(0)
    }

    fn evict_sublist(&self, of: (State, Kind), sublist: usize, need: u64, want: usize, how: Manner) -> u64 {
        let (shared, mut missing) = (&self.shared, need);
        let list = shared.partition.list(of.0, of.1);
        list.pass(sublist, want, &mut |listed| {
            let freed = shared.evict(listed, of, how == Manner::Wait);
            missing = missing.saturating_sub(freed);
            if missing == 0 { Passed::Enough(freed) } else { Passed::Freed(freed) }
        })
    }
}
