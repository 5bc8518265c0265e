//! The production policy against the paper's: on every trace and every size of the table of known hits.

mod given;

use std::collections::BTreeSet;

use arcwell_arc::ListKind;
use arcwell_sim::policy::{self, Policy, Rules, Setup};
use arcwell_sim::replay::replay;
use arcwell_sim::trace::{Request, Trace, Unit};

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

/// The mean gain and the worst. Prints them, and every cell, the worst first.
fn summary(title: &str, gains: &[Gain]) -> (f64, f64) {
    let mut ranked: Vec<&Gain> = gains.iter().collect();
    ranked.sort_by(|a, b| a.points.total_cmp(&b.points));
    let cells: Vec<String> = ranked.iter().map(|gain| format!("{} {:+.2}", gain.cell, gain.points)).collect();
    let mean = gains.iter().map(|gain| gain.points).sum::<f64>() / gains.len().max(1) as f64;
    let worst = gains.iter().map(|gain| gain.points).fold(0.0, f64::min);
    println!("{title}: {} cells, mean {mean:+.3}, worst {worst:+.3}: {}", cells.len(), cells.join(", "));
    (mean, worst)
}

/// A row of the production policy with lists of a kind.
fn with(name: &str, lists: ListKind) -> impl Fn(&Setup, &Trace) -> Box<dyn Policy> {
    moving(name, lists, None)
}

/// The same with a threshold below which blocks are not moved.
fn moving(
    name: &str,
    lists: ListKind,
    move_threshold: Option<u64>,
) -> impl Fn(&Setup, &Trace) -> Box<dyn Policy> {
    let row = policy::find(name).expect("a value of arc.policy");
    move |setup, trace| (row.build)(&Setup { lists, move_threshold, ..*setup }, trace)
}

#[test]
fn arc_with_single_lists_is_the_papers() {
    let (_, worst) = summary("arcwell-arc, single", &gains(with("arcwell-arc", ListKind::Single)));
    assert!(worst >= -0.1, "{worst:+.3} points");
}

#[test]
fn arc_with_approximate_lists_costs_at_most_a_point() {
    let (_, worst) = summary("arcwell-arc, multilist", &gains(with("arcwell-arc", ListKind::Multilist)));
    assert!(worst >= -1.0, "{worst:+.3} points");
}

#[test]
fn arc_with_pages_that_always_move_is_the_papers() {
    let (_, worst) =
        summary("arcwell-arc, pages, 0 %", &gains(moving("arcwell-arc", ListKind::Pages, Some(0))));
    assert!(worst >= -0.1, "{worst:+.3} points");
}

#[test]
fn arc_with_pages_that_move_less_costs_little() {
    let (_, worst) = summary("arcwell-arc, pages", &gains(with("arcwell-arc", ListKind::Pages)));
    assert!(worst >= -0.4, "{worst:+.3} points");
}

/// The control: a threshold that is far too high is seen.
#[test]
fn arc_with_pages_that_hardly_move_costs_more_than_is_allowed() {
    let gains = gains(moving("arcwell-arc", ListKind::Pages, Some(90)));
    let (_, worst) = summary("arcwell-arc, pages, 90 %", &gains);
    assert!(gains.is_empty() || worst < -0.4, "{worst:+.3} points");
}

#[test]
fn adaptive_with_single_lists_is_never_much_worse_and_often_better() {
    let gains = gains(with("arcwell", ListKind::Single));
    let (mean, worst) = summary("arcwell, single", &gains);
    assert!(worst >= -0.3, "{worst:+.3} points");
    assert!(gains.is_empty() || mean >= 2.5, "{mean:+.3} points");
}

#[test]
fn adaptive_with_approximate_lists_keeps_most_of_that() {
    let gains = gains(with("arcwell", ListKind::Multilist));
    let (mean, worst) = summary("arcwell, multilist", &gains);
    assert!(worst >= -1.0, "{worst:+.3} points");
    assert!(gains.is_empty() || mean >= 2.0, "{mean:+.3} points");
}

#[test]
fn adaptive_with_pages_is_never_much_worse_and_often_better() {
    let gains = gains(with("arcwell", ListKind::Pages));
    let (mean, worst) = summary("arcwell, pages", &gains);
    assert!(worst >= -0.4, "{worst:+.3} points");
    assert!(gains.is_empty() || mean >= 2.5, "{mean:+.3} points");
}

/// Epochs of training over twice what fits: the paper's rule is the control.
#[test]
fn a_loop_of_twice_the_cache_is_hit_in_part() {
    const BLOCKS: u64 = 10_000;
    let epochs = (0..20 * 2 * BLOCKS).map(|n| Request::of(n % (2 * BLOCKS)));
    let trace = Trace::of("epochs", epochs).expect("it is small");
    for lists in ListKind::ALL {
        let hits = |name: &str| {
            let mut policy = with(name, lists)(&Setup::blocks(BLOCKS), &trace);
            replay(&mut *policy, &trace, Unit::Blocks, |_| ()).hit_ratio()
        };
        let (adaptive, arc) = (hits("arcwell"), hits("arcwell-arc"));
        println!("loop, {lists:?}: {adaptive:.3}, arc {arc:.3}");
        assert!(adaptive >= 0.4, "{lists:?}: {adaptive:.3}");
        assert!(arc < 0.01, "{lists:?}: {arc:.3}");
    }
}

/// The control: OpenZFS's rules are told from the paper's by the same means.
#[test]
fn the_rules_of_openzfs_cost_more_than_is_allowed_here() {
    let gains = gains(|setup, trace| policy::openzfs(setup, trace, Rules::default()));
    let (mean, worst) = summary("openzfs", &gains);
    assert!(gains.is_empty() || mean < -0.3 && worst < -1.0, "{mean:+.3} points, worst {worst:+.3}");
}
