//! Three faults that the ARC of OpenZFS had in the field, as loads on which they show.
//!
//! Each test asks the same of the production policy, with every kind of lists, and of OpenZFS's rules
//! as they are now; and each has its control: with the old fault brought back, these rules fail it.
//! The reports are issues of the project openzfs/zfs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::Range;

use arcwell_arc::ListKind;
use arcwell_base::Kind;
use arcwell_sim::policy::{self, Fault, Policy, Rules, Setup};
use arcwell_sim::trace::{Access, Request, Trace, Unit};

/// Blocks of the cache: enough for eight sublists.
const C: u64 = 4096;

/// How a cache is made.
type Build = Box<dyn Fn(&Setup, &Trace) -> Box<dyn Policy>>;

/// A load in parts, each of which has hits of its own.
#[derive(Default)]
struct Load {
    parts: Vec<Vec<Request>>,
}

impl Load {
    fn part(mut self, requests: impl IntoIterator<Item = Request>) -> Self {
        self.parts.push(requests.into_iter().collect());
        self
    }

    /// The share of hits in each part.
    fn run(&self, build: &Build) -> Vec<f64> {
        let trace = Trace::of("parts", self.parts.iter().flatten().copied()).unwrap();
        let mut policy = build(&Setup::blocks(C), &trace);
        let mut accesses = trace.accesses(Unit::Blocks);
        let mut hits = |part: &Vec<Request>| {
            let hit = |access: &Access| policy.request(*access);
            accesses.by_ref().take(part.len()).filter(hit).count() as f64 / part.len() as f64
        };
        let shares = self.parts.iter().map(&mut hits).collect();
        policy.validate().unwrap();
        shares
    }

    /// What must hold of the hits holds for all who have not the fault, and not for who has it.
    fn tells(&self, fault: Fault, holds: impl Fn(&[f64]) -> bool) {
        for (name, build) in sound() {
            let hits = self.run(&build);
            assert!(holds(&hits), "{name}: {hits:.3?}");
        }
        let rules = Rules { fault: Some(fault), ..Rules::default() };
        let faulty: Build = Box::new(move |setup, trace| policy::openzfs(setup, trace, rules));
        let hits = self.run(&faulty);
        assert!(!holds(&hits), "{fault:?} is not seen: {hits:.3?}");
    }
}

/// All that have none of the faults.
fn sound() -> Vec<(String, Build)> {
    let with = |name: &'static str, lists: ListKind| -> (String, Build) {
        let row = policy::find(name).unwrap();
        let build = move |setup: &Setup, trace: &Trace| (row.build)(&Setup { lists, ..*setup }, trace);
        (format!("{name}, {lists:?}"), Box::new(build))
    };
    let own =
        ["arcwell", "arcwell-arc"].into_iter().flat_map(|name| ListKind::ALL.map(|lists| with(name, lists)));
    own.chain([with("openzfs", ListKind::Single)]).collect()
}

/// Reads of data, one block after another.
fn data(keys: Range<u64>) -> impl Iterator<Item = Request> + Clone {
    keys.map(Request::of)
}

/// Blocks that nobody asks for again, in the `number`th of many ranges that do not meet.
fn strangers(number: u64, count: u64) -> impl Iterator<Item = Request> + Clone {
    let first = 1_000_000 * number;
    data(first..first + count)
}

/// 10548: the step of adaptation came after a ghost's block had already changed its state, so that no
/// hit in a ghost was ever seen as one, and the targets stayed wrong.
#[test]
fn the_targets_learn_from_hits_in_ghosts() {
    // Each block is asked for twice, with `distance` others between: mru must become as long as that.
    let distance = C * 7 / 10;
    let new = |number: u64| Request::of(1_000_000 + number);
    let twice = |from: u64| (from..from + 10 * C).flat_map(move |n| [new(n + distance), new(n)]);
    // A set in constant use, among strangers: mfu must become as large as the set.
    let in_use = || data(0..C * 6 / 10);
    let among_strangers = |number: u64| {
        let rounds = (0..20).flat_map(move |_| in_use());
        rounds
            .zip(number * 1_000_000..)
            .flat_map(|(request, n)| [request, Request::of(2 * n), Request::of(2 * n + 1)])
    };
    let load = Load::default()
        .part(data(0..C).chain(data(0..C)).chain((0..distance).map(new)))
        .part(twice(0))
        .part(twice(10 * C))
        .part(in_use().chain(in_use()).chain(among_strangers(2)))
        .part(among_strangers(3));
    load.tells(Fault::LateLearning, |hits| hits[2] > 0.45);
    load.tells(Fault::LateLearning, |hits| hits[4] > 0.3);
}

/// 14120: while the cache filled for the first time, the share of mru grew with every block, up to the
/// whole. What was read twice then had no protection from the first scan.
#[test]
fn the_first_fill_does_not_take_from_what_is_used_twice() {
    let load = Load::default().part(data(0..C).chain(data(0..C))).part(strangers(1, C)).part(data(0..C));
    load.tells(Fault::RecencyFill, |hits| hits[2] > 0.4);
}

/// 16521: mru was far over its target and mfu far under, yet mfu went on losing blocks to new ones, as
/// nothing that came in had been a ghost.
#[test]
fn new_blocks_take_from_what_is_over_its_target_alone() {
    let in_use = || data(0..C * 4 / 10);
    let load = Load::default().part(in_use().chain(in_use())).part(strangers(1, 5 * C)).part(in_use());
    load.tells(Fault::LaxTargets, |hits| hits[2] > 0.95);
}

/// The same between kinds: metadata over its share, while only new data comes in.
#[test]
fn new_data_takes_from_metadata_that_is_over_its_share() {
    let metadata = data(0..C).map(|request| Request { kind: Kind::Metadata, ..request });
    let working_set = || strangers(2, C * 6 / 10);
    let load = Load::default()
        .part(metadata.clone().chain(metadata))
        .part(strangers(1, 3 * C))
        .part(working_set())
        .part(working_set());
    load.tells(Fault::LaxTargets, |hits| hits[3] > 0.95);
}
