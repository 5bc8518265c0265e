//! The reference pages are what the code says: each is printed anew, and a stale one fails the test
//! (and is right afterwards).

use std::fs;
use std::path::Path;
use std::process::Command;

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

#[test]
fn every_command_has_a_man_page_and_a_completion() {
    let pages = tempfile::tempdir().unwrap();
    let arcwell = || Command::new(env!("CARGO_BIN_EXE_arcwell"));
    assert!(arcwell().arg("manual").arg(pages.path()).status().unwrap().success());
    let completions = arcwell().args(["manual", "--complete", "bash"]).output().unwrap().stdout;
    let completions = String::from_utf8(completions).unwrap();
    for command in
        ["mount", "umount", "stat", "status", "get", "set", "prime", "cached", "sim", "demo", "bench"]
    {
        let page = fs::read_to_string(pages.path().join(format!("arcwell-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH OPTIONS"), "{command}");
        assert!(completions.contains(&format!("arcwell__subcmd__{command}")), "{command}");
    }
    assert!(fs::read_to_string(pages.path().join("arcwell.1")).unwrap().contains("arcwell\\-mount(1)"));
}
