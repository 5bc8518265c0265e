//! Traces with known hits, for tests: where they lie and what their table says.
//!
//! They lie in the folder that `ARCWELL_TRACES` names, else in `../shared/traces`. A folder with other
//! traces needs a table of its own, with the same columns; a trace is then any file whose name is the
//! table's, up to its first dot.

#![allow(dead_code, reason = "each test needs its own part of this")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arcwell_sim::trace::{Options, Trace};

/// What each trace of the table is called as a file, where that is not its own name.
const FILES: [(&str, &str); 6] = [
    ("OLTP", "OLTP"),
    ("P3", "P3"),
    ("web12", "web12"),
    ("cp_io_lbn", "cloudPhysicsIO.oracleGeneral"),
    ("gli", "gli"),
    ("multi2", "multi2"),
];

/// A row of the table.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) trace: String,
    pub(crate) requests: u64,
    pub(crate) unique: u32,
    /// In blocks.
    pub(crate) size: u64,
    pub(crate) policy: String,
    pub(crate) hits: u64,
}

/// The folder and its table, if they are there.
pub(crate) fn table() -> Option<(PathBuf, Vec<Row>)> {
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

/// Whether the project knows a trace of the table by name.
pub(crate) fn is_known(name: &str) -> bool {
    FILES.iter().any(|(known, _)| *known == name)
}

/// The trace that the table calls `name`, if its file is there.
pub(crate) fn load(folder: &Path, name: &str) -> Option<Trace> {
    let file = FILES.iter().find(|(known, _)| *known == name).map_or(name, |(_, file)| file);
    let entries = fs::read_dir(folder).expect("the folder can be listed");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let is_it = |path: &PathBuf| {
        let found = path.file_name().unwrap_or_default().to_string_lossy();
        let is_named = found.strip_prefix(file).is_some_and(|rest| rest.starts_with('.'));
        is_named && !found.contains("LICENSE")
    };
    let Some(path) = paths.into_iter().find(is_it) else {
        eprintln!("SKIPPED {name}: no such trace in {}", folder.display());
        return None;
    };
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let trace = Trace::read(&path.to_string_lossy(), file, &Options::default());
    Some(trace.unwrap_or_else(|error| panic!("{error}")))
}
