//! Contents of files.
//!
//! Files are opened for direct I/O: every read and write comes here, the cache is the pool's. A hit
//! is sent from the cache's own memory, block by block, by one `writev`.
//!
//! Not `FOPEN_PARALLEL_DIRECT_WRITES`: the kernel then lets writes to one file overtake one another,
//! and a write longer than one request would no longer be whole to its readers and rivals. Reads
//! are parallel anyway.

use std::sync::Arc;

use arcwell_base::origin::{Allocate, Caller, Seek};
use arcwell_pool::{CachedRead, Class, OpenFile, OpenHow, Slices, WriteHow};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::filesystem::{Filesystem, Handled, caller};
use super::privilege;
use super::wire::{
    self, FOPEN_DIRECT_IO, FSYNC_DATA_ONLY, Fields, Request, WRITE_CACHE, WRITE_KILL_PRIVILEGES,
};

/// The most that one copy within the origin may take: it has a deadline, and a shorter copy than was
/// asked for is a lawful answer.
const COPY_MAX: u64 = 64 << 20;
/// `O_DSYNC`, a part of `O_SYNC`; `OFlags::DSYNC` is all of it.
const DSYNC: OFlags = OFlags::from_bits_retain(0o10000);
/// Setuid and setgid.
const PRIVILEGES: u16 = 0o6000;

impl Filesystem {
    pub(super) fn open(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let flags = OFlags::from_bits_retain(fields.u32()?);
        let write = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        let how = OpenHow { write, truncate: flags.contains(OFlags::TRUNC) };
        let ino = self.ino(request.node);
        let class = if how.truncate { Class::Change } else { Class::Query };
        self.serve(
            request.unique,
            class,
            self.dataset.cached_open(ino, how),
            move |dataset| dataset.open(ino, how),
            Self::send_opened,
        )
    }

    fn send_opened(&self, unique: u64, file: Arc<OpenFile>) {
        let handle = self.files.insert(file);
        if !self.device.reply(unique, wire::opened(handle, FOPEN_DIRECT_IO).as_bytes()) {
            self.files.remove(handle);
        }
    }

    pub(super) fn release(&self, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        self.files.remove(fields.u64()?).ok_or(Errno::BADF)?;
        self.device.reply_done(request.unique);
        Ok(())
    }

    pub(super) fn read(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let file = self.file(&mut fields)?;
        let (offset, length) = (fields.u64()?, fields.u32()?);
        match file.cached_read(offset, length) {
            CachedRead::Done(slices) => self.send_slices(request.unique, &slices),
            CachedRead::Rest(rest) => self.hand_on(
                request.unique,
                Class::Query,
                move |_| file.finish_read(rest),
                |filesystem, unique, slices| filesystem.send_slices(unique, &slices),
            ),
        }
        Ok(())
    }

    fn send_slices(&self, unique: u64, slices: &Slices) {
        self.device.reply_pieces(unique, slices.len(), slices.iter());
    }

    pub(super) fn write(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let file = self.file(&mut fields)?;
        let (offset, length, write_flags) = (fields.u64()?, fields.u32()?, fields.u32()?);
        fields.skip(8)?;
        let flags = OFlags::from_bits_retain(fields.u32()?);
        fields.skip(4)?;
        let data = fields.bytes(length as usize)?.to_vec();
        // A mapped page is written back to where it belongs, however the file was opened.
        let append = flags.contains(OFlags::APPEND) && write_flags & WRITE_CACHE == 0;
        let how = WriteHow { append, kill_privileges: write_flags & WRITE_KILL_PRIVILEGES != 0 };
        // The kernel sends no fsync for a write to a file that is open for direct I/O; it says with the
        // write how the file is open (`O_SYNC`) and what was asked for just now (`RWF_DSYNC`).
        let is_durable = flags.intersects(DSYNC) && write_flags & WRITE_CACHE == 0;
        let data_only = !flags.contains(OFlags::SYNC);
        let class = if is_durable { Class::Sync } else { Class::Change };
        let (filesystem, caller) = (Arc::clone(self), caller(request, 0));
        self.hand_on(
            request.unique,
            class,
            move |_| {
                let written = filesystem.write_to(&file, offset, &data, how, caller)?;
                if is_durable {
                    file.sync(data_only)?;
                }
                Ok(written)
            },
            |filesystem, unique, written| {
                filesystem.device.reply(unique, wire::count(written as u32).as_bytes());
            },
        );
        Ok(())
    }

    fn write_to(
        &self,
        file: &OpenFile,
        offset: u64,
        data: &[u8],
        how: WriteHow,
        caller: Caller,
    ) -> arcwell_base::Result<u64> {
        // After a write the kernel asks anew for times and size, but trusts the mode that it knows
        // when it executes the file: it has to be told that setuid is gone.
        let had_privileges = how.kill_privileges
            && matches!(self.dataset.cached_stat(file.ino()),
                Some(Ok(known)) if known.stat.perm & PRIVILEGES != 0);
        if had_privileges {
            privilege::clear_setgid(&self.dataset, file.ino(), caller)?;
        }
        let written = file.write(offset, data, how)?;
        if had_privileges {
            self.notices.node(self.node(file.ino()));
        }
        Ok(written)
    }

    pub(super) fn fsync(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let file = self.file(&mut fields)?;
        let data_only = fields.u32()? & FSYNC_DATA_ONLY != 0;
        self.change(request.unique, Class::Sync, move |_| file.sync(data_only))
    }

    pub(super) fn fallocate(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let file = self.file(&mut fields)?;
        let (offset, length, mode) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let range = Allocate { mode, offset, length };
        let caller = caller(request, 0);
        self.change(request.unique, Class::Change, move |dataset| {
            privilege::clear_setgid(dataset, file.ino(), caller)?;
            file.allocate(range)
        })
    }

    pub(super) fn lseek(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        const SEEK_DATA: u32 = 3;
        const SEEK_HOLE: u32 = 4;
        let mut fields = request.fields;
        let file = self.file(&mut fields)?;
        let offset = u64::try_from(fields.i64()?).map_err(|_| Errno::NXIO)?;
        let what = match fields.u32()? {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            // All other ways are the kernel's own affair.
            _ => return Err(Errno::INVAL),
        };
        self.hand_on(
            request.unique,
            Class::Query,
            move |_| file.seek(offset, what),
            |filesystem, unique, found| {
                filesystem.device.reply(unique, wire::position(found).as_bytes());
            },
        );
        Ok(())
    }

    pub(super) fn copy_file_range(self: &Arc<Self>, request: &Request<'_>, wide: bool) -> Handled {
        let mut fields = request.fields;
        let from = self.file(&mut fields)?;
        let offset = fields.u64()?;
        // The target's node: its handle says the same.
        fields.skip(8)?;
        let to = self.file(&mut fields)?;
        let (to_offset, length) = (fields.u64()?, fields.u64()?.min(COPY_MAX));
        let caller = caller(request, 0);
        self.hand_on(
            request.unique,
            Class::Change,
            move |dataset| {
                privilege::clear_setgid(dataset, to.ino(), caller)?;
                from.copy_range(offset, &to, to_offset, length)
            },
            move |filesystem, unique, copied| {
                let reply = if wide { wire::position(copied) } else { wire::count(copied as u32) };
                filesystem.device.reply(unique, reply.as_bytes());
            },
        );
        Ok(())
    }

    fn file(&self, fields: &mut Fields<'_>) -> Result<Arc<OpenFile>, Errno> {
        self.files.find(fields.u64()?).ok_or(Errno::BADF)
    }
}
