//! Model of the list of pages: no block is lost, offered to two at once, or left in a page nobody knows.

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

use super::run::check;
use crate::list::{End, List, Pages, Passed, Sighting, Stand};
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

/// Walks from an end, `want` blocks at a time; what was still where it was seen.
fn walk(listed: &Listed, from: End, want: usize) -> Vec<usize> {
    let (mut stand, mut met) = (Stand::default(), Vec::new());
    loop {
        let mut seen = Sighting::new();
        let is_more = listed.list.go_on(from, &mut stand, want, &mut seen);
        for block in seen {
            // As a header would say it, and the pin then hold it to that.
            let number = block.number as usize;
            if listed.places[number].load(Ordering::SeqCst) == block.place {
                met.push(number);
            }
        }
        assert!(met.len() <= 2 * listed.places.len(), "a walk without an end");
        if !is_more {
            return met;
        }
    }
}

fn is_in_order(met: &[usize]) -> bool {
    met.windows(2).all(|pair| pair[0] < pair[1])
}

/// Pages in which a walk may stand become empty, and heads again.
fn walked() {
    let listed = Arc::new(Listed {
        list: Pages::reserve(64, 8).unwrap(),
        places: (0..48).map(|_| AtomicU64::new(0)).collect(),
    });
    (0..16).for_each(|number| listed.insert(number));
    let stays = |met: &[usize]| met.iter().filter(|number| (8..16).contains(*number)).count() == 8;
    let walk_from_tail = move |listed: &Listed| {
        let met = walk(listed, End::Tail, 3);
        assert!(is_in_order(&met), "each once, and none that came to the head since: {met:?}");
        assert!(stays(&met), "what stays is met: {met:?}");
    };
    let walk_from_head = move |listed: &Listed| {
        let mut met = walk(listed, End::Head, 3);
        met.reverse();
        assert!(is_in_order(&met) && stays(&met), "{met:?}");
    };
    let threads = [
        thread::spawn({
            let listed = listed.clone();
            move || walk_from_tail(&listed)
        }),
        thread::spawn({
            let listed = listed.clone();
            move || walk_from_head(&listed)
        }),
        thread::spawn({
            let listed = listed.clone();
            move || {
                (0..8).for_each(|number| _ = listed.remove(number));
                (16..34).for_each(|number| listed.insert(number));
            }
        }),
    ];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    finish(&listed);
}

/// A walk beside eviction, and beside pages that are put together.
fn walked_beside() {
    let listed = Arc::new(Listed {
        list: Pages::reserve(BLOCKS as u32, 8).unwrap(),
        places: (0..2 * BLOCKS).map(|_| AtomicU64::new(0)).collect(),
    });
    (0..2 * BLOCKS).for_each(|number| listed.insert(number));
    (0..2 * BLOCKS).filter(|number| number % 3 > 0).for_each(|number| _ = listed.remove(number));
    let programs: [fn(&Listed); 4] = [
        |listed| (0..3).for_each(|_| listed.list.tidy(&mut |block, place| moved(listed, block, place))),
        |listed| {
            let met = walk(listed, End::Tail, 2);
            assert!(is_in_order(&met), "{met:?}");
        },
        |listed| _ = walk(listed, End::Head, 2),
        |listed| listed.evict(2, 2),
    ];
    together(&listed, &programs);
    finish(&listed);
}

#[test]
fn a_walk_keeps_its_order_while_pages_become_others() {
    check(walked, &[Fault::WalkUnchecked]);
}

#[test]
fn a_walk_beside_eviction_and_joining_meets_nothing_twice_from_the_tail() {
    check(walked_beside, &[]);
}

#[test]
fn pages_are_put_together_without_losing_a_block() {
    check(joined, &[]);
}

#[test]
fn pages_are_claimed_put_back_and_used_again_without_losing_a_block() {
    check(emptied, &[Fault::PutBackUnchecked]);
}
