//! Entries of a directory that were shown with their attributes, many at a time.
//!
//! Who lists a directory with attributes gets a reference to every file in it, and mostly asks for none
//! of them again. Making a znode of each would cost more than the rest of the listing. A [`Sheet`] stands
//! for all entries of one part of a listing: the table keeps for each file only its place in the sheet,
//! and makes a znode of it when somebody asks.
//!
//! A sheet's attributes are true as long as the directory's `below` count stands where it stood when the
//! sheet was made: every change of a file in the directory, ours or foreign, moves it. Sheets keep their
//! blocks pinned; they count in full against the znodes' share of the cache.

use std::ffi::OsStr;
use std::sync::Arc;

use arcwell_arc::Cache;

use super::{Link, Znode};
use crate::metadata::{self, Dnode};
use crate::slice::Piece;
use crate::tunable::PoolStats;

/// Memory that the table takes for one entry.
const ENTRY_BYTES: u64 = 48;

/// Who is told of memory that znodes and sheets take.
pub(crate) struct Account {
    pub(crate) cache: Arc<Cache>,
    pub(crate) stats: Arc<PoolStats>,
}

/// The entries of one part of a listing, with attributes.
pub(crate) struct Sheet {
    parent: Arc<Znode>,
    /// The part of the listing: names.
    part: Piece,
    /// The attributes, one record an entry.
    records: Piece,
    /// The directory's `below` when the records were true.
    below: u64,
    account: Arc<Account>,
    entries: u64,
}

/// The place of an entry in its part of the listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// How many entries come before it.
    pub(crate) number: u16,
    /// Where it begins.
    pub(crate) byte: u16,
}

impl Sheet {
    pub(crate) fn new(
        parent: Arc<Znode>,
        part: Piece,
        records: Piece,
        below: u64,
        account: Arc<Account>,
    ) -> Self {
        let entries = metadata::sheet_len(records.bytes());
        account.cache.charge(entries * ENTRY_BYTES);
        account.stats.znode_bytes.add(entries * ENTRY_BYTES + records.bytes().len() as u64);
        Sheet { parent, part, records, below, account, entries }
    }

    /// Whether nothing below the directory has changed since.
    pub(crate) fn is_true(&self) -> bool {
        self.parent.below() == self.below
    }

    /// The attributes of an entry, if the sheet has them.
    pub(crate) fn dnode(&self, place: Place) -> Option<Dnode> {
        metadata::sheet_record(self.records.bytes(), place.number)
    }

    fn name(&self, place: Place) -> Option<&OsStr> {
        let (entry, _) = metadata::split_entry(self.part.bytes().get(usize::from(place.byte)..)?)?;
        Some(entry.name)
    }

    /// Makes the znode of an entry.
    pub(crate) fn znode(&self, place: Place) -> Option<Znode> {
        let dnode = self.dnode(place)?;
        let link = Link { parent: Arc::clone(&self.parent), name: self.name(place)?.into() };
        Some(Znode::new(dnode.stat.id, dnode.stat.kind, dnode.identity(), Some(link), &self.account))
    }

    /// The parent's inode number and the entry's name.
    pub(crate) fn link(&self, place: Place) -> Option<(u64, &OsStr)> {
        Some((self.parent.id.ino, self.name(place)?))
    }
}

impl Drop for Sheet {
    fn drop(&mut self) {
        self.account.cache.discharge(self.entries * ENTRY_BYTES);
        self.account.stats.znode_bytes.sub(self.entries * ENTRY_BYTES + self.records.bytes().len() as u64);
    }
}
