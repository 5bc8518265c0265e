//! What ends a program cleanly, taken as something to wait for: signals, and a bell of our own.
//!
//! Signals are blocked before the first thread starts, so that every thread inherits that, and read from
//! a descriptor: no handler runs in the middle of anything.

use std::os::fd::OwnedFd;

use arcwell::{Error, Result};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// What ends a program cleanly.
const ENDING: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// The ending signals, from now on waiting to be read.
#[derive(Debug)]
pub(crate) struct Signals(SignalFd);

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// One of the ending signals came.
    Signal,
    /// The bell was rung.
    Bell,
}

/// Rung once, by any thread, for whoever waits with its [`Ear`].
#[derive(Debug)]
pub(crate) struct Bell(Mutex<Option<OwnedFd>>);

/// The other end of a [`Bell`].
#[derive(Debug)]
pub(crate) struct Ear(OwnedFd);

/// A bell and its ear: the two ends of a pipe, through which nothing is ever sent. Ringing closes it.
///
/// # Errors
/// When no descriptor can be had.
pub(crate) fn bell() -> Result<(Bell, Ear)> {
    let (ear, bell) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| Error::new("make a pipe", e))?;
    Ok((Bell(Mutex::new(Some(bell))), Ear(ear)))
}

impl Bell {
    /// Wakes whoever waits, now or later.
    pub(crate) fn ring(&self) {
        drop(self.0.lock().take());
    }
}

impl Signals {
    /// Blocks the ending signals in this thread and all that it starts.
    ///
    /// # Errors
    /// When no descriptor can be had.
    pub(crate) fn block() -> Result<Signals> {
        let failed = |e: nix::Error| Error::new("wait for signals", std::io::Error::from(e));
        let set = SigSet::from_iter(ENDING);
        set.thread_block().map_err(failed)?;
        let descriptor = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
        Ok(Signals(descriptor.map_err(failed)?))
    }

    /// Whether a signal came, without waiting.
    ///
    /// # Errors
    /// When that cannot be seen.
    pub(crate) fn has_come(&self) -> Result<bool> {
        let read =
            self.0.read_signal().map_err(|e| Error::new("wait for signals", std::io::Error::from(e)))?;
        Ok(read.is_some())
    }

    /// Waits for a signal or for the bell.
    ///
    /// # Errors
    /// When waiting is not possible.
    pub(crate) fn wait(&self, ear: &Ear) -> Result<Awaited> {
        loop {
            let mut waiting = [PollFd::new(&self.0, PollFlags::IN), PollFd::new(&ear.0, PollFlags::IN)];
            match rustix::event::poll(&mut waiting, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::new("wait for signals", errno)),
            }
            let has_rung = !waiting[1].revents().is_empty();
            if matches!(self.0.read_signal(), Ok(Some(_))) {
                return Ok(Awaited::Signal);
            }
            if has_rung {
                return Ok(Awaited::Bell);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_is_heard_now_and_later() {
        let signals = Signals::block().unwrap();
        let (bell, ear) = bell().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| bell.ring());
            assert_eq!(signals.wait(&ear).unwrap(), Awaited::Bell);
        });
        bell.ring();
        assert_eq!(signals.wait(&ear).unwrap(), Awaited::Bell);
    }
}
