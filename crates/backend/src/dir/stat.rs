//! From `statx` to [`Stat`] and [`FileId`]: which file an answer of the kernel speaks of.
//!
//! **The inode number** is the origin's own. A file system that is mounted somewhere below the root
//! has numbers of its own, which would meet the root's; those are moved apart by a small number of
//! the device in the high bits. That number is drawn from the file system's id, not from the order
//! of discovery, so that it is normally the same in the next run.
//!
//! **The generation** is a hash of birth time and inode number. The file handle would be the better
//! witness, but no safe wrapper of `name_to_handle_at` exists (docs/adr/0002). What the birth time
//! cannot tell apart is a number that is given away twice within one tick of the origin's clock;
//! such a version is younger than the granularity and is not trusted anyway. Where the origin knows
//! no birth time, or changes it (overlay file systems), only number and version tell files apart.
//!
//! `st_dev` goes into neither: it changes from mount to mount.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use arcwell_base::origin::{FileId, FileType, Stat, Timestamp};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;
use xxhash_rust::xxh3::xxh3_64;

/// Bits of an inode number that stay as they are on a file system below the root's.
const NUMBER_SHIFT: u32 = 48;
/// Device numbers are below this, so that the highest bit stays free.
const NUMBERS: u64 = 0x7fff;
/// The number under which inodes 0 and 1 of the root's own device are shown: both are special to FUSE.
const RESERVED: u64 = NUMBERS;

/// The devices seen below the root, and how their inode numbers are told apart.
#[derive(Debug)]
pub(super) struct Devices {
    root: (u32, u32),
    root_ino: u64,
    births_are_kept: bool,
    others: Mutex<Vec<((u32, u32), u64)>>,
}

impl Devices {
    /// Begins with the root's device.
    pub(super) fn of_root(root: BorrowedFd<'_>, births_are_kept: bool) -> Result<Devices, Errno> {
        let found = statx(root, OsStr::new(""))?;
        let others = Mutex::new(Vec::new());
        Ok(Devices { root: device(&found), root_ino: found.stx_ino, births_are_kept, others })
    }

    /// The attributes of `name` below `dir` (never following a link), or of `dir` itself when the
    /// name is empty.
    pub(super) fn stat(&self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<Stat, Errno> {
        self.numbered(dir, name).map(|(stat, _)| stat)
    }

    /// The same, and the number of the device that the file is on.
    pub(super) fn numbered(&self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<(Stat, u64), Errno> {
        let found = statx(dir, name)?;
        let number = self.number(device(&found), || file_system(dir, name));
        let generation = generation(&found, self.births_are_kept);
        let id = FileId { ino: self.ino(found.stx_ino, number), generation };
        Ok((stat_of(&found, id), number))
    }

    /// The inode number to show for `ino` on the device with this number.
    pub(super) fn ino(&self, ino: u64, number: u64) -> u64 {
        match (number, ino) {
            (0, 0 | 1) if ino != self.root_ino => RESERVED << NUMBER_SHIFT | ino,
            _ => number << NUMBER_SHIFT ^ ino,
        }
    }

    /// 0 for the root's device, else a number that no other device below the root has.
    fn number(&self, device: (u32, u32), file_system: impl FnOnce() -> u64) -> u64 {
        if device == self.root {
            return 0;
        }
        if let Some(&(_, number)) = self.others.lock().iter().find(|(known, _)| *known == device) {
            return number;
        }
        let wanted = file_system();
        let mut others = self.others.lock();
        if let Some(&(_, number)) = others.iter().find(|(known, _)| *known == device) {
            return number;
        }
        let mut number = 1 + wanted % (NUMBERS - 1);
        while others.iter().any(|&(_, taken)| taken == number) && (others.len() as u64) < NUMBERS - 1 {
            number = 1 + number % (NUMBERS - 1);
        }
        others.push((device, number));
        number
    }
}

/// A hash of the id that a file system gives itself; 0 when it cannot be asked.
fn file_system(dir: BorrowedFd<'_>, name: &OsStr) -> u64 {
    let asked = if name.is_empty() {
        rustix::fs::fstatvfs(dir)
    } else {
        rustix::fs::openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .and_then(rustix::fs::fstatvfs)
    };
    asked.map_or(0, |answer| xxh3_64(&answer.f_fsid.to_le_bytes()))
}

fn statx(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Statx, Errno> {
    // Automounts are let happen: an automount point that is not mounted would look like an empty
    // directory.
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    rustix::io::retry_on_intr(|| {
        rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
    })
}

/// How many names the file of a descriptor has.
pub(super) fn link_count(fd: impl AsFd) -> Result<u32, Errno> {
    statx(fd.as_fd(), OsStr::new("")).map(|found| found.stx_nlink)
}

fn device(found: &Statx) -> (u32, u32) {
    (found.stx_dev_major, found.stx_dev_minor)
}

fn generation(found: &Statx, births_are_kept: bool) -> u64 {
    let is_told = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    let birth = if is_told && births_are_kept { timestamp(found.stx_btime) } else { Timestamp::default() };
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&found.stx_ino.to_le_bytes());
    bytes[8..16].copy_from_slice(&birth.sec.to_le_bytes());
    bytes[16..].copy_from_slice(&birth.nsec.to_le_bytes());
    xxh3_64(&bytes)
}

fn stat_of(found: &Statx, id: FileId) -> Stat {
    Stat {
        id,
        kind: kind_of(rustix::fs::FileType::from_raw_mode(found.stx_mode.into()))
            .unwrap_or(FileType::Regular),
        perm: found.stx_mode & 0o7777,
        nlink: found.stx_nlink,
        uid: found.stx_uid,
        gid: found.stx_gid,
        rdev: encode_device(found.stx_rdev_major, found.stx_rdev_minor),
        size: found.stx_size,
        blocks: found.stx_blocks,
        blksize: found.stx_blksize,
        atime: timestamp(found.stx_atime),
        mtime: timestamp(found.stx_mtime),
        ctime: timestamp(found.stx_ctime),
        btime: timestamp(found.stx_btime),
    }
}

fn timestamp(time: StatxTimestamp) -> Timestamp {
    Timestamp { sec: time.tv_sec, nsec: time.tv_nsec }
}

/// Our word for the kernel's kind of file; `None` where it does not tell.
pub(super) fn kind_of(kind: rustix::fs::FileType) -> Option<FileType> {
    use rustix::fs::FileType as Os;
    match kind {
        Os::RegularFile => Some(FileType::Regular),
        Os::Directory => Some(FileType::Directory),
        Os::Symlink => Some(FileType::Symlink),
        Os::Fifo => Some(FileType::Fifo),
        Os::Socket => Some(FileType::Socket),
        Os::CharacterDevice => Some(FileType::CharDevice),
        Os::BlockDevice => Some(FileType::BlockDevice),
        Os::Unknown => None,
    }
}

/// The kernel's 32-bit form of a device number: 12 bits of major, 20 of minor.
fn encode_device(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// The inverse of the 32-bit form, as `mknod` wants it.
pub(super) fn decode_device(rdev: u32) -> u64 {
    rustix::fs::makedev(rdev >> 8 & 0xfff, rdev & 0xff | rdev >> 12 & 0xf_ff00)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_both_forms() {
        for (major, minor) in [(1, 3), (8, 0), (259, 1_000_000), (4095, 0xf_ffff)] {
            let device = decode_device(encode_device(major, minor));
            assert_eq!((rustix::fs::major(device), rustix::fs::minor(device)), (major, minor));
        }
    }

    #[test]
    fn inode_numbers_of_other_devices_are_moved_apart() {
        let devices = Devices { root: (1, 1), root_ino: 2, births_are_kept: true, others: Mutex::default() };
        assert_eq!(devices.number((1, 1), || unreachable!()), 0);
        let first = devices.number((1, 2), || 5);
        let second = devices.number((1, 3), || 5);
        assert_ne!(first, second, "the same wish is granted once");
        assert_eq!(devices.number((1, 2), || 77), first, "a device keeps its number");
        let shown = [devices.ino(9, 0), devices.ino(9, first), devices.ino(9, second)];
        assert!(shown[0] == 9 && shown[1] != shown[2] && !shown[1..].contains(&9));
    }

    #[test]
    fn only_the_root_may_be_inode_zero_or_one() {
        let devices = Devices { root: (1, 1), root_ino: 1, births_are_kept: true, others: Mutex::default() };
        assert_eq!(devices.ino(1, 0), 1);
        assert!(devices.ino(0, 0) > 1);
        let deeper = Devices { root_ino: 40, ..devices };
        assert!(deeper.ino(1, 0) > 1);
    }
}
