//! Operations on the bytes of a file.
//!
//! Reads and writes name their offset, so that one descriptor serves any number of threads. Only an
//! append has no offset of its own: the kernel picks the end of the file at that moment
//! (`RWF_APPEND`), against foreign appenders as well as our own, and the descriptor's position tells
//! where that was. So that nobody moves the position in between, appends and searches for holes take
//! turns per file.

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc as Shared;

use arcwell_base::error::Cause;
use arcwell_base::origin::{Access, Allocate, FileId, FileType, Place, Seek, Stat, Written};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::descriptor::{Descriptor, Want};
use super::tree::{Tree, Tried};

/// Turns that files take: different files seldom share one.
const TURNS: usize = 64;
/// Told to `pwritev2`: use, and move, the descriptor's own position.
const OWN_POSITION: u64 = u64::MAX;

/// Who may rely on the position of a file's descriptors.
#[derive(Debug)]
pub(super) struct Turns([Mutex<()>; TURNS]);

impl Default for Turns {
    fn default() -> Self {
        Turns(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl Turns {
    fn take(&self, id: FileId) -> MutexGuard<'_, ()> {
        self.0[id.ino as usize % TURNS].lock()
    }
}

impl Tree {
    pub(super) fn read(&self, node: &dyn Place, offset: u64, buffer: &mut [u8]) -> Tried<usize> {
        let file = self.descriptor(node, Want::Read)?;
        let mut filled = 0;
        while filled < buffer.len() {
            let rest = &mut buffer[filled..];
            match retry_on_intr(|| rustix::io::pread(&*file, &mut *rest, offset + filled as u64))? {
                0 => break,
                bytes => filled += bytes,
            }
        }
        Ok(filled)
    }

    pub(super) fn write(&self, node: &dyn Place, offset: u64, data: &[u8], append: bool) -> Tried<Written> {
        let file = self.descriptor(node, Want::Write)?;
        let (offset, bytes) =
            if append { self.append(&file, data)? } else { (offset, write_at(&file, offset, data)?) };
        Ok(Written { offset, bytes: bytes as u64, stat: self.stat_of(&file)? })
    }

    /// Writes at the end, and says where that was. One system call: two would not be one place.
    fn append(&self, file: &Descriptor, data: &[u8]) -> Tried<(u64, usize)> {
        let _turn = self.turns.take(file.id);
        let parts = [IoSlice::new(data)];
        let append = ReadWriteFlags::APPEND;
        match retry_on_intr(|| rustix::io::pwritev2(file, &parts, OWN_POSITION, append)) {
            Ok(bytes) => {
                let end = rustix::fs::seek(file, SeekFrom::Current(0))?;
                Ok((end.saturating_sub(bytes as u64), bytes))
            }
            // Some file systems take no flags. Our own appenders still cannot meet each other.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let end = self.stat_of(file)?.size;
                Ok((end, write_at(file, end, data)?))
            }
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn sync(&self, node: &dyn Place, data_only: bool) -> Tried<()> {
        let Some(file) = self.syncable(node)? else { return Ok(()) };
        let synced =
            retry_on_intr(
                || {
                    if data_only { rustix::fs::fdatasync(&*file) } else { rustix::fs::fsync(&*file) }
                },
            );
        match synced {
            // File systems that write directories through have no fsync for them.
            Err(Errno::INVAL) if file.kind == FileType::Directory => Ok(()),
            synced => Ok(synced?),
        }
    }

    /// The descriptor that was written through, if there is one: it is the one that is told of
    /// errors of writing back. `None` for what has no bytes of its own.
    fn syncable(&self, node: &dyn Place) -> Tried<Option<Shared<Descriptor>>> {
        if let Some(written) = self.table.find(node.id(), Want::Write) {
            return Ok(Some(written));
        }
        let base = self.descriptor(node, Want::Path)?;
        match base.kind {
            FileType::Directory => self.descriptor(node, Want::Read).map(Some),
            FileType::Regular => match self.descriptor(node, Want::Read) {
                Err(Cause::Os(Errno::ACCESS)) => self.descriptor(node, Want::Write).map(Some),
                found => found.map(Some),
            },
            _ => Ok(None),
        }
    }

    pub(super) fn ensure_open(&self, node: &dyn Place, access: Access) -> Tried<()> {
        let want = match access {
            Access::Read => Want::Read,
            Access::Write => Want::Write,
        };
        self.descriptor(node, want).map(drop)
    }

    pub(super) fn allocate(&self, node: &dyn Place, range: Allocate) -> Tried<Stat> {
        let file = self.descriptor(node, Want::Write)?;
        let mode = FallocateFlags::from_bits_retain(range.mode);
        retry_on_intr(|| rustix::fs::fallocate(&*file, mode, range.offset, range.length))?;
        self.stat_of(&file)
    }

    pub(super) fn seek(&self, node: &dyn Place, offset: u64, what: Seek) -> Tried<u64> {
        if i64::try_from(offset).is_err() {
            return Err(Errno::NXIO.into());
        }
        let file = self.descriptor(node, Want::Read)?;
        let _turn = self.turns.take(file.id);
        let target = match what {
            Seek::Data => SeekFrom::Data(offset),
            Seek::Hole => SeekFrom::Hole(offset),
        };
        Ok(rustix::fs::seek(&*file, target)?)
    }

    pub(super) fn copy_range(
        &self,
        from: (&dyn Place, u64),
        to: (&dyn Place, u64),
        length: u64,
    ) -> Tried<Written> {
        let source = self.descriptor(from.0, Want::Read)?;
        let target = self.descriptor(to.0, Want::Write)?;
        let (mut read_at, mut write_at) = (from.1, to.1);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // One call, and what it copied: going on where it stopped would find, in a file that is copied
        // into itself, what was just appended.
        let copied = retry_on_intr(|| {
            rustix::fs::copy_file_range(&*source, Some(&mut read_at), &*target, Some(&mut write_at), length)
        })? as u64;
        Ok(Written { offset: to.1, bytes: copied, stat: self.stat_of(&target)? })
    }
}

/// Writes as much as the file system takes; an error only when that is nothing at all.
fn write_at(file: &Descriptor, offset: u64, data: &[u8]) -> Result<usize, Errno> {
    let mut written = 0;
    loop {
        let rest = &data[written..];
        match retry_on_intr(|| rustix::io::pwrite(file.as_fd(), rest, offset + written as u64)) {
            Ok(0) => return Ok(written),
            Ok(bytes) => written += bytes,
            Err(errno) if written == 0 => return Err(errno),
            Err(_) => return Ok(written),
        }
        if written == data.len() {
            return Ok(written);
        }
    }
}
