//! Atomics, locks and lanes of the model checker.

use std::cell::Cell;

pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::Fault;

/// A lock that looks like [`arcwell_base::lock::Mutex`]. It is never poisoned: a model ends at its first panic.
#[derive(Debug)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T: Default> Mutex<T> {
    pub(crate) fn named(_name: &'static str) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::default())
    }
}

impl<T> Mutex<T> {
    pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().expect("not poisoned")
    }

    pub(crate) fn try_lock(&self) -> Option<shuttle::sync::MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

/// Waits for another thread: the schedule has to go on with one.
pub(crate) fn wait_a_moment(_tries: u32) {
    shuttle::thread::yield_now();
}

/// Lanes by the model's threads: to the machine they are all one.
pub(crate) mod lane {
    use super::{AtomicU64, Ordering};

    pub(crate) const LANES: usize = 8;
    pub(crate) const SHARED: usize = LANES - 1;

    pub(crate) fn lane() -> usize {
        usize::from(shuttle::current::me()).min(SHARED)
    }

    pub(crate) fn add(number: &AtomicU64, n: u64, of: usize) {
        if of == SHARED {
            number.fetch_add(n, Ordering::Relaxed);
        } else {
            number.store(number.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        }
    }
}

thread_local! {
    static BROKEN: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// From now on, in this thread and the model's threads that it runs, `fault` is there.
#[cfg(test)]
pub(crate) fn break_on_purpose(fault: Option<Fault>) {
    BROKEN.set(fault);
}

/// What is broken is slow, too: so that a schedule puts others in between.
pub(crate) fn is_broken(fault: Fault) -> bool {
    let is_it = BROKEN.get() == Some(fault);
    if is_it {
        wait_a_moment(0);
    }
    is_it
}
