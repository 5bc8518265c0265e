//! `cargo xtask docs`: the reference pages that are printed from tables in the code.
//!
//! The pages are written by a test of the root package, [`TEST_FILE`]: it prints every page anew,
//! and fails when what lay there was something else. So `--check` is one run of it, and writing is
//! a run that may fail, followed by one that may not.

use std::path::Path;

use crate::Failure;
use crate::step::Step;

/// The test that writes the pages and fails when they were stale.
const TEST_FILE: &str = "tests/docs.rs";

const PAGES: Step = Step {
    name: "pages",
    arguments: &["test", "--quiet", "--package", "arcwell", "--test", "docs"],
    environment: &[],
};

/// Runs the commands of `docs/hit-ratios.md` and puts in what they print.
const HIT_RATIOS: Step = Step {
    name: "hit ratios",
    arguments: &[
        "test",
        "--quiet",
        "--release",
        "--package",
        "arcwell",
        "--test",
        "hit_ratios",
        "--",
        "--ignored",
    ],
    environment: &[],
};

/// Rewrites the tables of hit ratios. Needs the traces, and a minute.
pub(crate) fn write_hit_ratios(root: &Path) -> Result<(), Failure> {
    HIT_RATIOS.run(root)
}

/// Fails when a page is stale. Passes when there are no pages yet.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    if !root.join(TEST_FILE).is_file() {
        println!("docs: no page is printed from the code yet ({TEST_FILE} is not there)");
        return Ok(());
    }
    PAGES.run(root)
}

/// Rewrites the pages.
pub(crate) fn write(root: &Path) -> Result<(), Failure> {
    match check(root) {
        Ok(()) => Ok(()),
        Err(Failure(first)) => {
            println!("docs: {first}; it has rewritten what was stale, once more");
            check(root)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_without_pages_is_not_stale() {
        let empty = std::env::temp_dir().join("arcwell-xtask-no-pages");
        assert!(check(&empty).is_ok());
    }
}
