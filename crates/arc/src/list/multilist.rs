//! Several sublists a state and kind, each with its own lock.
//!
//! A block goes to the sublist that its key's hash names, so the sublists stay equally long and the
//! tail of any of them is old enough to be evicted, if not the oldest of all.

use crossbeam_utils::CachePadded;

use super::sublist::{Sublist, go_on_in_turn};
use super::{End, List, Sighting, Stand};

/// A list in nearly exact order.
#[derive(Debug)]
pub(crate) struct Multilist(Box<[CachePadded<Sublist>]>);

impl Multilist {
    /// A list of `sublists` parts.
    pub(crate) fn new(sublists: usize) -> Self {
        Multilist((0..sublists.max(1)).map(|_| CachePadded::default()).collect())
    }

    fn sublist(&self, hash: u64) -> &Sublist {
        &self.0[sublist_of(hash, self.0.len())]
    }
}

/// Which of `sublists` a hash names. The bits are none of those that the shards' tables use.
pub(crate) fn sublist_of(hash: u64, sublists: usize) -> usize {
    (hash >> 24) as u16 as usize % sublists
}

impl List for Multilist {
    fn sublists(&self) -> usize {
        self.0.len()
    }

    fn insert(&self, hash: u64, number: u32, bytes: u64) -> u64 {
        self.sublist(hash).insert(number, bytes)
    }

    fn remove(&self, hash: u64, place: u64, bytes: u64) {
        self.sublist(hash).remove(place, bytes);
    }

    fn look(&self, sublist: usize, from: End, want: usize, seen: &mut Sighting) {
        self.0[sublist].look(from, want, seen);
    }

    fn go_on(&self, from: End, stand: &mut Stand, want: usize, seen: &mut Sighting) -> bool {
        go_on_in_turn(self.sublists(), |turn| &*self.0[turn], from, stand, (want, seen))
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.0.iter().map(|sublist| sublist.bytes()).sum())
    }

    fn len(&self) -> usize {
        self.0.iter().map(|sublist| sublist.len()).sum()
    }
}
