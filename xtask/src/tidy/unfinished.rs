//! Nothing unfinished is committed: no `todo!`, `unimplemented!` or `dbg!`.

use proc_macro2::{TokenStream, TokenTree};

use super::Violation;
use crate::mention;
use crate::tree::{File, Tree};

const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().filter(|file| file.rust.is_some()).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let Ok(tokens) = file.text.parse::<TokenStream>() else { return Vec::new() };
    let mut violations = Vec::new();
    mention::every_token(tokens, &mut |trees, place| {
        let (TokenTree::Ident(word), Some(TokenTree::Punct(mark))) = (&trees[place], trees.get(place + 1))
        else {
            return;
        };
        if mark.as_char() == '!' && MACROS.iter().any(|name| word == name) {
            let what = format!("{word}! is not for the trunk");
            violations.push(Violation::new(&file.path, word.span().start().line, "unfinished", what));
        }
    });
    violations
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn unfinished_code_is_refused() {
        let text =
            "fn f() {\n    todo!();\n    g(dbg!(1));\n    unimplemented!()\n}\n// todo!() in words is fine\n";
        let tree = Tree::made_up(&[("src/a.rs", text)]);
        assert_eq!(places(&check(&tree)), ["src/a.rs:2", "src/a.rs:3", "src/a.rs:4"]);
    }
}
