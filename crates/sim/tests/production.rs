//! The production policy against the paper's: on every trace and every size of the table of known hits.

mod given;

use std::collections::BTreeSet;

use arcwell_arc::ListKind;
use arcwell_sim::policy::{self, Policy, Rules, Setup};
use arcwell_sim::replay::replay;
use arcwell_sim::trace::{Trace, Unit};

/// Smaller caches are nobody's: there one block is a point of hit ratio.
const SMALLEST: u64 = 75;

/// What a policy gains over the textbook's ARC, in percentage points of hit ratio.
struct Gain {
    cell: String,
    points: f64,
}

/// The gains of a policy on all the cells of the table; none where there are no traces.
fn gains(build: impl Fn(&Setup, &Trace) -> Box<dyn Policy>) -> Vec<Gain> {
    let Some((folder, rows)) = given::table() else { return Vec::new() };
    let cells: Vec<_> = rows.into_iter().filter(|row| row.policy == "ARC" && row.size >= SMALLEST).collect();
    let names: BTreeSet<&str> = cells.iter().map(|row| row.trace.as_str()).collect();
    let mut gains = Vec::new();
    for name in names {
        let Some(trace) = given::load(&folder, name) else { continue };
        for row in cells.iter().filter(|row| row.trace == name) {
            let mut policy = build(&Setup::blocks(row.size), &trace);
            let tally = replay(&mut *policy, &trace, Unit::Blocks, |_| ());
            policy.validate().unwrap_or_else(|broken| panic!("{name} at {}: {broken:?}", row.size));
            assert_eq!(tally.requests, row.requests, "requests of {name}");
            let points = 100.0 * (tally.hits as f64 - row.hits as f64) / row.requests as f64;
            gains.push(Gain { cell: format!("{name}@{}", row.size), points });
        }
    }
    gains
}

/// The mean gain and the worst. Prints them, and every cell.
fn summary(title: &str, gains: &[Gain]) -> (f64, f64) {
    let cells: Vec<String> = gains.iter().map(|gain| format!("{} {:+.2}", gain.cell, gain.points)).collect();
    let mean = gains.iter().map(|gain| gain.points).sum::<f64>() / gains.len().max(1) as f64;
    let worst = gains.iter().map(|gain| gain.points).fold(0.0, f64::min);
    println!("{title}: {} cells, mean {mean:+.3}, worst {worst:+.3}: {}", cells.len(), cells.join(", "));
    (mean, worst)
}

/// The production policy with lists of a kind.
fn arcwell(lists: ListKind) -> impl Fn(&Setup, &Trace) -> Box<dyn Policy> {
    let row = policy::find("arcwell").expect("the production policy");
    move |setup, trace| (row.build)(&Setup { lists, ..*setup }, trace)
}

#[test]
fn single_lists_are_as_good_as_the_paper() {
    let (_, worst) = summary("arcwell, single", &gains(arcwell(ListKind::Single)));
    assert!(worst >= -0.3, "{worst:+.3} points");
}

#[test]
fn approximate_lists_cost_at_most_a_point() {
    let (_, worst) = summary("arcwell, multilist", &gains(arcwell(ListKind::Multilist)));
    assert!(worst >= -1.0, "{worst:+.3} points");
}

/// The control: OpenZFS's rules are told from the paper's by the same means.
#[test]
fn the_rules_of_openzfs_cost_more_than_is_allowed_here() {
    let gains = gains(|setup, trace| policy::openzfs(setup, trace, Rules::default()));
    let (mean, worst) = summary("openzfs", &gains);
    assert!(gains.is_empty() || mean < -0.3 && worst < -1.0, "{mean:+.3} points, worst {worst:+.3}");
}
