//! How a file below the root is reached: by a cached descriptor, else by walking from the root.
//!
//! The root is a descriptor; no absolute path is ever used again after it was opened, so a mount
//! may cover the very directory that is its origin. Walks follow no link and do not leave the root
//! (`openat2`, or one component at a time where that system call is missing). What a walk finds is
//! compared with the [`FileId`] that was meant before anything is done to it; another file means that
//! the place was moved meanwhile (the path is asked again) or replaced behind our back (stale).
//!
//! Descriptors that read or write are made from `O_PATH` ones through `/proc/self/fd`, which opens
//! the very same file: there is no second walk that could end elsewhere, and it works on files that
//! have no name any more.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc as Shared;

use arcwell_base::error::Cause;
use arcwell_base::origin::{FileId, FileType, Place, Stat};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::data::Turns;
use super::descriptor::{Descriptor, Reach, Table, Want};
use super::filesystem;
use super::stat::{Devices, link_count};

/// The result inside this room: the cause alone; operation and subject are added at its door.
pub(crate) type Tried<T> = Result<T, Cause>;

/// The longest path handed to the kernel at once; longer ones are walked in pieces.
const PATH_PIECE_MAX: usize = 4000;
/// How often a place is asked for its path anew before it counts as stale.
const WALKS_MAX: usize = 3;

/// A directory tree below one root descriptor.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) root: Shared<Descriptor>,
    pub(super) devices: Devices,
    pub(super) table: Shared<Table>,
    pub(super) turns: Turns,
    /// The root's kind of file system, as `statfs` shows it.
    pub(super) magic: u64,
    /// Whether the origin counts links at all: some FUSE file systems show 0 for everything.
    counts_links: bool,
    has_openat2: bool,
}

impl Tree {
    /// Opens the root.
    pub(super) fn open(path: &Path, descriptors_max: usize) -> Result<Tree, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let magic = rustix::fs::fstatfs(&fd)?.f_type as u64;
        let devices = Devices::of_root(fd.as_fd(), filesystem::births_are_kept(magic))?;
        let stat = devices.stat(fd.as_fd(), OsStr::new(""))?;
        let has_openat2 = match rustix::fs::openat2(&fd, ".", flags, Mode::empty(), resolve()) {
            Ok(_) => true,
            // Some sandboxes answer EPERM to every system call they do not know.
            Err(Errno::NOSYS | Errno::PERM) => false,
            Err(error) => return Err(error),
        };
        let root = Descriptor { fd, id: stat.id, kind: FileType::Directory, reach: Reach::Path };
        Ok(Tree {
            root: Shared::new(root),
            devices,
            table: Shared::new(Table::new(descriptors_max)),
            turns: Turns::default(),
            magic,
            counts_links: stat.nlink > 0,
            has_openat2,
        })
    }

    /// A descriptor of the file that is meant, and of no other.
    pub(crate) fn descriptor(&self, place: &dyn Place, want: Want) -> Tried<Shared<Descriptor>> {
        let id = place.id();
        if id == self.root.id && want == Want::Path {
            return Ok(self.root.clone());
        }
        if let Some(found) = self.table.find(id, want) {
            return Ok(found);
        }
        if id == self.root.id {
            return Ok(self.table.keep(self.reopen(&self.root, want, place)?));
        }
        if want == Want::Path {
            return Ok(self.table.keep(self.arrive(place)?));
        }
        let opened = match self.table.find(id, Want::Path) {
            Some(base) => self.reopen(&base, want, place)?,
            None => self.reopen(&self.arrive(place)?, want, place)?,
        };
        Ok(self.table.keep(opened))
    }

    /// A descriptor of its own for one caller, outside the table: a listing needs its own position.
    pub(super) fn fresh(&self, place: &dyn Place, want: Want) -> Tried<Descriptor> {
        let base = self.descriptor(place, Want::Path)?;
        self.reopen(&base, want, place)
    }

    /// The attributes of an open file.
    pub(super) fn stat_of(&self, descriptor: &Descriptor) -> Tried<Stat> {
        let stat = self.devices.stat(descriptor.as_fd(), OsStr::new(""))?;
        if stat.nlink == 0 && self.counts_links && descriptor.id != self.root.id {
            // Nobody finds it by name again; keeping it open would keep its space. Holds stay.
            self.table.forget(descriptor.id);
        }
        Ok(stat)
    }

    /// What `NOENT`, said of a name in `dir`, means: an absence only if `dir` itself still lives.
    pub(super) fn judge(&self, dir: &Descriptor, errno: Errno) -> Cause {
        if errno != Errno::NOENT {
            return Cause::Os(errno);
        }
        match self.alive(dir) {
            Ok(()) => Cause::Os(Errno::NOENT),
            Err(cause) => cause,
        }
    }

    /// Whether a directory has not been removed, and with it the root.
    pub(super) fn alive(&self, dir: &Descriptor) -> Tried<()> {
        match link_count(&self.root.fd) {
            Ok(0) if self.counts_links => return Err(Cause::Os(Errno::IO)),
            Ok(_) => {}
            // Its server does not know it any more: there is no other root to look for.
            Err(Errno::STALE) => return Err(Cause::Os(Errno::IO)),
            Err(errno) => return Err(errno.into()),
        }
        if dir.id != self.root.id && link_count(&dir.fd)? == 0 && self.counts_links {
            return Err(Cause::Stale);
        }
        Ok(())
    }

    /// Walks to a place and makes sure that it is the file that was meant.
    fn arrive(&self, place: &dyn Place) -> Tried<Descriptor> {
        let id = place.id();
        for _ in 0..WALKS_MAX {
            let path = place.path().ok_or(Cause::Stale)?;
            match self.walk(&path, OFlags::PATH).and_then(|fd| self.identify(fd, Reach::Path)) {
                Ok(found) if found.id == id => return Ok(found),
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
            std::thread::yield_now();
        }
        // A root that is gone makes every path wrong: that is trouble, not a change.
        self.alive(&self.root)?;
        Err(Cause::Stale)
    }

    pub(super) fn identify(&self, fd: OwnedFd, reach: Reach) -> Result<Descriptor, Errno> {
        let stat = self.devices.stat(fd.as_fd(), OsStr::new(""))?;
        Ok(Descriptor { fd, id: stat.id, kind: stat.kind, reach })
    }

    fn walk(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut at: Option<OwnedFd> = None;
        let mut pieces = pieces(path)?.into_iter().peekable();
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_some() { OFlags::PATH } else { flags };
            let from = at.as_ref().map_or(self.root.as_fd(), |fd| fd.as_fd());
            at = Some(self.step(from, &piece, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC)?);
        }
        match at {
            Some(fd) => Ok(fd),
            None => rustix::fs::openat(&self.root.fd, ".", flags | OFlags::CLOEXEC, Mode::empty()),
        }
    }

    /// Opens a relative path that is short enough for one call.
    fn step(&self, from: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.has_openat2 {
            let opened = rustix::fs::openat2(from.as_fd(), path, flags, Mode::empty(), resolve());
            return opened;
        }
        let mut at: Option<OwnedFd> = None;
        let mut names = path.iter().peekable();
        while let Some(name) = names.next() {
            let between = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let flags = if names.peek().is_some() { between } else { flags };
            let from = at.as_ref().map_or(from.as_fd(), |fd| fd.as_fd());
            at = Some(rustix::fs::openat(from, name, flags, Mode::empty())?);
        }
        at.ok_or(Errno::NOENT)
    }

    /// The same file once more, for reading or writing.
    pub(super) fn reopen(&self, base: &Descriptor, want: Want, place: &dyn Place) -> Tried<Descriptor> {
        match (base.kind, want) {
            (_, Want::Path) | (FileType::Regular, _) | (FileType::Directory, Want::Read) => {}
            (FileType::Directory, Want::Write) => return Err(Errno::ISDIR.into()),
            (FileType::Symlink, _) => return Err(Errno::LOOP.into()),
            // Opening a device or a fifo of the origin would act on it; the kernel in front of us
            // serves these by itself.
            _ => return Err(Errno::NXIO.into()),
        }
        let attempts: &[(OFlags, Reach)] = match want {
            Want::Path => &[(OFlags::PATH, Reach::Path)],
            Want::Read => &[(OFlags::RDONLY, Reach::Read)],
            Want::Write => &[(OFlags::RDWR, Reach::ReadWrite), (OFlags::WRONLY, Reach::WriteOnly)],
        };
        let mut last = Errno::ACCESS;
        for &(flags, reach) in attempts {
            let opened = match rustix::fs::open(proc_path(base), flags | OFlags::CLOEXEC, Mode::empty()) {
                Err(Errno::NOENT | Errno::NOTDIR) => self.reopen_by_path(base, flags, place)?,
                other => other,
            };
            match opened {
                Ok(fd) => return Ok(Descriptor { fd, id: base.id, kind: base.kind, reach }),
                Err(Errno::ACCESS) => last = Errno::ACCESS,
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.into())
    }

    /// The way without `/proc`: a second walk, whose end has to be verified again.
    fn reopen_by_path(
        &self,
        base: &Descriptor,
        flags: OFlags,
        place: &dyn Place,
    ) -> Tried<Result<OwnedFd, Errno>> {
        let path = place.path().ok_or(Cause::Stale)?;
        // Should a fifo lie there by now, opening it must not block.
        let fd = match self.walk(&path, flags | OFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Err(Cause::Stale),
            Err(error) => return Ok(Err(error)),
        };
        let found = self.identify(fd, Reach::Path)?;
        if found.id == base.id { Ok(Ok(found.fd)) } else { Err(Cause::Stale) }
    }

    /// Compares what `name` in `dir` is with the identity that an operation expects.
    pub(super) fn stat_name(&self, dir: &Descriptor, name: &OsStr) -> Tried<Stat> {
        self.devices.stat(dir.as_fd(), name).map_err(|errno| self.judge(dir, errno))
    }

    /// Whether this is the root.
    pub(super) fn is_root(&self, id: FileId) -> bool {
        id == self.root.id
    }
}

/// The name under which the kernel finds an open file again.
pub(crate) fn proc_path(descriptor: &Descriptor) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.fd.as_raw_fd()))
}

/// Makes of a name that an operation was given one that can only mean an entry of its directory.
pub(super) fn entry(name: &OsStr) -> Tried<&OsStr> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') || bytes.contains(&0) {
        return Err(Errno::INVAL.into());
    }
    Ok(name)
}

/// Flags of calls that take a descriptor and an empty name.
pub(super) const ITSELF: AtFlags = AtFlags::EMPTY_PATH;

fn resolve() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
}

/// Cuts a relative path into pieces that the kernel takes; anything that is not a plain name is
/// refused here already.
fn pieces(path: &Path) -> Result<Vec<PathBuf>, Errno> {
    let mut pieces: Vec<PathBuf> = Vec::new();
    for component in path.components() {
        let Component::Normal(name) = component else { return Err(Errno::NOENT) };
        match pieces.last_mut() {
            Some(piece) if piece.as_os_str().len() + 1 + name.len() <= PATH_PIECE_MAX => piece.push(name),
            _ => pieces.push(PathBuf::from(name)),
        }
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_cut_between_names() {
        let path: PathBuf = (0..100).map(|n| format!("{n:0200}")).collect();
        let pieces = pieces(&path).unwrap();
        assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.as_os_str().len() <= PATH_PIECE_MAX));
        assert_eq!(pieces.iter().collect::<PathBuf>(), path);
    }

    #[test]
    fn only_plain_names_are_walked() {
        for path in ["/etc", "a/../b", ".."] {
            assert!(pieces(Path::new(path)).is_err(), "{path}");
        }
        assert!(pieces(Path::new("")).unwrap().is_empty());
        for name in ["", ".", "..", "a/b", "a\0b"] {
            assert!(entry(OsStr::new(name)).is_err(), "{name:?}");
        }
    }

    #[test]
    fn without_proc_the_second_walk_is_verified() {
        struct Named(FileId);
        impl Place for Named {
            fn id(&self) -> FileId {
                self.0
            }
            fn path(&self) -> Option<PathBuf> {
                Some(PathBuf::from("file"))
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "mine").unwrap();
        let tree = Tree::open(dir.path(), 10).unwrap();
        let fd = tree.walk(Path::new("file"), OFlags::PATH).unwrap();
        let base = tree.identify(fd, Reach::Path).unwrap();
        let place = Named(base.id);
        let fd = tree.reopen_by_path(&base, OFlags::RDONLY, &place).unwrap().unwrap();
        assert_eq!(rustix::io::pread(&fd, &mut [0; 9], 0).unwrap(), 4);
        std::fs::write(dir.path().join("other"), "theirs").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        assert!(matches!(tree.reopen_by_path(&base, OFlags::RDONLY, &place), Err(Cause::Stale)));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(tree.reopen_by_path(&base, OFlags::RDONLY, &place), Err(Cause::Stale)));
    }

    #[test]
    fn walking_without_openat2_follows_no_link_either() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let mut tree = Tree::open(dir.path(), 10).unwrap();
        for has_openat2 in [tree.has_openat2, false] {
            tree.has_openat2 = has_openat2;
            assert!(tree.walk(Path::new("a/b"), OFlags::PATH).is_ok());
            assert!(tree.walk(Path::new("link"), OFlags::PATH).is_ok(), "the link itself can be had");
            let through = tree.walk(Path::new("link/b"), OFlags::PATH).unwrap_err();
            assert!(matches!(through, Errno::LOOP | Errno::NOTDIR), "{through:?}");
        }
    }
}
