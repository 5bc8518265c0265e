//! What is true of every policy, on loads that chance makes: of one size, and of many.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;

use arcwell_sim::policy::{self, POLICIES, Policy, Row, Setup};
use arcwell_sim::replay::{Tally, replay};
use arcwell_sim::trace::{Request, Trace, Unit};
use proptest::prelude::*;

fn trace(requests: impl IntoIterator<Item = Request>) -> Trace {
    Trace::of("test", requests).unwrap()
}

fn of_blocks(keys: impl IntoIterator<Item = u64>) -> Trace {
    trace(keys.into_iter().map(Request::of))
}

fn build(name: &str, capacity: u64, trace: &Trace) -> Box<dyn Policy> {
    (policy::find(name).unwrap().build)(&Setup::blocks(capacity), trace)
}

fn run(row: &Row, capacity: u64, trace: &Trace) -> Tally {
    replay(&mut *(row.build)(&Setup::blocks(capacity), trace), trace, Unit::Blocks, |_| ())
}

fn hits(name: &str, capacity: u64, trace: &Trace) -> u64 {
    run(policy::find(name).unwrap(), capacity, trace).hits
}

/// Keys of a load with a hot few, a warm many, and strangers.
fn keys(most: usize) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![0..6_u64, 0..40_u64, 0..300_u64], 1..most)
}

/// A load whose blocks have sizes, and sometimes come back with another.
fn sized() -> impl Strategy<Value = Vec<Request>> {
    let size = |key: u64| prop_oneof![4 => Just(1 + (key * 7 % 20) as u32), 1 => 1..40_u32];
    let key = prop_oneof![0..6_u64, 0..40_u64, 0..300_u64];
    let request = key.prop_flat_map(move |key| size(key).prop_map(move |size| Request::of(key).sized(size)));
    prop::collection::vec(request, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_rule_holds_after_every_request_of_any_size(requests in sized(), capacity in 0..200_u64) {
        let trace = trace(requests);
        for row in POLICIES {
            let mut policy = (row.build)(&Setup::bytes(capacity), &trace);
            let mut could_be_here = HashSet::new();
            for (number, access) in trace.accesses(Unit::Bytes).enumerate() {
                let hit = policy.request(access);
                let broken = policy.validate();
                prop_assert!(broken.is_ok(), "{} after request {number}: {broken:?}", row.name);
                prop_assert!(!hit || could_be_here.contains(&access.block), "{} hits {number}", row.name);
                if u64::from(access.size) <= capacity {
                    could_be_here.insert(access.block);
                } else {
                    could_be_here.remove(&access.block);
                }
            }
        }
    }

    #[test]
    fn nobody_is_better_than_opt_and_opt_is_better_if_it_may_let_pass(
        keys in keys(400),
        capacity in 1..60_u64,
    ) {
        let trace = of_blocks(keys);
        let (opt, bypass) = (hits("opt", capacity, &trace), hits("opt-bypass", capacity, &trace));
        prop_assert!(bypass >= opt);
        for row in POLICIES.iter().filter(|row| row.name != "opt-bypass") {
            let hits = run(row, capacity, &trace).hits;
            prop_assert!(hits <= opt, "{} has {hits} hits and OPT {opt}", row.name);
        }
    }

    #[test]
    fn more_room_is_never_worse_for_the_stack_policies(keys in keys(400), capacity in 0..60_u64) {
        let trace = of_blocks(keys);
        for name in ["lru", "opt", "opt-bypass"] {
            let (less, more) = (hits(name, capacity, &trace), hits(name, capacity + 1, &trace));
            prop_assert!(less <= more, "{name}: {less} hits, with one block more {more}");
        }
    }

    #[test]
    fn where_all_fits_every_return_is_a_hit(keys in keys(300)) {
        let trace = of_blocks(keys);
        let unique = u64::from(trace.unique());
        for row in POLICIES {
            // The production policy admits nothing that is larger than half of the cache.
            let hits = run(row, unique.max(2), &trace).hits;
            prop_assert_eq!(hits, trace.requests() - unique, "{}", row.name);
        }
    }

    #[test]
    fn segmap_is_lru_unless_it_frees_behind(keys in keys(400), capacity in 1..60_u64) {
        let trace = of_blocks(keys);
        prop_assert_eq!(hits("segmap", capacity, &trace), hits("lru", capacity, &trace));
    }
}

#[test]
fn nothing_is_kept_where_there_is_no_room() {
    let trace = of_blocks([1, 1, 2, 1]);
    for row in POLICIES {
        assert_eq!(run(row, 0, &trace).hits, 0, "{}", row.name);
    }
}

#[test]
fn what_can_never_fit_is_never_admitted_and_evicts_nobody() {
    let trace = trace([(1, 5), (2, 50), (1, 5), (2, 50)].map(|(key, size)| Request::of(key).sized(size)));
    for row in POLICIES {
        let mut policy = (row.build)(&Setup::bytes(20), &trace);
        let hits: Vec<bool> = trace.accesses(Unit::Bytes).map(|access| policy.request(access)).collect();
        assert_eq!(hits, [false, false, true, false], "{}", row.name);
    }
}

#[test]
fn a_hit_that_outgrows_the_cache_is_the_last_one() {
    let trace = trace([5, 50, 5, 5].map(|size| Request::of(1).sized(size)));
    for row in POLICIES {
        let mut policy = (row.build)(&Setup::bytes(20), &trace);
        let hits: Vec<bool> = trace.accesses(Unit::Bytes).map(|access| policy.request(access)).collect();
        assert_eq!(hits, [false, true, false, true], "{}", row.name);
    }
}

#[test]
fn freeing_behind_a_scan_keeps_what_is_in_use() {
    let working_set = || (0..50).chain(0..50);
    let trace = of_blocks(working_set().chain(1000..3000).chain(0..50));
    let kept = |name: &str| {
        let mut policy = build(name, 100, &trace);
        let hits = trace.accesses(Unit::Blocks).map(|access| policy.request(access));
        hits.skip(trace.len() - 50).filter(|hit| *hit).count()
    };
    assert_eq!(kept("segmap"), 0);
    assert_eq!(kept("segmap-freebehind"), 50);
}

#[test]
fn clock_spares_what_was_asked_for_since_the_hand_passed() {
    let trace = of_blocks([1, 2, 3, 1, 4, 1, 2, 3, 1]);
    let mut policy = build("clock", 3, &trace);
    let hits: Vec<bool> = trace.accesses(Unit::Blocks).map(|access| policy.request(access)).collect();
    // 4 finds 1 marked and takes 2; 2 takes 3; 3 takes 4, after which 1 has had its second chance.
    assert_eq!(hits, [false, false, false, true, false, true, false, false, true]);
}

#[test]
fn names_are_found_in_either_spelling_and_are_nobody_elses() {
    let mut seen = HashSet::new();
    for row in POLICIES {
        assert!(std::ptr::eq(policy::find(row.title).unwrap(), row), "{}", row.title);
        assert!(std::ptr::eq(policy::find(&row.name.to_uppercase()).unwrap(), row), "{}", row.name);
        assert!(seen.insert(row.name.to_lowercase()));
    }
    assert!(policy::find("mru").is_none());
}
