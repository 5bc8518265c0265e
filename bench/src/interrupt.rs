//! Ctrl-C: noted, so that whatever runs can come to its end and tidy up.
//!
//! The signals are blocked in every thread and taken by one that waits for them; loops look at the
//! note. The second Ctrl-C ends the process as it stands.

use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, Signal};

use crate::Result;

static ASKED: AtomicBool = AtomicBool::new(false);

fn signals() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect()
}

/// Begins to take signals. To be called before any thread is started.
///
/// # Errors
/// When the signals cannot be blocked or the thread cannot be started.
pub fn watch() -> Result<()> {
    signals().thread_block()?;
    std::thread::Builder::new().name("signals".into()).spawn(|| {
        while signals().wait().is_ok() {
            if ASKED.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        }
    })?;
    Ok(())
}

/// Whether the end was asked for.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Fails when the end was asked for.
///
/// # Errors
/// When the end was asked for.
pub fn check() -> Result<()> {
    if is_asked() { Err("interrupted".into()) } else { Ok(()) }
}

/// Starts a program that takes signals as usual: a child inherits what its parent blocks.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(command: &mut Command) -> std::io::Result<Child> {
    signals().thread_unblock()?;
    let child = command.spawn();
    signals().thread_block()?;
    child
}
