//! Bad input: each mistake gets one clear line and a status that is not zero, and nothing half
//! mounted is left behind.

use std::fs;
use std::io;
use std::process::Stdio;

use crate::bed::{Bed, can_mount};

/// Mounts with these words and returns the complaint.
fn refused(bed: &Bed, words: &[&str]) -> String {
    let line = bed.run(&[&["mount"], words].concat()).refused();
    bed.assert_clean();
    line
}

#[test]
fn places_that_cannot_be_are_refused() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    fs::create_dir_all(bed.path("full/x")).unwrap();
    for (words, end) in [
        (["missing", "mnt"], "origin missing: No such file or directory"),
        (["origin/hello", "mnt"], "origin origin/hello: Not a directory"),
        (["origin", "missing"], "mountpoint missing: No such file or directory"),
        (["origin", "origin/hello"], "mountpoint origin/hello: Not a directory"),
        (["origin", "full"], "full: is not empty: what is in it would be hidden"),
        (["origin", "origin"], "origin: is the origin itself; to mount it on itself, use --over"),
        (
            ["origin", "origin/sub"],
            "sub: lies inside the origin: it would show itself; mount elsewhere, or use --over",
        ),
        (
            ["origin/sub", "origin"],
            "origin: contains the origin, which it would hide; mount elsewhere, or use --over",
        ),
    ] {
        let line = refused(&bed, &[words[0], words[1], "--state", "state"]);
        assert!(line.ends_with(end), "{line}");
        assert!(!bed.path("state").exists(), "{line}");
    }
    let line = refused(&bed, &["missing", "--over", "--state", "state"]);
    assert_eq!(line, "origin missing: No such file or directory");
}

#[test]
fn values_that_cannot_be_are_refused() {
    let bed = Bed::new();
    for (words, line) in [
        (["--arc-max", "4Q"], "--arc-max: '4Q' is not auto or a size such as 512M or 4GiB"),
        (["--recordsize", "100K"], "--recordsize: '100K' is not a power of two between 512 and 16M"),
        (["--recordsize", "8Z"], "--recordsize: '8Z' is not a size such as 512, 128K, 64MiB or 4GiB"),
        (["--coherence", "never"], "--coherence: 'never' is not one of exclusive, notify, timeout"),
        (["--primarycache", "some"], "--primarycache: 'some' is not one of all, metadata, none"),
        (["--attr-timeout", "1 day"], "--attr-timeout: '1 day' is not a duration such as"),
        (["--simulate", "tape"], "--simulate: 'tape' cannot be simulated; one of hdd, nfs, s3 can"),
        (["--lists", "books"], "--lists: 'books' is not one of single, multilist, pages"),
        (["-o", "arc"], "-o: 'arc': write NAME=VALUE, such as arc.size_max=2GiB"),
        (["--nothing", "x"], "unexpected argument '--nothing' found"),
    ] {
        let said = refused(&bed, &[&["origin", "mnt"], &words[..]].concat());
        assert!(said.starts_with(line), "{said}");
    }
    assert_eq!(
        refused(&bed, &["origin"]),
        "the following required arguments were not provided: <MOUNTPOINT>"
    );
    assert_eq!(
        refused(&bed, &["origin", "mnt", "--over"]),
        "the argument '[MOUNTPOINT]' cannot be used with '--over'"
    );
}

#[test]
fn a_cache_that_cannot_be_is_refused() {
    let bed = Bed::new();
    let said = refused(&bed, &["origin", "mnt", "--arc-max", "1M"]);
    assert_eq!(said, "--arc-max: 1 MiB is too small: at least 16 MiB are needed");
    let said = refused(&bed, &["origin", "mnt", "--arc-max", "4000T"]);
    assert!(said.starts_with("--arc-max: 4000 TiB is more than this machine's memory, "), "{said}");
    let said = refused(&bed, &["origin", "mnt", "-o", "arc.size_max=4000T"]);
    assert!(said.starts_with("arc.size_max: 4000 TiB is more than this machine's memory, "), "{said}");
}

#[test]
fn tunables_that_cannot_be_leave_nothing_mounted() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    for (setting, end) in [
        ("nothing=1", "nothing: there is no such tunable"),
        ("arc.lists=round", "arc.lists: 'round' is not one of single, multilist, pages"),
        ("arc.page_size=5000", "arc.page_size: '5000' is not between 0 and 4096"),
        ("pool.workers_max=0", "pool.workers_max: '0' is not between 1 and 1024"),
    ] {
        let line = refused(&bed, &["origin", "mnt", "--state", "state", "-o", setting]);
        assert!(line.ends_with(end), "{line}");
    }
    bed.mount(&[]).fine();
    bed.run(&["umount", "mnt"]).fine();
}

#[test]
fn a_place_or_a_state_that_is_in_use_is_refused() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    for name in ["other", "mnt2"] {
        fs::create_dir(bed.path(name)).unwrap();
    }
    bed.mount(&[]).fine();
    let again = bed.run(&["mount", "origin", "mnt", "--state", "state2"]).refused();
    assert!(again.contains("mnt: is mounted by arcwell already"), "{again}");
    let in_use = bed.run(&["mount", "origin", "mnt2", "--state", "state"]).refused();
    assert!(in_use.contains("state: in use by another instance"), "{in_use}");
    assert!(!bed.is_mounted(&bed.path("mnt2")));
    assert!(bed.is_mounted(&bed.mountpoint()));
    bed.run(&["umount", "mnt"]).fine();
    let foreign = refused(&bed, &["other", "mnt", "--state", "state"]);
    assert!(foreign.contains("state: it belongs to the pool "), "{foreign}");
    let not_one = refused(&bed, &["origin", "mnt", "--state", "origin/sub"]);
    assert!(not_one.contains("it holds other files and is not a state directory"), "{not_one}");
    for words in
        [&["origin", "mnt", "--state", "mnt/state"][..], &["--over", "origin", "--state", "origin/s"]]
    {
        let covered = refused(&bed, words);
        assert!(covered.ends_with(": the mount would cover it; name another"), "{covered}");
    }
    assert!(!bed.path("mnt/state").exists() && !bed.path("origin/s").exists());
    assert!(bed.run(&["umount", "/proc"]).refused().ends_with("/proc: is not mounted by arcwell"));
}

#[test]
fn too_few_open_files_are_refused_and_few_are_enough() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    for number in 0..300 {
        fs::write(bed.origin().join(format!("file{number}")), "x").unwrap();
    }
    let mount = ["mount", "origin", "mnt", "--state", "state"];
    let line = bed.run_with_open_files(20, &mount).refused();
    assert!(line.starts_with("open files: the limit is below 64"), "{line}");
    bed.assert_clean();
    bed.run_with_open_files(64, &mount).fine();
    for number in 0..300 {
        assert_eq!(fs::read(bed.mountpoint().join(format!("file{number}"))).unwrap(), b"x");
    }
    let open: Vec<fs::File> = (0..300)
        .map(|number| fs::File::open(bed.mountpoint().join(format!("file{number}"))).unwrap())
        .collect();
    bed.run(&["status"]).fine();
    drop(open);
    bed.run(&["umount", "mnt"]).fine();
    bed.assert_clean();
}

#[test]
fn a_reader_that_goes_away_is_no_news() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    for words in [
        &["mount", "origin", "mnt", "--state", "state"][..],
        &["set", "arc.size_max=64M"],
        &["get", "--json"],
        &["status"],
        &["stat"],
        &["prime", "mnt"],
        &["cached", "mnt"],
        &["cached", "mnt", "--json"],
        &["umount", "mnt"],
    ] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = bed.command().args(words).stdout(Stdio::from(writer)).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{words:?}");
    }
    bed.assert_clean();
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let deaf = bed.command().arg("stat").stderr(Stdio::from(writer)).status().unwrap();
    assert_eq!(deaf.code(), Some(1), "a complaint that nobody hears");
}

#[test]
fn without_a_daemon_there_is_nothing_to_ask() {
    let bed = Bed::new();
    for words in [&["stat"][..], &["get"], &["set", "arc.size_max=1G"]] {
        assert_eq!(bed.run(words).refused(), "nothing is mounted; see arcwell mount --help");
    }
    for words in [["prime", "mnt"], ["cached", "mnt"]] {
        let line = bed.run(&words).refused();
        assert!(line.ends_with("mnt: is not in a mount of a running arcwell"), "{line}");
    }
    assert!(bed.run(&["umount", "mnt"]).refused().ends_with("mnt: is not mounted by arcwell"));
    assert_eq!(bed.run(&["mont"]).refused(), "unrecognized subcommand 'mont'");
}
