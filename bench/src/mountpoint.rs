//! Mountpoints: whether something is mounted there, and taking it off whatever it takes.

use std::path::Path;
use std::process::{Command, Stdio};

use nix::mount::{MntFlags, umount2};

/// Whether something is mounted exactly at `path`, which holds no blanks. It is not touched.
pub fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == path))
}

/// Takes off what is mounted at `path`, in use or not.
pub fn take_off(path: &Path) {
    for _ in 0..8 {
        if !is_mounted(path) {
            return;
        }
        if umount2(path, MntFlags::MNT_DETACH).is_err() {
            let _ = Command::new("fusermount3")
                .args(["-u", "-z", "--"])
                .arg(path)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }
    eprintln!("warning: {} is still mounted", path.display());
}
