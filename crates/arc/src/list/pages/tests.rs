//! What a list of pages promises, beside what all lists do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;

use super::*;

/// A list with the place of each block, as headers would know it.
struct Bench {
    list: Pages,
    places: HashMap<u32, u64>,
}

impl Bench {
    fn new(slots: u64) -> Bench {
        Bench { list: Pages::reserve(10_000, slots).unwrap(), places: HashMap::new() }
    }

    fn add(&mut self, block: u32) {
        self.places.insert(block, self.list.insert(0, block, 10));
    }

    fn take(&mut self, block: u32) {
        self.list.remove(0, self.places.remove(&block).unwrap(), 10);
    }

    fn tidy(&mut self) {
        let Bench { list, places } = self;
        list.tidy(&mut |listed, place| places.insert(listed.number, place) == Some(listed.place));
    }

    fn order(&self, from: End) -> Vec<u32> {
        let mut seen = Sighting::new();
        self.list.look(0, from, usize::MAX, &mut seen);
        assert!(seen.iter().all(|listed| self.places[&listed.number] == listed.place));
        seen.iter().map(|listed| listed.number).collect()
    }
}

#[test]
fn blocks_stand_in_the_order_in_which_they_came_or_moved() {
    let mut bench = Bench::new(8);
    (0..100).for_each(|block| bench.add(block));
    (0..100).step_by(3).for_each(|block| bench.take(block));
    (0..100).step_by(9).for_each(|block| bench.add(block));
    let left: Vec<u32> = (0..100).filter(|block| block % 3 != 0).chain((0..100).step_by(9)).collect();
    assert_eq!(bench.order(End::Tail), left);
    assert_eq!(bench.order(End::Head), left.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!((bench.list.len(), bench.list.bytes()), (left.len(), None));
}

#[test]
fn a_pass_takes_the_oldest_and_what_it_may_not_take_stays_the_oldest() {
    let mut bench = Bench::new(8);
    (0..50).for_each(|block| bench.add(block));
    for expected in [0, 2, 4, 6, 8, 10] {
        let mut taken = None;
        let freed = bench.list.pass(0, 1, &mut |listed: Listed| {
            if listed.number % 2 == 1 {
                return Passed::Freed(0);
            }
            bench.list.remove(0, listed.place, 10);
            taken = Some(listed.number);
            Passed::Enough(10)
        });
        bench.places.remove(&taken.unwrap());
        assert_eq!((freed, taken), (10, Some(expected)));
    }
    assert_eq!(bench.order(End::Tail)[..6], [1, 3, 5, 7, 9, 11]);
}

#[test]
fn a_pass_that_only_moves_blocks_to_the_head_comes_to_an_end() {
    let list = Pages::reserve(1000, 8).unwrap();
    (0..100).for_each(|block| _ = list.insert(0, block, 10));
    let mut met = 0;
    let freed = list.pass(0, 1, &mut |listed: Listed| {
        list.remove(0, listed.place, 10);
        list.insert(0, listed.number, 10);
        met += 1;
        Passed::Freed(0)
    });
    // The last of them may meet those that moved into the page at the head.
    assert_eq!((freed, list.len()), (0, 100));
    assert!((100..=108).contains(&met), "{met}");
}

#[test]
fn a_list_of_few_blocks_has_few_pages_however_often_they_move() {
    let mut bench = Bench::new(8);
    (0..1000).for_each(|block| bench.add(block));
    for round in 0..200 {
        // Seven of eight move, never the same eighth of a page alone.
        for block in (0..1000).filter(|block| block % 8 != 0 && (block + round) % 3 != 0) {
            bench.take(block);
            bench.add(block);
            bench.tidy();
        }
    }
    let pages = bench.list.filled.load(Ordering::Relaxed);
    assert!(pages <= 16 + 2 * 1000 / 8 + 8, "{pages} pages");
    let still: Vec<u32> = bench.order(End::Tail).into_iter().filter(|block| block % 8 == 0).collect();
    assert!(still.is_sorted() && still.len() == 125, "those that never moved keep their order");
    assert_eq!(bench.order(End::Tail).len(), 1000);
}

#[test]
fn without_tidying_pages_would_be_as_many_as_blocks() {
    let mut bench = Bench::new(8);
    (0..1000).for_each(|block| bench.add(block));
    (0..1000).filter(|block| block % 8 != 0).for_each(|block| {
        bench.take(block);
        bench.add(block);
    });
    (0..1000).filter(|block| block % 8 != 0 && block % 64 != 1).for_each(|block| {
        bench.take(block);
        bench.add(block);
    });
    assert!(bench.list.filled.load(Ordering::Relaxed) > 240);
}

/// A block whose header is busy stays where it was: then two pages stand at one place of the order.
#[test]
fn pages_that_were_put_together_in_part_go_when_they_are_empty() {
    let mut bench = Bench::new(8);
    (0..1000).for_each(|block| bench.add(block));
    (0..1000).filter(|block| block % 8 != 0).for_each(|block| bench.take(block));
    for _ in 0..200 {
        let Bench { list, places } = &mut bench;
        list.tidy(&mut |listed, place| {
            let is_busy = listed.number % 16 == 0;
            !is_busy && places.insert(listed.number, place) == Some(listed.place)
        });
    }
    bench.list.validate().unwrap();
    (0..1000).filter(|block| block % 8 == 0).for_each(|block| bench.take(block));
    bench.list.validate().unwrap();
    assert_eq!(bench.list.filled.load(Ordering::Relaxed), 1, "the head is left");
}

/// Walks on by `limit` blocks a time, with something done in between.
fn walk(bench: &mut Bench, from: End, limit: usize, mut between: impl FnMut(&mut Bench)) -> Vec<u32> {
    let (mut stand, mut all) = (Stand::default(), Vec::new());
    loop {
        let mut seen = Sighting::new();
        let is_more = bench.list.go_on(from, &mut stand, limit, &mut seen);
        assert!(seen.len() <= limit && all.len() < 100_000);
        all.extend(seen.iter().map(|listed| listed.number));
        if !is_more {
            return all;
        }
        between(bench);
    }
}

#[test]
fn a_walk_goes_on_behind_pages_that_have_gone() {
    for limit in [1, 5, 8, 50] {
        let mut bench = Bench::new(8);
        (0..2000).for_each(|block| bench.add(block));
        let (mut next, mut came) = (0, 2000);
        let met = walk(&mut bench, End::Tail, limit, |bench| {
            // Whole pages leave and are used again at the head, some before the walk comes to them.
            for block in next..next + 24 {
                if block < 2000 && block % 100 < 60 {
                    bench.take(block);
                    bench.add(came);
                    came += 1;
                }
            }
            next += 24;
        });
        assert!(met.is_sorted() && met.windows(2).all(|pair| pair[0] < pair[1]), "{met:?}");
        let still = (0..2000).filter(|block| block % 100 >= 60);
        assert!(still.clone().all(|block| met.contains(&block)), "by {limit}");
        assert!(met.iter().all(|&block| block < 2008), "what came into later pages is not met");
        bench.list.validate().unwrap();
    }
}

#[test]
fn a_walk_meets_what_was_put_together_at_most_once_from_the_tail_and_comes_to_its_end() {
    for from in [End::Tail, End::Head] {
        let mut bench = Bench::new(8);
        (0..4000).for_each(|block| bench.add(block));
        (0..4000).filter(|block| block % 7 != 0).for_each(|block| bench.take(block));
        let met = walk(&mut bench, from, 3, Bench::tidy);
        let mut once: Vec<u32> = met.clone();
        once.sort_unstable();
        once.dedup();
        let all = 4000usize.div_ceil(7);
        match from {
            End::Tail => assert!(once == met && met.len() > all / 2, "{} of {all}", met.len()),
            End::Head => assert!(once.len() == all && met.len() < 2 * all, "{} of {all}", met.len()),
        }
        // When nothing moves any more, all are met.
        assert_eq!(walk(&mut bench, from, 7, |_| {}).len(), all);
    }
}

#[test]
fn many_places_that_were_left_are_passed_in_steps() {
    let mut bench = Bench::new(8);
    (0..8000).for_each(|block| bench.add(block));
    // A page stays at the tail, so that what is gone behind it leaves places: fewer than half of all.
    (8..3600).for_each(|block| bench.take(block));
    let (mut stand, mut looks, mut met) = (Stand::default(), 0, 0);
    let mut seen = Sighting::new();
    while bench.list.go_on(End::Tail, &mut stand, 64, &mut seen) {
        looks += 1;
        met += seen.len();
        seen.clear();
    }
    assert_eq!(met, 8 + 8000 - 3600);
    // One a page, and one for each 64 places that were left.
    let pages = 1 + (8000 - 3600) / 8;
    assert!((pages..pages + 10).contains(&looks) && looks > pages + 3, "{looks} looks at {pages} pages");
}
