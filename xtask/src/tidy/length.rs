//! Nothing longer than one can hold in the head: a file, a function.
//!
//! A function is measured from its signature to its closing brace, tests included. Functions that
//! stand in a macro call (`proptest!`) are measured too: the tokens of the file are read, not its
//! grammar.

use proc_macro2::{TokenStream, TokenTree};

use super::Violation;
use crate::mention;
use crate::tree::{File, Tree};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().filter(|file| file.rust.is_some()).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}: split it along an idea");
        violations.push(Violation::new(&file.path, 1, "file-length", what));
    }
    let Ok(tokens) = file.text.parse::<TokenStream>() else { return violations };
    mention::every_token(tokens, &mut |trees, place| {
        if let Some((name, first, last)) = function(trees, place)
            && last + 1 - first > FUNCTION_LINES_MAX
        {
            let what = format!("{name} has {} lines, at most {FUNCTION_LINES_MAX}", last + 1 - first);
            violations.push(Violation::new(&file.path, first, "function-length", what));
        }
    });
    violations
}

/// The name, first and last line of the function whose `fn` stands at `place`.
fn function(trees: &[TokenTree], place: usize) -> Option<(String, usize, usize)> {
    let (TokenTree::Ident(keyword), TokenTree::Ident(name)) = (trees.get(place)?, trees.get(place + 1)?)
    else {
        return None;
    };
    if keyword != "fn" {
        return None;
    }
    let last = mention::closing_line(trees, place)?;
    Some((name.to_string(), keyword.span().start().line, last))
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_seventy_lines_is_the_longest() {
        let good = Tree::made_up(&[("src/a.rs", &function_of(70))]);
        assert_eq!(check(&good), []);

        let bad = Tree::made_up(&[("src/a.rs", &function_of(71))]);
        assert_eq!(check(&bad)[0].to_string(), "src/a.rs:1: function-length: long has 71 lines, at most 70");
    }

    #[test]
    fn functions_in_impls_and_macro_calls_count() {
        let text = format!("impl A {{\n{}}}\nproptest! {{\n{}}}\n", function_of(71), function_of(71));
        let tree = Tree::made_up(&[("src/a.rs", &text)]);
        assert_eq!(places(&check(&tree)), ["src/a.rs:2", "src/a.rs:75"]);
    }

    #[test]
    fn a_file_of_six_hundred_lines_is_the_longest() {
        let good = Tree::made_up(&[("src/a.rs", &"// line\n".repeat(600))]);
        assert_eq!(check(&good), []);
        let bad = Tree::made_up(&[("src/a.rs", &"// line\n".repeat(601))]);
        assert_eq!(places(&check(&bad)), ["src/a.rs:1"]);
    }
}
