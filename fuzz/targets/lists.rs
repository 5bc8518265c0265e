//! Does the same to a list of each kind and to a plain row of numbers, whose order they must have. Two bytes
//! are one step: what, and to which block.
//!
//! Run with `RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Cunsafe-allow-abi-mismatch=sanitizer cargo fuzz run lists`.

#![no_main]

use std::collections::HashMap;

use arcwell_arc::door::AnyList;
use arcwell_arc::{End, ListKind};
use libfuzzer_sys::fuzz_target;

const BLOCKS: u32 = 256;
const BYTES: u64 = 10;

/// A list, and the places of its blocks, as their headers would know them.
struct Listed {
    list: AnyList,
    places: HashMap<u32, u64>,
}

impl Listed {
    fn new(kind: ListKind) -> Listed {
        Listed { list: AnyList::new(kind, BLOCKS), places: HashMap::new() }
    }

    fn remove(&mut self, number: u32) {
        let place = self.places.remove(&number).expect("it is there");
        self.list.remove(number, place, BYTES);
    }

    fn insert(&mut self, number: u32) {
        let before = self.places.insert(number, self.list.insert(number, BYTES));
        assert_eq!(before, None);
    }

    /// Takes the oldest `want` off, but for those that are held. Returns whom it met and took.
    fn evict(&mut self, want: usize, is_held: impl Fn(u32) -> bool) -> Vec<u32> {
        let Listed { list, places } = self;
        let mut taken = Vec::new();
        list.pass(want, &mut |number, place| {
            assert_eq!(places.get(&number), Some(&place));
            if is_held(number) {
                return (0, false);
            }
            places.remove(&number);
            list.remove(number, place, BYTES);
            taken.push(number);
            (BYTES, taken.len() >= want)
        });
        taken
    }

    fn tidy(&mut self, is_busy: impl Fn(u32) -> bool) {
        let Listed { list, places } = self;
        list.tidy(&mut |number, from, to| {
            let is_moved = !is_busy(number) && places.get(&number) == Some(&from);
            is_moved && places.insert(number, to).is_some()
        });
    }

    fn order(&self, from: End, want: usize) -> Vec<u32> {
        let seen = self.list.look(from, want);
        assert!(seen.iter().all(|(number, place)| self.places[number] == *place));
        seen.into_iter().map(|(number, _)| number).collect()
    }
}

fuzz_target!(|bytes: &[u8]| {
    let kinds = [ListKind::Single, ListKind::Multilist, ListKind::Pages];
    let mut lists = kinds.map(Listed::new);
    let mut plain: Vec<u32> = Vec::new();
    for step in bytes.chunks_exact(2) {
        let (number, divisor) = (u32::from(step[1]), u32::from(step[0] >> 3) + 2);
        match step[0] % 8 {
            // A block comes, or moves to the head.
            0..4 => {
                let was_there = plain.contains(&number);
                plain.retain(|other| *other != number);
                plain.push(number);
                for listed in &mut lists {
                    if was_there {
                        listed.remove(number);
                    }
                    listed.insert(number);
                }
            }
            4 => {
                if plain.contains(&number) {
                    plain.retain(|other| *other != number);
                    lists.iter_mut().for_each(|listed| listed.remove(number));
                }
            }
            5 => {
                // A list may take fewer than it was asked for, but none before an older one.
                let held = |number: u32| number.is_multiple_of(divisor);
                let want = step[1] as usize % 12 + 1;
                let oldest: Vec<u32> =
                    plain.iter().copied().filter(|number| !held(*number)).take(want).collect();
                let taken = lists.each_mut().map(|listed| listed.evict(want, held));
                let fewest = taken.iter().map(Vec::len).min().unwrap_or(0);
                assert!(fewest > 0 || oldest.is_empty(), "nothing was taken of {oldest:?}");
                for (taken, listed) in taken.iter().zip(&mut lists) {
                    assert_eq!(taken[..], oldest[..taken.len()]);
                    oldest[taken.len()..].iter().for_each(|number| listed.remove(*number));
                }
                plain.retain(|number| !oldest.contains(number));
            }
            6 => lists.iter_mut().for_each(|listed| listed.tidy(|number| number.is_multiple_of(divisor))),
            _ => {
                let want = step[1] as usize;
                for listed in &lists {
                    let tail: Vec<u32> = plain.iter().copied().take(want).collect();
                    assert_eq!(listed.order(End::Tail, want), tail);
                    let head: Vec<u32> = plain.iter().rev().copied().take(want).collect();
                    assert_eq!(listed.order(End::Head, want), head);
                }
            }
        }
    }
    for listed in &lists {
        listed.list.validate();
        assert_eq!(listed.order(End::Tail, usize::MAX), plain);
        let (len, bytes) = listed.list.sums();
        assert_eq!((len, bytes.unwrap_or(len as u64 * BYTES)), (plain.len(), plain.len() as u64 * BYTES));
    }
});
