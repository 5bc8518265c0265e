//! Every Rust file parses, and opens with a doc that says what it is for.

use super::Violation;
use crate::tree::{File, Tree};

const RULE: &str = "opening";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().filter_map(check_file).collect()
}

fn check_file(file: &File) -> Option<Violation> {
    match file.rust.as_ref()? {
        Err(error) => {
            let what = format!("this does not parse: {error}");
            Some(Violation::new(&file.path, error.span().start().line, RULE, what))
        }
        Ok(syntax) => {
            let opens = syntax.attrs.first().is_some_and(|first| first.path().is_ident("doc"));
            let what = "a file opens with a `//!` doc that says what it is for";
            (!opens).then(|| Violation::new(&file.path, 1, RULE, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn a_doc_comes_first() {
        let tree = Tree::made_up(&[
            ("a.rs", "//! What it is for.\n#![allow(dead_code)]\n"),
            ("b.rs", "#![doc = include_str!(\"page.md\")]\n"),
            ("c.rs", "// Not a doc.\nfn f() {}\n"),
            ("d.rs", "#![allow(dead_code)]\n//! Too late.\n"),
            ("e.rs", "//! Broken.\n\nfn {\n"),
            ("f.rs", ""),
        ]);
        assert_eq!(places(&check(&tree)), ["c.rs:1", "d.rs:1", "e.rs:3", "f.rs:1"]);
    }
}
