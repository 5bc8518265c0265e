//! A directory as an origin: the truth lies in its files.
//!
//! [`DirOrigin`] holds the directory's root open and reaches everything from there; rooms:
//!
//! - `tree`: how a file is reached, and how it is made sure that it is the one that was meant;
//! - `descriptor`: the bounded table of open descriptors, and holds on files without a name;
//! - `stat`: from the kernel's answers to identities and attributes;
//! - `name`, `data`, `attribute`: the operations;
//! - `caller`: creating in the name of whoever asked;
//! - `filesystem`, `limit`: what is known of file systems, and of the limit of open files.
//!
//! **Absence is proved.** `ENOENT` leaves this room only after the directory that lacks the name was
//! seen to live; when the root is gone everything is `EIO`, when only the directory is, it is stale.
//!
//! What it does not notice: a foreign writer who replaces bytes and sets the times back, and, until
//! its descriptors are evicted, that a file which it keeps open was deleted by others (the space is
//! given back then). A file that was written through us may be kept open for writing for a while, so
//! that executing it *on the origin* can fail with `ETXTBSY`.

mod attribute;
mod caller;
mod data;
mod descriptor;
mod filesystem;
mod limit;
mod name;
mod stat;
#[cfg(test)]
pub(crate) mod tests;
mod tree;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc as Shared;

use arcwell_base::error::{Cause, Error, Result};
use arcwell_base::origin::{
    Access, Allocate, Caller, ChangeSink, DirEntry, Hold, NewNode, Origin, OriginInfo, Place, RenameMode,
    Seek, SetAttr, Stat, StatFs, Watch, Written,
};
use rustix::io::Errno;

pub(crate) use self::descriptor::Want;
pub use self::limit::raise_descriptor_limit;
use self::tree::Tried;
pub(crate) use self::tree::{Tree, proc_path};

/// How a directory is used as an origin.
#[derive(Clone, Debug)]
pub struct DirOptions {
    /// How many descriptors are kept open at most, beside those in use at the moment and those of
    /// open files without a name. By default three quarters of the limit in force.
    pub descriptors_max: usize,
}

impl Default for DirOptions {
    fn default() -> Self {
        DirOptions { descriptors_max: limit::descriptors_allowed() }
    }
}

/// A directory as an origin. See the module's doc.
pub struct DirOrigin {
    tree: Shared<Tree>,
    path: PathBuf,
    info: OriginInfo,
}

impl fmt::Debug for DirOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirOrigin").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DirOrigin {
    /// Opens a directory. Its path is used this once; later it is only a name for people.
    ///
    /// # Errors
    /// When it is not there, is not a directory, or lies behind one that may not be searched.
    pub fn open(path: &Path, options: DirOptions) -> Result<DirOrigin> {
        let failed = |errno: Errno| Error::new("open origin", errno).about(path);
        let tree = Tree::open(path, options.descriptors_max).map_err(failed)?;
        let answer = rustix::fs::fstatvfs(&tree.root.fd).map_err(failed)?;
        let (filesystem, granularity) = filesystem::describe(tree.magic);
        let info = OriginInfo {
            name: path.display().to_string(),
            filesystem: filesystem.to_owned(),
            granularity,
            name_max: u32::try_from(answer.f_namemax).unwrap_or(u32::MAX),
        };
        Ok(DirOrigin { tree: Shared::new(tree), path: path.to_owned(), info })
    }

    /// Says an error of `operation` on a file.
    fn about<T>(&self, operation: &'static str, node: &dyn Place, tried: Tried<T>) -> Result<T> {
        tried.map_err(|cause| {
            let subject = node.path().map_or_else(|| self.path.clone(), |path| self.path.join(path));
            Error::new(operation, self.say(cause)).about(subject)
        })
    }

    /// Says an error of `operation` on a name in a directory. An absence is frequent and no news:
    /// the name alone is its subject.
    fn about_name<T>(
        &self,
        operation: &'static str,
        dir: &dyn Place,
        name: &OsStr,
        tried: Tried<T>,
    ) -> Result<T> {
        tried.map_err(|cause| {
            let subject = match (&cause, dir.path()) {
                (Cause::Os(Errno::NOENT), _) | (_, None) => PathBuf::from(name),
                (_, Some(path)) => self.path.join(path).join(name),
            };
            Error::new(operation, self.say(cause)).about(subject)
        })
    }

    /// The kernel's own "stale" is ours, unless the root is gone: then there is nothing to look for
    /// under another identity.
    fn say(&self, cause: Cause) -> Cause {
        match cause {
            Cause::Os(Errno::STALE) | Cause::Stale => {
                self.tree.alive(&self.tree.root).err().unwrap_or(Cause::Stale)
            }
            cause => cause,
        }
    }
}

impl Origin for DirOrigin {
    fn info(&self) -> OriginInfo {
        self.info.clone()
    }

    fn root(&self) -> Result<Stat> {
        self.tree.root_stat().map_err(|cause| Error::new("stat root", self.say(cause)).about(&*self.path))
    }

    fn lookup(&self, dir: &dyn Place, name: &OsStr) -> Result<Stat> {
        self.about_name("lookup", dir, name, self.tree.lookup(dir, name))
    }

    fn stat(&self, node: &dyn Place) -> Result<Stat> {
        self.about("stat", node, self.tree.stat(node))
    }

    fn list(&self, dir: &dyn Place) -> Result<(Stat, Vec<DirEntry>)> {
        self.about("list", dir, self.tree.list(dir))
    }

    fn read_link(&self, node: &dyn Place) -> Result<PathBuf> {
        self.about("read link", node, self.tree.read_link(node))
    }

    fn read(&self, node: &dyn Place, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.about("read", node, self.tree.read(node, offset, buffer))
    }

    fn write(&self, node: &dyn Place, offset: u64, data: &[u8], append: bool) -> Result<Written> {
        self.about("write", node, self.tree.write(node, offset, data, append))
    }

    fn sync(&self, node: &dyn Place, data_only: bool) -> Result<()> {
        self.about("sync", node, self.tree.sync(node, data_only))
    }

    fn open(&self, node: &dyn Place, access: Access) -> Result<()> {
        self.about("open", node, self.tree.ensure_open(node, access))
    }

    fn create(&self, dir: &dyn Place, name: &OsStr, perm: u16, caller: Caller) -> Result<Stat> {
        self.about_name("create", dir, name, self.tree.create(dir, name, perm, caller))
    }

    fn create_unnamed(&self, dir: &dyn Place, perm: u16, caller: Caller) -> Result<(Stat, Box<dyn Hold>)> {
        self.about("create unnamed", dir, self.tree.create_unnamed(dir, perm, caller))
    }

    fn make(&self, dir: &dyn Place, name: &OsStr, node: &NewNode, perm: u16, caller: Caller) -> Result<Stat> {
        self.about_name("make", dir, name, self.tree.make(dir, name, node, perm, caller))
    }

    fn link(&self, node: &dyn Place, dir: &dyn Place, name: &OsStr) -> Result<Stat> {
        self.about_name("link", dir, name, self.tree.link(node, dir, name))
    }

    fn unlink(&self, dir: &dyn Place, name: &OsStr) -> Result<()> {
        self.about_name("unlink", dir, name, self.tree.unlink(dir, name))
    }

    fn rmdir(&self, dir: &dyn Place, name: &OsStr) -> Result<()> {
        self.about_name("remove directory", dir, name, self.tree.rmdir(dir, name))
    }

    fn rename(&self, from: (&dyn Place, &OsStr), to: (&dyn Place, &OsStr), mode: RenameMode) -> Result<()> {
        self.about_name("rename", from.0, from.1, self.tree.rename(from, to, mode))
    }

    fn set_attr(&self, node: &dyn Place, change: &SetAttr) -> Result<Stat> {
        self.about("set attributes of", node, self.tree.set_attr(node, change))
    }

    fn allocate(&self, node: &dyn Place, range: Allocate) -> Result<Stat> {
        self.about("allocate", node, self.tree.allocate(node, range))
    }

    fn seek(&self, node: &dyn Place, offset: u64, what: Seek) -> Result<u64> {
        self.about("seek", node, self.tree.seek(node, offset, what))
    }

    fn copy_range(&self, from: (&dyn Place, u64), to: (&dyn Place, u64), length: u64) -> Result<Written> {
        self.about("copy to", to.0, self.tree.copy_range(from, to, length))
    }

    fn get_xattr(&self, node: &dyn Place, name: &OsStr) -> Result<Vec<u8>> {
        self.about("get extended attribute of", node, self.tree.get_xattr(node, name))
    }

    fn list_xattr(&self, node: &dyn Place) -> Result<Vec<u8>> {
        self.about("list extended attributes of", node, self.tree.list_xattr(node))
    }

    fn set_xattr(&self, node: &dyn Place, name: &OsStr, value: &[u8], flags: u32) -> Result<Stat> {
        self.about("set extended attribute of", node, self.tree.set_xattr(node, name, value, flags))
    }

    fn remove_xattr(&self, node: &dyn Place, name: &OsStr) -> Result<Stat> {
        self.about("remove extended attribute of", node, self.tree.remove_xattr(node, name))
    }

    fn stat_fs(&self) -> Result<StatFs> {
        self.tree
            .stat_fs()
            .map_err(|cause| Error::new("ask file system of", self.say(cause)).about(&*self.path))
    }

    fn hold(&self, node: &dyn Place) -> Result<Box<dyn Hold>> {
        self.about("hold", node, self.tree.hold(node))
    }

    fn watch(&self, sink: ChangeSink) -> Result<Box<dyn Watch>> {
        crate::watch::start(self.tree.clone(), sink)
            .map_err(|cause| Error::new("watch", cause).about(&*self.path))
    }
}
