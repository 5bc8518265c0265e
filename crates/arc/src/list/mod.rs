//! The lists behind one trait: where the unpinned blocks of a state and kind wait, newest to oldest.
//!
//! Two implementations can be compared in one run: [`single`] is exact and has one lock,
//! [`multilist`] is nearly exact and has several. Both are rows of [`sublist`]s. A list knows blocks
//! only by [`Place`]; it never looks at a header, and calls made on it never take a shard's lock.

mod multilist;
mod single;
mod sublist;

use smallvec::SmallVec;

pub(crate) use self::multilist::{Multilist, sublist_of};
pub(crate) use self::single::Single;
pub(crate) use self::sublist::Node;
pub use crate::slab::End;

/// Where a block's header lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    /// Which shard.
    pub(crate) shard: u32,
    /// Which slot of the shard's slab.
    pub(crate) slot: u32,
}

/// A block seen on a list. It may have left the list by the time someone looks at its header: then
/// the header no longer names this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    /// The node in the list's own storage.
    pub(crate) node: u32,
    /// The header.
    pub(crate) place: Place,
}

/// Blocks seen on a list; few enough to need no allocation in the common case.
pub(crate) type Sighting = SmallVec<[Listed; 16]>;

/// The unpinned blocks of one state and kind.
pub(crate) trait List: Send + Sync + std::fmt::Debug {
    /// Number of sublists.
    fn sublists(&self) -> usize;

    /// Adds a block at the head and returns its node.
    fn insert(&self, hash: u64, place: Place, bytes: u64) -> u32;

    /// Takes a block off.
    fn remove(&self, hash: u64, node: u32, bytes: u64);

    /// Adds up to `want` blocks of a sublist to `seen`, from one end inwards.
    fn look(&self, sublist: usize, from: End, want: usize, seen: &mut Sighting);

    /// Bytes of all blocks on the list.
    fn bytes(&self) -> u64;

    /// Number of blocks on the list.
    fn len(&self) -> usize;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(list: &dyn List, end: End) -> Vec<u32> {
        let mut seen = Sighting::new();
        (0..list.sublists()).for_each(|sublist| list.look(sublist, end, usize::MAX, &mut seen));
        seen.iter().map(|listed| listed.place.slot).collect()
    }

    #[test]
    fn single_is_exact_from_either_end() {
        let list = Single::default();
        let nodes: Vec<u32> = (0..9).map(|slot| list.insert(7, Place { shard: 0, slot }, 10)).collect();
        list.remove(7, nodes[4], 10);
        assert_eq!(order(&list, End::Tail), [0, 1, 2, 3, 5, 6, 7, 8]);
        assert_eq!(order(&list, End::Head), [8, 7, 6, 5, 3, 2, 1, 0]);
        assert_eq!((list.bytes(), list.len()), (80, 8));
    }

    #[test]
    fn multilist_inserts_evenly_and_keeps_each_sublist_in_order() {
        let list = Multilist::new(8);
        for slot in 0..8000 {
            let key = arcwell_base::BlockKey::new(arcwell_base::ObjectId(1), u64::from(slot));
            list.insert(key.hash(), Place { shard: 0, slot }, 1);
        }
        for sublist in 0..8 {
            let mut seen = Sighting::new();
            list.look(sublist, End::Tail, usize::MAX, &mut seen);
            assert!((850..1150).contains(&seen.len()), "sublist {sublist} holds {}", seen.len());
            assert!(seen.is_sorted_by_key(|listed| listed.place.slot));
        }
        assert_eq!((list.bytes(), list.len()), (8000, 8000));
    }
}
