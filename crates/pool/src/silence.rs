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
use arcwell_base::{Cause, Error, Result};

use crate::dataset::Dataset;

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
    fn begin(&self, now: u64) {
        if self.open.fetch_add(1, Ordering::AcqRel) == 0 {
            self.since.store(now, Ordering::Release);
        }
    }

    fn end(&self, now: u64) {
        self.since.store(now, Ordering::Release);
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    fn is_longer_than(&self, allowed: u64, now: u64) -> bool {
        self.open.load(Ordering::Acquire) > 0
            && now.saturating_sub(self.since.load(Ordering::Acquire)) > allowed
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
        self.silence.begin(self.now());
        let answer = question(&*self.origin);
        self.silence.end(self.now());
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_an_open_question_and_no_answer_to_anybody() {
        let silence = Silence::default();
        assert!(!silence.is_longer_than(10, 1000), "nobody asked");
        silence.begin(1000);
        assert!(!silence.is_longer_than(10, 1010));
        assert!(silence.is_longer_than(10, 1011));
        silence.begin(1011);
        silence.end(1012);
        assert!(!silence.is_longer_than(10, 1020), "another was answered");
        assert!(silence.is_longer_than(10, 1030));
        silence.end(1031);
        assert!(!silence.is_longer_than(10, 2000), "all were answered");
    }
}
