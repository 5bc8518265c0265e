//! The examples of `docs/SEMANTICS.md`, run as they stand there.
//!
//! A fenced block ```` ```console MODE ```` is one session: a fresh origin mounted with
//! `--coherence MODE`, each `$ command` run by a shell in the directory that holds `origin` and `mnt`,
//! and what it prints compared with the lines behind it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../docs/SEMANTICS.md");
const ARCWELL: &str = env!("CARGO_BIN_EXE_arcwell");

struct Session {
    line: usize,
    coherence: String,
    steps: Vec<(String, String)>,
}

fn sessions(page: &str) -> Vec<Session> {
    let mut sessions = Vec::new();
    let mut open: Option<Session> = None;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line) {
            (None, line) => {
                if let Some(mode) = line.strip_prefix("```console ") {
                    open = Some(Session { line: number + 1, coherence: mode.into(), steps: Vec::new() });
                }
            }
            (Some(_), "```") => sessions.extend(open.take()),
            (Some(session), line) => match (line.strip_prefix("$ "), session.steps.last_mut()) {
                (Some(command), _) => session.steps.push((command.into(), String::new())),
                (None, Some((_, expected))) => *expected += &format!("{line}\n"),
                (None, None) => panic!("line {}: a session begins with a command", number + 1),
            },
        }
    }
    sessions
}

/// Unmounts whatever happens.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let ended = Command::new(ARCWELL).arg("umount").arg(self.0.join("mnt")).output();
        assert!(ended.is_ok_and(|o| o.status.success()) || std::thread::panicking(), "unmount");
    }
}

/// What the shell prints for each command.
fn run(session: &Session, at: &Path) -> Vec<String> {
    for directory in ["origin", "mnt", "state", "run"] {
        std::fs::create_dir(at.join(directory)).unwrap();
    }
    let mount = Command::new(ARCWELL)
        .args(["mount", "origin", "mnt", "--state", "state", "--arc-max", "64MiB", "--coherence"])
        .arg(&session.coherence)
        .current_dir(at)
        .output()
        .unwrap();
    assert!(mount.status.success(), "{}", String::from_utf8_lossy(&mount.stderr));
    let _mounted = Mounted(at);
    let shell = |command: &String| {
        let output = Command::new("sh").arg("-c").arg(command).current_dir(at).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    session.steps.iter().map(|(command, _)| shell(command)).collect()
}

#[test]
fn the_examples_do_what_they_say() {
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI needs /dev/fuse");
        println!("SKIPPED: /dev/fuse cannot be opened");
        return;
    }
    let sessions = sessions(PAGE);
    assert!(sessions.len() >= 7, "the page lost its examples");
    for session in sessions {
        let at = tempfile::tempdir().unwrap();
        let printed = run(&session, at.path());
        for ((command, expected), printed) in session.steps.iter().zip(printed) {
            assert_eq!(&printed, expected, "SEMANTICS.md, session at line {}: $ {command}", session.line);
        }
    }
}

#[test]
fn a_wrong_example_is_noticed() {
    let page = "```console exclusive\n$ echo a\nb\n```\n";
    let [session] = &sessions(page)[..] else { panic!("one session") };
    assert_eq!(session.steps, [("echo a".into(), "b\n".into())]);
}
