//! The descriptor through which the kernel asks and is answered.
//!
//! One [`Device`] is shared by the loops that read requests, by the workers that answer late, and by
//! the thread that sends notices. A write to it is one message, whole or not at all, so no lock is
//! needed. A reply is a header and any number of pieces in one `writev`: bytes of the cache are never
//! copied together first.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use smallvec::SmallVec;

use super::wire::{self, OUT_HEADER};

/// Pieces of a reply that need no allocation.
const PIECES_INLINE: usize = 17;

/// Pieces that one `writev` takes: `IOV_MAX`.
const PIECES_MAX: usize = 1024;

/// The open `/dev/fuse` of one mount.
#[derive(Debug)]
pub(crate) struct Device(OwnedFd);

impl Device {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        Device(descriptor)
    }

    /// Waits for a request; `None` when the file system is gone.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        loop {
            match rustix::io::read(&self.0, &mut *buffer) {
                Ok(length) => return Ok(Some(length)),
                // ENOENT: the request was withdrawn between wake-up and read.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NODEV) => return Ok(None),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Answers a request with one piece. `false` when nobody waits for the answer any more: whatever
    /// it was to hand over (a reference, a handle) has to be taken back.
    pub(crate) fn reply(&self, unique: u64, body: &[u8]) -> bool {
        let head = wire::out_header(unique, 0, body.len());
        self.send(&[IoSlice::new(&head), IoSlice::new(body)], unique)
    }

    /// Answers a request with the pieces one after the other.
    pub(crate) fn reply_pieces<'a>(
        &self,
        unique: u64,
        length: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> bool {
        let head = wire::out_header(unique, 0, length);
        let mut all: SmallVec<[IoSlice<'_>; PIECES_INLINE]> = SmallVec::new();
        all.push(IoSlice::new(&head));
        for piece in pieces {
            all.push(IoSlice::new(piece));
        }
        if all.len() <= PIECES_MAX {
            return self.send(&all, unique);
        }
        // A long read of very small records: more pieces than the system takes at once.
        let body: Vec<u8> = all[1..].iter().flat_map(|piece| piece.iter().copied()).collect();
        self.reply(unique, &body)
    }

    /// Answers a request with success and nothing else.
    pub(crate) fn reply_done(&self, unique: u64) {
        let head = wire::out_header(unique, 0, 0);
        self.send(&[IoSlice::new(&head)], unique);
    }

    /// Answers a request with an error.
    pub(crate) fn reply_error(&self, unique: u64, errno: Errno) {
        let head = wire::out_header(unique, -errno.raw_os_error(), 0);
        self.send(&[IoSlice::new(&head)], unique);
    }

    /// Tells the kernel something unasked.
    pub(crate) fn notify(&self, code: i32, pieces: &[&[u8]]) -> Result<(), Errno> {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let head = wire::out_header(0, code, length);
        let mut all: SmallVec<[IoSlice<'_>; PIECES_INLINE]> = SmallVec::new();
        all.push(IoSlice::new(&head));
        all.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
        rustix::io::writev(&self.0, &all).map(drop)
    }

    fn send(&self, pieces: &[IoSlice<'_>], unique: u64) -> bool {
        debug_assert_eq!(pieces[0].len(), OUT_HEADER);
        match rustix::io::writev(&self.0, pieces) {
            Ok(_) => true,
            // The asker was killed, or the file system was unmounted.
            Err(Errno::NOENT | Errno::NODEV) => false,
            Err(errno) => {
                tracing::warn!(unique, %errno, "the kernel did not take an answer");
                false
            }
        }
    }
}

/// The duty to answer one request later, from another thread. Dropped unanswered (a job that
/// panicked), it answers `EIO`: no program shall hang for ever.
pub(crate) struct Debt {
    device: Arc<Device>,
    unique: Option<u64>,
}

impl Debt {
    pub(crate) fn new(device: Arc<Device>, unique: u64) -> Self {
        Debt { device, unique: Some(unique) }
    }

    /// The request's number, for whoever answers it now.
    pub(crate) fn settle(mut self) -> u64 {
        self.unique.take().unwrap_or_default()
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        if let Some(unique) = self.unique.take() {
            self.device.reply_error(unique, Errno::IO);
        }
    }
}
