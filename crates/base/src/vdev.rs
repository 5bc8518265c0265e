//! The trait of a device of ours: a row of bytes on flash.
//!
//! Unlike an origin, a [`Vdev`] never holds the truth. What is lost on it costs time, what it gives back is
//! believed only when a checksum agrees, and whatever it fails at is for its owner to count, never an
//! error that a program sees. It neither caches nor orders anything: what was written is durable after
//! [`Vdev::flush`], and until then any part of it may be there or not.
//!
//! Reads come in batches, since flash is fast only when it has several to do. All calls may block.

use std::fmt;
use std::ops::Range;

use crate::error::{Cause, Error, Result};

/// What a device is like. Does not change while it is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// How people know it: its path.
    pub name: String,
    /// Its length in bytes, a multiple of the unit.
    pub bytes: u64,
    /// Offsets, lengths and addresses of memory are multiples of this: a power of two, 512 to 4,096 bytes.
    pub unit: u32,
    /// Whether the machine's page cache lies in between, because the file system refuses to leave it out.
    pub is_buffered: bool,
    /// Whether it can be told that a range is not needed any more.
    pub can_discard: bool,
}

/// A range to read, and what came of it.
pub struct Read<'a> {
    /// The first byte.
    pub offset: u64,
    /// Where the bytes go. Holds anything when reading failed.
    pub buffer: &'a mut [u8],
    outcome: Option<Result<()>>,
}

impl<'a> Read<'a> {
    /// A read that nobody has done yet.
    pub fn new(offset: u64, buffer: &'a mut [u8]) -> Read<'a> {
        Read { offset, buffer, outcome: None }
    }

    /// Tells what came of it; for the device.
    pub fn end(&mut self, outcome: Result<()>) {
        self.outcome = Some(outcome);
    }

    /// What came of it; an error if nobody did it.
    ///
    /// # Errors
    /// The device's.
    pub fn outcome(&mut self) -> Result<()> {
        let undone = || Err(Error::new("read a device", Cause::Stopping));
        self.outcome.take().unwrap_or_else(undone)
    }
}

impl fmt::Debug for Read<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read of {} bytes at {}: {:?}", self.buffer.len(), self.offset, self.outcome)
    }
}

/// A device of ours. See the module's doc for the rules.
pub trait Vdev: Send + Sync + fmt::Debug {
    /// What it is like. Asks nobody.
    fn shape(&self) -> Shape;

    /// Does all reads, several at a time, and ends each of them. Aligned to the unit; a range that is
    /// not within the device is that read's error.
    fn read(&self, reads: &mut [Read<'_>]);

    /// Writes all of `data`, in large pieces, several at a time. Aligned to the unit.
    ///
    /// # Errors
    /// The first that came up; any part of `data` may then have been written.
    fn write(&self, offset: u64, data: &[u8]) -> Result<()>;

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The device's. What was written before must then be taken for lost: asking again proves nothing.
    fn flush(&self) -> Result<()>;

    /// Tells that a range is not needed any more; reads of it give anything from then on.
    ///
    /// # Errors
    /// The device's; one that cannot says so in its shape, and does nothing.
    fn discard(&self, range: Range<u64>) -> Result<()>;
}
