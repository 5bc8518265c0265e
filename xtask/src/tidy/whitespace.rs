//! Blanks: none at the end of a line, no tabs, one newline at the end of a file.
//!
//! Files of data (below a folder `fixtures`) hold what they hold.

use super::Violation;
use crate::tree::{File, Tree};

const RULE: &str = "whitespace";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let ours = tree.files.iter().filter(|file| !file.path.split('/').any(|part| part == "fixtures"));
    ours.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (place, line) in file.text.split('\n').enumerate() {
        let mut fault = |what: &str| violations.push(Violation::new(&file.path, place + 1, RULE, what));
        if line.ends_with('\r') {
            fault("the line ends in a carriage return");
        } else if line.ends_with(char::is_whitespace) {
            fault("the line ends in blanks");
        }
        if line.contains('\t') {
            fault("the line holds a tab");
        }
    }
    let ends_well = file.text.is_empty() || (file.text.ends_with('\n') && !file.text.ends_with("\n\n"));
    if !ends_well {
        let what = "the file ends in one newline";
        violations.push(Violation::new(&file.path, file.text.lines().count(), RULE, what));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn blanks_at_the_end_are_refused() {
        let tree = Tree::made_up(&[
            ("a.md", "good\n\nstill good\n"),
            ("b.md", "fine\ntrailing \n"),
            ("c.md", "a\ttab\n"),
            ("d.md", "no newline"),
            ("e.md", "one too many\n\n"),
            ("f.md", "from elsewhere\r\n"),
            ("tests/fixtures/g.txt", "as it was \t"),
        ]);
        assert_eq!(places(&check(&tree)), ["b.md:2", "c.md:1", "d.md:1", "e.md:2", "f.md:1"]);
    }
}
