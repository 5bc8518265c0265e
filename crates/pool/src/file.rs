//! Open files, and the operations on them that are neither reading nor writing.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arcwell_base::origin::{Access, Allocate, Caller, FileType, Seek, SetAttr};
use arcwell_base::{Cause, Error, Result};
use rustix::io::Errno;

use crate::coherence::is_out_of_reach;
use crate::dataset::{Dataset, Entry};
use crate::property::Coherence;
use crate::znode::Znode;

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenHow {
    /// Whether it may be written.
    pub write: bool,
    /// Whether it is cut to nothing.
    pub truncate: bool,
}

/// A regular file that is open. It keeps its znode, not a descriptor.
pub struct OpenFile {
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) node: Arc<Znode>,
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.dataset.closed(&self.node);
    }
}

impl Dataset {
    /// Opens a file without asking the origin, where that is allowed: for reading, when nothing
    /// about it has to be looked at again.
    pub fn cached_open(self: &Arc<Self>, ino: u64, how: OpenHow) -> Option<Result<Arc<OpenFile>>> {
        if how.write || how.truncate {
            return None;
        }
        let node = match self.node(ino) {
            Ok(node) => node,
            Err(error) => return Some(Err(error)),
        };
        let must_ask = match self.properties.coherence {
            Coherence::Exclusive => false,
            Coherence::Timeout => true,
            Coherence::Notify => !self.is_told_of_contents(&node, &node.identity()),
        };
        if must_ask {
            return None;
        }
        Some(self.opened_file(node))
    }

    /// Opens a file. Where others may write to the origin, it is looked at again.
    ///
    /// # Errors
    /// The origin's; EISDIR; EROFS for writing on a read-only dataset.
    pub fn open(self: &Arc<Self>, ino: u64, how: OpenHow) -> Result<Arc<OpenFile>> {
        if how.write || how.truncate {
            self.writable("open")?;
        }
        let node = self.visit_node(ino)?;
        if node.is_directory() {
            return Err(Error::new("open", Errno::ISDIR));
        }
        if self.properties.coherence != Coherence::Exclusive {
            self.revalidate(&node)?;
        }
        let access = if how.write { Access::Write } else { Access::Read };
        let can_do_without = || !how.write && self.is_known(&node);
        match self.ask(can_do_without, |origin| origin.open(&**node, access)) {
            Err(error) if is_out_of_reach(&error) && can_do_without() => {}
            opened => opened?,
        }
        let file = self.opened_file(Arc::clone(&node))?;
        if how.truncate {
            self.set_attr(ino, &SetAttr { size: Some(0), ..SetAttr::default() })?;
        }
        Ok(file)
    }

    /// Creates a regular file and opens it. What lies in the way of one that need not be new is not
    /// opened: whoever asks was not judged against it. He gets ESTALE, and looks the name up again.
    ///
    /// # Errors
    /// The origin's; EEXIST or ESTALE when the name is there; EROFS on a read-only dataset.
    pub fn create(
        self: &Arc<Self>,
        parent: u64,
        name: &OsStr,
        perm: u16,
        exclusive: bool,
        caller: Caller,
    ) -> Result<(Entry, Arc<OpenFile>)> {
        self.writable("create")?;
        let dir = self.visit_directory(parent)?;
        let (entry, node) = {
            let _changing = self.begin(&[&dir]);
            self.verify_before(&dir)?;
            let created = self.origin.create(&**dir, name, perm, caller);
            let stat = created.map_err(|error| {
                self.doubt_name(&dir, name);
                if error.errno() == Errno::EXIST && !exclusive {
                    Error::new("create", Cause::Stale)
                } else {
                    error
                }
            })?;
            self.adopt(&dir, name, &stat)?
        };
        // The reference is the asker's only if he gets an answer.
        let ino = node.id.ino;
        let file = self.opened_file(node).inspect_err(|_| self.forget(ino, 1))?;
        Ok((entry, file))
    }

    /// Creates a regular file without a name and opens it. [`Dataset::link`] may give it one.
    ///
    /// # Errors
    /// The origin's, EOPNOTSUPP when it has no such files; EROFS on a read-only dataset.
    pub fn create_unnamed(
        self: &Arc<Self>,
        parent: u64,
        perm: u16,
        caller: Caller,
    ) -> Result<(Entry, Arc<OpenFile>)> {
        self.writable("create")?;
        let dir = self.visit_directory(parent)?;
        let (stat, hold) = self.origin.create_unnamed(&**dir, perm, caller)?;
        let mut identity = self.identity_of(self.shared.objects.next()?, self.properties.recordsize, &stat);
        identity.is_young = false;
        // A znode begins with a name; this one loses it before anybody can ask for it.
        let name = OsStr::new("");
        let node = self.intern(&stat, || identity, &dir, name, 1);
        node.keep(hold);
        node.remove_link(&dir, name);
        self.settle(&node, &stat);
        let file = self.opened_file(node).inspect_err(|_| self.forget(stat.id.ino, 1))?;
        Ok((Entry { stat, entry_ttl: Duration::ZERO, attr_ttl: Duration::ZERO }, file))
    }

    /// Counts a file or directory as open: its znode stays.
    pub(crate) fn opened(&self, node: &Znode) {
        node.opens.fetch_add(1, Ordering::Relaxed);
        self.shared.stats.znodes_open.add(1);
    }

    pub(crate) fn closed(&self, node: &Znode) {
        self.shared.stats.znodes_open.sub(1);
        self.let_go(node);
    }

    /// Ends a stay that kept a znode as if it were open.
    pub(crate) fn let_go(&self, node: &Znode) {
        if node.opens.fetch_sub(1, Ordering::Relaxed) == 1
            && node.id != self.root.id
            && let Some(node) = self.znodes.release(node.id.ino)
        {
            self.retire(&node);
        }
    }

    fn opened_file(self: &Arc<Self>, node: Arc<Znode>) -> Result<Arc<OpenFile>> {
        match node.kind {
            FileType::Directory => return Err(Error::new("open", Errno::ISDIR)),
            FileType::Symlink => return Err(Error::new("open", Errno::LOOP)),
            _ => {}
        }
        self.opened(&node);
        self.blocks.name(&node);
        Ok(Arc::new(OpenFile { dataset: Arc::clone(self), node }))
    }
}

impl OpenFile {
    /// Its inode number.
    pub fn ino(&self) -> u64 {
        self.node.id.ino
    }

    /// Its length as it is known now.
    pub fn size(&self) -> u64 {
        self.node.identity().version.size
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The origin's.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        self.dataset.origin.sync(&*self.node, data_only)
    }

    /// Searches for data or a hole.
    ///
    /// # Errors
    /// ENXIO beyond the end; else the origin's.
    pub fn seek(&self, offset: u64, what: Seek) -> Result<u64> {
        self.dataset.origin.seek(&*self.node, offset, what)
    }

    /// Changes a range as `fallocate` does.
    ///
    /// # Errors
    /// The origin's; EROFS on a read-only dataset.
    pub fn allocate(&self, range: Allocate) -> Result<()> {
        let dataset = &*self.dataset;
        dataset.writable("allocate")?;
        let _changing = dataset.begin(&[&self.node]);
        dataset.verify_before(&self.node)?;
        let size_before = self.node.identity().version.size;
        let allocated = dataset.origin.allocate(&*self.node, range);
        // Whatever the mode did, and even when it failed half way: blocks from the offset on may have
        // changed, to the end of the file where the mode moves them.
        let end = match range.mode & (COLLAPSE_RANGE | INSERT_RANGE) {
            0 => range.offset.saturating_add(range.length),
            _ => u64::MAX,
        };
        if range.mode & !KEEP_SIZE != 0 {
            dataset.drop_range(&self.node, range.offset, end)?;
        }
        match allocated {
            Ok(stat) => {
                dataset.resized(&self.node, size_before, stat.size)?;
                dataset.settle(&self.node, &stat);
                Ok(())
            }
            Err(error) => {
                dataset.doubt_size(&self.node);
                Err(error)
            }
        }
    }

    /// Copies a range to another file of the same dataset, within the origin. Bytes copied.
    ///
    /// # Errors
    /// The origin's; EXDEV between datasets; EROFS on a read-only dataset.
    pub fn copy_range(&self, offset: u64, to: &OpenFile, to_offset: u64, len: u64) -> Result<u64> {
        let dataset = &*to.dataset;
        dataset.writable("copy range")?;
        if !Arc::ptr_eq(&self.dataset, &to.dataset) {
            return Err(Error::new("copy range", Errno::XDEV));
        }
        let _changing = dataset.begin(&[&to.node]);
        dataset.verify_before(&to.node)?;
        let size_before = to.node.identity().version.size;
        let copied = dataset.origin.copy_range((&*self.node, offset), (&*to.node, to_offset), len);
        dataset.drop_range(&to.node, to_offset, to_offset.saturating_add(len))?;
        let written = copied.inspect_err(|_| dataset.doubt_size(&to.node))?;
        dataset.resized(&to.node, size_before, written.stat.size)?;
        dataset.settle(&to.node, &written.stat);
        Ok(written.bytes)
    }
}

/// `FALLOC_FL_KEEP_SIZE`.
const KEEP_SIZE: u32 = 0x01;
/// `FALLOC_FL_COLLAPSE_RANGE`.
const COLLAPSE_RANGE: u32 = 0x08;
/// `FALLOC_FL_INSERT_RANGE`.
const INSERT_RANGE: u32 = 0x20;
