//! Attributes of files and of the whole file system.

use std::sync::Arc;

use arcwell_base::origin::{SetAttr, SetTime, Timestamp};
use arcwell_pool::{Attributes, Class};
use rustix::io::Errno;

use super::filesystem::{Filesystem, Handled, caller};
use super::privilege;
use super::wire::{self, Request, setattr};

impl Filesystem {
    pub(super) fn getattr(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let ino = self.ino(request.node);
        self.serve(
            request.unique,
            Class::Query,
            self.dataset.cached_stat(ino),
            move |dataset| dataset.stat(ino),
            Self::send_attributes,
        )
    }

    pub(super) fn setattr(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut change = change(request)?;
        let caller = caller(request, 0);
        let ino = self.ino(request.node);
        self.hand_on(
            request.unique,
            Class::Change,
            move |dataset| {
                privilege::complete(dataset, ino, &mut change, caller)?;
                dataset.set_attr(ino, &change)
            },
            Self::send_attributes,
        );
        Ok(())
    }

    pub(super) fn statfs(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        self.hand_on(
            request.unique,
            Class::Query,
            |dataset| dataset.stat_fs(),
            |filesystem, unique, stat| {
                filesystem.device.reply(unique, wire::stat_fs(&stat).as_bytes());
            },
        );
        Ok(())
    }

    fn send_attributes(&self, unique: u64, attributes: Attributes) {
        self.device.reply(unique, wire::attributes(&attributes.stat, attributes.ttl).as_bytes());
    }
}

/// What a `FUSE_SETATTR` asks for. The handle in it is of no interest: a node is found by its number
/// even when it has no name any more.
fn change(request: &Request<'_>) -> Result<SetAttr, Errno> {
    let mut fields = request.fields;
    let valid = fields.u32()?;
    // Padding and handle.
    fields.skip(12)?;
    let size = fields.u64()?;
    // Owner of locks.
    fields.skip(8)?;
    let (atime, mtime) = (fields.i64()?, fields.i64()?);
    // Time of change: it is the origin's.
    fields.skip(8)?;
    let (atime_nsec, mtime_nsec) = (fields.u32()?, fields.u32()?);
    fields.skip(4)?;
    let mode = fields.u32()?;
    fields.skip(4)?;
    let (uid, gid) = (fields.u32()?, fields.u32()?);
    let has = |bit| valid & bit != 0;
    let time = |set, now, sec, nsec| {
        has(set).then(|| if has(now) { SetTime::Now } else { SetTime::At(Timestamp { sec, nsec }) })
    };
    Ok(SetAttr {
        perm: has(setattr::MODE).then_some((mode & 0o7777) as u16),
        uid: has(setattr::UID).then_some(uid),
        gid: has(setattr::GID).then_some(gid),
        size: has(setattr::SIZE).then_some(size),
        atime: time(setattr::ATIME, setattr::ATIME_NOW, atime, atime_nsec),
        mtime: time(setattr::MTIME, setattr::MTIME_NOW, mtime, mtime_nsec),
    })
}
