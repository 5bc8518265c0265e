//! Telling a thread that it is time to stop, wherever in its sleep it is.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// See the module's doc.
#[derive(Default)]
pub(crate) struct Signal {
    is_stopping: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Waits; `true` when it is time to stop.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let mut is_stopping = self.is_stopping.lock();
        if !*is_stopping {
            self.changed.wait_for(&mut is_stopping, at_most);
        }
        *is_stopping
    }

    /// It is time.
    pub(crate) fn stop(&self) {
        *self.is_stopping.lock() = true;
        self.changed.notify_all();
    }
}
