//! The lists behind one trait: where the unpinned blocks of a state and kind wait, newest to oldest.
//!
//! Three implementations can be compared in one run: [`single`] is exact and has one lock, [`multilist`]
//! is nearly exact and has several; both are rows of [`sublist`]s, from which a block is taken while it
//! is used. [`pages`] is exact, and a block stays where it is while it is used: nothing is locked for it.
//!
//! A list knows blocks only by the numbers of their headers and never looks at one. Changes of a block's
//! place are made under the lock of its header; under a list's own locks no other is taken.

#[cfg(feature = "fuzz")]
pub mod door;
mod multilist;
mod pages;
mod single;
mod stand;
mod sublist;

use smallvec::SmallVec;

pub(crate) use self::multilist::{Multilist, sublist_of};
pub(crate) use self::pages::{Pages, SLOTS_MAX, SLOTS_MIN};
pub(crate) use self::single::Single;
pub(crate) use self::stand::{AT_ONCE, Stand};
pub(crate) use self::sublist::Node;
pub use crate::slab::End;

/// A block seen on a list. It may have left the list by the time someone looks at its header: then
/// the header no longer names this place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    /// Its place on the list; never zero.
    pub(crate) place: u64,
    /// The number of its header.
    pub(crate) number: u32,
}

/// Blocks seen on a list; few enough to need no allocation in the common case.
pub(crate) type Sighting = SmallVec<[Listed; 16]>;

/// What came of a block that a pass of eviction has come upon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passed {
    /// So many bytes are free now, or none.
    Freed(u64),
    /// The same, and no more are needed.
    Enough(u64),
}

/// Who evicts what a list offers.
pub(crate) trait Evict {
    /// A block that will be offered soon, if enough is not free before: its header may be fetched from memory.
    fn expect(&mut self, _listed: Listed) {}

    /// Evicts a block, if it may go.
    fn evict(&mut self, listed: Listed) -> Passed;
}

/// For tests and strangers, a function will do.
impl<F: FnMut(Listed) -> Passed> Evict for F {
    fn evict(&mut self, listed: Listed) -> Passed {
        self(listed)
    }
}

/// The blocks of one state and kind.
pub(crate) trait List: Send + Sync + std::fmt::Debug {
    /// Number of sublists.
    fn sublists(&self) -> usize;

    /// Adds a block at the head and returns its place.
    fn insert(&self, hash: u64, number: u32, bytes: u64) -> u64;

    /// Takes a block off.
    fn remove(&self, hash: u64, place: u64, bytes: u64);

    /// Whether a block is so near to the head that moving it there is not worth it. `percent` says of how
    /// much of the list that is true.
    fn is_near_head(&self, _place: u64, _percent: u64) -> bool {
        false
    }

    /// Adds up to `want` blocks of a sublist to `seen`, from one end inwards.
    fn look(&self, sublist: usize, from: End, want: usize, seen: &mut Sighting);

    /// Goes on with a walk from one end inwards, where it stands: adds up to `want` blocks to `seen`, fewer than
    /// there are perhaps or none. `false` when there is nothing more.
    fn go_on(&self, from: End, stand: &mut Stand, want: usize, seen: &mut Sighting) -> bool;

    /// Offers blocks to be evicted, the oldest of a sublist first, until it has enough. When the first `want`
    /// gave nothing, more are tried. Returns the bytes that are free now.
    fn pass(&self, sublist: usize, want: usize, by: &mut dyn Evict) -> u64 {
        /// When a tail gives nothing, this many times as much of it is looked at.
        const DEEPER: usize = 8;
        let (mut freed, mut want) = (0, want);
        let mut seen = Sighting::new();
        loop {
            let known = seen.len();
            seen.clear();
            self.look(sublist, End::Tail, want, &mut seen);
            for &listed in seen.iter().skip(known) {
                match by.evict(listed) {
                    Passed::Freed(bytes) => freed += bytes,
                    Passed::Enough(bytes) => return freed + bytes,
                }
            }
            if freed > 0 || seen.len() < want {
                return freed;
            }
            want = want.saturating_mul(DEEPER);
        }
    }

    /// Does a little of what keeps the list small. `moves` is told of a block and its new place, and says
    /// whether it has taken it there. By one at a time.
    fn tidy(&self, _moves: &mut dyn FnMut(Listed, u64) -> bool) {}

    /// Bytes of all blocks on the list; `None` where blocks stay on it while they are used, so that these are all
    /// that are in its state, which is counted elsewhere.
    fn bytes(&self) -> Option<u64>;

    /// Number of blocks on the list.
    fn len(&self) -> usize;

    /// Checks the list's own structure, while no other thread uses it.
    ///
    /// # Errors
    /// What is wrong with it.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::stand::A_TURN;
    use super::*;

    fn order(list: &dyn List, end: End) -> Vec<u32> {
        let mut seen = Sighting::new();
        (0..list.sublists()).for_each(|sublist| list.look(sublist, end, usize::MAX, &mut seen));
        seen.iter().map(|listed| listed.number).collect()
    }

    #[test]
    fn single_is_exact_from_either_end() {
        let list = Single::default();
        let places: Vec<u64> = (0..9).map(|number| list.insert(7, number, 10)).collect();
        list.remove(7, places[4], 10);
        assert_eq!(order(&list, End::Tail), [0, 1, 2, 3, 5, 6, 7, 8]);
        assert_eq!(order(&list, End::Head), [8, 7, 6, 5, 3, 2, 1, 0]);
        assert_eq!((list.bytes(), list.len()), (Some(80), 8));
    }

    #[test]
    fn multilist_inserts_evenly_and_keeps_each_sublist_in_order() {
        let list = Multilist::new(8);
        for slot in 0..8000 {
            let key = arcwell_base::BlockKey::new(arcwell_base::ObjectId(1), u64::from(slot));
            list.insert(key.hash(), slot, 1);
        }
        for sublist in 0..8 {
            let mut seen = Sighting::new();
            list.look(sublist, End::Tail, usize::MAX, &mut seen);
            assert!((850..1150).contains(&seen.len()), "sublist {sublist} holds {}", seen.len());
            assert!(seen.is_sorted_by_key(|listed| listed.number));
        }
        assert_eq!((list.bytes(), list.len()), (Some(8000), 8000));
    }

    /// Walks by `want` blocks a time. `between` is told what was seen.
    fn walk(list: &dyn List, from: End, want: usize, mut between: impl FnMut(&[Listed])) -> Vec<u32> {
        let (mut stand, mut all) = (Stand::default(), Vec::new());
        loop {
            let mut seen = Sighting::new();
            let is_more = list.go_on(from, &mut stand, want, &mut seen);
            assert!(seen.len() <= want && all.len() < 10_000);
            all.extend(seen.iter().map(|listed| listed.number));
            if !is_more {
                return all;
            }
            between(&seen);
        }
    }

    #[test]
    fn a_walk_through_sublists_takes_them_in_turn() {
        let list = Multilist::new(4);
        (0..400).for_each(|number| _ = list.insert(u64::from(number) << 24, number, 1));
        let met = walk(&list, End::Tail, 100, |_| {});
        let of = |turn: usize| -> Vec<u32> { met[turn * A_TURN..(turn + 1) * A_TURN].to_vec() };
        (0..4).for_each(|turn| {
            assert!(of(turn).iter().all(|number| number % 4 == turn as u32));
            assert!(of(turn + 4).iter().all(|number| number % 4 == turn as u32));
        });
        assert_eq!(met.iter().collect::<std::collections::HashSet<_>>().len(), 400);
        assert_eq!(met.len(), 400);
    }

    #[test]
    fn a_walk_through_a_sublist_goes_on_behind_what_is_left_of_its_trail() {
        for want in [1, 3, 8, 64] {
            let list = Single::default();
            (0..200).for_each(|number| _ = list.insert(0, number, 1));
            let mut came = 200;
            let met = walk(&list, End::Tail, want, |seen| {
                // All but one that were seen leave, and their nodes are used again.
                for listed in seen.iter().filter(|listed| listed.number % 5 != 0) {
                    list.remove(0, listed.place, 1);
                    list.insert(0, came, 1);
                    came += 1;
                }
            });
            assert_eq!(met, (0..200).collect::<Vec<_>>(), "by {want}");
        }
    }

    #[test]
    fn a_walk_whose_trail_is_lost_begins_again_and_still_ends() {
        let list = Single::default();
        (0..200).for_each(|number| _ = list.insert(0, number, 1));
        let evicts = |seen: &[Listed]| seen.iter().for_each(|listed| list.remove(0, listed.place, 1));
        assert_eq!(
            walk(&list, End::Tail, 7, evicts),
            (0..200).collect::<Vec<_>>(),
            "as if it were where it stood"
        );
        assert_eq!(list.len(), 0);
        (0..200).for_each(|number| _ = list.insert(0, number, 1));
        let moves = |seen: &[Listed]| {
            for listed in seen {
                list.remove(0, listed.place, 1);
                list.insert(0, listed.number, 1);
            }
        };
        assert_eq!(
            walk(&list, End::Head, 7, moves).len(),
            200,
            "the same again and again, but no more than there were"
        );
        // Also when the list has become empty, and its nodes are no more.
        let mut stand = Stand::default();
        let mut seen = Sighting::new();
        assert!(list.go_on(End::Tail, &mut stand, 7, &mut seen));
        let mut all = Sighting::new();
        list.look(0, End::Tail, usize::MAX, &mut all);
        evicts(&all);
        seen.clear();
        list.go_on(End::Tail, &mut stand, 7, &mut seen);
        assert!(seen.is_empty() && !list.go_on(End::Tail, &mut stand, 7, &mut seen));
    }
}
