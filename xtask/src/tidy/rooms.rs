//! The one table of rooms: which crate may know which, do I/O, start threads.

/// A crate of the workspace and what it may do.
#[derive(Debug)]
pub(super) struct Room {
    /// Its package.
    pub(super) package: &'static str,
    /// The folder its files lie in.
    pub(super) folder: &'static str,
    /// The packages of ours that it may depend on.
    pub(super) knows: Knows,
    /// Those that its tests may depend on as well: a test needs something real to stand on.
    pub(super) tests_know: &'static [&'static str],
    /// Whether it may touch files, sockets and devices.
    pub(super) does_io: bool,
    /// Whether it may start threads.
    pub(super) threads: Threads,
}

/// Which of our packages a room may depend on.
#[derive(Debug)]
pub(super) enum Knows {
    /// These.
    Only(&'static [&'static str]),
    /// All of them: it does the wiring.
    All,
}

/// Where a room may start threads.
#[derive(Debug)]
pub(super) enum Threads {
    /// Nowhere.
    Never,
    /// Only in the module of this name.
    In(&'static str),
    /// Everywhere.
    Anywhere,
}

/// What arcwell is measured against: known to the benches alone.
pub(super) const COMPETITORS: &[&str] =
    &["fuser", "quick_cache", "moka", "foyer", "foyer-memory", "lru", "concread"];

/// The package that may know the competitors.
pub(super) const BENCH: &str = "arcwell-bench";

/// Every room of the house. A package that has no row here is refused.
pub(super) const ROOMS: &[Room] = &[
    pure("arcwell-base", "crates/base", &[]),
    pure("arcwell-arc", "crates/arc", &["arcwell-base"]),
    pure("arcwell-intent", "crates/intent", &["arcwell-base"]),
    pure("arcwell-l2arc", "crates/l2arc", &["arcwell-base", "arcwell-arc"]),
    pure("arcwell-sim", "crates/sim", &["arcwell-base", "arcwell-arc", "arcwell-l2arc"]),
    Room {
        does_io: true,
        threads: Threads::In("watch"),
        ..pure("arcwell-backend", "crates/backend", &["arcwell-base"])
    },
    Room {
        tests_know: &["arcwell-backend"],
        threads: Threads::Anywhere,
        ..pure(
            "arcwell-pool",
            "crates/pool",
            &["arcwell-base", "arcwell-arc", "arcwell-l2arc", "arcwell-intent"],
        )
    },
    Room {
        tests_know: &["arcwell-backend"],
        does_io: true,
        threads: Threads::Anywhere,
        ..pure("arcwell-front", "crates/front", &["arcwell-base", "arcwell-pool"])
    },
    Room { knows: Knows::All, does_io: true, threads: Threads::Anywhere, ..pure(BENCH, "bench", &[]) },
    Room { does_io: true, threads: Threads::Anywhere, ..pure("xtask", "xtask", &[]) },
    Room { knows: Knows::All, does_io: true, threads: Threads::Anywhere, ..pure("arcwell", "", &[]) },
];

/// A room without I/O and without threads.
const fn pure(package: &'static str, folder: &'static str, knows: &'static [&'static str]) -> Room {
    let threads = Threads::Never;
    Room { package, folder, knows: Knows::Only(knows), tests_know: &[], does_io: false, threads }
}

/// The room that a file lies in: that of the root package when in no other; none outside of the
/// workspace.
pub(super) fn of_file(path: &str) -> Option<&'static Room> {
    let inside = |room: &&Room| path.starts_with(room.folder) && path[room.folder.len()..].starts_with('/');
    let of_root = ["src/", "tests/", "examples/"].iter().any(|folder| path.starts_with(folder));
    ROOMS.iter().find(|room| if room.folder.is_empty() { of_root } else { inside(room) })
}

/// The room of a package.
pub(super) fn of_package(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.package == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lies_in_its_crates_room() {
        let package = |path| of_file(path).map(|room| room.package);
        assert_eq!(package("crates/arc/src/lib.rs"), Some("arcwell-arc"));
        assert_eq!(package("src/main.rs"), Some("arcwell"));
        assert_eq!(package("bench/benches/fuse.rs"), Some("arcwell-bench"));
        assert_eq!(package("fuzz/targets/trace.rs"), None);
    }

    #[test]
    fn no_arrow_of_the_table_points_back() {
        for room in ROOMS {
            let Knows::Only(known) = room.knows else { continue };
            for name in known {
                let below = of_package(name).expect("the table knows its own packages");
                let Knows::Only(back) = below.knows else { panic!("{name} knows everything") };
                assert!(!back.contains(&room.package), "{} and {name} know each other", room.package);
            }
        }
    }
}
