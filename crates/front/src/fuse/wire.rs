//! The kernel's FUSE protocol as bytes: what a request holds, what a reply looks like.
//!
//! Pure: no descriptor, no dataset. Numbers travel in the machine's own byte order. The layouts are
//! those of `linux/fuse.h`, protocol 7; the tests at the end hold the offsets.
//!
//! Replies are encoded by hand and not by the `fuser` crate because its replies cannot say three
//! things that we need: a directory entry whose attributes are not known (number, but no node), a
//! time before 1970 exactly, and data that lies in several pieces.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use arcwell_base::origin::{FileType, Stat, StatFs};
use rustix::io::Errno;

/// The node that the kernel calls the root.
pub(crate) const ROOT_NODE: u64 = 1;
/// Longest name that any Linux file system takes.
const NAME_MAX: usize = 255;
/// Bytes before a request's own part.
pub(crate) const IN_HEADER: usize = 40;
/// Bytes before a reply's own part.
pub(crate) const OUT_HEADER: usize = 16;
/// Length of `struct fuse_attr`.
const ATTR: usize = 88;
/// Length of `struct fuse_entry_out`.
pub(crate) const ENTRY: usize = 40 + ATTR;
/// Length of `struct fuse_dirent` before the name.
const DIRENT: usize = 24;

/// What the kernel asks for: `enum fuse_opcode`.
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const TMPFILE: u32 = 51;
    pub(crate) const COPY_FILE_RANGE_64: u32 = 53;
}

/// Bits of `FUSE_INIT`, both words joined.
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// Bits of `FUSE_SETATTR`.
pub(crate) mod setattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
}

/// `FOPEN_DIRECT_IO`: reads and writes come to us, not to the kernel's page cache.
pub(crate) const FOPEN_DIRECT_IO: u32 = 1 << 0;
/// `FUSE_WRITE_CACHE`: a mapped page is being written back; the open file's flags do not apply.
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// `FUSE_WRITE_KILL_SUIDGID`.
pub(crate) const WRITE_KILL_PRIVILEGES: u32 = 1 << 2;
/// `FUSE_FSYNC_FDATASYNC`.
pub(crate) const FSYNC_DATA_ONLY: u32 = 1 << 0;
/// `FUSE_SETXATTR_ACL_KILL_SGID`.
pub(crate) const SETXATTR_KILL_SETGID: u32 = 1 << 0;

/// Codes of messages that we send unasked: `enum fuse_notify_code`.
pub(crate) mod notify {
    pub(crate) const INVAL_INODE: i32 = 2;
    pub(crate) const INVAL_ENTRY: i32 = 3;
    pub(crate) const PRUNE: i32 = 9;
}

/// A request's own part, read from front to back. Reading past the end is `EINVAL`.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Errno> {
        self.take().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Errno> {
        self.take().map(u64::from_ne_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Errno> {
        self.take().map(i64::from_ne_bytes)
    }

    pub(crate) fn skip(&mut self, bytes: usize) -> Result<(), Errno> {
        self.bytes(bytes).map(drop)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Errno> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Text up to a zero byte.
    pub(crate) fn text(&mut self) -> Result<&'a OsStr, Errno> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Errno::INVAL)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(OsStr::from_bytes(text))
    }

    /// A name in a directory. The kernel lets longer ones through than any file system takes.
    pub(crate) fn name(&mut self) -> Result<&'a OsStr, Errno> {
        let name = self.text()?;
        if name.len() > NAME_MAX { Err(Errno::NAMETOOLONG) } else { Ok(name) }
    }
}

/// One request of the kernel.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) opcode: u32,
    /// Names the request in its reply.
    pub(crate) unique: u64,
    pub(crate) node: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
    pub(crate) fields: Fields<'a>,
}

impl<'a> Request<'a> {
    /// Takes apart what one read of the device gave; `None` when it is not a request.
    pub(crate) fn parse(message: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(message);
        let length = fields.u32().ok()? as usize;
        let opcode = fields.u32().ok()?;
        let unique = fields.u64().ok()?;
        let node = fields.u64().ok()?;
        let (uid, gid, pid) = (fields.u32().ok()?, fields.u32().ok()?, fields.u32().ok()?);
        let fields = Fields(message.get(IN_HEADER..length)?);
        Some(Request { opcode, unique, node, uid, gid, pid, fields })
    }
}

/// A reply's own part, of a length known beforehand, on the stack.
pub(crate) struct Record<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Record<N> {
    fn new() -> Self {
        Record { bytes: [0; N], length: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_ne_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_ne_bytes());
    }

    fn attr(&mut self, stat: &Stat) {
        self.u64(stat.id.ino);
        self.u64(stat.size);
        self.u64(stat.blocks);
        for time in [stat.atime, stat.mtime, stat.ctime] {
            self.u64(time.sec as u64);
        }
        for time in [stat.atime, stat.mtime, stat.ctime] {
            self.u32(time.nsec);
        }
        self.u32(mode(stat));
        self.u32(stat.nlink);
        self.u32(stat.uid);
        self.u32(stat.gid);
        self.u32(stat.rdev);
        self.u32(stat.blksize);
        self.u32(0);
    }

    fn entry(&mut self, node: u64, stat: &Stat, entry_ttl: Duration, attr_ttl: Duration) {
        self.entry_head(node, stat.id.generation, entry_ttl, attr_ttl);
        self.attr(stat);
    }

    fn entry_head(&mut self, node: u64, generation: u64, entry_ttl: Duration, attr_ttl: Duration) {
        self.u64(node);
        self.u64(generation);
        self.u64(entry_ttl.as_secs());
        self.u64(attr_ttl.as_secs());
        self.u32(entry_ttl.subsec_nanos());
        self.u32(attr_ttl.subsec_nanos());
    }

    /// All of it; fields that were not put are zero.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bits of `S_IFMT`, shifted down: also a directory entry's type.
pub(crate) fn type_bits(kind: FileType) -> u32 {
    match kind {
        FileType::Fifo => 0o01,
        FileType::CharDevice => 0o02,
        FileType::Directory => 0o04,
        FileType::BlockDevice => 0o06,
        FileType::Regular => 0o10,
        FileType::Symlink => 0o12,
        FileType::Socket => 0o14,
    }
}

/// The inverse of [`type_bits`], from a whole mode.
pub(crate) fn kind_of(mode: u32) -> Option<FileType> {
    Some(match (mode >> 12) & 0o17 {
        0o01 => FileType::Fifo,
        0o02 => FileType::CharDevice,
        0o04 => FileType::Directory,
        0o06 => FileType::BlockDevice,
        // mknod(2) takes a mode without a type as a regular file.
        0o10 | 0 => FileType::Regular,
        0o12 => FileType::Symlink,
        0o14 => FileType::Socket,
        _ => return None,
    })
}

fn mode(stat: &Stat) -> u32 {
    type_bits(stat.kind) << 12 | u32::from(stat.perm)
}

/// The head of a reply of `body` bytes.
pub(crate) fn out_header(unique: u64, error: i32, body: usize) -> [u8; OUT_HEADER] {
    let mut record = Record::<OUT_HEADER>::new();
    record.u32((OUT_HEADER + body) as u32);
    record.u32(error as u32);
    record.u64(unique);
    record.bytes
}

/// A name that was found.
pub(crate) fn entry(node: u64, stat: &Stat, entry_ttl: Duration, attr_ttl: Duration) -> Record<ENTRY> {
    let mut record = Record::new();
    record.entry(node, stat, entry_ttl, attr_ttl);
    record
}

/// A name that is known to be absent for `ttl`.
pub(crate) fn absence(ttl: Duration) -> Record<ENTRY> {
    let mut record = Record::new();
    record.entry_head(0, 0, ttl, Duration::ZERO);
    record
}

/// A file that was created and opened.
pub(crate) fn created(entry: &Record<ENTRY>, handle: u64, flags: u32) -> Record<{ ENTRY + 16 }> {
    let mut record = Record::new();
    record.put(entry.as_bytes());
    record.u64(handle);
    record.u32(flags);
    record
}

/// An open file or directory.
pub(crate) fn opened(handle: u64, flags: u32) -> Record<16> {
    let mut record = Record::new();
    record.u64(handle);
    record.u32(flags);
    record
}

/// Attributes.
pub(crate) fn attributes(stat: &Stat, ttl: Duration) -> Record<{ 16 + ATTR }> {
    let mut record = Record::new();
    record.u64(ttl.as_secs());
    record.u32(ttl.subsec_nanos());
    record.u32(0);
    record.attr(stat);
    record
}

/// Space and names.
pub(crate) fn stat_fs(stat: &StatFs) -> Record<80> {
    let mut record = Record::new();
    for number in [stat.blocks, stat.blocks_free, stat.blocks_available, stat.files, stat.files_free] {
        record.u64(number);
    }
    record.u32(stat.block_size);
    record.u32(stat.name_max);
    record.u32(stat.fragment);
    record
}

/// A 32-bit number and padding: bytes written, the length of an extended attribute.
pub(crate) fn count(number: u32) -> Record<8> {
    let mut record = Record::new();
    record.u32(number);
    record
}

/// A 64-bit number: a position, bytes copied.
pub(crate) fn position(number: u64) -> Record<8> {
    let mut record = Record::new();
    record.u64(number);
    record
}

/// What is agreed on at the beginning.
pub(crate) struct Agreement {
    pub(crate) minor: u32,
    pub(crate) max_readahead: u32,
    pub(crate) flags: u64,
    pub(crate) max_background: u16,
    pub(crate) max_write: u32,
    pub(crate) max_pages: u16,
}

/// The answer to `FUSE_INIT`.
pub(crate) fn agreement(terms: &Agreement) -> Record<64> {
    let mut record = Record::new();
    record.u32(7);
    record.u32(terms.minor);
    record.u32(terms.max_readahead);
    record.u32(terms.flags as u32);
    record.u16(terms.max_background);
    record.u16(terms.max_background / 4 * 3);
    record.u32(terms.max_write);
    // Times are exact to the nanosecond.
    record.u32(1);
    record.u16(terms.max_pages);
    record.u16(0);
    record.u32((terms.flags >> 32) as u32);
    record
}

/// "Forget attributes and pages of this node".
pub(crate) fn inval_inode(node: u64) -> Record<24> {
    let mut record = Record::new();
    record.u64(node);
    // From the first byte to the end: offset 0, length 0.
    record.u64(0);
    record.u64(0);
    record
}

/// The head of "forget this name"; the name and a zero byte follow.
pub(crate) fn inval_entry(parent: u64, name: &OsStr) -> Record<16> {
    let mut record = Record::new();
    record.u64(parent);
    record.u32(name.len() as u32);
    record
}

/// The head of "let go of these nodes if nobody uses them"; their numbers follow.
pub(crate) fn prune(nodes: usize) -> Record<16> {
    let mut record = Record::new();
    record.u32(nodes as u32);
    record
}

/// A directory's listing while it is being filled.
pub(crate) struct Listing<'a> {
    buffer: &'a mut Vec<u8>,
    limit: usize,
}

impl<'a> Listing<'a> {
    /// A listing of at most `limit` bytes in `buffer`, which is emptied.
    pub(crate) fn new(buffer: &'a mut Vec<u8>, limit: usize) -> Self {
        buffer.clear();
        buffer.reserve(limit);
        Listing { buffer, limit }
    }

    /// Whether a name still fits, with or without attributes. To be asked *before* a reference is
    /// taken for an entry.
    pub(crate) fn has_room(&self, name: &OsStr, plus: bool) -> bool {
        let head = if plus { ENTRY + DIRENT } else { DIRENT };
        self.buffer.len() + (head + name.len()).next_multiple_of(8) <= self.limit
    }

    /// The part of an entry that only a listing with attributes has. `None`: attributes are not
    /// known, or no reference shall be taken; the kernel then uses the name alone.
    pub(crate) fn plus(&mut self, entry: Option<&Record<ENTRY>>) {
        match entry {
            Some(entry) => self.buffer.extend_from_slice(entry.as_bytes()),
            None => self.buffer.extend_from_slice(&[0; ENTRY]),
        }
    }

    /// The part that every listing has.
    pub(crate) fn name(&mut self, ino: u64, next: u64, kind: Option<FileType>, name: &OsStr) {
        let mut head = Record::<DIRENT>::new();
        head.u64(ino);
        head.u64(next);
        head.u32(name.len() as u32);
        head.u32(kind.map_or(0, type_bits));
        self.buffer.extend_from_slice(head.as_bytes());
        self.buffer.extend_from_slice(name.as_bytes());
        let padded = self.buffer.len().next_multiple_of(8);
        self.buffer.resize(padded, 0);
    }

    /// What was filled in.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.buffer
    }

    /// The nodes of a listing with attributes, 0 where an entry has none.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u64> {
        let mut rest = self.as_bytes();
        std::iter::from_fn(move || {
            let mut fields = Fields(rest);
            let node = fields.u64().ok()?;
            fields.skip(ENTRY - 8 + 16).ok()?;
            let length = fields.u32().ok()? as usize;
            rest = rest.get((ENTRY + DIRENT + length).next_multiple_of(8)..)?;
            Some(node)
        })
    }
}

#[cfg(test)]
mod tests;
