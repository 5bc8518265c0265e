//! How well a device does: errors in a row, and what they lead to.
//!
//! One success ends a row, so that a bad spot costs its blocks only. Reads and writes are counted apart: a device that
//! became read-only still serves what it has.

use arcwell_base::atomic::{AtomicBool, AtomicU64, Ordering};

/// How well a device does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// All is well.
    Online,
    /// The last read or write failed, or too many writes did: then it is read but not fed.
    Degraded,
    /// Too many reads failed in a row: neither read nor fed, and its blocks are dropped.
    Faulted,
}

/// Counts errors in a row.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failed_reads: AtomicU64,
    failed_writes: AtomicU64,
    is_unwritable: AtomicBool,
    is_faulted: AtomicBool,
}

impl Health {
    pub(crate) fn condition(&self) -> Condition {
        let is_ailing =
            self.failed_reads.load(Ordering::Relaxed) + self.failed_writes.load(Ordering::Relaxed) > 0;
        match (self.is_readable(), is_ailing || !self.is_writable()) {
            (false, _) => Condition::Faulted,
            (true, true) => Condition::Degraded,
            (true, false) => Condition::Online,
        }
    }

    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        !self.is_faulted.load(Ordering::Relaxed)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.is_readable() && !self.is_unwritable.load(Ordering::Relaxed)
    }

    /// Notes what came of a read. `true` when this is what makes the device faulted: once.
    pub(crate) fn read(&self, is_good: bool, errors_max: u64) -> bool {
        if is_good {
            // Nearly always there is nothing to end: no line is written to then.
            if self.failed_reads.load(Ordering::Relaxed) > 0 {
                self.failed_reads.store(0, Ordering::Relaxed);
            }
            return false;
        }
        let row = self.failed_reads.fetch_add(1, Ordering::Relaxed) + 1;
        row >= errors_max && !self.is_faulted.swap(true, Ordering::Relaxed)
    }

    /// The device is of no use any more.
    pub(crate) fn give_up(&self) {
        self.is_faulted.store(true, Ordering::Relaxed);
    }

    /// Notes what came of a write.
    pub(crate) fn wrote(&self, is_good: bool, errors_max: u64) {
        if is_good {
            return self.failed_writes.store(0, Ordering::Relaxed);
        }
        if self.failed_writes.fetch_add(1, Ordering::Relaxed) + 1 >= errors_max {
            self.is_unwritable.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_a_row_degrade_and_then_fault() {
        let health = Health::default();
        assert_eq!(health.condition(), Condition::Online);
        assert!(!health.read(false, 3) && !health.read(false, 3));
        assert_eq!(health.condition(), Condition::Degraded);
        health.read(true, 3);
        assert_eq!(health.condition(), Condition::Online);
        assert!(!health.read(false, 3) && !health.read(false, 3) && health.read(false, 3));
        assert!(!health.read(false, 3), "it is said once");
        assert_eq!(health.condition(), Condition::Faulted);
    }

    #[test]
    fn what_cannot_be_written_is_still_read() {
        let health = Health::default();
        (0..3).for_each(|_| health.wrote(false, 3));
        health.wrote(true, 3);
        assert_eq!(health.condition(), Condition::Degraded);
        assert!(health.is_readable() && !health.is_writable());
    }
}
