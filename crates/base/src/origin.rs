//! The trait of whatever holds the truth behind a dataset: here, a tree of files.
//!
//! An [`Origin`] is asked by *place*: a [`Place`] knows which file is meant ([`FileId`]) and how to
//! walk to it. The origin keeps a bounded number of descriptors and reopens by path when one is
//! gone; it checks that what it finds is the file that was meant and answers [`Cause::Stale`]
//! otherwise. All calls may block, for as long as the origin likes; callers put a limit on that.
//!
//! **Unreachable is not empty.** An implementation answers `ENOENT` only when it has seen a living
//! directory without that name. Whatever else goes wrong is another error.
//!
//! [`Cause::Stale`]: crate::error::Cause::Stale

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Result;

/// Which file is meant, for as long as it exists.
///
/// `ino` is unique among the living files of one origin and is what `stat` shows (never 0 and never 1
/// but for the root). `generation` tells apart files that had the same number one after the other:
/// made from the birth time, where the origin tells it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct FileId {
    /// Inode number.
    pub ino: u64,
    /// Tells apart successive owners of one inode number.
    pub generation: u64,
}

/// Seconds and nanoseconds since 1970; before it, seconds are negative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds.
    pub sec: i64,
    /// 0 to 999,999,999, always forward from `sec`.
    pub nsec: u32,
}

/// What kind of file it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// Attributes of a file, as `statx` gives them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Which file this is.
    pub id: FileId,
    /// What kind of file.
    pub kind: FileType,
    /// Permission bits with setuid, setgid and sticky: `mode & 0o7777`.
    pub perm: u16,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file: `makedev(major, minor)` as the kernel's 32-bit encoding.
    pub rdev: u32,
    /// Length in bytes.
    pub size: u64,
    /// Space in units of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size.
    pub blksize: u32,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of the contents.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// Birth, where the origin tells (else zero).
    pub btime: Timestamp,
}

impl Stat {
    /// What a foreign change shows itself in.
    pub fn version(&self) -> Version {
        Version { size: self.size, mtime: self.mtime, ctime: self.ctime }
    }
}

/// The part of a [`Stat`] by which a foreign change is noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    /// Length in bytes.
    pub size: u64,
    /// Last change of the contents.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
}

/// One entry of a directory listing. `.` and `..` are never listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// The name, one component.
    pub name: OsString,
    /// Inode number, as [`FileId::ino`].
    pub ino: u64,
    /// What kind of file, where the origin tells without another question.
    pub kind: Option<FileType>,
}

/// Where a file is: its identity and a way to it.
pub trait Place: Send + Sync {
    /// The file that is meant.
    fn id(&self) -> FileId;
    /// Its path below the origin's root (empty for the root itself), or `None` when it has no name
    /// any more. Asked only when no descriptor is held; may change between two calls.
    fn path(&self) -> Option<PathBuf>;
}

/// On whose behalf something is created: new files belong to the caller, not to the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// File mode creation mask; ignored by the origin where a default ACL applies.
    pub umask: u32,
    /// Process, for its supplementary groups; 0 when not known.
    pub pid: u32,
}

/// What a new name shall be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NewNode {
    /// A regular file, fifo, socket or device file with this mode and device number.
    Node {
        /// What kind.
        kind: FileType,
        /// Device number, for devices.
        rdev: u32,
    },
    /// A directory.
    Directory,
    /// A symbolic link with this target.
    Symlink(PathBuf),
}

/// A change of attributes; `None` leaves one as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// New permission bits.
    pub perm: Option<u16>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New length: cut or extended by a hole.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<SetTime>,
    /// New modification time.
    pub mtime: Option<SetTime>,
}

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// The origin's present time.
    Now,
    /// This time.
    At(Timestamp),
}

/// How `fallocate` shall change a range; the modes of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocate {
    /// `FALLOC_FL_*` bits.
    pub mode: u32,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// What a search in a sparse file looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// The next data at or after the offset.
    Data,
    /// The next hole at or after the offset; the end of the file counts as one.
    Hole,
}

/// `RENAME_*` as a rename may ask for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// Replace what is there.
    Replace,
    /// Fail when the new name exists.
    NoReplace,
    /// Swap the two names.
    Exchange,
    /// Replace, and leave a whiteout behind (overlay file systems).
    Whiteout,
}

/// Space and names, as `statvfs` gives them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatFs {
    /// Blocks of `fragment` bytes in all.
    pub blocks: u64,
    /// Free ones.
    pub blocks_free: u64,
    /// Free ones for ordinary users.
    pub blocks_available: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Preferred block size, bytes.
    pub block_size: u32,
    /// Unit of the block counts, bytes.
    pub fragment: u32,
    /// Longest name, bytes.
    pub name_max: u32,
}

/// What an origin is like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginInfo {
    /// How people know it: the directory's path.
    pub name: String,
    /// The kind of file system, where known (`ext4`, `nfs`, …).
    pub filesystem: String,
    /// The shortest step of its timestamps: a younger version is not trusted.
    pub granularity: Duration,
    /// Longest name in bytes.
    pub name_max: u32,
}

/// A descriptor of a file that is kept while it has no name: dropped when the last holder lets go.
pub trait Hold: Send + Sync {}

/// A change of the origin that a watch noticed. It may be our own: the pool compares versions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Something happened to this name in this directory (created, removed, renamed, written).
    Name {
        /// The directory that is watched.
        dir: FileId,
        /// The name in it.
        name: OsString,
    },
    /// Something happened to the watched directory itself.
    Node(FileId),
    /// Events were lost: everything has to be looked at again.
    Overflow,
}

/// Notices of foreign changes (`coherence=notify`). Dropping it ends the notices.
pub trait Watch: Send + Sync {
    /// Watches one directory: its entries and itself. Watching twice is harmless.
    ///
    /// # Errors
    /// When the system's limit of watches is reached or the directory is gone: the caller then
    /// falls back to asking after a time-out.
    fn add(&self, dir: &dyn Place) -> Result<()>;

    /// Ends the notices for one directory; harmless when there were none.
    fn remove(&self, dir: FileId);
}

/// Receives [`Change`]s on the watch's own thread; must not block for long.
pub type ChangeSink = Box<dyn Fn(Change) + Send + Sync>;

/// A tree of files that holds the truth. See the module's doc for the rules.
pub trait Origin: Send + Sync + fmt::Debug {
    /// What this origin is like. Does not ask it anything.
    fn info(&self) -> OriginInfo;

    /// The root's attributes.
    fn root(&self) -> Result<Stat>;

    /// The attributes of `name` in `dir`. `ENOENT` only when the living directory has no such name.
    fn lookup(&self, dir: &dyn Place, name: &OsStr) -> Result<Stat>;

    /// The attributes of a file.
    fn stat(&self, node: &dyn Place) -> Result<Stat>;

    /// The whole listing of a directory, in the origin's order, and the directory's own attributes
    /// taken *before* the first entry was read.
    fn list(&self, dir: &dyn Place) -> Result<(Stat, Vec<DirEntry>)>;

    /// The target of a symbolic link.
    fn read_link(&self, node: &dyn Place) -> Result<PathBuf>;

    /// Fills `buffer` from `offset`; fewer bytes than asked only at the end of the file.
    fn read(&self, node: &dyn Place, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes all of `data` at `offset`, or at the end of the file when `append`, and says where it
    /// went and the attributes that result. A short write (disk full after some bytes) is `Ok` with
    /// fewer bytes; `Err` only when nothing was written.
    fn write(&self, node: &dyn Place, offset: u64, data: &[u8], append: bool) -> Result<Written>;

    /// Makes what was written durable; `data_only` leaves out times.
    fn sync(&self, node: &dyn Place, data_only: bool) -> Result<()>;

    /// Makes sure that a descriptor with this access can be had (used at open, so that errors such
    /// as `ETXTBSY` or `ENXIO` appear there).
    fn open(&self, node: &dyn Place, access: Access) -> Result<()>;

    /// Creates a regular file and leaves it open for reading and writing; `EEXIST` when the name is
    /// there. The attributes that result.
    fn create(&self, dir: &dyn Place, name: &OsStr, perm: u16, caller: Caller) -> Result<Stat>;

    /// Creates a regular file without a name, as `O_TMPFILE` does, and keeps it open for reading and
    /// writing until the hold is dropped.
    fn create_unnamed(&self, dir: &dyn Place, perm: u16, caller: Caller) -> Result<(Stat, Box<dyn Hold>)>;

    /// Creates anything but an open file. `perm` as asked for by the caller, before his mask.
    fn make(&self, dir: &dyn Place, name: &OsStr, node: &NewNode, perm: u16, caller: Caller) -> Result<Stat>;

    /// Gives a file another name. The attributes that result.
    fn link(&self, node: &dyn Place, dir: &dyn Place, name: &OsStr) -> Result<Stat>;

    /// Removes a name of anything but a directory.
    fn unlink(&self, dir: &dyn Place, name: &OsStr) -> Result<()>;

    /// Removes an empty directory.
    fn rmdir(&self, dir: &dyn Place, name: &OsStr) -> Result<()>;

    /// Moves a name.
    fn rename(&self, from: (&dyn Place, &OsStr), to: (&dyn Place, &OsStr), mode: RenameMode) -> Result<()>;

    /// Changes attributes; all or nothing as far as the origin allows. The attributes that result.
    fn set_attr(&self, node: &dyn Place, change: &SetAttr) -> Result<Stat>;

    /// Changes a range of a file as `fallocate` does. The attributes that result.
    fn allocate(&self, node: &dyn Place, range: Allocate) -> Result<Stat>;

    /// Searches for data or a hole. `ENXIO` beyond the end.
    fn seek(&self, node: &dyn Place, offset: u64, what: Seek) -> Result<u64>;

    /// Copies within the origin, without the bytes passing through us. The number of bytes copied
    /// and the attributes of the target that result.
    fn copy_range(&self, from: (&dyn Place, u64), to: (&dyn Place, u64), length: u64) -> Result<Written>;

    /// One extended attribute.
    fn get_xattr(&self, node: &dyn Place, name: &OsStr) -> Result<Vec<u8>>;

    /// The names of all extended attributes, each ended by a zero byte.
    fn list_xattr(&self, node: &dyn Place) -> Result<Vec<u8>>;

    /// Sets an extended attribute; `flags` is 0, `XATTR_CREATE` or `XATTR_REPLACE`. The attributes that
    /// result.
    fn set_xattr(&self, node: &dyn Place, name: &OsStr, value: &[u8], flags: u32) -> Result<Stat>;

    /// Removes an extended attribute. The attributes that result.
    fn remove_xattr(&self, node: &dyn Place, name: &OsStr) -> Result<Stat>;

    /// Space and names.
    fn stat_fs(&self) -> Result<StatFs>;

    /// Keeps a descriptor of a file that is about to lose its last name.
    fn hold(&self, node: &dyn Place) -> Result<Box<dyn Hold>>;

    /// Starts to notice foreign changes.
    ///
    /// # Errors
    /// `ENOTSUP` when this origin cannot.
    fn watch(&self, sink: ChangeSink) -> Result<Box<dyn Watch>>;
}

/// What a descriptor is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing, or both.
    Write,
}

/// The outcome of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Where the first byte went.
    pub offset: u64,
    /// How many bytes were written.
    pub bytes: u64,
    /// The attributes that result.
    pub stat: Stat,
}
