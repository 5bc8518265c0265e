//! Tombstones: what tables say of blocks that count no more.
//!
//! A tombstone is an entry of a table that has only a key. Three sorts are told apart by the object, and blocks of the
//! two objects that mean something else are never fed:
//!
//! | object | index | what it says |
//! |---|---|---|
//! | 0 | sequence · 2²⁰ + offset / 64 | what lies *there* is dead; the last place of all is the whole segment |
//! | all ones | sequence | *cover*: all tombstones of the tables from there on stand in this one as well |
//! | another | its | all older blocks with this *key* are dead |
//!
//! What leaves the index is dead by its place: the index tells two keys with one tag apart by bytes alone, so that
//! who forgets one may throw out the other, whose key nobody knows. A place is exact. Keys are needed
//! while a rebuild is under way, when what is forgotten may lie in a table that was not read yet.

use std::collections::HashSet;

use arcwell_base::{BlockKey, ObjectId};

use crate::layout::{GRAIN, TableEntry};

const PLACE: ObjectId = ObjectId(0);
const COVER: ObjectId = ObjectId(u64::MAX);
/// Bits of an offset within a segment, in grains.
const OFFSET_BITS: u32 = 20;

/// Whether blocks with this key can be told from what tombstones mean by theirs.
pub(crate) fn may_be_fed(key: &BlockKey) -> bool {
    key.object != PLACE && key.object != COVER
}

/// A place on a device, of a certain time: the number of a place tombstone.
pub(crate) fn place(sequence: u64, offset: u32) -> u64 {
    sequence << OFFSET_BITS | u64::from(offset / GRAIN)
}

/// The number for all that a segment holds: no block lies in a segment's last grain, where the table ends.
pub(crate) fn whole(sequence: u64) -> u64 {
    sequence << OFFSET_BITS | ((1 << OFFSET_BITS) - 1)
}

pub(crate) fn of_place(place: u64) -> TableEntry {
    TableEntry::tombstone(BlockKey::new(PLACE, place))
}

pub(crate) fn of_key(key: BlockKey) -> TableEntry {
    TableEntry::tombstone(key)
}

pub(crate) fn cover(sequence: u64) -> TableEntry {
    TableEntry::tombstone(BlockKey::new(COVER, sequence))
}

/// Whether an entry is a tombstone that says what is dead.
pub(crate) fn is_lasting(entry: &TableEntry) -> bool {
    entry.is_tombstone && entry.key.object != COVER
}

/// What a table covers: the sequence, if it says so.
pub(crate) fn covered(entries: &[TableEntry]) -> Option<u64> {
    let is_cover = |entry: &&TableEntry| entry.is_tombstone && entry.key.object == COVER;
    entries.iter().find(is_cover).map(|entry| entry.key.index)
}

/// What is known to be dead while a rebuild goes from the newest table to the oldest.
#[derive(Debug, Default)]
pub(crate) struct Dead {
    keys: HashSet<BlockKey>,
    places: HashSet<u64>,
}

impl Dead {
    pub(crate) fn add(&mut self, tombstone: &TableEntry) {
        match tombstone.key.object {
            PLACE => self.places.insert(tombstone.key.index),
            COVER => false,
            _ => self.keys.insert(tombstone.key),
        };
    }

    /// Whether a block of the table `sequence`, at that place, is dead.
    pub(crate) fn has(&self, key: &BlockKey, sequence: u64, offset: u32) -> bool {
        let has = |place| self.places.contains(&place);
        self.keys.contains(key) || has(place(sequence, offset)) || has(whole(sequence))
    }
}
