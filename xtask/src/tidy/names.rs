//! Names that say nothing, and one name that would say two things.
//!
//! A module called after what it is not (`util`, `misc`) gathers what nobody placed; a numbered split
//! tells that a file was too long, not what its halves are about. `Arc` is the standard library's.

use proc_macro2::{TokenStream, TokenTree};

use super::Violation;
use crate::mention;
use crate::tree::{File, Tree};

/// Refused as a word of a name: `path_util` too.
const EMPTY_WORDS: &[&str] = &["util", "utils", "common", "helper", "helpers", "manager", "misc"];

/// Refused as the whole name.
const EMPTY_NAMES: &[&str] = &["inner", "impl", "types", "prelude"];

const TYPES: &[&str] = &["struct", "enum", "union", "trait", "type", "as"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let rust = tree.files.iter().filter(|file| file.rust.is_some());
    rust.flat_map(|file| check_path(&file.path).into_iter().chain(check_tokens(file))).collect()
}

/// What is wrong with the name of a file, folder or module, if anything.
fn fault(name: &str) -> Option<String> {
    if EMPTY_NAMES.contains(&name) || name.split(['_', '-']).any(|word| EMPTY_WORDS.contains(&word)) {
        return Some(format!("'{name}' says nothing of what is inside"));
    }
    let (before, number) = name.rsplit_once('_')?;
    let is_numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_numbered.then(|| format!("'{name}' is a numbered split of {before}: name it after its idea"))
}

fn check_path(path: &str) -> Option<Violation> {
    let what = path.trim_end_matches(".rs").split('/').find_map(fault)?;
    Some(Violation::new(path, 1, "names", what))
}

fn check_tokens(file: &File) -> Vec<Violation> {
    let Ok(tokens) = file.text.parse::<TokenStream>() else { return Vec::new() };
    let mut violations = Vec::new();
    mention::every_token(tokens, &mut |trees, place| {
        let (Some(TokenTree::Ident(keyword)), Some(TokenTree::Ident(name))) =
            (trees.get(place), trees.get(place + 1))
        else {
            return;
        };
        let (keyword, name, line) = (keyword.to_string(), name.to_string(), name.span().start().line);
        let has_body = matches!(trees.get(place + 2), Some(TokenTree::Group(_)));
        if keyword == "mod" && has_body {
            violations.extend(fault(&name).map(|what| Violation::new(&file.path, line, "names", what)));
        } else if TYPES.contains(&keyword.as_str()) && name == "Arc" {
            let what = "no type of ours is called Arc: it would be taken for the standard library's";
            violations.push(Violation::new(&file.path, line, "names", what));
        }
    });
    violations
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn names_that_say_something_pass() {
        let tree = Tree::made_up(&[
            ("crates/arc/src/list.rs", "use std::sync::Arc;\nstruct Held(Arc<u8>);\nmod tests {}\n"),
            ("crates/base/src/xxh3.rs", ""),
            ("crates/front/src/uncommon.rs", ""),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn names_that_say_nothing_are_refused() {
        let tree = Tree::made_up(&[
            ("crates/arc/src/list_2.rs", ""),
            ("crates/arc/src/path_util.rs", ""),
            ("crates/arc/src/prelude.rs", ""),
            ("crates/arc/tests/common/mod.rs", ""),
            ("src/lib.rs", "mod tests {\n    mod helpers {}\n}\n"),
        ]);
        let expected = [
            "crates/arc/src/list_2.rs:1",
            "crates/arc/src/path_util.rs:1",
            "crates/arc/src/prelude.rs:1",
            "crates/arc/tests/common/mod.rs:1",
            "src/lib.rs:2",
        ];
        assert_eq!(places(&check(&tree)), expected);
    }

    #[test]
    fn no_type_is_called_arc() {
        for text in ["struct Arc;", "enum Arc {}", "trait Arc {}", "type Arc = u8;", "use a::Cache as Arc;"] {
            assert_eq!(check(&Tree::made_up(&[("src/lib.rs", text)])).len(), 1, "{text}");
        }
    }
}
