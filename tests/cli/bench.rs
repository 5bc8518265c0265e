//! The benches as programs: what they print has the shape that it should, and mistakes are told. How
//! fast anything is, no test knows.

use serde_json::Value;

use crate::bed::Bed;

/// Enough for a bench that proves nothing.
const SMALL: [&str; 7] = ["--threads", "3", "--ops", "600", "--size", "3MiB", "--json"];

fn lines(bed: &Bed, words: &[&str]) -> Vec<Value> {
    let out = bed.run(&[&["bench"], words, &SMALL].concat()).fine();
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn scaling_measures_every_kind_on_one_cpu_up_to_all() {
    let bed = Bed::new();
    let cells = lines(&bed, &["scaling", "--repeat", "2"]);
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    let single: Vec<&Value> = cells.iter().filter(|cell| cell["lists"] == "single").collect();
    assert_eq!(single.first().unwrap()["cpus"], 1);
    assert_eq!(single.last().unwrap()["cpus"], cpus);
    assert!(single.len() < cells.len() && cells.len().is_multiple_of(single.len()), "{cells:?}");
    for cell in &cells {
        assert_eq!((&cell["ops"], &cell["hit_ratio"]), (&Value::from(600), &Value::from(1.0)), "{cell}");
        assert!(cell["cpu_ns"].as_f64() > Some(0.0) && cell["floor_cpu_ns"].as_f64() > Some(0.0), "{cell}");
        assert_eq!(cell["waits"].is_null(), !cfg!(feature = "lockstat"), "{cell}");
        assert_eq!(cell["to_single"] == 1.0, cell["lists"] == "single", "{cell}");
    }
}

#[test]
fn kinds_of_lists_are_chosen_by_name() {
    let bed = Bed::new();
    let cells = lines(&bed, &["scaling", "--repeat", "1", "--lists", "multilist,multilist"]);
    assert!(
        cells.iter().all(|cell| cell["lists"] == "multilist" && cell["to_single"].is_null()),
        "{cells:?}"
    );
}

#[test]
fn locks_are_counted_by_a_build_that_counts() {
    let bed = Bed::new();
    if !cfg!(feature = "lockstat") {
        let line = bed.run(&["bench", "locks"]).refused();
        assert!(line.contains("cargo build --release --features lockstat"), "{line}");
        return;
    }
    let rows = lines(&bed, &["locks"]);
    for phase in ["hits", "misses"] {
        let sums: Vec<&Value> =
            rows.iter().filter(|row| row["phase"] == phase && row["lock"].is_null()).collect();
        assert!(sums.iter().all(|sum| sum["ops"] == 600), "{sums:?}");
        assert!(sums.iter().all(|sum| (sum["hit_ratio"] == 1.0) == (phase == "hits")), "{sums:?}");
    }
    let lines: Vec<&Value> = rows.iter().filter(|row| row["phase"] == "lines").collect();
    assert_eq!(lines.len(), if cfg!(feature = "linestat") { 3 } else { 0 });
    for row in lines {
        let writes = |name: &str| row[name].as_f64().unwrap();
        assert!(writes("header_rmws") >= 2.0 && writes("own_stores") >= 1.0, "{row}");
        let others = writes("other_rmws") + writes("other_stores");
        assert_eq!(others == 0.0, row["lists"] == "pages", "{row}");
    }
}

#[test]
fn loads_that_cannot_be_are_refused() {
    let bed = Bed::new();
    let refused = |words: &[&str]| bed.run(&[&["bench", "scaling", "--json"], words].concat()).refused();
    for (words, line) in [
        (["--lists", "double"], "--lists: 'double' is not one of single, multilist"),
        (["--seconds", "1 day"], "--seconds: '1 day' is not a duration such as"),
        (["--seconds", "2h"], "--seconds: '2h' is not between a millisecond and an hour"),
        (["--size", "64KiB"], "--size: 64 KiB is not from 1 to 2^32 blocks of 8 KiB a thread"),
        (["--size", "1000TiB"], "--size: needs "),
        (["--threads", "0"], "--threads: 0 is not in 1..=4096"),
        (["--model-cpus", "1"], "--model-cpus: 1 is not in 2..=1024"),
    ] {
        let said = refused(&words);
        assert!(said.starts_with(line), "{said}");
    }
    if !cfg!(feature = "lockstat") {
        let line = refused(&["--model-cpus", "64"]);
        assert!(line.starts_with("--model-cpus: this build counts no locks"), "{line}");
    }
}
