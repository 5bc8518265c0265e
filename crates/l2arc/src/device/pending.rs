//! What of a device is between memory and flash: where `forget` meets the writer.

use std::collections::{HashMap, HashSet};

use arcwell_base::BlockKey;

use super::dead::{self, Dead};
use crate::layout::TableEntry;

/// See the module's doc; [`super::Device`] says who locks it.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The id that the device's superblock has now.
    pub(crate) id: u128,
    /// Whether nothing of the device may get into the index any more.
    pub(crate) is_gone: bool,
    /// What was copied into the segment that is being filled.
    entries: Vec<TableEntry>,
    /// Where in it the copy of a key lies that counts: others were forgotten.
    keys: HashMap<BlockKey, u32>,
    /// The same of the segment that is being written, whose table says what it says.
    writing: HashMap<BlockKey, u32>,
    writing_sequence: u64,
    /// For the next table, oldest first.
    pub(crate) tombstones: Vec<TableEntry>,
    /// What is dead for a rebuild that is under way.
    pub(crate) dead: Option<Dead>,
    /// What was forgotten since the present step of the feed began.
    forgotten: Option<HashSet<BlockKey>>,
}

impl Pending {
    pub(crate) fn new(id: u128, is_rebuilding: bool) -> Pending {
        Pending { id, dead: is_rebuilding.then(Dead::default), ..Pending::default() }
    }

    /// Forgets a block that has not reached the index, and what a rebuild may find of it.
    pub(crate) fn forget(&mut self, key: BlockKey) {
        self.keys.remove(&key);
        if let Some(offset) = self.writing.remove(&key) {
            self.bury(dead::place(self.writing_sequence, offset));
        }
        if let Some(forgotten) = &mut self.forgotten {
            forgotten.insert(key);
        }
        if self.dead.is_some() {
            self.kill(dead::of_key(key));
        }
    }

    /// Notes that what lies at a place is dead.
    pub(crate) fn bury(&mut self, place: u64) {
        self.kill(dead::of_place(place));
    }

    fn kill(&mut self, tombstone: TableEntry) {
        if let Some(dead) = &mut self.dead {
            dead.add(&tombstone);
        }
        self.tombstones.push(tombstone);
    }

    /// From here on it is remembered what is forgotten: what is copied may have been looked at before.
    pub(crate) fn watch(&mut self) {
        self.forgotten = Some(HashSet::new());
    }

    pub(crate) fn unwatch(&mut self) {
        self.forgotten = None;
    }

    /// Whether a copy of the block is on its way.
    pub(crate) fn has(&self, key: &BlockKey) -> bool {
        self.keys.contains_key(key) || self.writing.contains_key(key)
    }

    /// Whether a block that was looked at in this step may be fed still.
    pub(crate) fn may_take(&self, key: &BlockKey) -> bool {
        !self.has(key) && !self.forgotten.as_ref().is_some_and(|forgotten| forgotten.contains(key))
    }

    /// Notes a copy in the segment that is being filled, unless the block was forgotten meanwhile.
    pub(crate) fn take(&mut self, entry: TableEntry) -> bool {
        let takes = self.may_take(&entry.key);
        if takes {
            self.keys.insert(entry.key, entry.offset);
            self.entries.push(entry);
        }
        takes
    }

    /// How many entries the next table has already, without tombstones.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What goes into the table `sequence`: the blocks that were not forgotten, and at most `room` tombstones and blocks.
    pub(crate) fn close(&mut self, sequence: u64, room: usize) -> (Vec<TableEntry>, Vec<TableEntry>) {
        let keys = std::mem::take(&mut self.keys);
        let mut blocks = std::mem::take(&mut self.entries);
        blocks.retain(|entry| keys.get(&entry.key) == Some(&entry.offset));
        (self.writing, self.writing_sequence) = (keys, sequence);
        let some = self.tombstones.len().min(room.saturating_sub(blocks.len()));
        (blocks, self.tombstones.drain(..some).collect())
    }

    /// Whether a block that was written counts still; it is on its way no more.
    pub(crate) fn arrive(&mut self, entry: &TableEntry) -> bool {
        !self.is_gone && self.writing.remove(&entry.key).is_some()
    }

    /// Nothing is being written any more. `back` are tombstones that did not get there.
    pub(crate) fn end(&mut self, back: Vec<TableEntry>) {
        self.writing = HashMap::new();
        self.tombstones.splice(0..0, back);
    }
}
