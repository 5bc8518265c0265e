//! `cargo xtask tidy`: every place that breaks a house rule, as `path:line: rule: what`.
//!
//! One module a rule, or a few that share a reading of the tree. Each is a function from a [`Tree`]
//! to [`Violation`]s, and each has, among its tests, a made-up tree that it must refuse: a check that
//! cannot fail proves nothing.

mod arrows;
mod counted;
mod effects;
mod errors;
mod islands;
mod length;
mod links;
mod names;
mod opening;
mod rooms;
mod unfinished;
mod whitespace;
mod world;

use std::fmt;
use std::path::Path;

use crate::Failure;
use crate::tree::Tree;

/// One place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    path: String,
    line: usize,
    rule: &'static str,
    what: String,
}

impl Violation {
    fn new(path: &str, line: usize, rule: &'static str, what: impl Into<String>) -> Violation {
        Violation { path: path.to_owned(), line, rule, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.what)
    }
}

type Check = fn(&Tree) -> Vec<Violation>;

const CHECKS: &[Check] = &[
    arrows::check,
    counted::check,
    effects::check,
    errors::check,
    islands::check,
    length::check,
    links::check,
    names::check,
    opening::check,
    unfinished::check,
    whitespace::check,
    world::check,
];

/// Checks the tree below `root` and prints what is wrong with it.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let tree = Tree::load(root)?;
    let violations = check(&tree);
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => {
            println!("tidy: {} files, nothing to say", tree.files.len());
            Ok(())
        }
        1 => Err(Failure("tidy: 1 violation".to_owned())),
        count => Err(Failure(format!("tidy: {count} violations"))),
    }
}

fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations: Vec<Violation> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    violations.sort();
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one check says of a tree, without the words: `path:line`.
    pub(super) fn places(violations: &[Violation]) -> Vec<String> {
        violations.iter().map(|v| format!("{}:{}", v.path, v.line)).collect()
    }

    #[test]
    fn a_clean_tree_passes_and_a_violation_reads_as_one_line() {
        let good = Tree::made_up(&[("crates/arc/src/lib.rs", "//! Clean.\n")]);
        assert_eq!(check(&good), []);

        let bad = Tree::made_up(&[("crates/arc/src/lib.rs", "//! Not clean. \n")]);
        let lines: Vec<String> = check(&bad).iter().map(Violation::to_string).collect();
        assert_eq!(lines, ["crates/arc/src/lib.rs:1: whitespace: the line ends in blanks"]);
    }
}
