//! Each bench runs once, small: what it prints has the promised form and counts something. Times are
//! never looked at.
//!
//! Without `/dev/fuse` these tests say SKIPPED, and fail when `CI=true`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// Whether a mount can be made here.
fn can_mount() -> bool {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(error) = &device {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no /dev/fuse in CI: {error}");
        eprintln!("SKIPPED: /dev/fuse: {error}");
    }
    device.is_ok()
}

/// The program of this build: the one beside the benches, made when it is not there.
fn arcwell() -> PathBuf {
    let bench = PathBuf::from(env!("CARGO_BIN_EXE_arcwell-bench"));
    let program = bench.with_file_name("arcwell");
    if !program.exists() {
        let profile =
            if bench.components().any(|part| part.as_os_str() == "release") { "release" } else { "dev" };
        let target = bench.ancestors().nth(2).unwrap();
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", "arcwell", "--bin", "arcwell", "--profile", profile])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success(), "arcwell cannot be built");
    }
    program
}

/// Runs a bench; the lines that it printed.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_arcwell-bench"))
        .args(arguments)
        .args(["--json", "--small"])
        .env("ARCWELL_BIN", arcwell())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_counted(run: &Value, field: &str) {
    assert!(run[field].as_f64().is_some_and(|number| number > 0.0), "{field} of {run}");
}

#[test]
fn fuse() {
    if !can_mount() {
        return;
    }
    let servers = ["arcwell", "arcwell-8k", "bare"];
    let mut lines = lines(&["fuse", "--threads", "1,4", "--servers", &servers.join(",")]);
    let summary = lines.pop().unwrap();
    // Two of the work read, and two trees for each kind of walk.
    assert_eq!(lines.len(), 6 * servers.len());
    for run in &lines {
        assert_eq!(run["kind"], "run");
        assert!(servers.contains(&run["server"].as_str().unwrap()), "{run}");
        for field in ["threads", "ops", "wall_ops", "server_cpu_ns", "client_cpu_ns"] {
            is_counted(run, field);
        }
        is_counted(run, "server_cpu_ns_per_op");
        assert!(run["repeat"].is_u64() && run["work"].is_string() && run["shape"].is_string(), "{run}");
        let is_ours = run["server"] != "bare";
        assert_eq!(
            run["origin_ops"].as_u64(),
            is_ours.then_some(0),
            "all is cached, nobody else writes: {run}"
        );
    }
    let reads =
        |threads: u64| lines.iter().filter(move |run| run["work"] == "read" && run["threads"] == threads);
    assert_eq!((reads(1).count(), reads(4).count()), (3, 3));
    assert_eq!(summary["kind"], "summary");
    assert_eq!(summary["medians"].as_array().unwrap().len(), lines.len());
    let ratios = summary["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), 12);
    ratios.iter().for_each(|ratio| is_counted(ratio, "server_cpu"));
}

#[test]
fn memory() {
    if !can_mount() {
        return;
    }
    let lines = lines(&["memory"]);
    let works: Vec<&str> = lines.iter().map(|run| run["work"].as_str().unwrap()).collect();
    assert_eq!(works, ["fill", "files", "directories"]);
    for run in &lines {
        for field in ["ops", "limit_bytes", "allowed_bytes", "rss_bytes", "peak_rss_bytes", "descriptors"] {
            is_counted(run, field);
        }
        assert!(run["is_within"].is_boolean(), "{run}");
    }
    assert!(lines[2]["descriptors"].as_u64().unwrap() <= 1024);
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let bench = || Command::new(env!("CARGO_BIN_EXE_arcwell-bench"));
    let arguments = ["fuse", "--small", "--servers", "arcwell"];
    let output = bench().args(arguments).env("ARCWELL_BIN", "/nowhere").output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: ARCWELL_BIN names /nowhere"), "{said}");
    assert!(!bench().args(["fuse", "--works", "sing"]).output().unwrap().status.success());
}
