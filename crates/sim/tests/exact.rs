//! The policies against hits that are known: every row of `hits_exact.csv`, one test a trace.
//!
//! Traces and table lie in the folder that `ARCWELL_TRACES` names, else in `../shared/traces`. A folder
//! with other traces needs a table of its own, with the same columns; a trace is then any file whose
//! name is the table's, up to its first dot.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arcwell_sim::policy::{self, Setup};
use arcwell_sim::replay::replay;
use arcwell_sim::trace::{Options, Trace, Unit};

/// What each trace of the table is called as a file, where that is not its own name.
const TRACES: [(&str, &str); 6] = [
    ("OLTP", "OLTP"),
    ("P3", "P3"),
    ("web12", "web12"),
    ("cp_io_lbn", "cloudPhysicsIO.oracleGeneral"),
    ("gli", "gli"),
    ("multi2", "multi2"),
];

/// The policy whose hits depend on a hash function that no paper gives.
const HASHED: &str = "W-TinyLFU";

/// How many percentage points it may be off: on the traces above, and on any other.
const NEAR: f64 = 0.75;
const NEAR_ELSEWHERE: f64 = 5.0;

/// A row of the table.
#[derive(Clone)]
struct Row {
    trace: String,
    requests: u64,
    unique: u32,
    size: u64,
    policy: String,
    hits: u64,
}

/// The folder and its table, if they are there.
fn table() -> Option<(PathBuf, Vec<Row>)> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("ARCWELL_TRACES").map_or(beside, PathBuf::from);
    let Ok(text) = fs::read_to_string(folder.join("hits_exact.csv")) else {
        eprintln!("SKIPPED: no hits_exact.csv in {}; name a folder in ARCWELL_TRACES", folder.display());
        return None;
    };
    let rows: Vec<Row> = text.lines().skip(1).map(row).collect();
    assert!(!rows.is_empty(), "{} has no rows", folder.display());
    Some((folder, rows))
}

fn row(line: &str) -> Row {
    let fields: Vec<&str> = line.split(',').collect();
    let [trace, requests, unique, size, policy, hits] = fields[..] else { panic!("six columns: {line}") };
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|error| panic!("{line}: {error}"));
    Row {
        trace: trace.to_owned(),
        requests: number(requests),
        unique: number(unique) as u32,
        size: number(size),
        policy: policy.to_owned(),
        hits: number(hits),
    }
}

/// The trace in the file whose name is `name` up to a dot.
fn load(folder: &Path, name: &str) -> Option<Trace> {
    let entries = fs::read_dir(folder).expect("the folder can be listed");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let is_it = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let is_named = file.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        is_named && !file.contains("LICENSE")
    };
    let Some(path) = paths.into_iter().find(is_it) else {
        eprintln!("SKIPPED {name}: no such trace in {}", folder.display());
        return None;
    };
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let trace = Trace::read(&path.to_string_lossy(), file, &Options::default());
    Some(trace.unwrap_or_else(|error| panic!("{error}")))
}

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
    let near = match is_known(&row.trace) {
        _ if row.policy != HASHED => 0.0,
        true => NEAR,
        false => NEAR_ELSEWHERE,
    };
    let off = 100.0 * (hits as f64 - row.hits as f64) / row.requests as f64;
    let Row { trace, size, policy, hits: known, .. } = row;
    (off.abs() > near).then(|| format!("{trace} {policy} at {size}: {hits}, known {known}, {off:+.3} points"))
}

fn is_known(name: &str) -> bool {
    TRACES.iter().any(|(known, _)| *known == name)
}

/// Checks every row of one trace.
fn check(name: &str, file: &str) {
    let Some((folder, rows)) = table() else { return };
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.trace == name).collect();
    let Some(first) = rows.first() else {
        eprintln!("SKIPPED {name}: not in the table of {}", folder.display());
        return;
    };
    let Some(trace) = load(&folder, file) else { return };
    assert_eq!(trace.unique(), first.unique, "distinct blocks of {name}");
    let complaints: Vec<String> = rows.iter().filter_map(|row| complaint(&trace, row)).collect();
    assert!(complaints.is_empty(), "{} of {} rows:\n{}", complaints.len(), rows.len(), complaints.join("\n"));
}

/// Checks a trace of the table that the project knows by name.
fn check_known(name: &str) {
    let (_, file) = TRACES.into_iter().find(|(known, _)| *known == name).expect("a trace of the list");
    check(name, file);
}

#[test]
fn oltp() {
    check_known("OLTP");
}

#[test]
fn p3() {
    check_known("P3");
}

#[test]
fn web12() {
    check_known("web12");
}

#[test]
fn cloud_physics() {
    check_known("cp_io_lbn");
}

#[test]
fn gli() {
    check_known("gli");
}

#[test]
fn multi2() {
    check_known("multi2");
}

#[test]
fn any_other_trace_of_the_folder() {
    let Some((folder, rows)) = table() else { return };
    let others: BTreeSet<String> =
        rows.into_iter().map(|row| row.trace).filter(|name| !is_known(name)).collect();
    if others.is_empty() {
        eprintln!("SKIPPED: no other traces in the table of {}", folder.display());
    }
    for name in others {
        check(&name, &name);
    }
}

/// The control: these tests see a parameter that is wrong by one block, in every policy.
#[test]
fn a_cache_of_one_block_more_is_noticed() {
    let Some((folder, rows)) = table() else { return };
    let Some(trace) = load(&folder, "multi2") else { return };
    let rows = rows.into_iter().filter(|row| row.trace == "multi2" && row.policy != HASHED);
    let wrong: Vec<Row> = rows.map(|row| Row { size: row.size + 1, ..row }).collect();
    let policies: BTreeSet<&String> = wrong.iter().map(|row| &row.policy).collect();
    let noticed: BTreeSet<&String> =
        wrong.iter().filter(|row| complaint(&trace, row).is_some()).map(|row| &row.policy).collect();
    assert_eq!(noticed, policies);
}
