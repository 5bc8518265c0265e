//! Which directories' attributes the kernel has already.
//!
//! To send attributes with a listing costs several times what the names alone cost, on both sides. A
//! directory whose entries all went out with attributes is remembered; until the first of those
//! attributes expires, and as long as the kernel has forgotten nothing at all, its listings are sent
//! as names. Wrong only ever in one direction: the kernel then asks for what it lacks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arcwell_pool::OpenDir;
use parking_lot::Mutex;

/// Directories remembered; beyond it all are forgotten.
const GIVEN_MAX: usize = 1 << 14;

/// What the kernel was given.
#[derive(Default)]
pub(super) struct Given {
    /// Counts what made the kernel forget.
    epoch: AtomicU64,
    directories: Mutex<HashMap<u64, (u64, Instant)>>,
}

impl Given {
    /// The kernel has forgotten something, or was told to.
    pub(super) fn forgotten(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    fn has(&self, ino: u64, epoch: u64) -> bool {
        let directories = self.directories.lock();
        directories.get(&ino).is_some_and(|(given, until)| *given == epoch && Instant::now() < *until)
    }

    fn remember(&self, ino: u64, epoch: u64, ttl: Duration) {
        let Some(until) = Instant::now().checked_add(ttl) else { return };
        let mut directories = self.directories.lock();
        if directories.len() >= GIVEN_MAX {
            directories.clear();
        }
        directories.insert(ino, (epoch, until));
    }
}

/// An open directory, and how far its present listing has given attributes. The kernel reads one open
/// directory by one request at a time, so relaxed numbers do.
pub(crate) struct Listed {
    pub(super) directory: Arc<OpenDir>,
    ino: u64,
    epoch: AtomicU64,
    /// The shortest validity among the entries so far, milliseconds; 0 once one had no attributes.
    ttl: AtomicU64,
    names_only: AtomicBool,
}

impl Listed {
    pub(super) fn new(directory: Arc<OpenDir>, ino: u64) -> Self {
        let epoch = AtomicU64::new(0);
        Listed { directory, ino, epoch, ttl: AtomicU64::new(0), names_only: AtomicBool::new(false) }
    }

    /// A listing goes on at `offset`. Whether attributes shall go with it.
    pub(super) fn proceed(&self, given: &Given, offset: u64) -> bool {
        if offset == 0 {
            let epoch = given.epoch();
            self.epoch.store(epoch, Ordering::Relaxed);
            self.ttl.store(u64::MAX, Ordering::Relaxed);
            self.names_only.store(given.has(self.ino, epoch), Ordering::Relaxed);
        }
        !self.names_only.load(Ordering::Relaxed)
    }

    /// An entry went out with attributes that are valid for `ttl`; zero when it had none.
    pub(super) fn note(&self, ttl: Duration) {
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.ttl.fetch_min(ttl, Ordering::Relaxed);
    }

    /// The listing is complete.
    pub(super) fn finish(&self, given: &Given) {
        let ttl = self.ttl.load(Ordering::Relaxed);
        if ttl > 0 && ttl < u64::MAX && !self.names_only.load(Ordering::Relaxed) {
            given.remember(self.ino, self.epoch.load(Ordering::Relaxed), Duration::from_millis(ttl));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_holds_until_something_is_forgotten_or_expires() {
        let given = Given::default();
        given.remember(5, given.epoch(), Duration::from_secs(1000));
        given.remember(6, given.epoch(), Duration::ZERO);
        assert!(given.has(5, given.epoch()));
        assert!(!given.has(6, given.epoch()) && !given.has(7, given.epoch()));
        given.forgotten();
        assert!(!given.has(5, given.epoch()));
    }
}
