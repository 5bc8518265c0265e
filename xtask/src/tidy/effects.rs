//! Who may do I/O and who may start threads.
//!
//! The cache engine and the pool are handed everything they touch, so that a test can hand them
//! something else. Tests themselves may do what they like.

use super::Violation;
use super::rooms::{self, Room, Threads};
use crate::mention::{self, Mention};
use crate::tree::{File, Tree};

/// Paths that mean I/O.
const IO: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process::Command",
    "std::os::unix::fs",
    "std::os::unix::net",
    "std::os::linux::fs",
    "std::os::linux::net",
    "rustix::fs",
    "rustix::net",
    "tokio",
    "nix",
];

/// Ends of paths that mean a new thread, whichever `use` stands above them.
const THREADS: &[&str] =
    &["thread::spawn", "thread::scope", "thread::Builder", "thread::*", "rayon::spawn", "tokio::spawn"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, syntax) in tree.sources().filter(|(file, _)| !file.is_test) {
        let Some(room) = rooms::of_file(&file.path) else { continue };
        for mention in mention::outside_tests(syntax) {
            violations.extend(io(room, file, &mention));
            violations.extend(threads(room, file, &mention));
        }
    }
    violations
}

fn io(room: &Room, file: &File, mention: &Mention) -> Option<Violation> {
    let forbidden = IO.iter().find(|prefix| mention::starts_with(&mention.path, prefix, "::"))?;
    let what = format!("{} does no I/O and must not use {forbidden}", room.package);
    (!room.does_io).then(|| Violation::new(&file.path, mention.line, "io", what))
}

fn threads(room: &Room, file: &File, mention: &Mention) -> Option<Violation> {
    let allowed = match room.threads {
        Threads::Anywhere => true,
        Threads::In(module) => file.path.trim_end_matches(".rs").split('/').any(|part| part == module),
        Threads::Never => false,
    };
    let starts = |path: &str| {
        THREADS.iter().any(|end| path.match_indices(end).any(|(at, _)| is_whole(path, at, end.len())))
    };
    if allowed || !starts(&mention.path) {
        return None;
    }
    let what = match room.threads {
        Threads::In(module) => format!("{} starts threads only in its module {module}", room.package),
        _ => format!("{} starts no thread", room.package),
    };
    Some(Violation::new(&file.path, mention.line, "threads", what))
}

/// Whether the match at `at` begins and ends where words of the path do.
fn is_whole(path: &str, at: usize, length: usize) -> bool {
    let (before, after) = (&path[..at], &path[at + length..]);
    (before.is_empty() || before.ends_with("::")) && (after.is_empty() || after.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn a_pure_room_may_neither_read_files_nor_start_threads() {
        let text = "use std::thread;\nuse std::{fs, sync::Mutex};\nfn f() {\n    thread::spawn(g);\n}\n\
                    fn h() {\n    log!(tokio::io::stdin());\n}\n";
        let tree = Tree::made_up(&[("crates/arc/src/list.rs", text)]);
        let path = "crates/arc/src/list.rs";
        assert_eq!(places(&check(&tree)), [2, 4, 7].map(|line| format!("{path}:{line}")));
    }

    #[test]
    fn rooms_that_may_are_left_alone() {
        let text = "use std::fs;\nfn f() { std::thread::spawn(g); }\n";
        let tree = Tree::made_up(&[
            ("crates/front/src/lib.rs", text),
            ("crates/backend/src/watch.rs", text),
            ("crates/arc/tests/whole.rs", text),
            ("src/main.rs", text),
            ("crates/base/src/error.rs", "use rustix::io::Errno;\nfn f() { std::thread::current(); }\n"),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn the_backend_starts_threads_for_its_watch_only() {
        let text = "fn f() {\n    std::thread::Builder::new();\n}\n";
        let tree = Tree::made_up(&[("crates/backend/src/directory.rs", text)]);
        assert_eq!(places(&check(&tree)), ["crates/backend/src/directory.rs:2"]);
    }
}
