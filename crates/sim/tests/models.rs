//! The policies against models that are as plain as can be: lists that are searched, and a future that
//! is tried out in every way.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;

use arcwell_sim::policy::{self, Setup};
use arcwell_sim::trace::{Access, Request, Trace, Unit};
use proptest::prelude::*;

/// LRU or FIFO over sizes: block and size, oldest first.
struct Queue {
    queue: VecDeque<(u32, u64)>,
    capacity: u64,
    is_lru: bool,
}

impl Queue {
    fn request(&mut self, block: u32, size: u64) -> bool {
        let place = self.queue.iter().position(|&(queued, _)| queued == block);
        match place {
            Some(place) if self.is_lru || size > self.capacity => drop(self.queue.remove(place)),
            Some(place) => self.queue[place].1 = size,
            None => {}
        }
        if size <= self.capacity && (self.is_lru || place.is_none()) {
            self.queue.push_back((block, size));
        }
        while self.queue.iter().map(|(_, size)| size).sum::<u64>() > self.capacity {
            self.queue.pop_front();
        }
        place.is_some()
    }
}

/// Figure 4 of the ARC paper, line by line, in blocks. Lists have their LRU page in front.
#[derive(Default)]
struct Figure4 {
    t1: VecDeque<u32>,
    t2: VecDeque<u32>,
    b1: VecDeque<u32>,
    b2: VecDeque<u32>,
    c: usize,
    p: f64,
}

fn take(list: &mut VecDeque<u32>, block: u32) -> bool {
    let place = list.iter().position(|&listed| listed == block);
    place.is_some_and(|place| list.remove(place).is_some())
}

impl Figure4 {
    fn replace(&mut self, is_in_b2: bool) {
        let t1 = self.t1.len() as f64;
        if t1 >= 1.0 && ((is_in_b2 && t1 == self.p) || t1 > self.p) {
            self.b1.extend(self.t1.pop_front());
        } else {
            self.b2.extend(self.t2.pop_front());
        }
    }

    fn request(&mut self, block: u32) -> bool {
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if take(&mut self.t1, block) || take(&mut self.t2, block) {
            self.t2.push_back(block);
            return true;
        }
        if self.b1.contains(&block) {
            self.p = (self.p + if b1 >= b2 { 1.0 } else { b2 / b1 }).min(self.c as f64);
            self.replace(false);
            take(&mut self.b1, block);
            self.t2.push_back(block);
        } else if self.b2.contains(&block) {
            self.p = (self.p - if b2 >= b1 { 1.0 } else { b1 / b2 }).max(0.0);
            self.replace(true);
            take(&mut self.b2, block);
            self.t2.push_back(block);
        } else {
            let l1 = self.t1.len() + self.b1.len();
            let all = l1 + self.t2.len() + self.b2.len();
            if l1 == self.c {
                if self.t1.len() < self.c {
                    self.b1.pop_front();
                    self.replace(false);
                } else {
                    self.t1.pop_front();
                }
            } else if all >= self.c {
                if all == 2 * self.c {
                    self.b2.pop_front();
                }
                self.replace(false);
            }
            self.t1.push_back(block);
        }
        false
    }
}

/// The most hits that any choices can bring, in blocks: all of them are tried.
fn best(requests: &[u32], cache: &[u32], capacity: usize, is_forced: bool) -> u64 {
    let Some((&block, rest)) = requests.split_first() else { return 0 };
    if cache.contains(&block) {
        return 1 + best(rest, cache, capacity, is_forced);
    }
    let with = |without: Option<usize>| {
        let mut cache = cache.to_vec();
        without.map(|place| cache.swap_remove(place));
        cache.push(block);
        best(rest, &cache, capacity, is_forced)
    };
    let passed = if is_forced { 0 } else { best(rest, cache, capacity, is_forced) };
    if cache.len() < capacity {
        return passed.max(with(None));
    }
    (0..cache.len()).map(|place| with(Some(place))).max().unwrap_or(0).max(passed)
}

/// Whether each request is a hit under the policy of that name.
fn hits(name: &str, capacity: u64, trace: &Trace) -> Vec<bool> {
    let mut policy = (policy::find(name).unwrap().build)(&Setup::bytes(capacity), trace);
    trace.accesses(Unit::Bytes).map(|access| policy.request(access)).collect()
}

fn modelled(trace: &Trace, mut model: impl FnMut(Access) -> bool) -> Vec<bool> {
    trace.accesses(Unit::Bytes).map(&mut model).collect()
}

fn key() -> impl Strategy<Value = u64> {
    prop_oneof![0..6_u64, 0..40_u64, 0..300_u64]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn lru_and_fifo_are_queues(
        load in prop::collection::vec((key(), 1..30_u32), 1..400),
        capacity in 0..300_u64,
    ) {
        let trace = Trace::of("test", load.iter().map(|&(key, size)| Request::of(key).sized(size))).unwrap();
        for (name, is_lru) in [("lru", true), ("fifo", false)] {
            let mut model = Queue { queue: VecDeque::new(), capacity, is_lru };
            let expected = modelled(&trace, |access| model.request(access.block, access.size.into()));
            prop_assert_eq!(hits(name, capacity, &trace), expected, "{}", name);
        }
    }

    #[test]
    fn arc_is_figure_4(keys in prop::collection::vec(0..24_u64, 1..1500), capacity in 1..16_usize) {
        let trace = Trace::of("test", keys.iter().map(|&key| Request::of(key))).unwrap();
        let mut model = Figure4 { c: capacity, ..Figure4::default() };
        let expected = modelled(&trace, |access| model.request(access.block));
        prop_assert_eq!(hits("arc", capacity as u64, &trace), expected);
    }

    #[test]
    fn opt_is_the_best_of_all_choices(
        keys in prop::collection::vec(0..6_u64, 1..13),
        capacity in 1..4_usize,
    ) {
        let trace = Trace::of("test", keys.iter().map(|&key| Request::of(key))).unwrap();
        let blocks: Vec<u32> = trace.accesses(Unit::Blocks).map(|access| access.block).collect();
        for (name, is_forced) in [("opt", true), ("opt-bypass", false)] {
            let hits = hits(name, capacity as u64, &trace).into_iter().filter(|hit| *hit).count() as u64;
            prop_assert_eq!(hits, best(&blocks, &[], capacity, is_forced), "{}", name);
        }
    }
}
