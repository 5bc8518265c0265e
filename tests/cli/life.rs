//! The life of a mount, by the real binary: made, used, asked, told, ended, and found dead.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::bed::{Bed, Said, big, can_mount, wait_until};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn a_mount_serves_what_the_origin_holds_and_says_where_to_look() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    let said = bed.mount(&[]).fine();
    let (origin, mnt) = (bed.origin(), bed.mountpoint());
    assert!(said.starts_with(&format!("{} is mounted at {}\n", origin.display(), mnt.display())), "{said}");
    for words in ["cache      64 MiB: as asked", "coherence  timeout", "arcwell stat 1", "arcwell umount"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(fs::read_to_string(mnt.join("hello")).unwrap(), "hello, ghost\n");
    assert_eq!(fs::read(mnt.join("sub/big")).unwrap(), big());
    fs::write(mnt.join("new"), "through").unwrap();
    assert_eq!(fs::read_to_string(origin.join("new")).unwrap(), "through");
    let said = bed.run(&["umount", "mnt"]).fine();
    assert_eq!(said, format!("unmounted {}\n", mnt.display()));
    bed.assert_clean();
    assert!(bed.path("state/arcwell.log").exists());
    assert_eq!(bed.path("state").metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn size_and_state_are_chosen_when_nobody_says() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    // As root the default lies outside of the bed.
    let said = bed.run(&["mount", "origin", "mnt", "--state", "elsewhere/state"]).fine();
    assert!(said.contains(": half of ") || said.contains(": the least; "), "{said}");
    assert!(bed.path("elsewhere/state/pool.toml").exists());
    bed.run(&["umount", "mnt"]).fine();
}

#[test]
fn what_the_cache_does_can_be_asked() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    bed.mount(&["--coherence", "exclusive"]).fine();
    for _ in 0..3 {
        assert_eq!(fs::read(bed.mountpoint().join("sub/big")).unwrap(), big());
    }
    let all: Value = serde_json::from_str(&bed.run(&["stat", "--json"]).fine()).unwrap();
    let value = |name: &str| all[name].as_u64().unwrap();
    let kinds = ["demand_data", "demand_metadata", "prefetch_data", "prefetch_metadata"];
    for outcome in ["hits", "misses"] {
        let sum: u64 = kinds.iter().map(|kind| value(&format!("arc.{kind}_{outcome}"))).sum();
        assert_eq!(sum, value(&format!("arc.{outcome}")), "{all}");
    }
    assert!(value("arc.demand_data_hits") > 0 && value("origin.reads") > 0, "{all}");
    assert!(value("arc.size") <= value("arc.c_max") && value("arc.c_max") == 64 << 20, "{all}");
    let lines = bed.run(&["stat", "10ms", "3", "-f", "time,read,hit%,size", "--mount", "mnt/sub"]).fine();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["time", "read", "hit%", "size"]);
    assert_eq!(lines[2].split_whitespace().nth(1), Some("0"));
    assert!(bed.run(&["stat", "-x"]).fine().contains("mrugh"));
    assert_eq!(bed.run(&["stat", "1ms", "2", "--json"]).fine().lines().count(), 2);
    let line = bed.run(&["stat", "-f", "time,nothing"]).refused();
    assert_eq!(line, "nothing: there is no such column; see arcwell stat -f help");
    bed.run(&["umount", "mnt"]).fine();
}

#[test]
fn status_says_what_is_mounted_and_how_it_is() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    assert_eq!(bed.run(&["status"]).fine(), "nothing is mounted\n");
    bed.mount(&["--simulate", "nfs", "--primarycache", "metadata", "--recordsize", "16K"]).fine();
    let status = bed.status();
    let dataset = &status["datasets"][0];
    assert_eq!(dataset["mountpoint"], bed.mountpoint().to_str().unwrap());
    assert_eq!(dataset["origin"], bed.origin().to_str().unwrap());
    assert_eq!(dataset["health"]["state"], "online");
    assert_eq!(dataset["properties"]["primarycache"], "metadata");
    assert_eq!(dataset["properties"]["recordsize"], "16 KiB");
    assert_eq!(status["cache"]["limit"], 64 << 20);
    let text = bed.run(&["status"]).fine();
    assert!(text.contains("health     online") && text.contains("at most 64 MiB: as asked"), "{text}");
    bed.run(&["umount", "mnt"]).fine();
}

#[test]
fn tunables_are_shown_and_set() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    bed.mount(&["-o", "pool.workers_max=7", "--lists", "pages", "-o", "arc.page_size=32"]).fine();
    let shown =
        |name: &str| -> Value { serde_json::from_str(&bed.run(&["get", name, "--json"]).fine()).unwrap() };
    assert_eq!(shown("pool.workers_max")["value"], "7");
    assert_eq!(
        (&shown("arc.lists")["value"], &shown("arc.page_size")["value"]),
        (&"pages".into(), &"32".into())
    );
    let set = bed.run(&["set", "arc.size_max=32MiB", "pool.workers_max = 9"]).fine();
    assert_eq!(set, "arc.size_max = 32 MiB\npool.workers_max = 9\n");
    assert_eq!(bed.stat("arc.c_max"), 32 << 20);
    assert_eq!(shown("pool.workers_max")["value"], "9");
    assert_eq!(bed.run(&["set", "arc.move_threshold=0"]).fine(), "arc.move_threshold = 0%\n");
    let table = bed.run(&["get"]).fine();
    assert!(table.starts_with("NAME") && table.contains("prefetch."), "{table}");
    for (assignment, line) in [
        ("pool.workers_max=0", "pool.workers_max: '0' is not between 1 and 1024"),
        ("arc.lists=multilist", "arc.lists: can only be set at start"),
        ("arc.page_size=16", "arc.page_size: can only be set at start"),
        ("arc.move_threshold=95", "arc.move_threshold: '95' is not between 0% and 90%"),
        ("nothing=1", "nothing: there is no such tunable"),
        ("arc.size_max", "'arc.size_max': write NAME=VALUE, such as arc.size_max=2GiB"),
    ] {
        assert!(bed.run(&["set", assignment]).refused().ends_with(line), "{assignment}");
    }
    let line = bed.run(&["set", "arc.size_max=1000T"]).refused();
    assert!(line.starts_with("arc.size_max: 1000 TiB is more than this machine's memory"), "{line}");
    bed.run(&["umount", "mnt"]).fine();
}

#[test]
fn what_is_primed_is_cached_and_then_not_asked_for() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    bed.mount(&["--coherence", "exclusive"]).fine();
    let cached = || -> Value { serde_json::from_str(&bed.run(&["cached", "mnt", "--json"]).fine()).unwrap() };
    let bytes = 13 + big().len();
    assert_eq!((&cached()["bytes"], &cached()["bytes_cached"]), (&bytes.into(), &0.into()));
    let said = bed.run(&["prime", "mnt/hello", "mnt/sub"]).fine();
    assert!(said.starts_with("primed 2 files, "), "{said}");
    assert_eq!(cached()["bytes_cached"], bytes);
    let reads = bed.stat("origin.reads");
    assert_eq!(fs::read(bed.mountpoint().join("sub/big")).unwrap(), big());
    assert_eq!(bed.stat("origin.reads"), reads);
    let table = bed.run(&["cached", "mnt/sub/big"]).fine();
    assert!(table.contains(" 100") && table.contains("of 1 files"), "{table}");
    for words in [["cached", "mnt/missing"], ["prime", "mnt/missing"]] {
        let line = bed.run(&words).refused();
        assert!(line.contains("mnt/missing: No such file or directory"), "{line}");
    }
    let line = bed.run(&["cached", "origin"]).refused();
    assert!(line.ends_with("origin: is not in a mount of a running arcwell"), "{line}");
    bed.run(&["umount", "mnt"]).fine();
}

#[test]
fn a_directory_is_mounted_over_itself() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    let said = bed.run(&["mount", "--over", "origin", "--state", "state", "--arc-max", "32M"]).fine();
    assert!(said.contains("is mounted over itself"), "{said}");
    assert!(bed.is_mounted(&bed.origin()));
    assert_eq!(fs::read(bed.origin().join("sub/big")).unwrap(), big());
    fs::write(bed.origin().join("new"), "below").unwrap();
    let line = bed.run(&["mount", "--over", "origin", "--state", "other"]).refused();
    assert!(line.contains("is mounted by arcwell already"), "{line}");
    bed.run(&["umount", "origin"]).fine();
    assert_eq!(fs::read_to_string(bed.origin().join("new")).unwrap(), "below");
    bed.assert_clean();
}

#[test]
fn a_mountpoint_of_another_file_system_is_mounted_over_too() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    let origin = bed.origin();
    match rustix::mount::mount("disk", &origin, "tmpfs", MountFlags::empty(), None) {
        Ok(()) => {}
        Err(_) => return println!("SKIPPED: only root may mount a disk"),
    }
    fs::write(origin.join("kept"), "on the disk").unwrap();
    let said = bed.run(&["mount", "--over", "origin", "--state", "state", "--arc-max", "32M"]);
    let read = fs::read_to_string(origin.join("kept"));
    let ended = bed.run(&["umount", "origin"]);
    let again = bed.run(&["umount", "origin"]);
    rustix::mount::unmount(&origin, UnmountFlags::DETACH).unwrap();
    assert!(said.fine().contains("is mounted over itself"));
    assert_eq!(read.unwrap(), "on the disk");
    ended.fine();
    assert!(again.refused().ends_with("origin: is not mounted by arcwell"));
}

#[test]
fn signals_end_a_daemon_cleanly() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    for signal in [Signal::TERM, Signal::INT] {
        bed.mount(&[]).fine();
        bed.end_by(signal);
        bed.assert_clean();
    }
}

#[test]
fn in_the_foreground_it_ends_with_success_when_unmounted_from_outside() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    let mut child = bed
        .command()
        .args(["mount", "origin", "mnt", "--state", "state", "--arc-max", "32M", "--foreground"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains(" is mounted at "), "{line}");
    assert_eq!(bed.pid(), Pid::from_child(&child));
    bed.unmount_from_outside();
    let status = child.wait().unwrap();
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(status.success(), "{status}: {log}");
    assert!(log.contains("unmounted"), "{log}");
    bed.assert_clean();
}

#[test]
fn what_a_killed_daemon_leaves_is_detached_by_the_next_mount_and_by_umount() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    bed.mount(&[]).fine();
    bed.end_by(Signal::KILL);
    assert!(bed.is_mounted(&bed.mountpoint()));
    let said = bed.mount(&[]).fine();
    let note =
        format!("detached {}, which a daemon that died had left mounted\n", bed.mountpoint().display());
    assert!(said.starts_with(&note), "{said}");
    assert_eq!(fs::read(bed.mountpoint().join("sub/big")).unwrap(), big());
    bed.end_by(Signal::KILL);
    assert_eq!(bed.run(&["umount", "mnt"]).fine(), note);
    assert_eq!(bed.run(&["status"]).fine(), "nothing is mounted\n");
    bed.assert_clean();
    let line = bed.run(&["umount", "mnt"]).refused();
    assert!(line.ends_with("mnt: is not mounted by arcwell"), "{line}");
}

#[test]
fn an_open_file_holds_a_mount_unless_forced() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    bed.mount(&[]).fine();
    let mut file = File::open(bed.mountpoint().join("hello")).unwrap();
    let line = bed.run(&["umount", "mnt"]).refused();
    assert!(line.ends_with("a file is open; close first, or use --force"), "{line}");
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello, ghost\n");
    bed.run(&["umount", "--force", "mnt"]).fine();
    assert!(file.read_to_string(&mut text).is_err());
    bed.assert_clean();
}

#[test]
fn a_daemon_ends_though_its_origin_hangs() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    fs::create_dir(bed.path("mnt2")).unwrap();
    bed.mount(&[]).fine();
    let first = bed.pid();
    bed.run(&["mount", "mnt", "mnt2", "--state", "state2", "--arc-max", "32M"]).fine();
    assert_eq!(fs::read(bed.path("mnt2/sub/big")).unwrap(), big());
    kill_process(first, Signal::STOP).unwrap();
    let of_second = ["status", "--json", "--mount", "mnt2"];
    let status: Value = serde_json::from_str(&bed.run(&of_second).fine()).unwrap();
    assert_eq!(status["datasets"][0]["health"]["state"], "degraded", "{status}");
    bed.run(&["umount", "--force", "mnt2"]).fine();
    assert!(!bed.is_mounted(&bed.path("mnt2")));
    kill_process(first, Signal::CONT).unwrap();
    bed.run(&["umount", "mnt"]).fine();
    bed.assert_clean();
}

#[test]
fn several_mounts_are_told_apart_by_a_path() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    fs::create_dir_all(bed.path("mnt2")).unwrap();
    bed.mount(&[]).fine();
    bed.run(&["mount", "origin", "mnt2", "--state", "state2", "--arc-max", "32M", "--read-only"]).fine();
    let line = bed.run(&["stat"]).refused();
    assert!(line.starts_with("several are mounted: say which with --mount: "), "{line}");
    assert_eq!(bed.run(&["status", "--json"]).fine().lines().count(), 2);
    let second = bed.run(&["status", "--json", "--mount", "mnt2/sub"]).fine();
    assert!(second.contains("mnt2"), "{second}");
    assert!(fs::write(bed.path("mnt2/new"), "x").is_err());
    bed.run(&["umount", "mnt2"]).fine();
    assert_eq!(bed.run(&["stat"]).fine().lines().count(), 2);
    bed.run(&["umount", "mnt"]).fine();
    bed.assert_clean();
}

#[test]
fn the_demonstration_checks_itself_and_cleans_up() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    fs::create_dir(bed.path("tmp")).unwrap();
    let mut demo = bed.command();
    demo.env("TMPDIR", bed.path("tmp")).args(["demo", "--files", "60", "--reads", "20"]);
    let said = Said::from(demo.output().unwrap()).fine();
    assert!(said.contains("find 60 files") && said.contains("coherence=exclusive"), "{said}");
    assert!(said.contains("origin operations were avoided"), "{said}");
    let row = said.lines().find(|line| line.starts_with("find ")).unwrap();
    assert_eq!(row.split_whitespace().last(), Some("0"), "{said}");
    assert_eq!(fs::read_dir(bed.path("tmp")).unwrap().count(), 0);
    let mut child = demo.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the demonstration mounts", || bed.run(&["status"]).out.contains("health"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert!(!child.wait().unwrap().success(), "{complaint}");
    assert_eq!(complaint, "arcwell: interrupted; unmounted and cleaned up\n");
    assert_eq!(fs::read_dir(bed.path("tmp")).unwrap().count(), 0);
    bed.assert_clean();
}
