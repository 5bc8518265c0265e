//! The ARC of OpenZFS as it is: fractions of bytes, shorter ghosts, targets that move when it evicts.
//!
//! The rules of `arc_access`, `arc_evict` and `arc_evict_adj` in OpenZFS's `module/zfs/arc.c` (master,
//! August 2026; the three fractions came with pull request 14359). Against the paper: ghosts of a list
//! stand for half of what the *other* lists hold, both recency fractions start at ½, a ghost hit moves
//! one by about its own bytes whatever the lengths of the ghost lists, and near 0 and 1 it moves less.
//!
//! Left out is what a simulator of requests has no use for: several sublists, the growth of the target,
//! blocks that somebody holds, and the rule that a second access within 62 ms earns nothing, as requests
//! here have no time. By default it evicts at every newcomer; the real one does so for many at once,
//! which costs more hits. Blocks that count as 1 are taken for 4 KiB, since the rules do nothing for
//! ghosts of less than 32 bytes.

use arcwell_base::Kind;

use super::chain::Chains;
use super::{Broken, Policy, Setup, ensure};
use crate::trace::{Access, Unit};

/// A fraction of 1, in 32-bit fixed point.
const ONE: u64 = 1 << 32;

/// How much more a byte of metadata that is missed weighs than one of data, in per cent.
const META_BALANCE: u64 = 500;

/// Bytes of a block that counts as 1.
const BLOCK: u64 = 4096;

/// Capacities beyond this make no difference, and do not overflow.
const MAX_CAPACITY: u64 = 1 << 50;

/// The lists of one kind; those of metadata follow those of data.
const MRU: usize = 0;
const MFU: usize = 1;
const MRU_GHOST: usize = 2;
const MFU_GHOST: usize = 3;
const LISTS: usize = 4;

/// A number of bytes for each list of each kind.
type Bytes = [[u64; LISTS]; 2];

const DATA: usize = Kind::Data.index();
const META: usize = Kind::Metadata.index();

/// A fault that OpenZFS had in the field, by the number of its report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// 10548: the targets learned from a block's state after it had already changed, so from no ghost.
    LateLearning,
    /// 14120: while the cache fills for the first time, the share of mru grows to all of it.
    RecencyFill,
    /// 16521: mfu goes on losing blocks while mru is far over its target, and metadata over its share
    /// stays.
    LaxTargets,
}

/// How to run it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Blocks that one eviction makes room for, at least 1.
    pub batch: u64,
    /// An old fault to bring back.
    pub fault: Option<Fault>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { batch: 1, fault: None }
    }
}

/// The eight lists and what was learned.
pub(super) struct OpenZfs {
    lists: Chains<{ 2 * LISTS }>,
    capacity: u64,
    /// Bytes of one unit of the sizes.
    unit: u64,
    rules: Rules,
    /// Metadata's fraction of everything.
    meta: u64,
    /// The fraction of mru, by kind.
    recency: [u64; 2],
    /// Bytes of ghosts that were hit since the last eviction.
    ghost_hits: Bytes,
    /// What the ghost lists were cut to at the last eviction.
    ghost_targets: Bytes,
    evictions: u64,
}

impl OpenZfs {
    pub(super) fn new(setup: &Setup, blocks: u32, rules: Rules) -> Self {
        let unit = if setup.unit == Unit::Blocks { BLOCK } else { 1 };
        OpenZfs {
            lists: Chains::new(blocks),
            capacity: setup.capacity.min(MAX_CAPACITY) * unit,
            unit,
            rules,
            meta: ONE / 4,
            recency: [ONE / 2; 2],
            ghost_hits: Bytes::default(),
            ghost_targets: Bytes::default(),
            evictions: 0,
        }
    }

    fn bytes(&self, size: u32) -> u64 {
        u64::from(size) * self.unit
    }

    fn held(&self) -> Bytes {
        [DATA, META].map(|kind| [MRU, MFU, MRU_GHOST, MFU_GHOST].map(|list| self.sum(kind, list)))
    }

    fn sum(&self, kind: usize, list: usize) -> u64 {
        self.lists.sum(kind * LISTS + list) * self.unit
    }

    fn size(&self) -> u64 {
        resident(&self.held())
    }

    /// Takes a block in, making room if it must. As a newcomer is in use, it counts but stays.
    fn admit(&mut self, access: Access, list: usize) {
        let (kind, bytes) = (access.kind.index(), self.bytes(access.size));
        if bytes > self.capacity {
            return;
        }
        let mut held = self.held();
        held[kind][list] += bytes;
        if resident(&held) > self.capacity {
            self.learn();
            self.evict(&mut held);
            self.forget(&held);
        } else if self.rules.fault == Some(Fault::RecencyFill) && list == MRU {
            let step = fraction(bytes, self.capacity);
            self.recency[kind] = (self.recency[kind] + step).min(ONE);
        }
        self.lists.push(kind * LISTS + list, access.block, access.size);
    }

    /// Moves the three fractions by the ghosts that were hit since the last time.
    fn learn(&mut self) {
        let hits = std::mem::take(&mut self.ghost_hits);
        let ghosts = |table: &Bytes, kind: usize| table[kind][MRU_GHOST] + table[kind][MFU_GHOST];
        let targets = [DATA, META].map(|kind| ghosts(&self.ghost_targets, kind));
        let (up, down) = (ghosts(&hits, META), ghosts(&hits, DATA));
        self.meta = adjusted(self.meta, targets[DATA] + targets[META], up, down, META_BALANCE);
        for kind in [DATA, META] {
            let (up, down) = (hits[kind][MRU_GHOST], hits[kind][MFU_GHOST]);
            self.recency[kind] = adjusted(self.recency[kind], targets[kind], up, down, 100);
        }
    }

    /// Brings the size under the capacity: each list but the last gives what it has over its target.
    fn evict(&mut self, held: &mut Bytes) {
        let goal = self.capacity - self.capacity.min((self.rules.batch.max(1) - 1) * self.unit);
        let excess = |held: &Bytes| resident(held).saturating_sub(goal);
        let over = |list: u64, target: u64| list.saturating_sub(target);
        self.evictions += 1;
        if self.rules.fault == Some(Fault::LaxTargets) {
            // What the report's trace shows: of 82 MB, mfu lost 12.
            let first = if self.evictions.is_multiple_of(7) { MFU } else { MRU };
            self.take(held, DATA, first, excess(held));
        } else {
            let all = goal;
            let share = portion(self.meta, all);
            let target = portion(self.recency[META], share);
            self.take(held, META, MRU, excess(held).min(over(held[META][MRU], target)));
            let metadata = held[META][MRU] + held[META][MFU];
            self.take(held, META, MFU, excess(held).min(over(metadata, share)));
            let rest = over(all, held[META][MRU] + held[META][MFU]);
            let target = portion(self.recency[DATA], rest);
            self.take(held, DATA, MRU, excess(held).min(over(held[DATA][MRU], target)));
        }
        // All the rest from mfu; from elsewhere only if that is too short because of the newcomer.
        for (kind, list) in [(DATA, MFU), (DATA, MRU), (META, MFU), (META, MRU)] {
            self.take(held, kind, list, excess(held));
        }
    }

    /// Evicts `bytes` or more from the old end of a list, if it has as many. Names go to its ghosts.
    fn take(&mut self, held: &mut Bytes, kind: usize, list: usize, bytes: u64) {
        let (from, ghost) = (kind * LISTS + list, list + MRU_GHOST);
        let mut freed = 0;
        while freed < bytes
            && let Some(block) = self.lists.oldest(from)
        {
            freed += self.bytes(self.lists.size(block));
            self.lists.renew(kind * LISTS + ghost, block);
        }
        held[kind][list] -= freed;
    }

    /// Cuts the ghosts of each list to half of what the other lists hold.
    fn forget(&mut self, held: &Bytes) {
        let all = resident(held);
        for (kind, list) in [(DATA, MRU), (META, MRU), (DATA, MFU), (META, MFU)] {
            let target = (all - held[kind][list]) / 2;
            let ghost = list + MRU_GHOST;
            self.ghost_targets[kind][ghost] = target;
            while self.sum(kind, ghost) > target {
                self.lists.pop(kind * LISTS + ghost);
            }
        }
    }
}

impl Policy for OpenZfs {
    fn request(&mut self, access: Access) -> bool {
        let Some(place) = self.lists.list(access.block) else {
            self.admit(access, MRU);
            return false;
        };
        let (kind, list) = (place / LISTS, place % LISTS);
        let bytes = self.bytes(self.lists.size(access.block));
        self.lists.remove(access.block);
        let hit = matches!(list, MRU | MFU);
        if !hit && self.rules.fault != Some(Fault::LateLearning) {
            self.ghost_hits[kind][list] += bytes;
        }
        self.admit(access, MFU);
        hit
    }

    fn validate(&self) -> Result<(), Broken> {
        ensure(self.size() <= self.capacity, "the capacity holds")?;
        ensure(self.recency.iter().chain([&self.meta]).all(|&part| part <= ONE), "fractions are at most 1")?;
        self.lists.validate()
    }
}

/// Bytes that are in memory.
fn resident(held: &Bytes) -> u64 {
    held.iter().map(|kind| kind[MRU] + kind[MFU]).sum()
}

/// A fraction that is pulled up and down by so many bytes of `total`. What pulls down is weighed with
/// 100 / `balance`; both together are at most a sixteenth or so, and near 1 and 0 they do less.
fn adjusted(fraction_now: u64, total: u64, mut up: u64, mut down: u64, balance: u64) -> u64 {
    if total < 32 || up + down == 0 {
        return fraction_now;
    }
    if up + down >= total / 16 {
        let scale = (up + down) / (total / 32);
        up /= scale;
        down /= scale;
    }
    let (above, below) = (ONE - fraction_now, fraction_now);
    if below >= 4 * above {
        up /= below / (2 * above + 1);
    }
    if above >= 4 * below {
        down /= above / (2 * below + 1);
    }
    let down = fraction(down, total) * 100 / balance;
    (fraction_now + fraction(up, total)).saturating_sub(down).min(ONE)
}

/// `part` of `whole` as a fraction, at most [`ONE`].
fn fraction(part: u64, whole: u64) -> u64 {
    (u128::from(part.min(whole)) * u128::from(ONE) / u128::from(whole.max(1))) as u64
}

/// A fraction of a number of bytes.
fn portion(share: u64, bytes: u64) -> u64 {
    ((u128::from(share) * u128::from(bytes)) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Act;

    #[test]
    fn an_eviction_makes_room_for_a_batch() {
        let sizes = |batch| {
            let mut cache = OpenZfs::new(&Setup::blocks(50), 60, Rules { batch, fault: None });
            let access = |block| Access { block, size: 1, kind: Kind::Data, act: Act::Read };
            let size_after = |block| {
                cache.request(access(block));
                cache.size() / BLOCK
            };
            (0..60).map(size_after).skip(49).take(3).collect::<Vec<_>>()
        };
        assert_eq!(sizes(1), [50, 50, 50]);
        assert_eq!(sizes(8), [50, 43, 44]);
    }

    #[test]
    fn a_fraction_moves_by_about_the_bytes_and_less_near_its_ends() {
        let share = |fraction: u64| fraction as f64 / ONE as f64;
        let moved = |from: u64, up, down| share(adjusted(from, 10_000, up, down, 100)) - share(from);
        assert!((moved(ONE / 2, 100, 0) - 0.01).abs() < 1e-6);
        assert!((moved(ONE / 2, 0, 100) + 0.01).abs() < 1e-6);
        assert!(moved(ONE / 2, 5000, 0) < 0.07, "not more than about a sixteenth at once");
        assert!(moved(ONE / 100 * 99, 100, 0) < 0.001, "near 1 it rises slowly");
        assert!(moved(ONE / 100, 0, 100) > -0.001, "near 0 it falls slowly");
        assert_eq!(moved(ONE / 2, 0, 0), 0.0);
        assert_eq!(adjusted(ONE / 2, 31, 9, 0, 100), ONE / 2, "too little to learn from");
    }

    #[test]
    fn data_moves_the_balance_a_fifth_of_what_metadata_does() {
        let (up, down) = (adjusted(ONE / 2, 10_000, 50, 0, 500), adjusted(ONE / 2, 10_000, 0, 50, 500));
        assert_eq!((up - ONE / 2) / 5, ONE / 2 - down);
    }
}
