//! Devices of ours: a file or a block device; one in memory; one that breaks.
//!
//! Implementations of [`Vdev`](arcwell_base::vdev::Vdev):
//!
//! - [`FileVdev`]: a regular file or a whole block device, locked against everybody else.
//! - [`MemVdev`]: memory, only as much as is written; it can lose what was not flushed.
//! - [`FaultyVdev`]: goes around another one and breaks it on purpose.
//!
//! # The file
//!
//! It is opened past the page cache (`O_DIRECT`): what it holds is what did not deserve memory. Where a file system
//! does not allow that, or consists of nothing but the page cache, `is_buffered` says so; what is written is
//! then made durable and its pages are dropped at once, and so are those of what is read, as far as the kernel
//! lets go of them. That is slow and correct.
//!
//! A batch of reads costs one system call, mostly, by a ring of io_uring that belongs to the thread
//! (module `ring`, which is also where all unsafe code of this room lies). Where there is no io_uring
//! (an old kernel, seccomp, `kernel.io_uring_disabled`) each range costs one call, one after the other; that is
//! decided when a device is opened, and [`FileVdev::carrier`] tells.
//!
//! Locks: a file is locked as a whole (`flock`), exclusively, or shared with other readers if it is opened
//! to read only. A block device is opened with `O_EXCL` besides, unless to read only, which fails
//! if it is mounted or belongs to a RAID or to device mapper. Neither hinders a program that asks nobody.
//!
//! # What goes wrong
//!
//! - A range that is not one of whole units, or not within the device, or in misaligned memory, is an invalid
//!   request, told before the device is touched.
//! - A device that becomes shorter answers `ENXIO` for what is gone; one that fails, its own error, for
//!   each range of a batch by itself. A file that was cut short below us and is then written to is long again,
//!   with zeros in between.
//! - A sparse file promises room that the file system may not have: then writes fail (`ENOSPC`).
//! - The first flush that fails is the last one that is asked for: all later ones fail too.
//! - A device that does not answer is waited for. Nothing else is possible: the memory is the kernel's
//!   until it answers.
//! - That a device can discard is found out when it is opened, without destroying anything: by a hole
//!   behind the end of a file, or by a discard of no bytes. It may still refuse a discard later.

mod aligned;
mod bounds;
mod calls;
mod dice;
mod fault;
mod file;
mod flushed;
mod mem;
mod open;
#[allow(unsafe_code, reason = "an island: see its opening doc")]
mod ring;
mod rule;
#[cfg(test)]
mod tests;
mod transfer;

pub use fault::{FaultCounts, FaultyVdev};
pub use file::{Carrier, FileVdev};
pub use mem::{MemCounts, MemVdev, Snapshot};
pub use rule::{Call, Kept, Rule};

/// A device has at least so many bytes.
pub const SMALLEST: u64 = 16 << 20;

/// How a device is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenHow {
    /// A file that does not exist, or is empty, is made so many bytes long, without taking the room yet. Of no
    /// meaning for what exists.
    pub create: Option<u64>,
    /// Nothing is written, and others may read it too.
    pub read_only: bool,
    /// Through the page cache, even where it could be left out; for tests and measurements.
    pub buffered: bool,
    /// By one call a range, even where there is io_uring; for tests and measurements.
    pub without_ring: bool,
}
