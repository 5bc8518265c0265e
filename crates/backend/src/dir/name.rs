//! Operations on names: looking up, listing, creating, removing, moving.
//!
//! An operation that takes a file's last name away also lets go of the descriptors that are cached
//! of it: keeping one open would keep the file's space.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc as Shared;

use arcwell_base::error::Cause;
use arcwell_base::origin::{Caller, DirEntry, FileType, Hold, NewNode, Place, RenameMode, Stat};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, RenameFlags};
use rustix::io::Errno;

use super::caller::Assumed;
use super::descriptor::{Descriptor, Reach, Want};
use super::stat::{decode_device, kind_of};
use super::tree::{ITSELF, Tree, Tried, entry, proc_path};

/// How many bytes of entries are asked for at once.
const LISTING_BYTES: usize = 128 << 10;

impl Tree {
    pub(super) fn lookup(&self, dir: &dyn Place, name: &OsStr) -> Tried<Stat> {
        let name = entry(name)?;
        let dir = self.directory(dir)?;
        self.stat_name(&dir, name)
    }

    pub(super) fn list(&self, dir: &dyn Place) -> Tried<(Stat, Vec<DirEntry>)> {
        let descriptor = self.fresh(dir, Want::Read)?;
        if descriptor.kind != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        let (stat, device) = self.devices.numbered(descriptor.as_fd(), OsStr::new(""))?;
        let mut buffer = Vec::with_capacity(LISTING_BYTES);
        let mut listing = RawDir::new(&descriptor, buffer.spare_capacity_mut());
        let mut entries = Vec::new();
        while let Some(found) = listing.next() {
            let found = found.map_err(|errno| self.judge(&descriptor, errno))?;
            let name = found.file_name().to_bytes();
            if name != b"." && name != b".." {
                entries.push(DirEntry {
                    name: OsString::from(OsStr::from_bytes(name)),
                    ino: self.devices.ino(found.ino(), device),
                    kind: kind_of(found.file_type()),
                });
            }
        }
        if entries.is_empty() {
            // A removed directory looks empty on some file systems; on ours, empty means empty.
            self.alive(&descriptor)?;
        }
        Ok((stat, entries))
    }

    pub(super) fn create(&self, dir: &dyn Place, name: &OsStr, perm: u16, caller: Caller) -> Tried<Stat> {
        let name = entry(name)?;
        let dir = self.directory(dir)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (stat, file) = self.create_by(&dir, name, flags, perm, caller)?;
        self.table.keep(file);
        Ok(stat)
    }

    pub(super) fn create_unnamed(
        &self,
        dir: &dyn Place,
        perm: u16,
        caller: Caller,
    ) -> Tried<(Stat, Box<dyn Hold>)> {
        let dir = self.directory(dir)?;
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let (stat, file) = self.create_by(&dir, OsStr::new("."), flags, perm, caller)?;
        Ok((stat, self.table.hold(Shared::new(file))))
    }

    fn create_by(
        &self,
        dir: &Descriptor,
        name: &OsStr,
        flags: OFlags,
        perm: u16,
        caller: Caller,
    ) -> Tried<(Stat, Descriptor)> {
        let created = {
            let _caller = Assumed::new(caller, perm)?;
            rustix::fs::openat(dir.as_fd(), name, flags, mode(perm))
        };
        let fd = created.map_err(|errno| self.judge(dir, errno))?;
        let stat = self.devices.stat(fd.as_fd(), OsStr::new(""))?;
        Ok((stat, Descriptor { fd, id: stat.id, kind: stat.kind, reach: Reach::ReadWrite }))
    }

    pub(super) fn make(
        &self,
        dir: &dyn Place,
        name: &OsStr,
        node: &NewNode,
        perm: u16,
        caller: Caller,
    ) -> Tried<Stat> {
        let name = entry(name)?;
        let dir = self.directory(dir)?;
        let made = {
            let _caller = Assumed::new(caller, perm)?;
            match node {
                NewNode::Directory => rustix::fs::mkdirat(dir.as_fd(), name, mode(perm)),
                NewNode::Symlink(target) => rustix::fs::symlinkat(target, dir.as_fd(), name),
                NewNode::Node { kind, rdev } => {
                    let device = decode_device(*rdev);
                    rustix::fs::mknodat(dir.as_fd(), name, os_kind(*kind)?, mode(perm), device)
                }
            }
        };
        made.map_err(|errno| self.judge(&dir, errno))?;
        self.stat_name(&dir, name)
    }

    pub(super) fn link(&self, node: &dyn Place, dir: &dyn Place, name: &OsStr) -> Tried<Stat> {
        let name = entry(name)?;
        let node = self.descriptor(node, Want::Path)?;
        let dir = self.directory(dir)?;
        let linked = match rustix::fs::linkat(node.as_fd(), "", dir.as_fd(), name, ITSELF) {
            // The direct way needs a capability that an ordinary user's daemon lacks; the kernel then
            // says that the empty name does not exist.
            Err(Errno::NOENT) => {
                let follow = AtFlags::SYMLINK_FOLLOW;
                rustix::fs::linkat(rustix::fs::CWD, proc_path(&node), dir.as_fd(), name, follow)
            }
            linked => linked,
        };
        linked.map_err(|errno| self.judge(&dir, errno))?;
        self.stat_of(&node)
    }

    pub(super) fn unlink(&self, dir: &dyn Place, name: &OsStr) -> Tried<()> {
        self.remove(dir, name, AtFlags::empty())
    }

    pub(super) fn rmdir(&self, dir: &dyn Place, name: &OsStr) -> Tried<()> {
        self.remove(dir, name, AtFlags::REMOVEDIR)
    }

    fn remove(&self, dir: &dyn Place, name: &OsStr, flags: AtFlags) -> Tried<()> {
        let name = entry(name)?;
        let dir = self.directory(dir)?;
        let victim = self.stat_name(&dir, name)?;
        rustix::fs::unlinkat(dir.as_fd(), name, flags).map_err(|errno| self.judge(&dir, errno))?;
        self.lost_a_name(&victim);
        Ok(())
    }

    pub(super) fn rename(
        &self,
        from: (&dyn Place, &OsStr),
        to: (&dyn Place, &OsStr),
        mode: RenameMode,
    ) -> Tried<()> {
        let names = (entry(from.1)?, entry(to.1)?);
        let (source, target) = (self.directory(from.0)?, self.directory(to.0)?);
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
            RenameMode::Whiteout => RenameFlags::WHITEOUT,
        };
        let replaces = matches!(mode, RenameMode::Replace | RenameMode::Whiteout);
        let victim = if replaces { self.devices.stat(target.as_fd(), names.1).ok() } else { None };
        let moved = match rustix::fs::renameat_with(source.as_fd(), names.0, target.as_fd(), names.1, flags) {
            Err(Errno::NOSYS | Errno::INVAL) if flags.is_empty() => {
                rustix::fs::renameat(source.as_fd(), names.0, target.as_fd(), names.1)
            }
            moved => moved,
        };
        // Either directory may be the one that is gone.
        moved.map_err(|errno| match self.judge(&source, errno) {
            Cause::Os(errno) => self.judge(&target, errno),
            cause => cause,
        })?;
        if let Some(victim) = victim {
            self.lost_a_name(&victim);
        }
        Ok(())
    }

    pub(super) fn hold(&self, node: &dyn Place) -> Tried<Box<dyn Hold>> {
        Ok(self.table.hold(self.descriptor(node, Want::Path)?))
    }

    /// Looks whether a file that just lost a name has any left. Only a cached descriptor makes that
    /// worth a question, and its own answer is the sure one: renaming a file over another name of
    /// itself takes nothing away.
    fn lost_a_name(&self, victim: &Stat) {
        if let Some(cached) = self.table.find(victim.id, Want::Path) {
            match super::stat::link_count(&cached.fd) {
                Ok(1..) if victim.kind != FileType::Directory => {}
                _ => self.table.forget(victim.id),
            }
        }
    }

    fn directory(&self, place: &dyn Place) -> Tried<Shared<Descriptor>> {
        let found = self.descriptor(place, Want::Path)?;
        if found.kind == FileType::Directory { Ok(found) } else { Err(Errno::NOTDIR.into()) }
    }
}

fn mode(perm: u16) -> Mode {
    Mode::from_raw_mode(u32::from(perm) & 0o7777)
}

fn os_kind(kind: FileType) -> Tried<rustix::fs::FileType> {
    use rustix::fs::FileType as Os;
    Ok(match kind {
        FileType::Regular => Os::RegularFile,
        FileType::Fifo => Os::Fifo,
        FileType::Socket => Os::Socket,
        FileType::CharDevice => Os::CharacterDevice,
        FileType::BlockDevice => Os::BlockDevice,
        FileType::Directory | FileType::Symlink => return Err(Errno::INVAL.into()),
    })
}
