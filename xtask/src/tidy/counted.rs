//! What the engine shares between threads comes from where a build can count the writes to it.
//!
//! A test holds hits to the lines that they may write to (`crates/arc/tests/lines.rs`). It sees what was
//! written by atomics and locks of `arcwell_base`, which the engine takes from its module `sync`; what came from
//! elsewhere would be written unseen.

use super::Violation;
use crate::mention::{self, Mention};
use crate::tree::Tree;

/// Paths that mean memory that threads share.
const SHARED: &[&str] = &[
    "std::sync::atomic",
    "core::sync::atomic",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Arc",
    "parking_lot",
];

/// Those that may not be mentioned in rooms that the engine uses.
const ATOMICS: &[&str] = &["std::sync::atomic", "core::sync::atomic"];

/// Who makes what is counted, and who counts otherwise.
const MAKERS: &[&str] = &["crates/base/src/atomic", "crates/base/src/lock/lockstat.rs"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, syntax) in tree.sources().filter(|(file, _)| !file.is_test) {
        let forbidden = match file.path.as_str() {
            path if path.starts_with("crates/arc/src/") => SHARED,
            path if MAKERS.iter().any(|maker| path.starts_with(maker)) => continue,
            path if path.starts_with("crates/base/src/") => ATOMICS,
            _ => continue,
        };
        let is_forbidden = |mention: &Mention| {
            forbidden.iter().any(|prefix| mention::starts_with(&mention.path, prefix, "::"))
        };
        for mention in mention::outside_tests(syntax).into_iter().filter(is_forbidden) {
            let what = format!("{} is not counted: see arcwell_base::atomic and ::lock", mention.path);
            violations.push(Violation::new(&file.path, mention.line, "counted", what));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn the_engine_takes_what_it_shares_from_where_it_is_counted() {
        let text = "use std::sync::{OnceLock, atomic::AtomicU64};\nuse arcwell_base::lock::Mutex;\n\
                    fn f(n: &std::sync::atomic::AtomicBool) {\n    parking_lot::Mutex::new(n);\n}\n\
                    #[cfg(test)]\nmod tests {\n    use std::sync::Mutex;\n}\n";
        let lines = |path: &str| places(&check(&Tree::made_up(&[(path, text)])));
        let at =
            |path: &str, lines: &[usize]| lines.iter().map(|n| format!("{path}:{n}")).collect::<Vec<_>>();
        for (path, found) in [
            ("crates/arc/src/list.rs", &[1, 3, 4][..]),
            ("crates/base/src/lane.rs", &[1, 3]),
            ("crates/base/src/atomic/counted.rs", &[]),
            ("crates/pool/src/work.rs", &[]),
        ] {
            assert_eq!(lines(path), at(path, found));
        }
    }
}
