//! The policy: pure arithmetic over bytes, nothing else. It decides what is evicted next, which
//! ghosts are forgotten, and how the targets move.
//!
//! The rules are those of Megiddo and Modha's paper (FAST 2003, figure 4), carried from pages of one
//! size to bytes of two kinds. Where the paper has one number p, there are three shares in 32-bit
//! fixed point: `meta`, how much of the room metadata may hold when data wants it too, and one
//! `recency` share a kind, how much of that kind's cap its mru state should hold. Shares, not bytes,
//! because the room changes while the cache runs and the proportions should survive that.
//!
//! For data alone and blocks of one byte this *is* the paper; `tests/textbook.rs` holds it to that.
//!
//! # The second rule
//!
//! The paper gets nothing from a loop longer than the cache: each block is evicted just before it is
//! asked for again, and its ghost is forgotten just before that. [`Rule::Irr`] keeps a part of such a
//! loop instead. mru is a small filter, hits in it prove nothing, and mfu admits a block only if the
//! time since its last use, its inter-reference recency, is shorter than that of the block which mfu
//! used least recently: the criterion of S. Jiang and X. Zhang, "LIRS", SIGMETRICS 2002, told from one
//! time stamp. While mfu has room it is filled from the tail of mru, so that a loop is caught in its
//! first round. Which of the two rules holds is decided elsewhere ([`crate::duel`]).

use arcwell_base::Kind;

/// A share of the whole.
pub(crate) const ONE: u64 = 1 << 32;

/// Metadata's share at the start, as in ZFS.
const META_START: u64 = ONE / 4;

/// Neither kind's share falls below this. A kind without any room has no ghosts either, hence no
/// ghost hits, and could never ask for room again.
const META_EDGE: u64 = ONE / 16;

/// Shares are sums of rounded steps: two sizes count as equal when they differ by less than this
/// many units in the last place of a share.
const ROUNDING: u64 = 1 << 12;

/// The share of mru under [`Rule::Irr`]. Between 1 % and 10 % it hardly matters.
const FILTER: u64 = ONE / 50;

/// Under [`Rule::Irr`], mru grows by this many times the blocks read ahead of demand, so that they live until
/// their first use while others pass, but by no more than this share.
const GUESS_ROOM: u64 = 4;
const GUESS_ROOM_MAX: u64 = ONE / 8;

/// Under [`Rule::Irr`], what distant ghosts may stand for, in caps. A loop is seen for one if it
/// comes back while it is remembered.
pub(crate) const DISTANT_CAPS: u64 = 2;

/// By what the policy goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Rule {
    /// The paper: mru and mfu share the room as ghost hits ask for it.
    #[default]
    Arc,
    /// Inter-reference recency: mfu holds what comes back soonest, mru is a filter before it.
    Irr,
}

impl Rule {
    /// Both, in the order of their numbers.
    pub(crate) const ALL: [Rule; 2] = [Rule::Arc, Rule::Irr];

    /// Whether a hit in mru proves that a block belongs to mfu.
    pub(crate) fn promotes_hits(self) -> bool {
        self == Rule::Arc
    }
}

/// What a ghost remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Past {
    /// It was evicted from mru.
    Mru,
    /// It was evicted from mfu.
    Mfu,
    /// It was evicted from mru, longer ago than the paper looks back.
    Distant,
}

impl Past {
    /// All, in the order of [`Past::index`].
    pub(crate) const ALL: [Past; 3] = [Past::Mru, Past::Mfu, Past::Distant];

    /// For tables with one row each.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl From<Rank> for Past {
    fn from(rank: Rank) -> Past {
        match rank {
            Rank::Mru => Past::Mru,
            Rank::Mfu => Past::Mfu,
        }
    }
}

/// Seen once, or more than once: the two halves of the ARC, and of its ghosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rank {
    /// Seen once lately.
    Mru,
    /// Seen at least twice.
    Mfu,
}

impl Rank {
    /// Both, in the order of [`Rank::index`].
    pub(crate) const ALL: [Rank; 2] = [Rank::Mru, Rank::Mfu];

    /// 0 for mru, 1 for mfu.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// A number of bytes for each rank and kind.
pub(crate) type ByRank = [[u64; 2]; 2];

/// What the policy knows about the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    /// What the lists may hold together: the target less what else counts within it.
    pub(crate) room: u64,
    /// Bytes of each state, pinned blocks included.
    pub(crate) resident: ByRank,
    /// The part of mru that was read ahead of demand and not asked for yet, by kind.
    pub(crate) guesses: [u64; 2],
    /// Bytes being filled that will be published into mru, by kind.
    pub(crate) arriving: [u64; 2],
    /// Bytes of each kind in whatever state.
    pub(crate) held: [u64; 2],
    /// Bytes that ghosts stand for, of those that are not distant.
    pub(crate) ghosts: ByRank,
    /// Bytes that distant ghosts stand for, by kind.
    pub(crate) distant: [u64; 2],
    /// Bytes that can be evicted.
    pub(crate) evictable: ByRank,
}

impl Sizes {
    fn past(&mut self, past: Past, kind: Kind) -> &mut u64 {
        match past {
            Past::Mru => &mut self.ghosts[Rank::Mru.index()][kind.index()],
            Past::Mfu => &mut self.ghosts[Rank::Mfu.index()][kind.index()],
            Past::Distant => &mut self.distant[kind.index()],
        }
    }

    /// Counts a ghost in.
    pub(crate) fn remember(&mut self, past: Past, kind: Kind, bytes: u64) {
        *self.past(past, kind) += bytes;
    }

    /// Counts a ghost out. Others may have counted the same out before these sizes were taken.
    pub(crate) fn forget(&mut self, past: Past, kind: Kind, bytes: u64) {
        let sum = self.past(past, kind);
        *sum = sum.saturating_sub(bytes);
    }

    /// Counts a block of mru into mfu.
    pub(crate) fn promote(&mut self, kind: Kind, bytes: u64) {
        for table in [&mut self.resident, &mut self.evictable] {
            let mru = &mut table[Rank::Mru.index()][kind.index()];
            *mru = mru.saturating_sub(bytes);
            table[Rank::Mfu.index()][kind.index()] += bytes;
        }
    }
}

/// A block that is asked for again while only its ghost is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GhostHit {
    /// Where it was evicted from.
    pub(crate) past: Past,
    /// Its kind then.
    pub(crate) kind: Kind,
    /// Its bytes then.
    pub(crate) bytes: u64,
    /// When it was last used.
    pub(crate) tick: Tick,
}

/// A moment, counted by what has come into the cache since it was opened. It wraps around; moments
/// are compared by [`Tick::is_after`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tick(pub(crate) u32);

impl Tick {
    /// Whether this moment came later than `other`.
    pub(crate) fn is_after(self, other: Tick) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }
}

/// The three shares that the cache learns, and the rule that it goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    /// Metadata's share of the room.
    pub(crate) meta: u64,
    /// mru's share of each kind's cap, under the paper's rule.
    pub(crate) recency: [u64; 2],
    /// The rule.
    pub(crate) rule: Rule,
}

impl Default for Shares {
    fn default() -> Self {
        Shares { meta: META_START, recency: [0, 0], rule: Rule::Arc }
    }
}

impl Shares {
    /// What a kind may hold: all that the other kind does not hold by right.
    pub(crate) fn cap(&self, kind: Kind, sizes: &Sizes) -> u64 {
        let (other, right) = match kind {
            Kind::Data => (Kind::Metadata, self.meta),
            Kind::Metadata => (Kind::Data, ONE - self.meta),
        };
        sizes.room - sizes.held[other.index()].min(portion(right, sizes.room))
    }

    /// Moves the shares at a ghost hit. `sizes` still counts the ghost: the ratio of the two ghost
    /// lists is that at the moment of the hit. `balance` is in per cent: how many times more a byte
    /// of metadata that had to be read again weighs than one of data.
    pub(crate) fn learn(&mut self, hit: GhostHit, sizes: &Sizes, balance: u64) {
        if self.rule == Rule::Arc {
            self.learn_recency(hit, sizes);
        }
        self.meta = match hit.kind {
            Kind::Metadata => self.meta + ratio(hit.bytes.into(), sizes.room.into()),
            Kind::Data => {
                let weight = u128::from(sizes.room) * u128::from(balance.max(1));
                self.meta.saturating_sub(ratio(u128::from(hit.bytes) * 100, weight))
            }
        }
        .clamp(META_EDGE, ONE - META_EDGE);
    }

    /// Moves mru's share of the ghost's kind, as the paper does.
    fn learn_recency(&mut self, hit: GhostHit, sizes: &Sizes) {
        let ghosts = |rank: Rank| sizes.ghosts[rank.index()][hit.kind.index()].max(hit.bytes);
        let (own, other) = match hit.past {
            Past::Mru => (ghosts(Rank::Mru), ghosts(Rank::Mfu)),
            Past::Mfu => (ghosts(Rank::Mfu), ghosts(Rank::Mru)),
            Past::Distant => return,
        };
        // The share is one of the cap, so the step is too: then it moves the target by the ghost's
        // bytes, times the ratio when the other list is the longer.
        let weighed = u128::from(hit.bytes) * u128::from(own.max(other));
        let step = ratio(weighed, u128::from(self.cap(hit.kind, sizes)) * u128::from(own));
        let share = &mut self.recency[hit.kind.index()];
        *share = match hit.past {
            Past::Mfu => share.saturating_sub(step),
            Past::Mru | Past::Distant => (*share + step).min(ONE),
        };
    }

    /// Whether a block whose ghost was found goes to mfu. `oldest` tells when the block at mfu's tail was
    /// last used, and `None` if there is none.
    pub(crate) fn readmits(
        &self,
        hit: GhostHit,
        sizes: &Sizes,
        oldest: impl FnOnce() -> Option<Tick>,
    ) -> bool {
        match self.rule {
            Rule::Arc => hit.past != Past::Distant,
            Rule::Irr => {
                let is_closer = || oldest().is_none_or(|oldest| hit.tick.is_after(oldest));
                self.has_mfu_room(hit.kind, sizes, hit.bytes) || is_closer()
            }
        }
    }

    /// Whether mfu is to be filled from the tail of mru with a block of so many bytes. All of the block
    /// must be too much for mru and fit into mfu: else mfu loses another one for it, each time.
    pub(crate) fn fills_mfu(&self, kind: Kind, sizes: &Sizes, bytes: u64) -> bool {
        let mru = sizes.resident[Rank::Mru.index()][kind.index()];
        let has_more = mru >= self.filter(kind, sizes) + bytes;
        self.rule == Rule::Irr && has_more && self.has_mfu_room(kind, sizes, bytes)
    }

    /// The target of mru under [`Rule::Irr`].
    fn filter(&self, kind: Kind, sizes: &Sizes) -> u64 {
        let cap = self.cap(kind, sizes);
        portion(FILTER, cap) + (GUESS_ROOM * sizes.guesses[kind.index()]).min(portion(GUESS_ROOM_MAX, cap))
    }

    /// Under [`Rule::Irr`], whether so many bytes more leave mfu within its target.
    fn has_mfu_room(&self, kind: Kind, sizes: &Sizes, bytes: u64) -> bool {
        let mfu = sizes.resident[Rank::Mfu.index()][kind.index()];
        mfu + bytes + self.filter(kind, sizes) <= self.cap(kind, sizes)
    }

    /// Whose oldest block goes next; `None` when nothing can be evicted. `again` is the ghost hit
    /// that room is made for.
    pub(crate) fn victim(&self, sizes: &Sizes, again: Option<GhostHit>) -> Option<(Rank, Kind)> {
        let can = |rank: Rank, kind: Kind| sizes.evictable[rank.index()][kind.index()] > 0;
        let any = |kind: Kind| can(Rank::Mru, kind) || can(Rank::Mfu, kind);
        let meta_is_over = sizes.held[Kind::Metadata.index()] > portion(self.meta, sizes.room);
        let kind = match (any(Kind::Data), any(Kind::Metadata)) {
            (false, false) => return None,
            (data, metadata) if metadata && (meta_is_over || !data) => Kind::Metadata,
            _ => Kind::Data,
        };
        let rank = if self.recency_is_over(kind, sizes, again) { Rank::Mru } else { Rank::Mfu };
        let other = Rank::ALL[1 - rank.index()];
        Some((if can(rank, kind) { rank } else { other }, kind))
    }

    /// The paper's condition of REPLACE: T1 is longer than p, or as long and the block that room is
    /// made for was hit in B2. Under the other rule the filter loses what is more than its share.
    fn recency_is_over(&self, kind: Kind, sizes: &Sizes, again: Option<GhostHit>) -> bool {
        if self.rule == Rule::Irr {
            // With what arrives: all that does not fit is mru's, so that mfu loses nothing as long as it is
            // within its target, whatever the blocks' sizes.
            let arriving = sizes.arriving[kind.index()].max(1);
            return sizes.resident[Rank::Mru.index()][kind.index()] + arriving > self.filter(kind, sizes);
        }
        let cap = u128::from(self.cap(kind, sizes));
        let mru = u128::from(sizes.resident[Rank::Mru.index()][kind.index()]) * u128::from(ONE);
        let target = cap * u128::from(self.recency[kind.index()]);
        let slack = cap * u128::from(ROUNDING);
        let is_tie = mru.abs_diff(target) <= slack;
        let was_frequent = again.is_some_and(|hit| hit.past == Past::Mfu && hit.kind == kind);
        mru > 0 && (mru > target + slack || is_tie && was_frequent)
    }

    /// Which ghost list of a kind is too long, if any: mru and its ghosts must fit into the cap
    /// together, and so must all ghosts.
    pub(crate) fn surplus(&self, kind: Kind, sizes: &Sizes) -> Option<Rank> {
        let cap = self.cap(kind, sizes);
        let of = |table: &ByRank, rank: Rank| table[rank.index()][kind.index()];
        let (once, often) = (of(&sizes.ghosts, Rank::Mru), of(&sizes.ghosts, Rank::Mfu));
        let recent = of(&sizes.resident, Rank::Mru) + sizes.arriving[kind.index()];
        if once > cap.saturating_sub(recent) {
            Some(Rank::Mru)
        } else if once + often > cap {
            // `once` alone fits, so there is something in `often`.
            Some(Rank::Mfu)
        } else {
            None
        }
    }

    /// Whether a ghost that the paper would forget is remembered as a distant one.
    pub(crate) fn remembers_distant(&self) -> bool {
        self.rule == Rule::Irr
    }

    /// Whether there are more distant ghosts than there should be.
    pub(crate) fn has_distant_surplus(&self, kind: Kind, sizes: &Sizes) -> bool {
        let allowed =
            if self.remembers_distant() { DISTANT_CAPS.saturating_mul(self.cap(kind, sizes)) } else { 0 };
        sizes.distant[kind.index()] > allowed
    }
}

/// A share of a number of bytes.
pub(crate) fn portion(share: u64, bytes: u64) -> u64 {
    ((u128::from(share) * u128::from(bytes)) >> 32) as u64
}

/// `part` of `whole` as a share, rounded to the nearest; at most [`ONE`].
fn ratio(part: u128, whole: u128) -> u64 {
    if part >= whole {
        return ONE;
    }
    ((part * u128::from(ONE) + whole / 2) / whole) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: usize = Kind::Data.index();
    const META: usize = Kind::Metadata.index();

    fn hit(rank: Rank, kind: Kind) -> GhostHit {
        GhostHit { past: rank.into(), kind, bytes: 1, tick: Tick::default() }
    }

    fn full_of_data(mru: u64, mfu: u64) -> Sizes {
        Sizes {
            room: mru + mfu,
            resident: [[mru, 0], [mfu, 0]],
            held: [mru + mfu, 0],
            evictable: [[mru, 0], [mfu, 0]],
            ..Sizes::default()
        }
    }

    #[test]
    fn a_ghost_hit_moves_the_target_by_the_ghosts_bytes_times_the_ratio() {
        let mut sizes = full_of_data(50, 50);
        sizes.ghosts = [[20, 0], [60, 0]];
        let mut shares = Shares::default();
        shares.learn(hit(Rank::Mru, Kind::Data), &sizes, 500);
        assert_eq!(shares.recency[DATA], ONE * 3 / 100 + 1, "3 of 100 bytes, rounded to the nearest");
        shares.learn(hit(Rank::Mfu, Kind::Data), &sizes, 500);
        assert_eq!(portion(shares.recency[DATA] + ROUNDING, 100), 2, "and 1 back");
    }

    #[test]
    fn a_tie_goes_against_recency_only_after_a_hit_in_the_frequent_ghosts() {
        let sizes = full_of_data(25, 75);
        let shares = Shares { recency: [ONE / 4, 0], ..Shares::default() };
        let victim = |again| shares.victim(&sizes, again).map(|(rank, _)| rank);
        assert_eq!(victim(None), Some(Rank::Mfu));
        assert_eq!(victim(Some(hit(Rank::Mru, Kind::Data))), Some(Rank::Mfu));
        assert_eq!(victim(Some(hit(Rank::Mfu, Kind::Data))), Some(Rank::Mru));
        assert_eq!(victim(Some(hit(Rank::Mfu, Kind::Metadata))), Some(Rank::Mfu));
    }

    #[test]
    fn metadata_over_its_share_goes_first_and_else_data() {
        let mut sizes = full_of_data(40, 30);
        sizes.room = 100;
        sizes.held[META] = 30;
        sizes.resident[0][META] = 30;
        sizes.evictable[0][META] = 30;
        let mut shares = Shares::default();
        assert_eq!(shares.victim(&sizes, None), Some((Rank::Mru, Kind::Metadata)));
        shares.meta = ONE / 2;
        assert_eq!(shares.victim(&sizes, None), Some((Rank::Mru, Kind::Data)));
        sizes.evictable[0][DATA] = 0;
        sizes.evictable[1][DATA] = 0;
        assert_eq!(shares.victim(&sizes, None), Some((Rank::Mru, Kind::Metadata)));
    }

    #[test]
    fn the_balance_moves_towards_the_kind_that_was_missed() {
        let sizes = Sizes { room: 100, ..full_of_data(40, 30) };
        let mut shares = Shares::default();
        shares.learn(hit(Rank::Mru, Kind::Metadata), &sizes, 500);
        assert_eq!(portion(shares.meta + ROUNDING, 1000), 260);
        (0..5).for_each(|_| shares.learn(hit(Rank::Mru, Kind::Data), &sizes, 500));
        assert_eq!(portion(shares.meta + ROUNDING, 1000), 250);
        (0..10_000).for_each(|_| shares.learn(hit(Rank::Mfu, Kind::Data), &sizes, 500));
        assert_eq!(shares.meta, META_EDGE, "a kind never loses the room that its ghosts need");
    }

    #[test]
    fn the_frequent_ghosts_are_trimmed_first_unless_recency_itself_is_too_long() {
        let mut sizes = full_of_data(60, 40);
        sizes.ghosts = [[40, 0], [61, 0]];
        assert_eq!(Shares::default().surplus(Kind::Data, &sizes), Some(Rank::Mfu));
        sizes.arriving[DATA] = 1;
        assert_eq!(Shares::default().surplus(Kind::Data, &sizes), Some(Rank::Mru));
        sizes.ghosts = [[39, 0], [61, 0]];
        assert_eq!(Shares::default().surplus(Kind::Data, &sizes), None);
    }

    #[test]
    fn nothing_overflows_at_the_edges() {
        let sizes = Sizes { room: 0, ghosts: [[1, 1], [1, 1]], ..Sizes::default() };
        let mut shares = Shares::default();
        for rank in Rank::ALL {
            for kind in Kind::ALL {
                let bytes = u32::MAX.into();
                shares.learn(GhostHit { bytes, ..hit(rank, kind) }, &sizes, 0);
                assert!(shares.recency[kind.index()] <= ONE);
            }
        }
        assert_eq!(shares.victim(&sizes, None), None);
    }
}
