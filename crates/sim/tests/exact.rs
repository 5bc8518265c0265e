//! The policies against hits that are known: every row of `hits_exact.csv`, one test a trace.
//!
//! See `given` for where traces and table lie.

mod given;

use std::collections::BTreeSet;

use arcwell_sim::policy::{self, Setup};
use arcwell_sim::replay::replay;
use arcwell_sim::trace::{Trace, Unit};
use given::Row;

/// The policy whose hits depend on a hash function that no paper gives.
const HASHED: &str = "W-TinyLFU";

/// How many percentage points it may be off: on the traces above, and on any other.
const NEAR: f64 = 0.75;
const NEAR_ELSEWHERE: f64 = 5.0;

/// The hits of a row's policy, in blocks.
fn hits(trace: &Trace, row: &Row) -> u64 {
    let policy = policy::find(&row.policy).unwrap_or_else(|| panic!("a policy called {}", row.policy));
    let mut policy = (policy.build)(&Setup::blocks(row.size), trace);
    let tally = replay(&mut *policy, trace, Unit::Blocks, |_| ());
    policy.validate().unwrap_or_else(|broken| panic!("{} at {}: {broken}", row.policy, row.size));
    assert_eq!(tally.requests, row.requests, "requests of {}", row.trace);
    tally.hits
}

/// What is wrong with the hits of a row.
fn complaint(trace: &Trace, row: &Row) -> Option<String> {
    let hits = hits(trace, row);
    let near = match given::is_known(&row.trace) {
        _ if row.policy != HASHED => 0.0,
        true => NEAR,
        false => NEAR_ELSEWHERE,
    };
    let off = 100.0 * (hits as f64 - row.hits as f64) / row.requests as f64;
    let Row { trace, size, policy, hits: known, .. } = row;
    (off.abs() > near).then(|| format!("{trace} {policy} at {size}: {hits}, known {known}, {off:+.3} points"))
}

/// Checks every row of one trace.
fn check(name: &str) {
    let Some((folder, rows)) = given::table() else { return };
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.trace == name).collect();
    let Some(first) = rows.first() else {
        eprintln!("SKIPPED {name}: not in the table of {}", folder.display());
        return;
    };
    let Some(trace) = given::load(&folder, name) else { return };
    assert_eq!(trace.unique(), first.unique, "distinct blocks of {name}");
    let complaints: Vec<String> = rows.iter().filter_map(|row| complaint(&trace, row)).collect();
    assert!(complaints.is_empty(), "{} of {} rows:\n{}", complaints.len(), rows.len(), complaints.join("\n"));
}

#[test]
fn oltp() {
    check("OLTP");
}

#[test]
fn p3() {
    check("P3");
}

#[test]
fn web12() {
    check("web12");
}

#[test]
fn cloud_physics() {
    check("cp_io_lbn");
}

#[test]
fn gli() {
    check("gli");
}

#[test]
fn multi2() {
    check("multi2");
}

#[test]
fn any_other_trace_of_the_folder() {
    let Some((folder, rows)) = given::table() else { return };
    let others: BTreeSet<String> =
        rows.into_iter().map(|row| row.trace).filter(|name| !given::is_known(name)).collect();
    if others.is_empty() {
        eprintln!("SKIPPED: no other traces in the table of {}", folder.display());
    }
    for name in others {
        check(&name);
    }
}

/// The control: these tests see a parameter that is wrong by one block, in every policy.
#[test]
fn a_cache_of_one_block_more_is_noticed() {
    let Some((folder, rows)) = given::table() else { return };
    let Some(trace) = given::load(&folder, "multi2") else { return };
    let rows = rows.into_iter().filter(|row| row.trace == "multi2" && row.policy != HASHED);
    let wrong: Vec<Row> = rows.map(|row| Row { size: row.size + 1, ..row }).collect();
    let policies: BTreeSet<&String> = wrong.iter().map(|row| &row.policy).collect();
    let noticed: BTreeSet<&String> =
        wrong.iter().filter(|row| complaint(&trace, row).is_some()).map(|row| &row.policy).collect();
    assert_eq!(noticed, policies);
}
