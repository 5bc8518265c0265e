//! One lock a state and kind: exact order, and the lock that every hit waits for.

use super::sublist::{Sublist, go_on_in_turn};
use super::{End, List, Sighting, Stand};

/// A list in exact order.
#[derive(Debug, Default)]
pub(crate) struct Single(Sublist);

impl List for Single {
    fn sublists(&self) -> usize {
        1
    }

    fn insert(&self, _hash: u64, number: u32, bytes: u64) -> u64 {
        self.0.insert(number, bytes)
    }

    fn remove(&self, _hash: u64, place: u64, bytes: u64) {
        self.0.remove(place, bytes);
    }

    fn look(&self, _sublist: usize, from: End, want: usize, seen: &mut Sighting) {
        self.0.look(from, want, seen);
    }

    fn go_on(&self, from: End, stand: &mut Stand, want: usize, seen: &mut Sighting) -> bool {
        go_on_in_turn(self.sublists(), |_| &self.0, from, stand, (want, seen))
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.0.bytes())
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
