//! Directory listings: stable snapshots, kept as metadata blocks.
//!
//! An open directory holds a snapshot of the listing: offsets are places in it, so that nothing is
//! skipped or shown twice while names come and go. Offset 0 takes a new snapshot. The snapshot is the
//! listing's blocks, pinned; a change of ours drops the blocks from the cache, and open directories
//! keep theirs.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arcwell_arc::{Admit, Asked, Keep};
use arcwell_base::origin::FileType;
use arcwell_base::{Kind, Result};
use parking_lot::Mutex;

use crate::dataset::{Dataset, Entry};
use crate::metadata;
use crate::slice::Piece;
use crate::znode::Znode;

/// A directory that is open.
pub struct OpenDir {
    dataset: Arc<Dataset>,
    node: Arc<Znode>,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
}

impl std::fmt::Debug for OpenDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenDir").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A listing as of one moment.
struct Snapshot {
    parts: Vec<Piece>,
    /// The directory's inode number and its parent's, for `.` and `..`.
    own_ino: u64,
    parent_ino: u64,
    /// The directory's sequence when it was taken: entries are given with attributes only while it
    /// stands, as a name may since have become another file's.
    sequence: u64,
}

/// Entries from some offset on.
pub struct Entries {
    snapshot: Arc<Snapshot>,
    offset: u64,
}

impl std::fmt::Debug for Entries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entries").field("offset", &self.offset).finish_non_exhaustive()
    }
}

/// One entry of a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirItem<'a> {
    /// The name.
    pub name: &'a OsStr,
    /// The inode number.
    pub ino: u64,
    /// What kind of file, where the origin told.
    pub kind: Option<FileType>,
    /// The offset behind it.
    pub next: u64,
}

/// Offsets: high bits the part + 1, low bits the byte within it; 1 and 2 are behind `.` and `..`.
const PART_SHIFT: u32 = 24;

impl Entries {
    /// The entries in order, `.` and `..` first.
    pub fn iter(&self) -> impl Iterator<Item = DirItem<'_>> {
        let mut offset = self.offset;
        std::iter::from_fn(move || {
            let item = self.snapshot.item(offset)?;
            offset = item.next;
            Some(item)
        })
    }
}

impl Snapshot {
    fn item(&self, offset: u64) -> Option<DirItem<'_>> {
        let dots = Some(FileType::Directory);
        match offset {
            0 => return Some(DirItem { name: OsStr::new("."), ino: self.own_ino, kind: dots, next: 1 }),
            1 => return Some(DirItem { name: OsStr::new(".."), ino: self.parent_ino, kind: dots, next: 2 }),
            _ => {}
        }
        let (mut part, mut at) = match offset {
            2 => (0, 4),
            _ => {
                ((offset >> PART_SHIFT).checked_sub(1)? as usize, (offset & ((1 << PART_SHIFT) - 1)) as usize)
            }
        };
        loop {
            let bytes = self.parts.get(part)?.bytes();
            if at < bytes.len() {
                let (entry, behind) = metadata::split_entry(&bytes[at..])?;
                let next = ((part as u64 + 1) << PART_SHIFT) | (bytes.len() - behind.len()) as u64;
                return Some(DirItem { name: entry.name, ino: entry.ino, kind: entry.kind, next });
            }
            (part, at) = (part + 1, 0);
        }
    }
}

impl OpenDir {
    /// The directory's inode number.
    pub fn ino(&self) -> u64 {
        self.node.id.ino
    }

    /// Entries from `offset` on, if they need not be asked for.
    pub fn cached_entries(&self, offset: u64) -> Option<Result<Entries>> {
        let mut held = self.snapshot.lock();
        if offset == 0 {
            let snapshot = self.dataset.cached_snapshot(&self.node)?;
            *held = Some(Arc::new(snapshot));
        }
        let snapshot = Arc::clone(held.as_ref()?);
        Some(Ok(Entries { snapshot, offset }))
    }

    /// Entries from `offset` on. Offset 0 looks at the directory anew; another one goes on in the
    /// listing that was begun.
    ///
    /// # Errors
    /// The origin's: a listing that broke off is an error, never a short listing.
    pub fn entries(&self, offset: u64) -> Result<Entries> {
        if offset != 0
            && let Some(snapshot) = &*self.snapshot.lock()
        {
            return Ok(Entries { snapshot: Arc::clone(snapshot), offset });
        }
        let snapshot = Arc::new(self.dataset.snapshot(&self.node)?);
        *self.snapshot.lock() = Some(Arc::clone(&snapshot));
        Ok(Entries { snapshot, offset })
    }
}

impl Drop for OpenDir {
    fn drop(&mut self) {
        self.dataset.closed(&self.node);
    }
}

impl Dataset {
    /// Opens a directory; it is listed when entries are asked for.
    ///
    /// # Errors
    /// ENOTDIR; ESTALE when the number is not known.
    pub fn open_dir(self: &Arc<Self>, ino: u64) -> Result<Arc<OpenDir>> {
        let node = self.directory(ino)?;
        self.opened(&node);
        Ok(Arc::new(OpenDir { dataset: Arc::clone(self), node, snapshot: Mutex::new(None) }))
    }

    pub(crate) fn opened(&self, node: &Znode) {
        node.opens.fetch_add(1, Ordering::Relaxed);
        self.shared.stats.znodes_open.add(1);
    }

    pub(crate) fn closed(&self, node: &Znode) {
        self.shared.stats.znodes_open.sub(1);
        self.let_go(node);
    }

    /// Ends a hold that kept a znode as if it were open.
    pub(crate) fn let_go(&self, node: &Znode) {
        let opens: &AtomicU32 = &node.opens;
        if opens.fetch_sub(1, Ordering::Relaxed) == 1
            && node.id != self.root.id
            && let Some(node) = self.znodes.release(node.id.ino)
        {
            self.retire(node);
        }
    }

    /// Attributes of an entry, if they are cached and the listing is still true; the asker then holds
    /// one reference.
    pub fn cached_entry(&self, dir: &OpenDir, item: &DirItem<'_>) -> Option<Entry> {
        let snapshot_sequence = dir.snapshot.lock().as_ref()?.sequence;
        let node = &dir.node;
        let identity = node.identity();
        if node.sequence() != snapshot_sequence || !self.is_fresh(node, &identity) {
            return None;
        }
        let pin = self.shared.cache.lookup(
            metadata::dnode_key(self.object, item.ino),
            Kind::Metadata,
            Asked::Demand,
        )?;
        let dnode = metadata::Dnode::decode(&pin).filter(|dnode| dnode.stat.id.ino == item.ino)?;
        let attr_ttl = self.ttl(dnode.checked, self.is_told_below(node, &dnode));
        if attr_ttl.is_zero() || dnode.stat.nlink == 0 {
            return None;
        }
        self.intern(&dnode.stat, || dnode.identity(), node, item.name, 1);
        let entry_ttl = self.entry_ttl(node, identity.checked);
        Some(Entry { stat: dnode.stat, entry_ttl, attr_ttl })
    }

    fn cached_snapshot(&self, node: &Arc<Znode>) -> Option<Snapshot> {
        let sequence = node.sequence();
        let identity = node.identity();
        if !sequence.is_multiple_of(2) || !self.is_fresh(node, &identity) {
            return None;
        }
        let first = self.metadata(metadata::listing_key(identity.object, 0))?;
        let (count, _) = metadata::listing_parts(&first)?;
        let mut parts = Vec::with_capacity(count as usize);
        parts.push(Piece::Pinned(first));
        for part in 1..count {
            parts.push(Piece::Pinned(self.metadata(metadata::listing_key(identity.object, part))?));
        }
        Some(self.snapshot_of(node, parts, sequence))
    }

    fn snapshot_of(&self, node: &Arc<Znode>, parts: Vec<Piece>, sequence: u64) -> Snapshot {
        let own_ino = node.id.ino;
        let parent_ino = node.parent().map_or(own_ino, |parent| parent.id.ino);
        Snapshot { parts, own_ino, parent_ino, sequence }
    }

    /// Lists a directory and keeps the listing.
    fn snapshot(&self, node: &Arc<Znode>) -> Result<Snapshot> {
        self.watch_directory(node);
        if !self.is_fresh(node, &node.identity()) {
            self.revalidate(node)?;
            if let Some(snapshot) = self.cached_snapshot(node) {
                return Ok(snapshot);
            }
        }
        let sequence = node.sequence();
        let (stat, entries) = self.origin.list(&**node)?;
        // The attributes are from before the first entry: a change during the listing shows as a
        // foreign one at the next look.
        let sequence = self.observe(node, &stat, sequence)?.continued(sequence);
        let identity = node.identity();
        let mut parts = Vec::new();
        for (number, bytes) in metadata::encode_listing(&entries).into_iter().enumerate() {
            let key = metadata::listing_key(identity.object, number as u64);
            parts.push(self.keep_part(node, key, bytes, sequence));
        }
        Ok(self.snapshot_of(node, parts, sequence))
    }

    fn keep_part(&self, node: &Znode, key: arcwell_base::BlockKey, bytes: Vec<u8>, sequence: u64) -> Piece {
        let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
        let is_kept = self.properties.primarycache.covers(Kind::Metadata);
        if is_kept && let Ok(mut anon) = self.shared.cache.admit(key, Kind::Metadata, bytes.len(), how) {
            anon.copy_from_slice(&bytes);
            let _identity = node.identity.lock();
            if sequence.is_multiple_of(2) && node.sequence() == sequence {
                return Piece::Pinned(anon.publish());
            }
        }
        Piece::Loose(bytes.into())
    }

    /// Drops a directory's listing from the cache.
    pub(crate) fn drop_listing(&self, dir: &Znode) {
        let object = dir.identity().object;
        let cache = &self.shared.cache;
        let first = cache.peek(metadata::listing_key(object, 0));
        let count = first.as_deref().and_then(metadata::listing_parts).map_or(1, |(count, _)| count);
        for part in 0..count {
            cache.remove(metadata::listing_key(object, part));
        }
    }
}
