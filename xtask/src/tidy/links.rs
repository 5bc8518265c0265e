//! Links of the pages to files of this repository lead somewhere.

use super::Violation;
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| check_page(tree, page)).collect()
}

fn check_page(tree: &Tree, page: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut in_code = false;
    for (place, line) in page.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in targets(line) {
            if !leads_somewhere(tree, &page.path, &target) {
                let what = format!("'{target}' is not in this repository");
                violations.push(Violation::new(&page.path, place + 1, "links", what));
            }
        }
    }
    violations
}

/// Where the links of a line point to: `[text](target)` and `[name]: target`, outside of `code`.
fn targets(line: &str) -> Vec<String> {
    let prose: String = line.split('`').step_by(2).collect();
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let mut found: Vec<String> = inline.map(str::to_owned).collect();
    if let Some((_, target)) = prose.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        found.extend(target.split_whitespace().next().map(str::to_owned));
    }
    found
}

fn leads_somewhere(tree: &Tree, page: &str, target: &str) -> bool {
    let file = target.split('#').next().unwrap_or_default();
    if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
        return true;
    }
    let mut parts: Vec<&str> = if file.starts_with('/') { Vec::new() } else { page.split('/').collect() };
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.is_empty() => return false,
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    tree.paths.contains(&parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn links_that_lead_somewhere_pass() {
        let page = "[a](../README.md#top) [b](adr/) [c](https://example.org/x) [d](#here) `[e](gone.md)`\n\
                    [f]: /docs/adr/README.md\n```\n[g](gone.md)\n```\n";
        let tree = Tree::made_up(&[("README.md", ""), ("docs/page.md", page), ("docs/adr/README.md", "")]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn links_that_lead_nowhere_are_refused() {
        let page = "fine\n[a](gone.md)\n[b]: ../../outside.md\n![c](picture.svg)\n";
        let tree = Tree::made_up(&[("docs/page.md", page)]);
        assert_eq!(places(&check(&tree)), ["docs/page.md:2", "docs/page.md:3", "docs/page.md:4"]);
    }
}
