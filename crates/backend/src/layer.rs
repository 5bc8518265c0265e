//! The shape of everything that goes around an origin.
//!
//! A [`Layer`] sees each call before and after it is made; [`Layered`] is an origin that lets every
//! operation of another one pass through a layer. Counting, slowing down and breaking an origin are
//! layers; none of them repeats the list of operations.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc as Shared;

use arcwell_base::error::Result;
use arcwell_base::origin::{
    Access, Allocate, Caller, ChangeSink, DirEntry, FileId, Hold, NewNode, Origin, OriginInfo, Place,
    RenameMode, Seek, SetAttr, Stat, StatFs, Watch, Written,
};

/// The operations that an origin may be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// The root's attributes.
    Root,
    /// Attributes by name.
    Lookup,
    /// Attributes of a file.
    Stat,
    /// A directory's listing.
    List,
    /// A link's target.
    ReadLink,
    /// Bytes of a file.
    Read,
    /// Writing bytes.
    Write,
    /// Making durable.
    Sync,
    /// Opening.
    Open,
    /// Creating a regular file.
    Create,
    /// Creating anything else.
    Make,
    /// Another name.
    Link,
    /// Removing a name.
    Unlink,
    /// Removing a directory.
    Rmdir,
    /// Moving a name.
    Rename,
    /// Changing attributes.
    SetAttr,
    /// Changing a range.
    Allocate,
    /// Searching for data or holes.
    Seek,
    /// Copying within the origin.
    CopyRange,
    /// Reading an extended attribute.
    GetXattr,
    /// Listing extended attributes.
    ListXattr,
    /// Setting an extended attribute.
    SetXattr,
    /// Removing an extended attribute.
    RemoveXattr,
    /// Space and names.
    StatFs,
    /// Keeping a descriptor.
    Hold,
    /// Starting to notice changes.
    Watch,
}

/// One call, as a layer sees it before it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// What is asked for.
    pub operation: Operation,
    /// On which file, or in which directory; `None` for the origin as a whole.
    pub file: Option<FileId>,
    /// First byte, for reads and writes.
    pub offset: u64,
}

/// What goes around every call.
pub trait Layer: Send + Sync + fmt::Debug {
    /// Makes the call by `make`, which says besides the answer how many bytes of a file were moved.
    fn around<T>(&self, call: Call, make: impl FnOnce() -> Result<(T, u64)>) -> Result<(T, u64)>;
}

/// An origin with a layer around it.
#[derive(Debug)]
pub struct Layered<L> {
    inner: Shared<dyn Origin>,
    layer: L,
}

impl<L: Layer> Layered<L> {
    /// Puts `layer` around `inner`.
    pub fn around(inner: Shared<dyn Origin>, layer: L) -> Self {
        Layered { inner, layer }
    }

    /// The layer.
    pub fn layer(&self) -> &L {
        &self.layer
    }

    fn plain<T>(
        &self,
        operation: Operation,
        file: Option<FileId>,
        make: impl FnOnce(&dyn Origin) -> Result<T>,
    ) -> Result<T> {
        self.moving(Call { operation, file, offset: 0 }, make, |_| 0)
    }

    fn moving<T>(
        &self,
        call: Call,
        make: impl FnOnce(&dyn Origin) -> Result<T>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Result<T> {
        let make = || {
            let answer = make(&*self.inner)?;
            let moved = bytes(&answer);
            Ok((answer, moved))
        };
        self.layer.around(call, make).map(|(answer, _)| answer)
    }
}

impl<L: Layer> Origin for Layered<L> {
    fn info(&self) -> OriginInfo {
        self.inner.info()
    }

    fn root(&self) -> Result<Stat> {
        self.plain(Operation::Root, None, |inner| inner.root())
    }

    fn lookup(&self, dir: &dyn Place, name: &OsStr) -> Result<Stat> {
        self.plain(Operation::Lookup, Some(dir.id()), |inner| inner.lookup(dir, name))
    }

    fn stat(&self, node: &dyn Place) -> Result<Stat> {
        self.plain(Operation::Stat, Some(node.id()), |inner| inner.stat(node))
    }

    fn list(&self, dir: &dyn Place) -> Result<(Stat, Vec<DirEntry>)> {
        self.plain(Operation::List, Some(dir.id()), |inner| inner.list(dir))
    }

    fn read_link(&self, node: &dyn Place) -> Result<PathBuf> {
        self.plain(Operation::ReadLink, Some(node.id()), |inner| inner.read_link(node))
    }

    fn read(&self, node: &dyn Place, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let call = Call { operation: Operation::Read, file: Some(node.id()), offset };
        self.moving(call, |inner| inner.read(node, offset, buffer), |&bytes| bytes as u64)
    }

    fn write(&self, node: &dyn Place, offset: u64, data: &[u8], append: bool) -> Result<Written> {
        let call = Call { operation: Operation::Write, file: Some(node.id()), offset };
        self.moving(call, |inner| inner.write(node, offset, data, append), |written| written.bytes)
    }

    fn sync(&self, node: &dyn Place, data_only: bool) -> Result<()> {
        self.plain(Operation::Sync, Some(node.id()), |inner| inner.sync(node, data_only))
    }

    fn open(&self, node: &dyn Place, access: Access) -> Result<()> {
        self.plain(Operation::Open, Some(node.id()), |inner| inner.open(node, access))
    }

    fn create(&self, dir: &dyn Place, name: &OsStr, perm: u16, caller: Caller) -> Result<Stat> {
        self.plain(Operation::Create, Some(dir.id()), |inner| inner.create(dir, name, perm, caller))
    }

    fn create_unnamed(&self, dir: &dyn Place, perm: u16, caller: Caller) -> Result<(Stat, Box<dyn Hold>)> {
        self.plain(Operation::Create, Some(dir.id()), |inner| inner.create_unnamed(dir, perm, caller))
    }

    fn make(&self, dir: &dyn Place, name: &OsStr, node: &NewNode, perm: u16, caller: Caller) -> Result<Stat> {
        self.plain(Operation::Make, Some(dir.id()), |inner| inner.make(dir, name, node, perm, caller))
    }

    fn link(&self, node: &dyn Place, dir: &dyn Place, name: &OsStr) -> Result<Stat> {
        self.plain(Operation::Link, Some(node.id()), |inner| inner.link(node, dir, name))
    }

    fn unlink(&self, dir: &dyn Place, name: &OsStr) -> Result<()> {
        self.plain(Operation::Unlink, Some(dir.id()), |inner| inner.unlink(dir, name))
    }

    fn rmdir(&self, dir: &dyn Place, name: &OsStr) -> Result<()> {
        self.plain(Operation::Rmdir, Some(dir.id()), |inner| inner.rmdir(dir, name))
    }

    fn rename(&self, from: (&dyn Place, &OsStr), to: (&dyn Place, &OsStr), mode: RenameMode) -> Result<()> {
        self.plain(Operation::Rename, Some(from.0.id()), |inner| inner.rename(from, to, mode))
    }

    fn set_attr(&self, node: &dyn Place, change: &SetAttr) -> Result<Stat> {
        self.plain(Operation::SetAttr, Some(node.id()), |inner| inner.set_attr(node, change))
    }

    fn allocate(&self, node: &dyn Place, range: Allocate) -> Result<Stat> {
        self.plain(Operation::Allocate, Some(node.id()), |inner| inner.allocate(node, range))
    }

    fn seek(&self, node: &dyn Place, offset: u64, what: Seek) -> Result<u64> {
        self.plain(Operation::Seek, Some(node.id()), |inner| inner.seek(node, offset, what))
    }

    fn copy_range(&self, from: (&dyn Place, u64), to: (&dyn Place, u64), length: u64) -> Result<Written> {
        let call = Call { operation: Operation::CopyRange, file: Some(to.0.id()), offset: to.1 };
        self.moving(call, |inner| inner.copy_range(from, to, length), |written| written.bytes)
    }

    fn get_xattr(&self, node: &dyn Place, name: &OsStr) -> Result<Vec<u8>> {
        self.plain(Operation::GetXattr, Some(node.id()), |inner| inner.get_xattr(node, name))
    }

    fn list_xattr(&self, node: &dyn Place) -> Result<Vec<u8>> {
        self.plain(Operation::ListXattr, Some(node.id()), |inner| inner.list_xattr(node))
    }

    fn set_xattr(&self, node: &dyn Place, name: &OsStr, value: &[u8], flags: u32) -> Result<Stat> {
        let make = |inner: &dyn Origin| inner.set_xattr(node, name, value, flags);
        self.plain(Operation::SetXattr, Some(node.id()), make)
    }

    fn remove_xattr(&self, node: &dyn Place, name: &OsStr) -> Result<Stat> {
        self.plain(Operation::RemoveXattr, Some(node.id()), |inner| inner.remove_xattr(node, name))
    }

    fn stat_fs(&self) -> Result<StatFs> {
        self.plain(Operation::StatFs, None, |inner| inner.stat_fs())
    }

    fn hold(&self, node: &dyn Place) -> Result<Box<dyn Hold>> {
        self.plain(Operation::Hold, Some(node.id()), |inner| inner.hold(node))
    }

    fn watch(&self, sink: ChangeSink) -> Result<Box<dyn Watch>> {
        self.plain(Operation::Watch, None, |inner| inner.watch(sink))
    }
}
