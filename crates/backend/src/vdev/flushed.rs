//! What a device's flushes may be believed.
//!
//! A kernel that could not write pages back says so once, and may have dropped them: the next flush then
//! succeeds and proves nothing. So the first that fails is the last that is asked for.

use arcwell_base::error::{Error, Result};
use parking_lot::Mutex;
use rustix::io::Errno;

/// Remembers whether a flush has failed.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    /// Held while flushing: of two at a time the kernel tells only one that it failed.
    failed: Mutex<Option<Errno>>,
}

impl Flushed {
    /// Flushes by `flush`, unless that has failed before.
    pub(super) fn flush(&self, flush: impl FnOnce() -> rustix::io::Result<()>) -> Result<()> {
        let mut failed = self.failed.lock();
        if let Some(errno) = *failed {
            return Err(Error::new("flush device (an earlier flush failed, so none is believed)", errno));
        }
        flush().map_err(|errno| {
            *failed = Some(errno);
            Error::new("flush device", errno)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failure_no_flush_is_asked_for_any_more() {
        let flushed = Flushed::default();
        flushed.flush(|| Ok(())).unwrap();
        assert_eq!(flushed.flush(|| Err(Errno::IO)).unwrap_err().errno(), Errno::IO);
        let error = flushed.flush(|| panic!("asked again")).unwrap_err();
        assert_eq!(error.errno(), Errno::IO);
        assert!(error.to_string().contains("earlier"), "{error}");
    }
}
