//! Storage by number, and doubly linked chains through it: lists without pointers.
//!
//! A [`Slab`] hands out small numbers for values and takes them back. It grows by whole chunks, so
//! that growing copies nothing and wastes at most one chunk. A [`Chain`] links values of one slab
//! from newest (head) to oldest (tail).

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use hashbrown::HashTable;

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Entries a chunk.
const CHUNK: usize = 128;

/// Values by number. A vacated place holds the default value until it is used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Box<[T]>>,
    /// The first that was vacated is used first: what comes and goes in order then lies in order, and the next
    /// one is fetched from memory before it is asked for.
    free: VecDeque<u32>,
    used: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), free: VecDeque::new(), used: 0 }
    }
}

impl<T: Default> Slab<T> {
    /// Stores a value and says where.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let vacated = self.free.pop_front();
        self.insert_at(vacated, value)
    }

    /// The same, but not where a value was taken out just now: what comes back comes to another place.
    pub(crate) fn insert_elsewhere(&mut self, value: T) -> u32 {
        const IDLE: usize = 16;
        let vacated = if self.free.len() > IDLE { self.free.pop_front() } else { None };
        self.insert_at(vacated, value)
    }

    fn insert_at(&mut self, vacated: Option<u32>, value: T) -> u32 {
        let place = vacated.unwrap_or_else(|| {
            let place = self.used;
            assert!(place < NONE, "a slab holds fewer than 2^32 values");
            self.used += 1;
            place
        });
        if place as usize / CHUNK == self.chunks.len() {
            self.chunks.push((0..CHUNK).map(|_| T::default()).collect());
        }
        self[place] = value;
        place
    }

    /// Takes a value out; its number will be given out again.
    pub(crate) fn remove(&mut self, place: u32) -> T {
        let value = std::mem::take(&mut self[place]);
        self.free.push_back(place);
        // A slab that has grown and is empty now gives its memory back.
        if self.chunks.len() > 1 && self.free.len() == self.used as usize {
            *self = Slab::default();
        }
        value
    }

    /// What lies at a place, which may be vacant, if the slab is as large.
    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.chunks.get(place as usize / CHUNK)?.get(place as usize % CHUNK)
    }

    /// How many values are stored.
    pub(crate) fn len(&self) -> usize {
        self.used as usize - self.free.len()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, place: u32) -> &T {
        &self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}

/// Lets a table of places become smaller when most of it has been empty for long enough to pay for
/// the move.
pub(crate) fn give_back(index: &mut HashTable<u32>, hasher: impl Fn(&u32) -> u64) {
    if index.capacity() > CHUNK && index.len() < index.capacity() / 8 {
        index.shrink_to(index.len() * 2, hasher);
    }
}

/// An entry's neighbours in its chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    newer: u32,
    older: u32,
}

impl Default for Links {
    fn default() -> Self {
        Links { newer: NONE, older: NONE }
    }
}

/// A value that can be in a chain.
pub(crate) trait Linked {
    /// Its neighbours.
    fn links(&self) -> &Links;
    /// Its neighbours, to be changed.
    fn links_mut(&mut self) -> &mut Links;
}

/// Which end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The newest.
    Head,
    /// The oldest.
    Tail,
}

/// A doubly linked list through a slab.
#[derive(Debug)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Chain { head: NONE, tail: NONE, len: 0 }
    }
}

impl Chain {
    /// How many entries are linked.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The oldest entry.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    /// Links `place` as the newest.
    pub(crate) fn push<T: Linked>(&mut self, slab: &mut Slab<T>, place: u32) {
        *slab[place].links_mut() = Links { newer: NONE, older: self.head };
        match self.head {
            NONE => self.tail = place,
            head => slab[head].links_mut().newer = place,
        }
        self.head = place;
        self.len += 1;
    }

    /// Takes `place` out of the chain.
    pub(crate) fn unlink<T: Linked>(&mut self, slab: &mut Slab<T>, place: u32) {
        let Links { newer, older } = std::mem::take(slab[place].links_mut());
        match newer {
            NONE => self.head = older,
            newer => slab[newer].links_mut().older = older,
        }
        match older {
            NONE => self.tail = newer,
            older => slab[older].links_mut().newer = newer,
        }
        self.len -= 1;
    }

    /// Walks from one end to the other.
    pub(crate) fn walk<'a, T: Linked>(&self, slab: &'a Slab<T>, from: End) -> impl Iterator<Item = u32> + 'a {
        self.walk_from(slab, self.end(from), from)
    }

    /// Walks from a place on, away from an end.
    pub(crate) fn walk_from<'a, T: Linked>(
        &self,
        slab: &'a Slab<T>,
        start: Option<u32>,
        from: End,
    ) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(start, move |&place| step(slab, place, from))
    }

    /// The entry at an end.
    pub(crate) fn end(&self, end: End) -> Option<u32> {
        known(match end {
            End::Head => self.head,
            End::Tail => self.tail,
        })
    }

    /// The entry that follows one of the chain, away from an end.
    pub(crate) fn next<T: Linked>(&self, slab: &Slab<T>, place: u32, from: End) -> Option<u32> {
        debug_assert!(self.has(slab, place), "what is not in the chain has no next");
        step(slab, place, from)
    }

    /// Whether a place that the slab has is in the chain. All of a slab's values are in one chain.
    pub(crate) fn has<T: Linked>(&self, slab: &Slab<T>, place: u32) -> bool {
        self.head == place || slab[place].links().newer != NONE
    }
}

fn known(place: u32) -> Option<u32> {
    (place != NONE).then_some(place)
}

fn step<T: Linked>(slab: &Slab<T>, place: u32, from: End) -> Option<u32> {
    let links = slab[place].links();
    known(match from {
        End::Head => links.older,
        End::Tail => links.newer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Bead(Links, u32);

    impl Linked for Bead {
        fn links(&self) -> &Links {
            &self.0
        }
        fn links_mut(&mut self) -> &mut Links {
            &mut self.0
        }
    }

    #[test]
    fn a_chain_keeps_order_from_both_ends() {
        let (mut slab, mut chain) = (Slab::default(), Chain::default());
        let places: Vec<u32> = (0..1000).map(|n| slab.insert(Bead(Links::default(), n))).collect();
        places.iter().for_each(|&place| chain.push(&mut slab, place));
        for n in (0..1000).step_by(3) {
            chain.unlink(&mut slab, places[n]);
            slab.remove(places[n]);
        }
        let left: Vec<u32> = (0..1000).filter(|n| n % 3 != 0).collect();
        let read = |end| chain.walk(&slab, end).map(|place| slab[place].1).collect::<Vec<_>>();
        assert_eq!(read(End::Tail), left);
        assert_eq!(read(End::Head), left.iter().rev().copied().collect::<Vec<_>>());
        assert_eq!((chain.len(), slab.len()), (left.len(), left.len()));
    }

    #[test]
    fn an_empty_slab_gives_its_memory_back() {
        let mut slab = Slab::default();
        let places: Vec<u32> = (0..1000u32).map(|n| slab.insert(n)).collect();
        assert!(places.iter().all(|&place| slab.remove(place) == place));
        assert!(slab.chunks.is_empty());
        assert_eq!(slab.insert(5), 0);
    }
}
