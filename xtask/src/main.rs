//! `cargo xtask`: what is done to this repository, as a program.
//!
//! A rule that stands only in prose is an opinion, so the house rules live here: [`tidy`] reads the
//! tree and names every place that breaks one; [`ci`] is the whole gate, the same on a laptop as on
//! a build machine; [`docs`] prints the reference pages from the tables in the code.

mod ci;
mod docs;
mod mention;
mod models;
mod step;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
The house rules of this repository, as a program.

Usage: cargo xtask <COMMAND>

Commands:
  ci            the whole gate: fmt, tidy, clippy, build, docs, tests; stops at the first failure
  tidy          name every place that breaks a house rule
  docs          rewrite the reference pages from the tables in the code
  docs --check  fail when a reference page is stale
  hit-ratios    rewrite the tables of docs/hit-ratios.md; needs the traces
  models        run the models of the engine's threads under many schedules; minutes
  sanitize      run the engine's tests under AddressSanitizer
  help          this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let outcome = match words.as_slice() {
        ["ci"] => ci::run(&root),
        ["tidy"] => tidy::run(&root),
        ["docs"] => docs::write(&root),
        ["docs", "--check"] => docs::check(&root),
        ["hit-ratios"] => docs::write_hit_ratios(&root),
        ["models"] => models::run(&root),
        ["sanitize"] => models::sanitize(&root),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [] => Err(Failure(format!("no command was given\n\n{HELP}"))),
        other => Err(Failure(format!("'{}' is not a command\n\n{HELP}", other.join(" ")))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(line)) => {
            eprintln!("xtask: {line}");
            ExitCode::FAILURE
        }
    }
}

/// Why a command did not succeed: the line that is printed last.
#[derive(Debug)]
struct Failure(String);

/// The repository's root: the folder above this package.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
}
