//! `docs/hit-ratios.md` is what its commands print. The page holds each table below the command that
//! prints it; `cargo xtask hit-ratios` runs all of them and puts in what they print now.
//!
//! They run where the given traces lie: in the folder that `ARCWELL_TRACES` names, else in
//! `../shared/traces`; without it all of this is SKIPPED.

#![allow(clippy::unwrap_used, reason = "what stands around tests here is part of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a block with a command and its output begins and ends.
const BEGIN: &str = "```console\n";
const END: &str = "```\n";

/// Traces that are too long to be replayed at every test; `cargo xtask hit-ratios` does.
const LONG: [&str; 2] = ["OLTP", "P3"];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

fn traces() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces");
    let folder = std::env::var_os("ARCWELL_TRACES").map_or(beside, PathBuf::from);
    if folder.join("OLTP.lis.zst").is_file() {
        return Some(folder);
    }
    eprintln!("SKIPPED: the traces of the page are not in {}", folder.display());
    None
}

/// The page with what its commands print now; where `run` gives nothing, with what is there.
fn refreshed(page: &str, mut run: impl FnMut(&[&str]) -> Option<String>) -> String {
    let mut pieces = page.split(BEGIN);
    let mut fresh = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (block, prose) = piece.split_once(END).expect("every block ends");
        let command = command(block);
        let words: Vec<&str> = command.split_whitespace().filter(|word| *word != "\\").collect();
        assert_eq!(words[..2], ["$", "arcwell"], "a block begins with its command: {block}");
        let output = run(&words[2..]).unwrap_or_else(|| block[command.len()..].to_owned());
        fresh += &format!("{BEGIN}{command}{output}{END}{prose}");
    }
    fresh
}

/// The first line of a block, with those that continue it.
fn command(block: &str) -> &str {
    let mut end = 0;
    for line in block.split_inclusive('\n') {
        end += line.len();
        if !line.ends_with("\\\n") {
            break;
        }
    }
    &block[..end]
}

/// What the program prints, run in the folder of the traces. Pictures are put beside the page.
fn print(words: &[&str], traces: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arcwell"));
    command.current_dir(traces);
    let mut before = "";
    for word in words {
        if before == "--chart" {
            command.arg(docs().join(word));
        } else {
            command.arg(word);
        }
        before = word;
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn tables_of_short_traces_are_fresh() {
    let Some(traces) = traces() else { return };
    let page = fs::read_to_string(docs().join("hit-ratios.md")).unwrap();
    let mut ran = 0;
    let fresh = refreshed(&page, |words| {
        let is_long = words.iter().any(|word| LONG.iter().any(|name| word.starts_with(name)));
        ran += usize::from(!is_long);
        (!is_long).then(|| print(words, &traces))
    });
    assert!(ran >= 4, "the page has tables: {ran}");
    let stale = page.lines().zip(fresh.lines()).find(|(old, new)| old != new);
    assert_eq!(stale, None, "docs/hit-ratios.md is stale: run cargo xtask hit-ratios");
    assert_eq!(page.len(), fresh.len());
}

/// No test: what `cargo xtask hit-ratios` runs.
#[test]
#[ignore = "writes docs/hit-ratios.md, and takes a minute"]
fn write_the_page() {
    let traces = traces().expect("the traces are there");
    let path = docs().join("hit-ratios.md");
    let page = fs::read_to_string(&path).unwrap();
    fs::write(path, refreshed(&page, |words| Some(print(words, &traces)))).unwrap();
}

#[test]
fn what_is_stale_is_replaced_and_nothing_else() {
    let page = "# Prose\n\n```console\n$ arcwell sim \\\n    -t x\nold\n```\n\nMore.\n\
                \n```console\n$ arcwell sim -t y\nkept\n```\n";
    let mut asked = Vec::new();
    let fresh = refreshed(page, |words| {
        asked.push(words.join(" "));
        (words[2] == "x").then(|| "new\n".to_owned())
    });
    assert_eq!(asked, ["sim -t x", "sim -t y"]);
    assert_eq!(fresh, page.replace("old", "new"));
}
