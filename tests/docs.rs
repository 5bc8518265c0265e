//! The reference pages are what the code says: each is printed anew, and a stale one fails the test
//! (and is right afterwards).

use std::fs;
use std::path::Path;

use arcwell::reference;

#[test]
fn the_pages_are_fresh() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let pages = [("tunables.md", reference::tunables_page()), ("kstats.md", reference::kstats_page())];
    let stale: Vec<&str> = pages
        .iter()
        .filter(|(name, page)| fs::read_to_string(docs.join(name)).ok().as_ref() != Some(page))
        .map(|(name, page)| {
            fs::write(docs.join(name), page).unwrap();
            *name
        })
        .collect();
    assert!(stale.is_empty(), "stale, and rewritten: {}", stale.join(", "));
}
