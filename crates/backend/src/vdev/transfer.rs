//! One range on its way between memory and a device, whoever carries it.
//!
//! Pure: it is told what the kernel answered and says what is left to do. Short answers are continued,
//! interrupted ones begin anew, and nothing read where there should be something is an error: the device
//! has become shorter.

use arcwell_base::error::{Error, Result};
use rustix::io::Errno;

/// So often a range is tried again when the kernel says that it cannot at the moment.
const PATIENCE: u32 = 16;

/// Longest that is asked for at once; the kernel moves no 2 GiB in one call.
const MOST_AT_ONCE: usize = 1 << 30;

/// Whose bytes, and in which direction they go.
#[derive(Debug)]
pub(super) enum Memory<'a> {
    /// A read: the device's bytes go here.
    Into(&'a mut [u8]),
    /// A write: these bytes go to the device.
    From(&'a [u8]),
}

/// See the module's doc.
#[derive(Debug)]
pub(super) struct Transfer<'a> {
    offset: u64,
    memory: Memory<'a>,
    /// The device's unit: what is asked for begins at a multiple of it.
    unit: usize,
    moved: usize,
    refusals: u32,
    outcome: Option<Result<()>>,
}

impl<'a> Transfer<'a> {
    /// A range that is still to be moved; one of no bytes is done.
    pub(super) fn new(offset: u64, memory: Memory<'a>, unit: u32) -> Transfer<'a> {
        let mut new = Transfer { offset, memory, unit: unit as usize, moved: 0, refusals: 0, outcome: None };
        if new.len() == 0 {
            new.outcome = Some(Ok(()));
        }
        new
    }

    /// One that is not to be begun.
    pub(super) fn refused(error: Error) -> Transfer<'a> {
        Transfer { outcome: Some(Err(error)), ..Transfer::new(0, Memory::From(&[]), 1) }
    }

    fn len(&self) -> usize {
        match &self.memory {
            Memory::Into(buffer) => buffer.len(),
            Memory::From(data) => data.len(),
        }
    }

    /// Whether something is left to do.
    pub(super) fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// Whether the kernel has refused it for the moment more often than there is patience for.
    pub(super) fn is_refused(&self) -> bool {
        self.refusals > PATIENCE
    }

    /// What is to be moved next, and where on the device it lies.
    pub(super) fn rest(&mut self) -> (u64, Memory<'_>) {
        let until = self.len().min(self.moved + MOST_AT_ONCE);
        let memory = match &mut self.memory {
            Memory::Into(buffer) => Memory::Into(&mut buffer[self.moved..until]),
            Memory::From(data) => Memory::From(&data[self.moved..until]),
        };
        (self.offset + self.moved as u64, memory)
    }

    /// Takes down what the kernel answered to the rest, or to a part of it.
    pub(super) fn answered(&mut self, answer: std::result::Result<usize, Errno>) {
        match answer {
            Ok(bytes) => {
                self.moved += bytes;
                self.refusals = 0;
                if self.moved >= self.len() {
                    self.outcome = Some(Ok(()));
                } else if bytes == 0 || !self.moved.is_multiple_of(self.unit) {
                    self.fail(Errno::NXIO);
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => self.refusals += 1,
            Err(errno) => self.fail(errno),
        }
    }

    /// Ends it with an error.
    pub(super) fn fail(&mut self, errno: Errno) {
        let operation = match self.memory {
            Memory::Into(_) => "read device",
            Memory::From(_) => "write device",
        };
        self.outcome = Some(Err(Error::new(operation, errno)));
    }

    /// What came of it.
    pub(super) fn outcome(mut self) -> Result<()> {
        if self.outcome.is_none() {
            self.fail(Errno::AGAIN);
        }
        self.outcome.unwrap_or(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_answer_is_continued_where_it_ended() {
        let mut buffer = [0; 4096];
        let mut transfer = Transfer::new(8192, Memory::Into(&mut buffer), 512);
        transfer.answered(Ok(1024));
        assert!(transfer.is_open());
        let (offset, Memory::Into(rest)) = transfer.rest() else { panic!("a read stays one") };
        assert_eq!((offset, rest.len()), (9216, 3072));
        transfer.answered(Err(Errno::INTR));
        transfer.answered(Ok(3072));
        assert!(!transfer.is_open());
        transfer.outcome().unwrap();
    }

    #[test]
    fn an_end_within_the_range_is_an_error() {
        for short in [0, 700] {
            let mut transfer = Transfer::new(0, Memory::From(&[0; 4096]), 512);
            transfer.answered(Ok(short));
            assert_eq!(transfer.outcome().unwrap_err().errno(), Errno::NXIO, "{short} bytes");
        }
    }

    #[test]
    fn patience_ends_but_progress_renews_it() {
        let mut transfer = Transfer::new(0, Memory::From(&[0; 4096]), 512);
        for _ in 0..PATIENCE {
            transfer.answered(Err(Errno::AGAIN));
        }
        assert!(!transfer.is_refused());
        transfer.answered(Ok(512));
        for _ in 0..=PATIENCE {
            transfer.answered(Err(Errno::AGAIN));
        }
        assert!(transfer.is_refused());
        assert_eq!(transfer.outcome().unwrap_err().errno(), Errno::AGAIN);
    }
}
