//! Operations on what is known of a file: attributes, extended attributes, link targets.
//!
//! Calls that have no form for an `O_PATH` descriptor go by its name under `/proc/self/fd`; that name
//! leads to the very file, be it a symbolic link or a fifo, and opens nothing.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use arcwell_base::origin::{FileType, Place, SetAttr, SetTime, Stat, StatFs};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::{Errno, retry_on_intr};

use super::descriptor::{Descriptor, Want};
use super::tree::{ITSELF, Tree, Tried, proc_path};

/// What most extended attributes fit in; larger ones are asked for a second time.
const XATTR_GUESS: usize = 1024;
/// How often an attribute may grow between asking its size and fetching it.
const XATTR_TRIES: usize = 8;

impl Tree {
    pub(super) fn root_stat(&self) -> Tried<Stat> {
        let stat = self.stat_of(&self.root)?;
        self.alive(&self.root)?;
        Ok(stat)
    }

    pub(super) fn stat(&self, node: &dyn Place) -> Tried<Stat> {
        if self.is_root(node.id()) {
            return self.root_stat();
        }
        self.stat_of(&*self.descriptor(node, Want::Path)?)
    }

    pub(super) fn read_link(&self, node: &dyn Place) -> Tried<PathBuf> {
        let link = self.descriptor(node, Want::Path)?;
        if link.kind != FileType::Symlink {
            return Err(Errno::INVAL.into());
        }
        let target = rustix::fs::readlinkat(link.as_fd(), "", Vec::new())?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
    }

    /// Length first, as it is the likeliest to fail; owner before mode, because a change of owner
    /// takes setuid and setgid away and a mode that was asked for has the last word; times last,
    /// because a change of length sets them.
    pub(super) fn set_attr(&self, node: &dyn Place, change: &SetAttr) -> Tried<Stat> {
        let file = match change.size {
            Some(_) => self.descriptor(node, Want::Write)?,
            None => self.descriptor(node, Want::Path)?,
        };
        if change.perm.is_some() && file.kind == FileType::Symlink {
            return Err(Errno::OPNOTSUPP.into());
        }
        if let Some(size) = change.size {
            retry_on_intr(|| rustix::fs::ftruncate(&*file, size))?;
        }
        // The kernel's word for "leave it" is -1; so is ours.
        let owner = change.uid.filter(|&uid| uid != u32::MAX).map(Uid::from_raw);
        let group = change.gid.filter(|&gid| gid != u32::MAX).map(Gid::from_raw);
        if owner.is_some() || group.is_some() {
            rustix::fs::chownat(file.as_fd(), "", owner, group, ITSELF)?;
        }
        if let Some(perm) = change.perm {
            self.set_mode(&file, node, perm)?;
        }
        if change.atime.is_some() || change.mtime.is_some() {
            set_times(&file, change)?;
        }
        self.stat_of(&file)
    }

    fn set_mode(&self, file: &Descriptor, node: &dyn Place, perm: u16) -> Tried<()> {
        let mode = Mode::from_raw_mode(u32::from(perm) & 0o7777);
        match rustix::fs::chmodat(rustix::fs::CWD, proc_path(file), mode, AtFlags::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => {
                let opened = self.descriptor(node, Want::Read)?;
                Ok(rustix::fs::fchmod(&*opened, mode)?)
            }
            changed => Ok(changed?),
        }
    }

    pub(super) fn get_xattr(&self, node: &dyn Place, name: &OsStr) -> Tried<Vec<u8>> {
        let (_open, path) = self.proc_name(node)?;
        fetch(|buffer| rustix::fs::getxattr(&path, name, buffer), || rustix::fs::getxattr_query(&path, name))
    }

    pub(super) fn list_xattr(&self, node: &dyn Place) -> Tried<Vec<u8>> {
        let (_open, path) = self.proc_name(node)?;
        fetch(|buffer| rustix::fs::listxattr(&path, buffer), || rustix::fs::listxattr_query(&path))
    }

    pub(super) fn set_xattr(&self, node: &dyn Place, name: &OsStr, value: &[u8], flags: u32) -> Tried<Stat> {
        let (file, path) = self.proc_name(node)?;
        rustix::fs::setxattr(&path, name, value, XattrFlags::from_bits_retain(flags))
            .map_err(without_proc)?;
        self.stat_of(&file)
    }

    pub(super) fn remove_xattr(&self, node: &dyn Place, name: &OsStr) -> Tried<Stat> {
        let (file, path) = self.proc_name(node)?;
        rustix::fs::removexattr(&path, name).map_err(without_proc)?;
        self.stat_of(&file)
    }

    pub(super) fn stat_fs(&self) -> Tried<StatFs> {
        let answer = rustix::fs::fstatvfs(self.root.as_fd())?;
        Ok(StatFs {
            blocks: answer.f_blocks,
            blocks_free: answer.f_bfree,
            blocks_available: answer.f_bavail,
            files: answer.f_files,
            files_free: answer.f_ffree,
            block_size: narrow(answer.f_bsize),
            fragment: narrow(answer.f_frsize),
            name_max: narrow(answer.f_namemax),
        })
    }

    /// A file's descriptor and its name under `/proc`. The descriptor is to be kept while the name
    /// is used.
    fn proc_name(&self, node: &dyn Place) -> Tried<(std::sync::Arc<Descriptor>, PathBuf)> {
        let file = self.descriptor(node, Want::Path)?;
        let path = proc_path(&file);
        Ok((file, path))
    }
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// An open file is always found under its name in `/proc`, unless there is no `/proc`: that must not
/// look like an absence.
fn without_proc(errno: Errno) -> Errno {
    if errno == Errno::NOENT { Errno::OPNOTSUPP } else { errno }
}

/// Fetches something whose size is not known: a guess first, then its size, until both agree.
fn fetch(
    mut get: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
    mut size: impl FnMut() -> Result<usize, Errno>,
) -> Tried<Vec<u8>> {
    let mut buffer = vec![0; XATTR_GUESS];
    for _ in 0..XATTR_TRIES {
        match get(&mut buffer) {
            Ok(bytes) => {
                buffer.truncate(bytes);
                return Ok(buffer);
            }
            Err(Errno::RANGE) => buffer.resize(size()?.max(1), 0),
            Err(errno) => return Err(without_proc(errno).into()),
        }
    }
    Err(Errno::AGAIN.into())
}

fn set_times(file: &Descriptor, change: &SetAttr) -> Result<(), Errno> {
    let time = |wanted: Option<SetTime>| match wanted {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(SetTime::At(time)) => Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() },
    };
    let times = Timestamps { last_access: time(change.atime), last_modification: time(change.mtime) };
    match rustix::fs::utimensat(file.as_fd(), "", &times, ITSELF) {
        // Kernels before 5.8 know no empty name here.
        Err(Errno::INVAL | Errno::NOENT) => {
            let path: &Path = &proc_path(file);
            rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::empty())
        }
        set => set,
    }
}
