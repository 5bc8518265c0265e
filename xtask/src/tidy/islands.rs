//! `unsafe` lies in named islands, and each use says why it is sound.
//!
//! An island is a module named for what it guards. Small ones can be read in one sitting, which is
//! the only proof there is.

use proc_macro2::{TokenStream, TokenTree};

use super::Violation;
use crate::mention;
use crate::tree::{File, Tree};

const ISLANDS: &[&str] = &["arena", "pin", "ring", "mmap"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().filter(|file| file.rust.is_some()).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let Ok(tokens) = file.text.parse::<TokenStream>() else { return Vec::new() };
    let mut violations = Vec::new();
    let is_island = file.path.trim_end_matches(".rs").split('/').any(|part| ISLANDS.contains(&part));
    let lines: Vec<&str> = file.text.lines().collect();
    mention::every_token(tokens, &mut |trees, place| {
        let TokenTree::Ident(word) = &trees[place] else { return };
        if word != "unsafe" {
            return;
        }
        let line = word.span().start().line;
        if !is_island {
            let what = format!("unsafe code lies in a module named {}", ISLANDS.join(", "));
            violations.push(Violation::new(&file.path, line, "unsafe-island", what));
        } else if !has_note(&lines, line) {
            let what = "a comment `// SAFETY: …` stands just above unsafe code";
            violations.push(Violation::new(&file.path, line, "unsafe-note", what));
        }
    });
    violations
}

/// Whether a SAFETY note stands on this line (from 1), or in the comment above the statement that it
/// belongs to. Attributes, and the first lines of a statement that was broken, may stand between.
fn has_note(lines: &[&str], line: usize) -> bool {
    let is_note = |text: &str| text.contains("SAFETY:") || text.contains("# Safety");
    if lines.get(line - 1).is_some_and(|text| is_note(text)) {
        return true;
    }
    let mut seen_comment = false;
    for text in lines[..line - 1].iter().rev().map(|text| text.trim()) {
        if text.starts_with("//") {
            if is_note(text) {
                return true;
            }
            seen_comment = true;
        } else if seen_comment || text.is_empty() || text.ends_with([';', '{', '}']) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn a_note_above_the_statement_is_enough() {
        let text = "// SAFETY: one word, aligned.\nlet x =\n    unsafe { f() };\n\
                    /// # Safety\n/// The caller holds it.\n#[inline]\nunsafe fn g() {}\n";
        let tree =
            Tree::made_up(&[("crates/arc/src/arena.rs", text), ("crates/arc/src/arena/chunk.rs", text)]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_missing_note_is_refused() {
        let text = "// SAFETY: of another.\nfn f() {}\nfn g() {\n    unsafe { h() }\n}\n";
        let tree = Tree::made_up(&[("crates/arc/src/arena.rs", text)]);
        assert_eq!(places(&check(&tree)), ["crates/arc/src/arena.rs:4"]);
    }

    #[test]
    fn unsafe_outside_the_islands_is_refused() {
        let text = "fn g() {\n    // SAFETY: it is well meant.\n    unsafe { h() }\n}\n";
        let tree = Tree::made_up(&[("crates/arc/src/list.rs", text)]);
        assert_eq!(places(&check(&tree)), ["crates/arc/src/list.rs:3"]);
    }
}
