//! Formats of traces, held against traces whose numbers are known, bytes written by hand, what is
//! written and read again, and bytes that are nobody's.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arcwell_sim::trace::{Options, Request, Requests, Trace, Unit};

/// The folder of traces with known answers, if it is there.
fn traces() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("ARCWELL_TRACES").map_or(beside, PathBuf::from);
    if !folder.is_dir() {
        eprintln!("SKIPPED: no traces in {}; name a folder in ARCWELL_TRACES", folder.display());
        return None;
    }
    Some(folder)
}

fn open(path: &Path) -> File {
    File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All requests of a file, its format guessed.
fn requests(path: &Path) -> Vec<Request> {
    let requests = Requests::open(&path.to_string_lossy(), open(path), &Options::default());
    requests.and_then(Iterator::collect).unwrap_or_else(|error| panic!("{error}"))
}

/// Requests and distinct blocks of each trace, as the table of exact hits has them.
fn known(folder: &Path) -> BTreeMap<String, (u64, u32)> {
    let table = fs::read_to_string(folder.join("hits_exact.csv")).expect("the table is there");
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let number = |text: &str| text.parse::<u64>().expect("a number");
    rows.map(|row| (row[0].to_owned(), (number(row[1]), number(row[2]) as u32))).collect()
}

#[test]
fn known_traces_have_their_requests_and_blocks() {
    let Some(folder) = traces() else { return };
    let known = known(&folder);
    let mut seen = 0;
    for entry in fs::read_dir(&folder).expect("the folder can be listed") {
        let path = entry.expect("an entry").path();
        let name = path.to_string_lossy().into_owned();
        if ![".zst", ".gz", ".xz"].iter().any(|packed| name.ends_with(packed)) {
            continue;
        }
        let trace = Trace::read(&name, open(&path), &Options::default()).expect("it can be read");
        let row = if trace.name() == "cloudPhysicsIO" { "cp_io_lbn" } else { trace.name() };
        let Some(&(requests, unique)) = known.get(row) else { continue };
        assert_eq!((trace.requests(), trace.unique()), (requests, unique), "{name}");
        assert_eq!(trace.accesses(Unit::Blocks).len() as u64, requests, "{name}");
        assert_eq!(trace.has_sizes(), trace.name() == "cloudPhysicsIO", "{name}");
        seen += 1;
    }
    assert!(seen > 0, "no trace of the table in {}", folder.display());
}

#[test]
fn one_disk_in_three_formats_gives_the_same_requests() {
    let Some(folder) = traces() else { return };
    let in_format = |ending: &str| -> Vec<Request> {
        let all = requests(&folder.join(format!("cloudPhysicsIO.{ending}.xz")));
        all.into_iter().map(|request| Request { time: request.time / 1_000_000, ..request }).collect()
    };
    let (csv, vscsi, oracle) = (in_format("csv"), in_format("vscsi"), in_format("oracleGeneral.bin"));
    assert!(csv == vscsi, "csv and vscsi differ");
    // Its author gave each block the size of its first request.
    let mut first = BTreeMap::new();
    let first_sizes = |request: &Request| {
        let size = *first.entry(request.key).or_insert(request.size);
        Request { size, ..*request }
    };
    assert!(oracle == vscsi.iter().map(first_sizes).collect::<Vec<_>>(), "oracleGeneral and vscsi differ");
}
