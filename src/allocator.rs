//! The allocator of the program, and how it is set.
//!
//! A cache frees and allocates blocks of many sizes for weeks. glibc's malloc gives such memory back to
//! the system badly: what the cache says it holds and what the process holds drift apart by tens of per
//! cent. mimalloc keeps pages by size class and returns those that are empty; it is told to do so at
//! once, not after a while, as a cache at its limit frees only to allocate another size.

use std::os::unix::process::CommandExt;
use std::process::Command;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Milliseconds that empty memory is kept. mimalloc reads it before `main` runs.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Becomes this program anew with the allocator set, unless somebody has set it. What fails here costs
/// some memory and nothing else.
pub(crate) fn settle() {
    if std::env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_else(|| "arcwell".into());
        // It returns only when it fails.
        let _ = Command::new(program).arg0(name).args(arguments).env(PURGE_DELAY, "0").exec();
    }
}
