//! The table of a segment: what lies in it, and what was forgotten before it was written.
//!
//! It stands at the segment's end. First its entries, 32 bytes each, padded with zeroes to a whole unit; then the head,
//! the segment's last unit:
//!
//! | bytes of the head | what |
//! |---|---|
//! | 0..8 | magic, `ARCWTABL` |
//! | 8..12 | entries |
//! | 12..16 | bytes of payload, from the segment's start on |
//! | 16..32 | device id |
//! | 32..40 | sequence: grows by one a segment written, never repeats |
//! | 40..48 | XXH3-64 of the entries with their padding |
//! | 48..4088 | zero |
//! | 4088..4096 | XXH3-64 of all before |
//!
//! | bytes of an entry | what |
//! |---|---|
//! | 0..8, 8..16 | the key: object, index |
//! | 16..24 | checksum of the block |
//! | 24..28 | where it begins in the segment, a multiple of 64 |
//! | 28..32 | its length (25 bits, ≤ 16 MiB), then: 25 is metadata, 26 was frequent, 27 tombstone |
//!
//! The head's checksum covers that of the entries, and so both. It stands for itself because the head is
//! read first and says how much else to read: even that is believed only when it agrees.

use arcwell_base::{BlockKey, Error, ObjectId, Result};

use super::{BLOCK_MAX, GRAIN, SEGMENT, UNIT, put_at, u32_at, u64_at, u128_at};
use crate::checksum::checksum_of_layout;

const MAGIC: &[u8; 8] = b"ARCWTABL";
const CHECKSUM: usize = UNIT - 8;
/// Bytes of an entry.
const ENTRY: usize = 32;

const LEN: u32 = (1 << 25) - 1;
const METADATA: u32 = 1 << 25;
const FREQUENT: u32 = 1 << 26;
const TOMBSTONE: u32 = 1 << 27;

/// What a table says of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) key: BlockKey,
    pub(crate) checksum: u64,
    /// Where it begins, from the segment's start on.
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) is_metadata: bool,
    pub(crate) is_frequent: bool,
    /// The block was forgotten: what earlier segments hold of it counts no more. Has neither place nor length.
    pub(crate) is_tombstone: bool,
}

impl TableEntry {
    /// That a block was forgotten.
    pub(crate) fn tombstone(key: BlockKey) -> TableEntry {
        TableEntry {
            key,
            checksum: 0,
            offset: 0,
            len: 0,
            is_metadata: false,
            is_frequent: false,
            is_tombstone: true,
        }
    }

    /// Whether this can be in a segment with so much payload.
    fn is_sound(&self, payload: u32) -> bool {
        if self.is_tombstone {
            return *self == TableEntry::tombstone(self.key);
        }
        (1..=BLOCK_MAX).contains(&self.len)
            && self.offset.is_multiple_of(GRAIN)
            && u64::from(self.offset) + u64::from(self.len) <= u64::from(payload)
    }

    fn encode(&self, into: &mut [u8]) {
        let flag = |is: bool, bit: u32| if is { bit } else { 0 };
        let word = self.len
            | flag(self.is_metadata, METADATA)
            | flag(self.is_frequent, FREQUENT)
            | flag(self.is_tombstone, TOMBSTONE);
        put_at(into, 0, &self.key.object.0.to_le_bytes());
        put_at(into, 8, &self.key.index.to_le_bytes());
        put_at(into, 16, &self.checksum.to_le_bytes());
        put_at(into, 24, &self.offset.to_le_bytes());
        put_at(into, 28, &word.to_le_bytes());
    }

    fn decode(from: &[u8; ENTRY], payload: u32) -> Option<TableEntry> {
        let word = u32_at(from, 28);
        let entry = TableEntry {
            key: BlockKey::new(ObjectId(u64_at(from, 0)), u64_at(from, 8)),
            checksum: u64_at(from, 16),
            offset: u32_at(from, 24),
            len: word & LEN,
            is_metadata: word & METADATA != 0,
            is_frequent: word & FREQUENT != 0,
            is_tombstone: word & TOMBSTONE != 0,
        };
        let is_known = word & !(LEN | METADATA | FREQUENT | TOMBSTONE) == 0;
        (is_known && entry.is_sound(payload)).then_some(entry)
    }
}

/// The table of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) device: u128,
    pub(crate) sequence: u64,
    /// Bytes of payload, from the segment's start on.
    pub(crate) payload: u32,
    pub(crate) entries: Vec<TableEntry>,
}

/// The last unit of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) sequence: u64,
    pub(crate) count: u32,
    pub(crate) payload: u32,
    checksum: u64,
}

impl Head {
    /// The head that a segment's last unit holds, if it is one of this device.
    pub(crate) fn decode(unit: &[u8], device: u128) -> Option<Head> {
        let is_ours = unit.len() == UNIT && &unit[..8] == MAGIC && u128_at(unit, 16) == device;
        if !is_ours || u64_at(unit, CHECKSUM) != checksum_of_layout(&unit[..CHECKSUM]) {
            return None;
        }
        let head = Head {
            sequence: u64_at(unit, 32),
            count: u32_at(unit, 8),
            payload: u32_at(unit, 12),
            checksum: u64_at(unit, 40),
        };
        let fits = head.count as usize <= *SEGMENT.end() as usize / ENTRY
            && head.bytes() as u64 + u64::from(head.payload) <= *SEGMENT.end();
        fits.then_some(head)
    }

    /// Bytes of the whole table, at the segment's end.
    pub(crate) fn bytes(&self) -> usize {
        Table::bytes_for(self.count as usize)
    }
}

impl Table {
    /// Bytes that a table of so many entries takes.
    pub(crate) const fn bytes_for(count: usize) -> usize {
        (count * ENTRY).next_multiple_of(UNIT) + UNIT
    }

    /// Writes the table to the end of `into`: a segment, or the end of one that is long enough. What lies before is
    /// left as it is.
    ///
    /// # Errors
    /// There is not enough room, or an entry cannot be.
    pub(crate) fn encode(&self, into: &mut [u8]) -> Result<()> {
        let takes = Table::bytes_for(self.entries.len());
        let refuse = |what: String| Err(Error::invalid("write the table of a segment", what));
        if takes > into.len() || takes as u64 + u64::from(self.payload) > *SEGMENT.end() {
            return refuse(format!("{} entries do not fit", self.entries.len()));
        }
        if let Some(wrong) = self.entries.iter().find(|entry| !entry.is_sound(self.payload)) {
            return refuse(format!("{wrong:?} cannot be in {} bytes of payload", self.payload));
        }
        let from = into.len() - takes;
        let (rows, head) = into[from..].split_at_mut(takes - UNIT);
        let (full, padding) = rows.split_at_mut(self.entries.len() * ENTRY);
        for (entry, row) in self.entries.iter().zip(full.chunks_exact_mut(ENTRY)) {
            entry.encode(row);
        }
        padding.fill(0);
        head.fill(0);
        put_at(head, 0, MAGIC);
        put_at(head, 8, &(self.entries.len() as u32).to_le_bytes());
        put_at(head, 12, &self.payload.to_le_bytes());
        put_at(head, 16, &self.device.to_le_bytes());
        put_at(head, 32, &self.sequence.to_le_bytes());
        put_at(head, 40, &checksum_of_layout(rows).to_le_bytes());
        let checksum = checksum_of_layout(&head[..CHECKSUM]);
        put_at(head, CHECKSUM, &checksum.to_le_bytes());
        Ok(())
    }

    /// The table that `bytes` end with, if it is one of this device and whole.
    pub(crate) fn decode(bytes: &[u8], device: u128) -> Option<Table> {
        let last = bytes.len().checked_sub(UNIT)?;
        let head = Head::decode(&bytes[last..], device)?;
        let rows = &bytes[bytes.len().checked_sub(head.bytes())?..last];
        if head.checksum != checksum_of_layout(rows) {
            return None;
        }
        // No more than the bytes that are there.
        let mut entries = Vec::with_capacity(head.count as usize);
        for row in rows.as_chunks().0.iter().take(head.count as usize) {
            entries.push(TableEntry::decode(row, head.payload)?);
        }
        Some(Table { device, sequence: head.sequence, payload: head.payload, entries })
    }
}
