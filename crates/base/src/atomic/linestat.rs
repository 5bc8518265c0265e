//! Which cache lines a thread writes to: what the feature `linestat` notes.
//!
//! Every thread has a log of its own, and only while it [`watch`]es. Two things are noted, each with its line:
//! read-modify-writes, successful or not, and plain stores. Of a lock, taking it is one read-modify-write and
//! letting go of it another; waiting for it may be more. Not noted are loads, which cost nothing for as long as
//! nobody writes to the line, and what is written to plain memory under a lock. Whose the lines are, only those
//! who laid them out can tell. Without the feature logs stay empty.

/// Whether this build counts.
pub const IS_COUNTING: bool = cfg!(feature = "linestat");

/// Bytes that processors pass to each other at once.
pub const LINE: usize = 64;

/// A write to shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// The line: its address, divided by [`LINE`].
    pub line: usize,
    /// A read-modify-write, not a plain store.
    pub is_rmw: bool,
}

/// What a thread wrote while it watched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Log {
    /// The writes, in order; at most 65,536.
    pub writes: Vec<Write>,
    /// How many more there were.
    pub lost: u64,
}

/// Does some work, and tells what this thread wrote meanwhile. What is watched within it is not told again.
pub fn watch<R>(work: impl FnOnce() -> R) -> (R, Log) {
    #[cfg(feature = "linestat")]
    return noting::watch(work);
    #[cfg(not(feature = "linestat"))]
    (work(), Log::default())
}

#[cfg(feature = "linestat")]
pub(crate) use self::noting::{Unlocks, note};

#[cfg(feature = "linestat")]
mod noting {
    //! The noting itself.

    use std::cell::RefCell;

    use super::{LINE, Log, Write};

    /// Writes in a log.
    const MOST: usize = 1 << 16;

    thread_local! {
        static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
    }

    pub(super) fn watch<R>(work: impl FnOnce() -> R) -> (R, Log) {
        let outer = LOG.replace(Some(Log::default()));
        let result = work();
        (result, LOG.replace(outer).unwrap_or_default())
    }

    /// Notes a write to something that lies within a line.
    #[inline]
    pub(crate) fn note<T>(of: &T, is_rmw: bool) {
        write(line_of(of), is_rmw);
    }

    fn line_of<T: ?Sized>(of: &T) -> usize {
        (&raw const *of).addr() / LINE
    }

    fn write(line: usize, is_rmw: bool) {
        // A thread that is ending has no log any more.
        let _ = LOG.try_with(|log| {
            if let Some(log) = &mut *log.borrow_mut() {
                match log.writes.len() < MOST {
                    true => log.writes.push(Write { line, is_rmw }),
                    false => log.lost += 1,
                }
            }
        });
    }

    /// Notes that a lock was taken, and when it is dropped, that it was let go of.
    #[derive(Debug)]
    pub(crate) struct Unlocks {
        line: usize,
    }

    impl Unlocks {
        pub(crate) fn noted<T: ?Sized>(lock: &T) -> Unlocks {
            let line = line_of(lock);
            write(line, true);
            Unlocks { line }
        }
    }

    impl Drop for Unlocks {
        fn drop(&mut self) {
            write(self.line, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::{AtomicU64, Ordering};
    use crate::lock::Mutex;

    #[repr(align(64))]
    struct Apart(AtomicU64);

    #[test]
    fn writes_are_noted_by_line_and_loads_are_not() {
        let (one, two) = (Apart(AtomicU64::new(0)), Apart(AtomicU64::new(0)));
        one.0.store(3, Ordering::Relaxed);
        let (sum, log) = watch(|| {
            one.0.fetch_add(1, Ordering::Relaxed);
            two.0.store(7, Ordering::Relaxed);
            let _ = one.0.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
            let _ = two.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n == 7).then_some(8));
            let ((), inner) = watch(|| two.0.store(9, Ordering::Relaxed));
            assert_eq!(inner.writes.len(), usize::from(IS_COUNTING));
            one.0.load(Ordering::Relaxed) + two.0.load(Ordering::Relaxed)
        });
        one.0.store(5, Ordering::Relaxed);
        assert_eq!((sum, log.lost), (13, 0));
        let line = |of: &Apart| (&raw const *of).addr() / LINE;
        let expected = [(line(&one), true), (line(&two), false), (line(&one), true), (line(&two), true)];
        let noted: Vec<(usize, bool)> = log.writes.iter().map(|write| (write.line, write.is_rmw)).collect();
        assert_eq!(noted, if IS_COUNTING { &expected[..] } else { &[] });
    }

    #[test]
    fn a_lock_is_written_to_twice_and_a_full_log_counts_on() {
        let lock: Mutex<u64> = Mutex::named("test: lines");
        let ((), log) = watch(|| *lock.lock() += 1);
        assert_eq!(log.writes.iter().filter(|write| write.is_rmw).count(), if IS_COUNTING { 2 } else { 0 });
        let ((), log) = watch(|| (0..40_000).for_each(|_| drop(lock.try_lock())));
        assert_eq!(log.writes.len() as u64 + log.lost, if IS_COUNTING { 80_000 } else { 0 });
    }
}
