//! The tree knows no machine but the reader's: no home folders, no private registries.
//!
//! What is looked for is put together here from halves, so that this file does not find itself.

use super::Violation;
use crate::tree::{File, Tree};

/// Folders that exist on one machine only. `~` and XDG names are the way to say it.
const FOLDERS: &[&str] = &[concat!("/", "work"), concat!("/", "root"), concat!("/", "home")];

/// Words of a cargo configuration that send it to another registry.
const REGISTRY_WORDS: &[&str] = &[
    concat!("sparse", "+http"),
    concat!("replace", "-with"),
    concat!("[", "registries"),
    concat!("[", "source."),
];

/// The one place that packages are locked from.
const REGISTRY: &str = "\"registry+https://github.com/rust-lang/crates.io-index\"";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (place, line) in file.text.lines().enumerate() {
        let mut fault =
            |rule, what: String| violations.push(Violation::new(&file.path, place + 1, rule, what));
        for folder in FOLDERS.iter().filter(|folder| names_folder(line, folder)) {
            fault("machine-path", format!("{folder} exists on one machine only"));
        }
        for word in REGISTRY_WORDS.iter().filter(|word| line.contains(*word)) {
            fault("registry", format!("'{word}' ties the tree to a registry"));
        }
        let is_lock = file.path.ends_with("Cargo.lock");
        if is_lock && line.strip_prefix("source = ").is_some_and(|source| source != REGISTRY) {
            fault("registry", format!("locked from elsewhere: {line}"));
        }
    }
    violations
}

/// Whether `line` holds `folder` as an absolute path: nothing of a name stands before it, and its
/// name ends where it does.
fn names_folder(line: &str, folder: &str) -> bool {
    let in_name =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '}' | ')' | '*' | '<' | '>');
    let begins = |at: usize| !line[..at].ends_with(in_name);
    let ends = |at: usize| line[at..].starts_with('/');
    line.match_indices(folder).any(|(at, _)| begins(at) && ends(at + folder.len()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    fn text(of: &[&str]) -> String {
        of.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn folders_of_one_machine_are_refused() {
        let lines = FOLDERS.iter().map(|folder| format!("see `{folder}/main`")).collect::<Vec<_>>();
        let lines = text(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let tree = Tree::made_up(&[("a.md", &lines)]);
        assert_eq!(places(&check(&tree)), ["a.md:1", "a.md:2", "a.md:3"]);
    }

    #[test]
    fn words_that_only_look_like_folders_pass() {
        let lines = ["docs/work/a", "a dataset/root", "~/work/a", "/workspace/a", "the root/work of it"];
        assert_eq!(check(&Tree::made_up(&[("a.md", &text(&lines))])), []);
    }

    #[test]
    fn other_registries_are_refused() {
        let config = text(REGISTRY_WORDS);
        let lock = "source = \"registry+https://mirror.example/index\"\n";
        let tree = Tree::made_up(&[(".cargo/config.toml", &config), ("Cargo.lock", lock)]);
        assert_eq!(check(&tree).len(), REGISTRY_WORDS.len() + 1);

        let lock = format!("source = {REGISTRY}\n");
        assert_eq!(check(&Tree::made_up(&[("Cargo.lock", &lock)])), []);
    }
}
