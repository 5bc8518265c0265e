//! Counters that threads do not fight over, and gauges.

use crossbeam_utils::CachePadded;

use crate::atomic::{AtomicU64, Ordering};
use crate::lane::lane;

/// Cells a counter; a thread adds to that of its lane.
const CELLS: usize = 8;

/// A sum that many threads add to. Adding touches one cache line of the thread's own share;
/// reading sums all of them and may miss additions that are under way.
#[derive(Debug, Default)]
pub struct Counter([CachePadded<AtomicU64>; CELLS]);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0[lane() % CELLS].fetch_add(n, Ordering::Relaxed);
    }

    /// Sets a counter that nobody adds to: its sum is counted elsewhere, and brought here now and then.
    pub fn set_total(&self, total: u64) {
        self.0[0].store(total, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn value(&self) -> u64 {
        self.0.iter().map(|cell| cell.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// A value that is set, not summed.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Replaces the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds to the value.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Takes from the value.
    pub fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    /// The value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_addition_is_lost() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(1)));
            }
        });
        assert_eq!(counter.value(), 20_000);
    }
}
