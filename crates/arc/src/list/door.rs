//! The lists for strangers: only for the fuzz target, which knows nothing of headers.

use super::{List, Listed, Multilist, Pages, Passed, Sighting, Single};
use crate::{End, ListKind};

/// A list of some kind. Blocks are numbers, and weigh what the caller says.
#[derive(Debug)]
pub struct AnyList(Box<dyn List>);

impl AnyList {
    /// An empty list for up to `blocks` blocks; of one sublist, so that it is in exact order.
    ///
    /// # Panics
    /// For want of address space.
    pub fn new(kind: ListKind, blocks: u32) -> AnyList {
        AnyList(match kind {
            ListKind::Single => Box::new(Single::default()),
            ListKind::Multilist => Box::new(Multilist::new(1)),
            ListKind::Pages => Box::new(Pages::reserve(blocks, 8).expect("address space")),
        })
    }

    /// Adds a block at the head, and returns its place.
    pub fn insert(&self, number: u32, bytes: u64) -> u64 {
        self.0.insert(u64::from(number), number, bytes)
    }

    /// Takes a block off that is at a place.
    pub fn remove(&self, number: u32, place: u64, bytes: u64) {
        self.0.remove(u64::from(number), place, bytes);
    }

    /// Numbers and places from one end on, at most `want`.
    pub fn look(&self, from: End, want: usize) -> Vec<(u32, u64)> {
        let mut seen = Sighting::new();
        self.0.look(0, from, want, &mut seen);
        seen.iter().map(|listed| (listed.number, listed.place)).collect()
    }

    /// A pass of eviction. `evict` is told number and place, and returns the bytes that it freed, and whether
    /// that is enough.
    pub fn pass(&self, want: usize, evict: &mut dyn FnMut(u32, u64) -> (u64, bool)) -> u64 {
        self.0.pass(0, want, &mut |listed: Listed| match evict(listed.number, listed.place) {
            (bytes, true) => Passed::Enough(bytes),
            (bytes, false) => Passed::Freed(bytes),
        })
    }

    /// Lets the list move blocks to where it likes them better. `moves` is told number, old and new place.
    pub fn tidy(&self, moves: &mut dyn FnMut(u32, u64, u64) -> bool) {
        self.0.tidy(&mut |listed, place| moves(listed.number, listed.place, place));
    }

    /// Blocks, and their bytes where the list counts those.
    pub fn sums(&self) -> (usize, Option<u64>) {
        (self.0.len(), self.0.bytes())
    }

    /// Checks the list's own structure.
    ///
    /// # Panics
    /// When something is wrong with it.
    pub fn validate(&self) {
        self.0.validate().expect("a sound list");
    }
}
