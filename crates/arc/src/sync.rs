//! The atomics that the engine is built on: the one place where a model checker may put its own.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Waits a little for another thread, the longer the more often it was in vain.
pub(crate) fn wait_a_moment(tries: u32) {
    /// A thread that has to wait for longer waits for one that does not run.
    const SPINS: u32 = 64;
    if tries < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
}
