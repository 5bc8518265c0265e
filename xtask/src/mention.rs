//! Which paths (`std::fs::read`) a source file mentions outside its tests.
//!
//! Three places can hold one: `use` trees, paths in code and types, and the tokens of a macro call,
//! which no parser of Rust understands; there every run of words joined by `::` counts.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A path, as written, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    /// Words joined by `::`.
    pub(crate) path: String,
    /// Line, from 1.
    pub(crate) line: usize,
}

/// The paths that `file` mentions outside of what is compiled for tests only.
pub(crate) fn outside_tests(file: &syn::File) -> Vec<Mention> {
    let mut found = Paths::default();
    found.visit_file(file);
    found.0
}

/// Whether these attributes make their item part of a test build only.
pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("test") {
            return true;
        }
        let words = match &attribute.meta {
            syn::Meta::List(list) if attribute.path().is_ident("cfg") => words(list.tokens.clone()),
            _ => return false,
        };
        words.iter().any(|word| word == "test") && !words.iter().any(|word| word == "not")
    })
}

/// Whether `whole` is `prefix` or goes on from it after `joint`.
pub(crate) fn starts_with(whole: &str, prefix: &str, joint: &str) -> bool {
    whole.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(joint))
}

fn words(tokens: TokenStream) -> Vec<String> {
    let each = |tree| match tree {
        TokenTree::Ident(word) => vec![word.to_string()],
        TokenTree::Group(group) => words(group.stream()),
        _ => Vec::new(),
    };
    tokens.into_iter().flat_map(each).collect()
}

#[derive(Default)]
struct Paths(Vec<Mention>);

impl Paths {
    fn add(&mut self, words: &[String], line: usize) {
        self.0.push(Mention { path: words.join("::"), line });
    }

    fn add_use(&mut self, before: &[String], tree: &syn::UseTree) {
        let line = tree.span().start().line;
        let with = |word: String| before.iter().cloned().chain([word]).collect::<Vec<_>>();
        match tree {
            syn::UseTree::Path(path) => self.add_use(&with(path.ident.to_string()), &path.tree),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.add_use(before, item)),
            syn::UseTree::Name(name) if name.ident == "self" => self.add(before, line),
            syn::UseTree::Name(name) => self.add(&with(name.ident.to_string()), line),
            syn::UseTree::Rename(rename) => self.add(&with(rename.ident.to_string()), line),
            _ => self.add(&with("*".to_owned()), line),
        }
    }

    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut words: Vec<String> = Vec::new();
        let mut line = 0;
        let mut joints = 0;
        for tree in tokens {
            match tree {
                TokenTree::Ident(word) => {
                    if joints < 2 && !words.is_empty() {
                        self.add(&std::mem::take(&mut words), line);
                    }
                    if words.is_empty() {
                        line = word.span().start().line;
                    }
                    words.push(word.to_string());
                    joints = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => joints += 1,
                other => {
                    if !words.is_empty() {
                        self.add(&std::mem::take(&mut words), line);
                    }
                    if let TokenTree::Group(group) = other {
                        self.add_tokens(group.stream());
                    }
                }
            }
        }
        if !words.is_empty() {
            self.add(&words, line);
        }
    }
}

/// Visits these kinds of item only when they are not for tests.
macro_rules! skip_tests {
    ($($method:ident: $item:ident,)*) => {
        $(fn $method(&mut self, item: &'ast syn::$item) {
            if !is_for_tests(&item.attrs) {
                visit::$method(self, item);
            }
        })*
    };
}

impl<'ast> Visit<'ast> for Paths {
    skip_tests! {
        visit_item_mod: ItemMod,
        visit_item_fn: ItemFn,
        visit_item_impl: ItemImpl,
        visit_item_struct: ItemStruct,
        visit_item_enum: ItemEnum,
        visit_item_trait: ItemTrait,
        visit_item_const: ItemConst,
        visit_item_static: ItemStatic,
        visit_item_macro: ItemMacro,
        visit_impl_item_fn: ImplItemFn,
        visit_trait_item_fn: TraitItemFn,
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.add_use(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(&words, path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

/// Calls `each` with every token of a stream, those inside groups too, in order.
pub(crate) fn every_token(tokens: TokenStream, each: &mut impl FnMut(&[TokenTree], usize)) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    for place in 0..trees.len() {
        each(&trees, place);
        if let TokenTree::Group(group) = &trees[place] {
            every_token(group.stream(), each);
        }
    }
}

/// The line of the brace that closes the first `{ … }` at or after `place`, before any `;`.
pub(crate) fn closing_line(trees: &[TokenTree], place: usize) -> Option<usize> {
    let ends = |tree: &&TokenTree| match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        _ => false,
    };
    match trees.get(place..)?.iter().find(ends)? {
        TokenTree::Group(group) => Some(group.span_close().start().line),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let file = syn::parse_file(text).expect("the sample parses");
        outside_tests(&file).into_iter().map(|mention| mention.path).collect()
    }

    #[test]
    fn use_trees_are_flattened() {
        let found = paths("use std::{fs::{self, File}, io as words, thread::*};");
        assert_eq!(found, ["std::fs", "std::fs::File", "std::io", "std::thread::*"]);
    }

    #[test]
    fn macros_hide_nothing() {
        let found = paths("fn f() { assert!(ok(std::fs::read(x)), one, a::b); }");
        assert!(found.contains(&"std::fs::read".to_owned()), "{found:?}");
        assert!(found.contains(&"a::b".to_owned()), "{found:?}");
    }

    #[test]
    fn tests_do_not_count() {
        assert_eq!(paths("#[cfg(test)] mod tests { use std::fs; }"), [""; 0]);
        assert_eq!(paths("#[cfg(all(test, unix))] use std::fs;"), [""; 0]);
        assert_eq!(paths("#[cfg(not(test))] use std::fs;"), ["std::fs"]);
    }
}
