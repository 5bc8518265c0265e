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
        self.list.pass(0, want as usize, &mut |listed| {
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
    let threads = programs.map(|program| {
        let listed = listed.clone();
        thread::spawn(move || program(&listed))
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    listed.list.validate().unwrap();
    let left = listed.places.iter().filter(|place| place.load(Ordering::SeqCst) != 0).count();
    assert_eq!(listed.list.len(), left);
    (0..BLOCKS).for_each(|number| _ = listed.remove(number));
    listed.list.validate().unwrap();
    assert_eq!((listed.list.len(), listed.list.bytes()), (0, 0));
}

#[test]
fn pages_are_claimed_put_back_and_used_again_without_losing_a_block() {
    check(emptied, &[Fault::PutBackUnchecked]);
}
