//! Telling a block device that a range is not needed any more.
//!
//! `BLKDISCARD`, and not `fallocate`: punching a hole into a block device promises zeros, which devices that
//! can discard well may not have.

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, Result};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

const BLKDISCARD: Opcode = opcode::none(0x12, 119);

/// Discards `length` bytes from `start` on.
pub(in crate::vdev) fn discard(device: BorrowedFd<'_>, start: u64, length: u64) -> Result<()> {
    // SAFETY: BLKDISCARD takes a pointer to two 64-bit numbers, start and length, and only reads them.
    unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new([start, length])) }
}

/// Whether the device can discard. Asks for a range of no bytes, which a device that cannot refuses in
/// another way than one that can, and which destroys nothing.
pub(in crate::vdev) fn is_known_to(device: BorrowedFd<'_>) -> bool {
    matches!(discard(device, 0, 0), Ok(()) | Err(Errno::INVAL))
}
