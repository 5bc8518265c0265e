//! Directory listings: stable snapshots, kept as metadata blocks.
//!
//! An open directory holds a snapshot of the listing: offsets are places in it, so that nothing is
//! skipped or shown twice while names come and go. Offset 0 takes a new snapshot. The snapshot is the
//! listing's blocks, pinned; a change of ours drops the blocks from the cache, and open directories
//! keep theirs.
//!
//! Attributes come with the entries from sheets: for each part of a listing one block that holds copies of
//! the dnodes, gathered when somebody first asks. Sheets are true as long as they bear the directory's
//! stamp; see [`Sheet`] for what becomes of those in use.

use std::ffi::OsStr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arcwell_arc::{Admit, Asked, Keep, Pin};
use arcwell_base::origin::FileType;
use arcwell_base::{Kind, Result};
use parking_lot::Mutex;

use crate::blocks::Filling;
use crate::coherence::is_out_of_reach;
use crate::dataset::{Dataset, Entry};
use crate::metadata::{self, Dnode, ListedEntry};
use crate::slice::Piece;
use crate::znode::sheet::{Place, Sheet};
use crate::znode::table::Referred;
use crate::znode::{ObjectIdentity, Znode};

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
    dir: Arc<Znode>,
    /// For each part, once somebody asked for attributes: the sheet that has them, if there is one.
    sheets: Box<[OnceLock<Option<Arc<Sheet>>>]>,
}

/// Entries from some offset on.
pub struct Entries {
    snapshot: Arc<Snapshot>,
    offset: u64,
    /// How long the names may be believed; `None`: attributes are not given with them.
    entry_ttl: Option<Duration>,
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
    /// Its part of the listing, and its place there; none for `.` and `..`.
    place: Option<(u32, Place)>,
}

/// Offsets: 0 and 1 are `.` and `..`; else the part + 1, the number of the entry in it, the byte where it
/// begins. An offset of 2 is the first entry's.
const PART_SHIFT: u32 = 32;
const NUMBER_SHIFT: u32 = 16;
const FIRST: u64 = 1 << PART_SHIFT | LISTING_HEADER as u64;
/// Bytes before the first entry of part 0.
const LISTING_HEADER: u16 = 4;

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
        let dots = |name, ino, next| {
            let kind = Some(FileType::Directory);
            Some(DirItem { name: OsStr::new(name), ino, kind, next, place: None })
        };
        let offset = match offset {
            0 => return dots(".", self.own_ino, 1),
            1 => return dots("..", self.parent_ino, 2),
            2 => FIRST,
            further => further,
        };
        let mut part = (offset >> PART_SHIFT).checked_sub(1)? as u32;
        let mut at = Place { number: (offset >> NUMBER_SHIFT) as u16, byte: offset as u16 };
        loop {
            let bytes = self.parts.get(part as usize)?.bytes();
            if usize::from(at.byte) < bytes.len() {
                let (entry, behind) = metadata::split_entry(&bytes[usize::from(at.byte)..])?;
                let byte = (bytes.len() - behind.len()) as u64;
                let next =
                    (u64::from(part) + 1) << PART_SHIFT | (u64::from(at.number) + 1) << NUMBER_SHIFT | byte;
                let place = Some((part, at));
                return Some(DirItem { name: entry.name, ino: entry.ino, kind: entry.kind, next, place });
            }
            (part, at) = (part + 1, Place { number: 0, byte: 0 });
        }
    }

    /// The entries of one part, each with its number.
    fn entries_of(&self, part: u32) -> impl Iterator<Item = (usize, ListedEntry<'_>)> {
        let header = if part == 0 { usize::from(LISTING_HEADER) } else { 0 };
        let bytes = self.parts.get(part as usize).map_or(&[][..], Piece::bytes);
        let mut rest = bytes.get(header..).unwrap_or_default();
        let entries = std::iter::from_fn(move || {
            let (entry, behind) = metadata::split_entry(rest)?;
            rest = behind;
            Some(entry)
        });
        entries.enumerate()
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
        Some(Ok(self.entries_of(snapshot, offset)))
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
            return Ok(self.entries_of(Arc::clone(snapshot), offset));
        }
        let snapshot = Arc::new(self.dataset.snapshot(&self.node)?);
        *self.snapshot.lock() = Some(Arc::clone(&snapshot));
        Ok(self.entries_of(snapshot, offset))
    }

    fn entries_of(&self, snapshot: Arc<Snapshot>, offset: u64) -> Entries {
        let entry_ttl = self.dataset.listed_ttl(&snapshot);
        Entries { snapshot, offset, entry_ttl }
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
        self.blocks.name(&node);
        Ok(Arc::new(OpenDir { dataset: Arc::clone(self), node, snapshot: Mutex::new(None) }))
    }

    /// Attributes of an entry, if they are cached and the listing is still true; the asker then holds
    /// one reference.
    pub fn cached_entry(&self, entries: &Entries, item: &DirItem<'_>) -> Option<Entry> {
        let snapshot = &entries.snapshot;
        let dir = &snapshot.dir;
        let entry_ttl = entries.entry_ttl?;
        let (part, place) = item.place?;
        if dir.sequence() != snapshot.sequence {
            return None;
        }
        let sheet =
            snapshot.sheets.get(part as usize)?.get_or_init(|| self.sheet(snapshot, part)).as_ref()?;
        let dnode = sheet.dnode(place).filter(|dnode| dnode.stat.id.ino == item.ino && sheet.is_true())?;
        let attr_ttl = self.ttl(dnode.checked, self.is_told_below(dir, &dnode));
        if attr_ttl.is_zero() || dnode.stat.id == self.root.id {
            return None;
        }
        match self.znodes.refer(item.ino, dnode.stat.id.generation, sheet, place)? {
            Referred::Known(node) => node.add_link(dir, item.name),
            Referred::Listed => {}
        }
        Some(Entry { stat: dnode.stat, entry_ttl, attr_ttl })
    }

    /// How long names of a listing may be believed, if attributes may be given with them at all.
    fn listed_ttl(&self, snapshot: &Snapshot) -> Option<Duration> {
        let dir = &snapshot.dir;
        let identity = dir.identity();
        // Beyond their share no further references are given on the mere chance that somebody asks.
        let has_room = self.shared.stats.znode_bytes.value() < self.shared.znode_share();
        let is_true = has_room && dir.sequence() == snapshot.sequence && self.is_fresh(dir, &identity);
        is_true.then(|| self.entry_ttl(dir, identity.checked))
    }

    /// The attributes of one part of a listing: from the cache, else gathered from dnodes there.
    fn sheet(&self, snapshot: &Snapshot, part: u32) -> Option<Arc<Sheet>> {
        let dir = &snapshot.dir;
        let below = dir.below();
        let object = dir.identity().object;
        let stamp = self.blocks.peek(metadata::stamp_key(object));
        let stamp = stamp.and_then(|pin| Some(u64::from_le_bytes(pin.get(..8)?.try_into().ok()?)));
        let kept = match stamp {
            Some(_) => self.metadata(metadata::sheet_key(object, u64::from(part))),
            None => None,
        };
        let is_right = |pin: &Pin| {
            let header = metadata::sheet_header(pin);
            header.is_some_and(|(of, checked)| Some(of) == stamp && !self.entry_ttl(dir, checked).is_zero())
        };
        let records = match kept.filter(is_right) {
            Some(records) => records,
            None => self.gather_sheet(snapshot, part, stamp, below)?,
        };
        let names = snapshot.parts.get(part as usize)?.clone();
        let account = Arc::clone(&self.account);
        Some(Arc::new(Sheet::new(Arc::clone(dir), names, Piece::Pinned(records), below, account)))
    }

    /// Makes a sheet of the dnodes that are cached. `None` when there are none, or something below the
    /// directory changed meanwhile.
    fn gather_sheet(&self, snapshot: &Snapshot, part: u32, stamp: Option<u64>, below: u64) -> Option<Pin> {
        let dir = &snapshot.dir;
        let object = dir.identity().object;
        let stamp_now = stamp.unwrap_or_else(|| self.stamps.fetch_add(1, Ordering::Relaxed));
        let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
        let count = snapshot.entries_of(part).count();
        let key = metadata::sheet_key(object, u64::from(part));
        let blocks = &self.blocks;
        let known = |entry: &ListedEntry<'_>| {
            let pin = blocks.peek(metadata::dnode_key(self.object, entry.ino))?;
            let dnode =
                Dnode::decode(&pin).filter(|dnode| dnode.stat.id.ino == entry.ino && dnode.stat.nlink > 0)?;
            let is_told = self.is_told_below(dir, &dnode);
            // A file with a second name may change where this directory does not hear of it.
            let is_lasting =
                !metadata::has_other_names(&dnode.stat) && !self.ttl(dnode.checked, is_told).is_zero();
            is_lasting.then_some((pin, dnode.checked))
        };
        let mut sheet: Option<Filling<'_>> = None;
        for (number, entry) in snapshot.entries_of(part) {
            let Some((pin, checked)) = known(&entry) else { continue };
            if sheet.is_none() {
                let mut new = blocks.admit(key, Kind::Metadata, metadata::sheet_bytes(count), how).ok()?;
                metadata::begin_sheet(&mut new, stamp_now);
                sheet = Some(new);
            }
            metadata::put_record(sheet.as_mut()?, number, &pin, checked);
        }
        let sheet = sheet?;
        if stamp.is_none() {
            self.replace_metadata(metadata::stamp_key(object), &stamp_now.to_le_bytes());
        }
        let _identity = dir.identity.lock();
        // A change after this drops the stamp; one before it has moved the count.
        (dir.below() == below).then(|| sheet.publish())
    }

    /// Drops what is kept of the attributes of a directory's files.
    pub(crate) fn drop_sheets(&self, dir: &Znode) {
        let object = dir.changed_below();
        self.blocks.remove(metadata::stamp_key(object));
    }

    fn cached_snapshot(&self, node: &Arc<Znode>) -> Option<Snapshot> {
        let sequence = node.sequence();
        let identity = node.identity();
        if !sequence.is_multiple_of(2) || !self.is_fresh(node, &identity) {
            return None;
        }
        self.kept_snapshot(node, &identity, sequence)
    }

    /// The listing that is kept, of whatever age.
    fn kept_snapshot(&self, node: &Arc<Znode>, identity: &ObjectIdentity, sequence: u64) -> Option<Snapshot> {
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
        let sheets = parts.iter().map(|_| OnceLock::new()).collect();
        Snapshot { parts, own_ino, parent_ino, sequence, dir: Arc::clone(node), sheets }
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
        let kept_key = metadata::listing_key(node.identity().object, 0);
        let is_kept = || self.blocks.contains(kept_key);
        let (stat, entries) = match self.ask(is_kept, |origin| origin.list(&**node)) {
            Err(error) if is_out_of_reach(&error) => {
                let identity = node.identity();
                let is_sound = sequence.is_multiple_of(2) && identity.checked != 0;
                let kept = is_sound.then(|| self.kept_snapshot(node, &identity, sequence)).flatten();
                return kept.ok_or(error);
            }
            answer => answer?,
        };
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
        if is_kept && let Ok(mut anon) = self.blocks.admit(key, Kind::Metadata, bytes.len(), how) {
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
        self.drop_sheets(dir);
        let object = dir.identity().object;
        let blocks = &self.blocks;
        let first = blocks.peek(metadata::listing_key(object, 0));
        let count = first.as_deref().and_then(metadata::listing_parts).map_or(1, |(count, _)| count);
        for part in 0..count {
            blocks.remove(metadata::listing_key(object, part));
        }
    }
}
