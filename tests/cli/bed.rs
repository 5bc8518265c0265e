//! A bed for tests of the real binary: an origin, a mountpoint, a state and a runtime directory of
//! its own, and a guard that leaves nothing mounted and no daemon running.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up: generous, as the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether this machine can mount. In CI it must.
pub(crate) fn can_mount() -> bool {
    if Path::new("/dev/fuse").exists() {
        return true;
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "CI has no /dev/fuse");
    println!("SKIPPED: no /dev/fuse");
    false
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to be: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    /// Its status.
    pub(crate) code: Option<i32>,
    /// What it printed.
    pub(crate) out: String,
    /// What it complained about.
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Said {
    /// What it printed, having succeeded without a complaint.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        self.out
    }

    /// Its one line of complaint, having failed.
    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert!(self.code.is_some_and(|code| code != 0), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        let line = self.err.strip_suffix('\n').unwrap_or_default();
        assert!(line.starts_with("arcwell: ") && !line.contains('\n'), "{self:?}");
        line["arcwell: ".len()..].to_owned()
    }
}

/// An origin with a few files, and where to mount it.
pub(crate) struct Bed {
    root: TempDir,
}

impl Bed {
    /// Makes the directories and the files `hello` and `sub/big`.
    pub(crate) fn new() -> Bed {
        let bed = Bed { root: tempfile::tempdir().unwrap() };
        for name in ["origin/sub", "mnt", "run"] {
            fs::create_dir_all(bed.path(name)).unwrap();
        }
        fs::write(bed.origin().join("hello"), "hello, ghost\n").unwrap();
        fs::write(bed.origin().join("sub/big"), big()).unwrap();
        bed
    }

    /// A path in the bed.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    /// The origin.
    pub(crate) fn origin(&self) -> PathBuf {
        self.path("origin")
    }

    /// The mountpoint.
    pub(crate) fn mountpoint(&self) -> PathBuf {
        self.path("mnt")
    }

    /// The program, in this bed's surroundings.
    pub(crate) fn command(&self) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_arcwell"))
    }

    /// Any program, in this bed's surroundings.
    fn command_of(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("ARCWELL_RUNTIME_DIR", self.path("run"))
            .env("XDG_STATE_HOME", self.path("states"))
            .current_dir(self.root.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Said {
        self.command().args(words).output().unwrap().into()
    }

    /// Runs the program with these words where no more files may be open.
    pub(crate) fn run_with_open_files(&self, limit: usize, words: &[&str]) -> Said {
        let program = self.command();
        let mut shell = self.command_of("sh");
        let line = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
        shell.args(["-c", &line]).arg(program.get_program()).args(words).output().unwrap().into()
    }

    /// Mounts with these further words.
    pub(crate) fn mount(&self, more: &[&str]) -> Said {
        self.run(&[&["mount", "origin", "mnt", "--state", "state", "--arc-max", "64M"], more].concat())
    }

    /// The status of the daemon.
    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.run(&["status", "--json"]).fine()).unwrap()
    }

    /// One statistic.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        let all: Value = serde_json::from_str(&self.run(&["stat", "--json"]).fine()).unwrap();
        all[name].as_u64().unwrap()
    }

    /// The daemon's process.
    pub(crate) fn pid(&self) -> Pid {
        let pid = self.status()["pid"].as_i64().unwrap();
        Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }

    /// Sends the daemon a signal and waits until its process is gone.
    pub(crate) fn end_by(&self, signal: Signal) {
        let pid = self.pid();
        kill_process(pid, signal).unwrap();
        wait_until("the daemon ends", || test_kill_process(pid).is_err());
    }

    /// Unmounts as any other program would.
    pub(crate) fn unmount_from_outside(&self) {
        let mountpoint = self.mountpoint();
        if rustix::mount::unmount(&mountpoint, UnmountFlags::empty()) == Err(Errno::PERM) {
            let status = Command::new("fusermount3").arg("-u").arg(&mountpoint).status().unwrap();
            assert!(status.success());
        }
        assert!(!self.is_mounted(&mountpoint));
    }

    /// Whether something of ours is mounted at a path.
    pub(crate) fn is_mounted(&self, path: &Path) -> bool {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let path = path.to_str().unwrap();
        mounts.lines().any(|line| line.split(' ').nth(4) == Some(path) && line.contains("fuse.arcwell"))
    }

    /// Whether nothing is left of a mount: neither in the kernel nor in the runtime directory.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        assert!(!self.is_mounted(&self.mountpoint()) && !self.is_mounted(&self.origin()));
        let sockets: Vec<_> =
            fs::read_dir(self.path("run")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(sockets, Vec::<PathBuf>::new());
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for path in [self.path("mnt2"), self.mountpoint(), self.origin()] {
            if self.is_mounted(&path) {
                let said = self.run(&["umount", "--force", path.to_str().unwrap()]);
                eprintln!("left mounted: {said:?}");
            }
        }
    }
}

/// The contents of `sub/big`: several records, no two alike.
pub(crate) fn big() -> Vec<u8> {
    (0..100_000u32).flat_map(u32::to_le_bytes).collect()
}
