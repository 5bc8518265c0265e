//! Time as a thing that a test can move.
//!
//! Policy, feed and time-outs ask a [`Clock`], never the machine, so that a test or the simulator
//! decides how late it is.

use std::time::{Duration, Instant};

use crate::atomic::{AtomicU64, Ordering};

/// Monotonic time since some fixed start.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// How long ago the start was.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock; starts when it is made.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}
