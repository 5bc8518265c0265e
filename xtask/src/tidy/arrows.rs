//! Crate arrows: a package depends only on the rooms below it, and only the benches know competitors.
//!
//! Cargo forbids circles; it does not forbid an arrow that was never meant.

use super::Violation;
use super::rooms::{self, BENCH, COMPETITORS, Knows, Room};
use crate::tree::{Dependency, File, Package, Tree};

const RULE: &str = "arrows";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.packages.iter().flat_map(|package| check_package(tree, package)).collect()
}

fn check_package(tree: &Tree, package: &Package) -> Vec<Violation> {
    let Some(room) = rooms::of_package(&package.name) else {
        let what = format!("{} has no row in the table of rooms (xtask/src/tidy/rooms.rs)", package.name);
        return vec![Violation::new(&package.manifest, 1, RULE, what)];
    };
    let wrong = package.dependencies.iter().filter(|arrow| !may(room, arrow));
    wrong
        .map(|arrow| {
            let line = line_of(tree, &package.manifest, &arrow.name);
            let as_what = if arrow.is_dev { ", not even in tests" } else { "" };
            let what = format!("{} may not depend on {}{as_what}", package.name, arrow.name);
            Violation::new(&package.manifest, line, RULE, what)
        })
        .collect()
}

fn may(room: &Room, arrow: &Dependency) -> bool {
    let name = arrow.name.as_str();
    if COMPETITORS.contains(&name) {
        return room.package == BENCH;
    }
    if !(name == "arcwell" || name.starts_with("arcwell-")) {
        return true;
    }
    match room.knows {
        Knows::All => true,
        Knows::Only(known) => known.contains(&name) || (arrow.is_dev && room.tests_know.contains(&name)),
    }
}

/// The line of a manifest that names a dependency; 1 when it is not found.
fn line_of(tree: &Tree, manifest: &str, name: &str) -> usize {
    let names = |line: &str| {
        line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    };
    let file: Option<&File> = tree.files.iter().find(|file| file.path == manifest);
    file.and_then(|file| file.text.lines().position(names)).map_or(1, |place| place + 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    fn tree(name: &str, folder: &str, arrows: &[(&str, bool)]) -> Tree {
        let manifest = format!("{folder}/Cargo.toml");
        let text: String = arrows.iter().map(|(name, _)| format!("{name}.workspace = true\n")).collect();
        let mut tree = Tree::made_up(&[(&manifest, &text)]);
        let dependencies =
            arrows.iter().map(|(name, is_dev)| Dependency { name: (*name).to_owned(), is_dev: *is_dev });
        tree.packages =
            vec![Package { name: name.to_owned(), manifest, dependencies: dependencies.collect() }];
        tree
    }

    #[test]
    fn arrows_that_are_meant_pass() {
        let arrows =
            [("arcwell-base", false), ("arcwell-arc", false), ("arcwell-backend", true), ("libc", false)];
        assert_eq!(check(&tree("arcwell-pool", "crates/pool", &arrows)), []);
        assert_eq!(check(&tree("arcwell-bench", "bench", &[("moka", false), ("arcwell-arc", false)])), []);
    }

    #[test]
    fn arrows_that_were_never_meant_are_refused() {
        let arrows = [("arcwell-base", false), ("arcwell-backend", false)];
        assert_eq!(
            places(&check(&tree("arcwell-pool", "crates/pool", &arrows))),
            ["crates/pool/Cargo.toml:2"]
        );
        assert_eq!(check(&tree("arcwell-arc", "crates/arc", &[("arcwell-pool", true)])).len(), 1);
        assert_eq!(check(&tree("arcwell-arc", "crates/arc", &[("moka", true)])).len(), 1);
        assert_eq!(check(&tree("arcwell-attic", "crates/attic", &[])).len(), 1);
    }
}
