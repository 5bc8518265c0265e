//! Stacks of vacant things that are linked through themselves (R. K. Treiber, 1986).
//!
//! A thing is known by its number, from one on, and holds that of the next below it. A count beside the
//! top tells it from the same top at another time: who read the link of one that was taken meanwhile
//! finds that the top has changed, and looks again.

use crate::sync::{AtomicU64, Ordering};

const NUMBER: u64 = u32::MAX as u64;

/// The number of the top, zero for none, and in the upper half how often it changed.
#[derive(Debug, Default)]
pub(crate) struct Stack(AtomicU64);

impl Stack {
    /// Puts a thing on top. `link` is to write into it which one is next.
    pub(crate) fn push(&self, number: u32, link: impl Fn(u32)) {
        let pushed = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, |top| {
            link(top as u32);
            Some(changed(top) | u64::from(number))
        });
        debug_assert!(pushed.is_ok());
    }

    /// Takes the top away. `next` is to read from a thing which one is next; it may be asked of one that
    /// another has taken.
    pub(crate) fn pop(&self, next: impl Fn(u32) -> u32) -> Option<u32> {
        let popped = self.0.fetch_update(Ordering::Acquire, Ordering::Acquire, |top| {
            (top as u32 != 0).then(|| changed(top) | u64::from(next(top as u32)))
        });
        popped.ok().map(|top| top as u32)
    }
}

/// The count, one up, without a number.
fn changed(top: u64) -> u64 {
    (top & !NUMBER).wrapping_add(NUMBER + 1)
}
