//! `cargo xtask models` and `cargo xtask sanitize`: what finds the faults of threads and of memory.
//!
//! The models are small programs in `crates/arc/src/models` that are run under many schedules; the gate runs
//! a few thousand of each. The sanitizer runs the tests of the crate that has unsafe code with every access to
//! memory looked at; that takes a compiler's flag that is not stable, and so the gate does without it.

use std::path::Path;

use crate::Failure;
use crate::step::Step;

const ARGUMENTS: &[&str] = &["test", "--package", "arcwell-arc", "--features", "model", "--lib", "models::"];

/// The models, as the gate runs them.
pub(crate) const MODELS: Step = Step { name: "models", arguments: ARGUMENTS, environment: &[("CI", "true")] };

/// Schedules of either sort that every model is run under when that is all that is asked for.
const MANY: Step =
    Step { name: "models", arguments: ARGUMENTS, environment: &[("ARCWELL_SCHEDULES", "3000")] };

/// The target is named so that the flag is for the tests alone, and not for build scripts.
const SANITIZE: Step = Step {
    name: "sanitize",
    arguments: &[
        "test",
        "--package",
        "arcwell-arc",
        "--target",
        "x86_64-unknown-linux-gnu",
        "--target-dir",
        "target/sanitize",
        "--lib",
        "--tests",
    ],
    environment: &[("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Zsanitizer=address")],
};

/// Runs every model under many schedules.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    MANY.run(root)
}

/// Runs the tests of the engine under AddressSanitizer.
pub(crate) fn sanitize(root: &Path) -> Result<(), Failure> {
    SANITIZE.run(root)
}
