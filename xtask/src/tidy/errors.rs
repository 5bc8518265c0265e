//! An error keeps its source as what it was: text in its place cannot be matched, mapped or walked.
//!
//! What can be seen from the grammar is refused: a field of an error that should hold a source and
//! holds text, a variant made of text alone, an "other" error made from text, and a public function
//! whose error is a `String`. `Invalid` may hold text: bad input has no source but the person.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Violation;
use crate::mention;
use crate::tree::{File, Tree};

const RULE: &str = "error-source";
const SOURCE_FIELDS: &[&str] = &["source", "cause", "error"];
const TEXT: &[&str] = &["String", "str"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let sources = tree.sources().filter(|(file, _)| !file.is_test);
    sources.flat_map(|(file, syntax)| check_file(file, syntax)).collect()
}

fn check_file(file: &File, syntax: &syn::File) -> Vec<Violation> {
    let mut search = Search { file, violations: Vec::new() };
    search.visit_file(syntax);
    search.violations
}

struct Search<'tree> {
    file: &'tree File,
    violations: Vec<Violation>,
}

impl Search<'_> {
    fn fault(&mut self, line: usize, what: impl Into<String>) {
        self.violations.push(Violation::new(&self.file.path, line, RULE, what));
    }

    fn fields(&mut self, fields: &syn::Fields) {
        for field in fields {
            let Some(name) = &field.ident else { continue };
            if is_text(&field.ty) && SOURCE_FIELDS.iter().any(|source| name == source) {
                self.fault(name.span().start().line, format!("'{name}' holds text in place of a source"));
            }
        }
    }

    fn signature(&mut self, visibility: &syn::Visibility, signature: &syn::Signature) {
        if matches!(visibility, syn::Visibility::Public(_)) && errs_with_text(&signature.output) {
            let what = format!("{} is public and its error is a String", signature.ident);
            self.fault(signature.ident.span().start().line, what);
        }
    }
}

fn is_error(name: &syn::Ident) -> bool {
    let name = name.to_string();
    ["Error", "Cause", "Failure"].iter().any(|end| name.ends_with(end))
}

/// `String`, `&str`, and either of them in a `Box`, `Cow` or `Option`.
fn is_text(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Reference(reference) => is_text(&reference.elem),
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let wraps = ["Box", "Cow", "Option"].iter().any(|name| last.ident == name);
            TEXT.iter().any(|text| last.ident == text) || (wraps && arguments(last).any(is_text))
        }),
        _ => false,
    }
}

fn arguments(segment: &syn::PathSegment) -> impl Iterator<Item = &syn::Type> {
    let list = match &segment.arguments {
        syn::PathArguments::AngleBracketed(list) => Some(&list.args),
        _ => None,
    };
    list.into_iter().flatten().filter_map(|argument| match argument {
        syn::GenericArgument::Type(kind) => Some(kind),
        _ => None,
    })
}

fn errs_with_text(output: &syn::ReturnType) -> bool {
    let syn::ReturnType::Type(_, kind) = output else { return false };
    let syn::Type::Path(path) = &**kind else { return false };
    let last = path.path.segments.last();
    last.is_some_and(|last| last.ident == "Result" && arguments(last).nth(1).is_some_and(is_text))
}

/// Whether the argument of a call is plainly text: a literal, `format!`, `to_string`, `to_owned`.
fn is_made_of_text(tokens: TokenStream) -> bool {
    let is_text = |tree: &TokenTree| match tree {
        TokenTree::Literal(literal) => literal.to_string().starts_with('"'),
        TokenTree::Ident(word) => word == "format",
        _ => false,
    };
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let ends_as_text = trees.iter().any(|tree| matches!(tree, TokenTree::Ident(word) if word == "to_string"));
    trees.first().is_some_and(is_text) || ends_as_text
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !mention::is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if is_error(&item.ident) {
            self.fields(&item.fields);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        for variant in item.variants.iter().filter(|_| is_error(&item.ident)) {
            self.fields(&variant.fields);
            let is_unnamed = matches!(variant.fields, syn::Fields::Unnamed(_));
            let all_text = is_unnamed && variant.fields.iter().all(|field| is_text(&field.ty));
            if all_text && variant.ident != "Invalid" {
                let what = format!("{}::{} is text in place of a source", item.ident, variant.ident);
                self.fault(variant.ident.span().start().line, what);
            }
        }
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func {
            let words = function.path.segments.iter().map(|segment| segment.ident.to_string());
            let path = words.collect::<Vec<_>>().join("::");
            let is_other = ["Error::other", "Cause::Other"].iter().any(|end| path.ends_with(end));
            let tokens = self.file_tokens(call);
            if is_other && is_made_of_text(tokens) {
                self.fault(call.span().start().line, format!("{path} made from text has no source"));
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !mention::is_for_tests(&item.attrs) {
            self.signature(&item.vis, &item.sig);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !mention::is_for_tests(&item.attrs) {
            self.signature(&item.vis, &item.sig);
            visit::visit_impl_item_fn(self, item);
        }
    }
}

impl Search<'_> {
    /// The tokens of a call's only argument.
    fn file_tokens(&self, call: &syn::ExprCall) -> TokenStream {
        let text = call.args.first().and_then(|argument| argument.span().source_text());
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn sources_that_are_kept_pass() {
        let text = "pub enum Cause { Os(Errno), Invalid(String), Other(Box<dyn Error>), Busy }\n\
                    pub struct OpenError { path: String, source: Errno }\n\
                    fn f(text: &str) -> Result<u64, String> { Err(io::Error::other(error)) }\n\
                    pub struct Page { source: String }\n";
        assert_eq!(check(&Tree::made_up(&[("src/a.rs", text)])), []);
    }

    #[test]
    fn text_in_place_of_a_source_is_refused() {
        let text = "pub enum OpenError {\n    Io(String),\n    Walk { source: Option<String> },\n}\n\
                    pub fn f() -> Result<(), String> {\n    g(io::Error::other(format!(\"{e}\")));\n    \
                    g(Cause::Other(e.to_string().into()))\n}\n";
        let tree = Tree::made_up(&[("src/a.rs", text)]);
        assert_eq!(places(&check(&tree)), [2, 3, 5, 6, 7].map(|line| format!("src/a.rs:{line}")));
    }
}
