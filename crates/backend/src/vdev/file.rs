//! A file or a block device as a device of ours.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use arcwell_base::error::{Cause, Error, Result};
use arcwell_base::vdev::{Read, Shape, Vdev};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::bounds::Bounds;
use super::flushed::Flushed;
use super::open::{Opened, drop_pages, open, punch};
use super::transfer::{Memory, Transfer};
use super::{OpenHow, calls, ring};

/// A write is carried in pieces of so many bytes,
const PIECE: usize = 1 << 20;

/// so many of them at a time.
const PIECES_AT_ONCE: usize = 8;

/// How bytes are carried. Decided when a device is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// By io_uring, several ranges at a time.
    Ring,
    /// By one `pread` or `pwrite` after the other.
    Calls,
}

/// A file or a block device, opened and locked. See the [module](super)'s doc.
pub struct FileVdev {
    file: File,
    path: PathBuf,
    bounds: Bounds,
    carrier: Carrier,
    is_block_device: bool,
    is_buffered: bool,
    can_discard: bool,
    is_read_only: bool,
    flushed: Flushed,
}

impl FileVdev {
    /// Opens what `path` names, which must be a regular file or a block device of at least
    /// [`SMALLEST`](super::SMALLEST) bytes, and locks it against everybody else.
    ///
    /// # Errors
    /// That it is something else, is mounted, too small, or in use by another instance: invalid. And the
    /// system's.
    pub fn open(path: &Path, how: OpenHow) -> Result<FileVdev> {
        let Opened { file, bounds, is_block_device, is_buffered, can_discard } = open(path, how)?;
        let carrier = if how.without_ring { Carrier::Calls } else { carrier(path) };
        Ok(FileVdev {
            file,
            path: path.to_owned(),
            bounds,
            carrier,
            is_block_device,
            is_buffered,
            can_discard,
            is_read_only: how.read_only,
            flushed: Flushed::default(),
        })
    }

    /// How its bytes are carried.
    pub fn carrier(&self) -> Carrier {
        self.carrier
    }

    fn carry(&self, transfers: &mut [Transfer<'_>], most: usize) {
        if self.carrier == Carrier::Ring {
            ring::carry(self.file.as_fd(), transfers, most);
        }
        calls::carry(self.file.as_fd(), transfers);
    }

    fn said(&self, error: Error) -> Error {
        error.about(&*self.path)
    }

    fn check_writable(&self, operation: &'static str) -> Result<()> {
        if self.is_read_only { Err(Error::new(operation, Cause::ReadOnly)) } else { Ok(()) }
    }

    fn write_pieces(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check_writable("write device")?;
        self.bounds.check("write device", offset, data)?;
        let offsets = (offset..).step_by(PIECE);
        let mut pieces: Vec<Transfer<'_>> = data
            .chunks(PIECE)
            .zip(offsets)
            .map(|(piece, offset)| Transfer::new(offset, Memory::From(piece), self.bounds.unit))
            .collect();
        self.carry(&mut pieces, PIECES_AT_ONCE);
        pieces.into_iter().try_for_each(Transfer::outcome)?;
        if self.is_buffered {
            // Only clean pages can be dropped.
            self.flushed.flush(|| rustix::fs::fdatasync(&self.file))?;
            drop_pages(&self.file, offset, data.len());
        }
        Ok(())
    }

    fn discard_range(&self, range: Range<u64>) -> Result<()> {
        const OPERATION: &str = "discard on device";
        self.check_writable(OPERATION)?;
        if !self.can_discard {
            return Err(Error::new(OPERATION, Errno::OPNOTSUPP));
        }
        let length = range.end.saturating_sub(range.start);
        self.bounds.check_range(OPERATION, range.start, length)?;
        let done = match length {
            0 => Ok(()),
            _ if self.is_block_device => ring::discard::discard(self.file.as_fd(), range.start, length),
            _ => punch(&self.file, range.start, length),
        };
        done.map_err(|errno| Error::new(OPERATION, errno))
    }
}

/// The best way to carry bytes on this machine.
fn carrier(path: &Path) -> Carrier {
    match ring::try_one() {
        Ok(()) => Carrier::Ring,
        Err(errno) => {
            tracing::info!("no io_uring here ({errno}): {} is asked by one call a range", path.display());
            Carrier::Calls
        }
    }
}

impl Vdev for FileVdev {
    fn shape(&self) -> Shape {
        Shape {
            name: self.path.display().to_string(),
            bytes: self.bounds.bytes,
            unit: self.bounds.unit,
            is_buffered: self.is_buffered,
            can_discard: self.can_discard,
        }
    }

    fn read(&self, reads: &mut [Read<'_>]) {
        let begin = |read: &mut Read<'_>| self.bounds.check("read device", read.offset, read.buffer);
        let mut transfers: Vec<Transfer<'_>> = Vec::with_capacity(reads.len());
        for read in &mut *reads {
            transfers.push(match begin(read) {
                Ok(()) => Transfer::new(read.offset, Memory::Into(&mut *read.buffer), self.bounds.unit),
                Err(error) => Transfer::refused(error),
            });
        }
        self.carry(&mut transfers, ring::ENTRIES);
        let outcomes: Vec<Result<()>> = transfers.into_iter().map(Transfer::outcome).collect();
        for (read, outcome) in reads.iter_mut().zip(outcomes) {
            if self.is_buffered && outcome.is_ok() {
                drop_pages(&self.file, read.offset, read.buffer.len());
            }
            read.end(outcome.map_err(|error| self.said(error)));
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.write_pieces(offset, data).map_err(|error| self.said(error))
    }

    fn flush(&self) -> Result<()> {
        self.flushed.flush(|| rustix::fs::fdatasync(&self.file)).map_err(|error| self.said(error))
    }

    fn discard(&self, range: Range<u64>) -> Result<()> {
        self.discard_range(range).map_err(|error| self.said(error))
    }
}

impl fmt::Debug for FileVdev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} by {:?}", self.shape(), self.carrier)
    }
}

impl Drop for FileVdev {
    fn drop(&mut self) {
        // A child that was just forked, or the kernel itself, may hold the file a little longer than we do.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}
