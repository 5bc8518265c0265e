//! An origin that says nothing: asked by some, not by everybody.
//!
//! Who asks an origin that hangs waits until his deadline. If everybody did, what is cached would be out of
//! reach with it wherever it has to be asked for again. So questions are counted: while some are open and
//! none was answered for an eighth of `pool.origin_timeout`, the origin is silent, and who has something to fall
//! back on is told `TimedOut` at once, which lets what is cached be served. Who has not asks all the same. The
//! first answer, of whatever kind, ends the silence. A slow origin answers somebody and is not silent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arcwell_base::origin::Origin;
use arcwell_base::{Cause, Clock, Error, Result};

use crate::dataset::{Dataset, milliseconds};

/// The part of `pool.origin_timeout` after which nobody's answer is silence.
const SHARE: u64 = 8;

/// Open questions, and since when none was answered.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    open: AtomicU64,
    /// Milliseconds of the pool's clock: the last answer, or the first question after a pause.
    since: AtomicU64,
}

impl Silence {
    fn begin<'a>(&'a self, clock: &'a dyn Clock) -> OpenQuestion<'a> {
        if self.open.fetch_add(1, Ordering::AcqRel) == 0 {
            self.since.store(milliseconds(clock), Ordering::Release);
        }
        OpenQuestion { silence: self, clock }
    }

    fn is_longer_than(&self, allowed: u64, now: u64) -> bool {
        self.open.load(Ordering::Acquire) > 0
            && now.saturating_sub(self.since.load(Ordering::Acquire)) > allowed
    }
}

/// A question that waits for its answer. It is closed however its asker ends, even by a panic: one that
/// stayed open would make an origin silent for good.
struct OpenQuestion<'a> {
    silence: &'a Silence,
    clock: &'a dyn Clock,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.silence.since.store(milliseconds(self.clock), Ordering::Release);
        self.silence.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Dataset {
    /// Asks the origin a question that changes nothing. `can_do_without`: whether an answer is cached that
    /// will do while there is no better one.
    ///
    /// # Errors
    /// The origin's; `TimedOut` at once while it is silent and the asker can do without.
    pub(crate) fn ask<T>(
        &self,
        can_do_without: impl FnOnce() -> bool,
        question: impl FnOnce(&dyn Origin) -> Result<T>,
    ) -> Result<T> {
        let allowed = self.shared.tunables.origin_timeout() / SHARE;
        if self.silence.is_longer_than(allowed, self.now()) && can_do_without() {
            let cause = Cause::TimedOut(Duration::from_millis(allowed));
            return Err(Error::new("ask the origin", cause));
        }
        let _open = self.silence.begin(&*self.shared.clock);
        question(&*self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arcwell_base::clock::ManualClock;

    #[test]
    fn silence_is_an_open_question_and_no_answer_to_anybody() {
        let (silence, clock) = (Silence::default(), ManualClock::default());
        let pass = |ms| clock.advance(Duration::from_millis(ms));
        let is_silent = || silence.is_longer_than(10, milliseconds(&clock));
        pass(1000);
        assert!(!is_silent(), "nobody asked");
        let hanging = silence.begin(&clock);
        pass(10);
        assert!(!is_silent());
        pass(1);
        assert!(is_silent());
        drop(silence.begin(&clock));
        assert!(!is_silent(), "another was answered");
        pass(11);
        assert!(is_silent());
        drop(hanging);
        pass(1000);
        assert!(!is_silent(), "all were answered");
    }

    #[test]
    fn a_question_that_panics_does_not_stay_open() {
        let (silence, clock) = (Silence::default(), ManualClock::default());
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _open = silence.begin(&clock);
            panic!("on purpose");
        }));
        clock.advance(Duration::from_secs(1000));
        assert!(asked.is_err() && !silence.is_longer_than(10, milliseconds(&clock)));
    }
}
