//! Opening a device: what may be one, who else has it, and what it can do.
//!
//! Nothing on it is changed by opening it, save that a file which does not exist, or is empty, gets the
//! size that is asked for.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::num::NonZero;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use arcwell_base::error::{Error, Result};
use rustix::fs::{AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::aligned::{Aligned, UNIT_MAX};
use super::bounds::Bounds;
use super::{OpenHow, SMALLEST, ring};

const OPERATION: &str = "open device";

/// What was found out about a device.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) bounds: Bounds,
    pub(super) is_block_device: bool,
    pub(super) is_buffered: bool,
    pub(super) can_discard: bool,
}

/// Opens and locks what `path` names.
pub(super) fn open(path: &Path, how: OpenHow) -> Result<Opened> {
    let said = |error: Error| error.about(path);
    let failed = |errno: Errno| said(Error::new(OPERATION, errno));
    if let Some(bytes) = how.create.filter(|bytes| *bytes < SMALLEST) {
        return Err(said(too_small(bytes)));
    }
    let is_block_device = match rustix::fs::stat(path) {
        Ok(stat) => is_block_device(FileType::from_raw_mode(stat.st_mode)).map_err(said)?,
        Err(Errno::NOENT) if how.create.is_some() && !how.read_only => false,
        Err(errno) => return Err(failed(errno)),
    };
    let (mut file, mut is_buffered) = open_and_lock(path, how, is_block_device).map_err(said)?;
    // It may have been exchanged since.
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    if self::is_block_device(FileType::from_raw_mode(stat.st_mode)).map_err(said)? != is_block_device {
        return Err(failed(Errno::STALE));
    }
    if stat.st_size == 0
        && !is_block_device
        && !how.read_only
        && let Some(bytes) = how.create
    {
        file.set_len(bytes).map_err(|error| said(Error::new("give device its size", error)))?;
    }
    let unit = unit(&file, is_block_device).map_err(failed)?;
    if !is_buffered {
        is_buffered = refuses_to_leave_out_cache(&file, is_block_device, unit).map_err(failed)?;
    }
    if unit as usize > UNIT_MAX {
        let what = format!("its sectors have {unit} bytes; at most {UNIT_MAX} are possible");
        return Err(said(Error::invalid(OPERATION, what)));
    }
    let length = file.seek(SeekFrom::End(0)).map_err(|error| said(Error::new(OPERATION, error)))?;
    let bounds = Bounds { bytes: length - length % u64::from(unit), unit };
    if bounds.bytes < SMALLEST {
        return Err(said(too_small(length)));
    }
    let can_discard = !how.read_only && can_discard(&file, is_block_device, bounds);
    Ok(Opened { file, bounds, is_block_device, is_buffered, can_discard })
}

fn too_small(bytes: u64) -> Error {
    Error::invalid(
        OPERATION,
        format!("{bytes} bytes are too few for a device; at least {SMALLEST} are needed"),
    )
}

fn in_use() -> Error {
    Error::invalid(OPERATION, "it is in use by another instance, or by another program")
}

fn is_block_device(kind: FileType) -> Result<bool> {
    match kind {
        FileType::RegularFile => Ok(false),
        FileType::BlockDevice => Ok(true),
        FileType::Directory => {
            Err(Error::invalid(OPERATION, "a directory is no device; a file or a block device is"))
        }
        _ => Err(Error::invalid(OPERATION, "neither a file nor a block device")),
    }
}

/// Opens it past the page cache if that is possible, and locks it. Says also whether it is not.
fn open_and_lock(path: &Path, how: OpenHow, is_block_device: bool) -> Result<(File, bool)> {
    let mut flags = OFlags::CLOEXEC;
    flags |= if how.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    if is_block_device && !how.read_only {
        // Of a block device this means: nobody else who says so, and no mount, has it.
        flags |= OFlags::EXCL;
    }
    if how.create.is_some() && !how.read_only && !is_block_device {
        flags |= OFlags::CREATE;
    }
    let open = |flags| {
        patiently(is_block_device, Errno::BUSY, || rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR))
    };
    let (opened, is_buffered) = match open(if how.buffered { flags } else { flags | OFlags::DIRECT }) {
        Err(Errno::INVAL) if !how.buffered => (open(flags), true),
        opened => (opened, how.buffered),
    };
    let file = match opened {
        Ok(file) => File::from(file),
        Err(Errno::BUSY) => {
            return Err(Error::invalid(OPERATION, "it is mounted, or in use by another instance or program"));
        }
        Err(errno) => return Err(Error::new(OPERATION, errno)),
    };
    let lock = match how.read_only {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    match patiently(is_block_device, Errno::WOULDBLOCK, || rustix::fs::flock(&file, lock)) {
        Ok(()) => Ok((file, is_buffered)),
        Err(Errno::WOULDBLOCK) => Err(in_use()),
        Err(errno) => Err(Error::new("lock device", errno)),
    }
}

/// Tries again for a moment while a block device is `busy`: whoever watches for new devices looks into
/// each, and locks it for as long.
fn patiently<T>(
    is_block_device: bool,
    busy: Errno,
    act: impl Fn() -> rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    let tries = if is_block_device { 10 } else { 0 };
    for _ in 0..tries {
        match act() {
            Err(errno) if errno == busy => std::thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
    act()
}

/// What offsets, lengths and addresses must be multiples of; of a file of which nothing is known, the most.
fn unit(file: &File, is_block_device: bool) -> rustix::io::Result<u32> {
    if is_block_device {
        return rustix::fs::ioctl_blksszget(file).map(|bytes| bytes.max(512));
    }
    // STATX_DIOALIGN, since Linux 6.1; rustix has the fields, and no name for the flag.
    let asked = StatxFlags::from_bits_retain(0x2000);
    let stated = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, asked)
        .ok()
        .filter(|stat| stat.stx_mask & 0x2000 != 0);
    let said = stated.map(|stat| stat.stx_dio_offset_align.max(stat.stx_dio_mem_align));
    let is_usable = |unit: &u32| unit.is_power_of_two() && *unit as usize <= UNIT_MAX;
    Ok(said.filter(is_usable).map_or(UNIT_MAX as u32, |unit| unit.max(512)))
}

/// Whether the page cache lies in between though we asked to leave it out: the file system has nothing
/// but it, or refuses to read a unit without it. In the second case the file is told to use it.
fn refuses_to_leave_out_cache(file: &File, is_block_device: bool, unit: u32) -> rustix::io::Result<bool> {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    // Since 6.6 tmpfs takes O_DIRECT and does nothing about it. A block device's node lies on one, too.
    let is_memory = |stat: rustix::fs::StatFs| [TMPFS, RAMFS].contains(&(stat.f_type as u64 & 0xffff_ffff));
    if !is_block_device && rustix::fs::fstatfs(file).is_ok_and(is_memory) {
        return Ok(true);
    }
    let mut probe = Aligned::zeros(UNIT_MAX);
    let length = (unit as usize).min(probe.len());
    // Another error says nothing of this; reads will meet it.
    if rustix::io::pread(file, &mut probe[..length], 0) != Err(Errno::INVAL) {
        return Ok(false);
    }
    let flags = rustix::fs::fcntl_getfl(file)?;
    rustix::fs::fcntl_setfl(file, flags - OFlags::DIRECT)?;
    Ok(true)
}

/// Whether it takes a discard, by one that destroys nothing: of no bytes, or behind a file's end.
fn can_discard(file: &File, is_block_device: bool, bounds: Bounds) -> bool {
    if is_block_device {
        return ring::discard::is_known_to(file.as_fd());
    }
    let behind = bounds.bytes + u64::from(bounds.unit);
    punch(file, behind, u64::from(bounds.unit)).is_ok()
}

/// Gives the room that a range of a file takes back to the file system.
pub(super) fn punch(file: &File, offset: u64, length: u64) -> rustix::io::Result<()> {
    rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)
}

/// Drops the pages that the page cache has of a range, where they are clean.
pub(super) fn drop_pages(file: &File, offset: u64, length: usize) {
    if let Some(length) = NonZero::new(length as u64) {
        // It is advice: where it is not taken, memory is used, and nothing is wrong.
        let _ = rustix::fs::fadvise(file, offset, Some(length), rustix::fs::Advice::DontNeed);
    }
}
