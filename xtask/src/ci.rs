//! `cargo xtask ci`: the whole gate, cheap steps first.
//!
//! The tests come last and nothing is printed after them, so that the test runner's own closing
//! line ends the log. `cargo test` includes the doc tests. `CI=true` is set for every step: under it
//! a test that lacks something it needs fails where it would otherwise say that it was skipped.

use std::path::Path;
use std::time::Instant;

use crate::models::MODELS;
use crate::step::Step;
use crate::{Failure, docs, tidy};

const IN_CI: (&str, &str) = ("CI", "true");

const FORMAT: Step = Step { name: "format", arguments: &["fmt", "--all", "--check"], environment: &[IN_CI] };

const CLIPPY: Step = Step {
    name: "clippy",
    arguments: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
    environment: &[IN_CI],
};

const BUILD: Step =
    Step { name: "build", arguments: &["build", "--workspace", "--bins"], environment: &[IN_CI] };

const RUSTDOC: Step = Step {
    name: "rustdoc",
    arguments: &["doc", "--workspace", "--no-deps"],
    environment: &[IN_CI, ("RUSTDOCFLAGS", "-Dwarnings")],
};

/// What hits write to: counted only by a build of the engine that is made for it.
const LINES: Step = Step {
    name: "lines",
    arguments: &["test", "--package", "arcwell-arc", "--features", "linestat", "--test", "lines"],
    environment: &[IN_CI],
};

const TEST: Step = Step { name: "test", arguments: &["test", "--workspace"], environment: &[IN_CI] };

/// Runs every step in order; the first failure ends it.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let start = Instant::now();
    timed("format", || FORMAT.run(root))?;
    timed("tidy", || tidy::run(root))?;
    timed("clippy", || CLIPPY.run(root))?;
    timed("build", || BUILD.run(root))?;
    timed("rustdoc", || RUSTDOC.run(root))?;
    timed("docs", || docs::check(root))?;
    timed("models", || MODELS.run(root))?;
    timed("lines", || LINES.run(root))?;
    println!("ci: all but the tests passed in {:.1} s", start.elapsed().as_secs_f64());
    println!("ci: test (the last step)");
    TEST.run(root)
}

fn timed(name: &str, step: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    println!("ci: {name}");
    let start = Instant::now();
    step()?;
    println!("ci: {name} passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_runs_as_ci() {
        for step in [&FORMAT, &CLIPPY, &BUILD, &RUSTDOC, &MODELS, &LINES, &TEST] {
            assert!(step.environment.contains(&IN_CI), "{}", step.name);
        }
    }
}
