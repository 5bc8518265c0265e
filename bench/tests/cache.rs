//! The bench `cache` runs once, small: its lines have the promised keys, and what they count can be. Times
//! are never compared.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

use serde_json::Value;

const KEYS: [&str; 9] =
    ["work", "peer", "lists", "threads", "cpu_ns", "wall_ops", "floor_cpu_ns", "hit_ratio", "overhead_bytes"];

const PEERS: [&str; 7] =
    ["quick_cache", "moka", "foyer-lru", "foyer-s3fifo", "foyer-sieve", "foyer-w-tinylfu", "lru"];

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_arcwell-bench")).arg("cache").args(arguments).output().unwrap()
}

#[test]
fn all_peers_at_all_works() {
    let small = ["--entries", "2048", "--keys", "8192", "--ops", "20000", "--repeat", "1"];
    let output = bench(&[&["--threads", "1,3", "--json"], small.as_slice()].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("command: cache --threads 1,3 --json") && said.contains("machine: "), "{said}");

    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut seen: Vec<(String, String, String, u64)> = Vec::new();
    for (line, text) in lines.iter().zip(text.lines()) {
        assert_eq!(line.as_object().unwrap().len(), KEYS.len(), "{line}");
        let places: Vec<usize> = KEYS.iter().map(|key| text.find(&format!("\"{key}\":")).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
        let number = |key: &str| line[key].as_f64().unwrap();
        for key in ["cpu_ns", "wall_ops", "floor_cpu_ns"] {
            assert!(number(key) > 0.0, "{key} of {line}");
        }
        assert!(line["overhead_bytes"].is_number(), "{line}");
        let word = |key: &str| line[key].as_str().unwrap().to_owned();
        if word("work").starts_with('A') {
            // Parts of a cache this small are filled so unevenly that one may run over.
            assert!((0.97..=1.0).contains(&number("hit_ratio")), "all fits: {line}");
        } else {
            assert!((0.2..1.0).contains(&number("hit_ratio")), "{line}");
        }
        assert_eq!(word("lists").is_empty(), word("peer") != "arcwell", "{line}");
        seen.push((word("work"), word("peer"), word("lists"), line["threads"].as_u64().unwrap()));
    }

    let mut promised = Vec::new();
    for work in ["A1", "A2", "B", "C", "D"] {
        for threads in [1, 3] {
            let row = |work: &str, peer: &str, lists: &str| {
                (work.to_owned(), peer.to_owned(), lists.to_owned(), threads)
            };
            let ours = arcwell_bench::cache::ours::LISTS.iter().map(|(name, _)| *name);
            promised.extend(ours.clone().map(|lists| row(work, "arcwell", lists)));
            promised.extend(PEERS.iter().map(|peer| row(work, peer, "")));
            if work == "A1" {
                promised.extend(ours.map(|lists| row("A1x8", "arcwell", lists)));
            }
        }
    }
    assert_eq!(seen, promised);
}

#[test]
fn without_json_it_is_a_table() {
    let small = ["--entries", "64", "--keys", "64", "--ops", "640", "--repeat", "2", "--threads", "1"];
    let who = ["--works", "A2", "--peers", "quick_cache,lru"];
    let output = bench(&[small.as_slice(), who.as_slice()].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 3, "{text}");
    assert_eq!(
        (&rows[0][..2], &rows[1][..3]),
        (["work", "peer"].as_slice(), ["A2", "quick_cache", "1"].as_slice())
    );
    assert_eq!((rows[2][1], rows[2].last()), ("lru", Some(&"64")), "{text}");
}

#[test]
fn what_cannot_be_is_refused() {
    for wrong in
        [["--works", "E"], ["--lists", "none"], ["--peers", "x"], ["--threads", "0"], ["--entries", "1"]]
    {
        let output = bench(&wrong);
        assert!(!output.status.success() && output.stdout.is_empty(), "{wrong:?}");
    }
    let output = bench(&["--entries", "67108864", "--works", "A2"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("all peers together may need"), "{said}");
}
