//! Model of the list of pages: no block is lost, offered to two at once, or left in a page nobody knows.

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

use super::run::check;
use crate::list::{List, Pages, Passed};
use crate::sync::Fault;

const BLOCKS: usize = 20;

/// A list, and where each block lies, as its header would say: zero for nowhere. Who swaps a zero in has the
/// block, and takes it off; that stands for the header's lock.
struct Listed {
    list: Pages,
    places: Vec<AtomicU64>,
}

impl Listed {
    fn insert(&self, number: usize) {
        let place = self.list.insert(0, number as u32, 10);
        assert_eq!(self.places[number].swap(place, Ordering::SeqCst), 0, "{number} is there twice");
    }

    fn remove(&self, number: usize) -> bool {
        let place = self.places[number].swap(0, Ordering::SeqCst);
        if place != 0 {
            self.list.remove(0, place, 10);
        }
        place != 0
    }

    /// Takes up to `want` blocks off the tail, but for those whose number divides by `spared`.
    fn evict(&self, want: u64, spared: u32) {
        let mut missing = want;
        self.list.pass(0, want as usize, &mut |listed: crate::list::Listed| {
            let number = listed.number as usize;
            let is_there = self.places[number].load(Ordering::SeqCst) == listed.place;
            if !is_there || listed.number.is_multiple_of(spared) || !self.remove(number) {
                return Passed::Freed(0);
            }
            missing -= 1;
            if missing == 0 { Passed::Enough(10) } else { Passed::Freed(10) }
        });
    }
}

fn moved(listed: &Listed, block: crate::list::Listed, place: u64) -> bool {
    let at = &listed.places[block.number as usize];
    at.compare_exchange(block.place, place, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// Sparse pages are put together while blocks leave them, are evicted from them, and come.
fn joined() {
    let listed = Arc::new(Listed {
        list: Pages::reserve(BLOCKS as u32, 8).unwrap(),
        places: (0..2 * BLOCKS).map(|_| AtomicU64::new(0)).collect(),
    });
    (0..2 * BLOCKS).for_each(|number| listed.insert(number));
    (0..2 * BLOCKS).filter(|number| number % 5 > 0).for_each(|number| _ = listed.remove(number));
    let programs: [fn(&Listed); 4] = [
        |listed| (0..3).for_each(|_| listed.list.tidy(&mut |block, place| moved(listed, block, place))),
        |listed| (0..BLOCKS).for_each(|number| _ = listed.remove(number)),
        |listed| listed.evict(2, 2),
        |listed| (1..4).for_each(|number| listed.insert(number + BLOCKS)),
    ];
    together(&listed, &programs);
    finish(&listed);
}

fn emptied() {
    let listed = Listed {
        list: Pages::reserve(BLOCKS as u32, 8).unwrap(),
        places: (0..BLOCKS).map(|_| AtomicU64::new(0)).collect(),
    };
    let listed = Arc::new(listed);
    (0..9).for_each(|number| listed.insert(number));
    let programs: [fn(&Listed); 4] = [
        |listed| listed.evict(2, 3),
        |listed| (0..9).for_each(|number| _ = listed.remove(number)),
        |listed| {
            (9..BLOCKS).for_each(|number| listed.insert(number));
        },
        |listed| listed.evict(3, 4),
    ];
    together(&listed, &programs);
    finish(&listed);
}

fn together(listed: &Arc<Listed>, programs: &[fn(&Listed)]) {
    let spawn = |program: &fn(&Listed)| {
        let (program, listed) = (*program, listed.clone());
        thread::spawn(move || program(&listed))
    };
    let threads: Vec<_> = programs.iter().map(spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Everything that is there is on the list, and can be taken off.
fn finish(listed: &Listed) {
    listed.list.validate().unwrap();
    let left = listed.places.iter().filter(|place| place.load(Ordering::SeqCst) != 0).count();
    assert_eq!(listed.list.len(), left);
    (0..listed.places.len()).for_each(|number| _ = listed.remove(number));
    listed.list.validate().unwrap();
    assert_eq!(listed.list.len(), 0);
}

#[test]
fn pages_are_put_together_without_losing_a_block() {
    check(joined, &[]);
}

#[test]
fn pages_are_claimed_put_back_and_used_again_without_losing_a_block() {
    check(emptied, &[Fault::PutBackUnchecked]);
}
