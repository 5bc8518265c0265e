//! The hand: it goes round the ring, and overwrites the oldest segment with the one that was filled.

use arcwell_base::Result;
use arcwell_base::atomic::Ordering;
use arcwell_base::vdev::Read;

use super::{Device, Work, label, note};
use crate::device::dead;
use crate::index::Entry;
use crate::layout::{Head, Table, TableEntry, UNIT, zeroes};
use crate::level2::Core;

/// Blocks that get into the index under one hold of the lock.
const BATCH: usize = 256;

/// A table takes tombstones up to this part of a segment before those wait that only stand there a second time.
const DEAD_PART: u64 = 8;

/// What came of a block that was to be copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Took {
    /// It lies in the segment, which so many bytes more are taken of.
    Bytes(u64),
    /// The segment has to be written first.
    Full,
    /// It may not be fed: too long, there already, or forgotten meanwhile.
    Not,
}

impl Device {
    /// Copies a block into the segment that is being filled.
    pub(crate) fn take(&self, work: &mut Work, mut entry: TableEntry, bytes: &[u8]) -> Took {
        let segment = self.superblock.segment;
        let (offset, packing) = work.packing.with(entry.len);
        let (may, count, dead) = {
            let pending = self.pending.lock();
            (pending.may_take(&entry.key), pending.len(), pending.tombstones.len() + work.last.1.len())
        };
        let dead_max = (segment / DEAD_PART) as usize / size_of::<[u64; 4]>();
        let table = Table::bytes_for(1 + count + 1 + dead.min(dead_max)) as u64;
        let fits = |taken: u32, table: u64| u64::from(taken) + table <= segment;
        let alone = u64::from(entry.len).next_multiple_of(UNIT as u64) + Table::bytes_for(2) as u64;
        if !may || bytes.is_empty() || !dead::may_be_fed(&entry.key) || alone > segment {
            return Took::Not;
        }
        if !fits(packing.taken(), table) {
            // In a segment without a block tombstones give way.
            let is_first = work.packing.taken() == 0 && fits(packing.taken(), Table::bytes_for(2) as u64);
            if !is_first {
                return Took::Full;
            }
        }
        let buffer = work.buffer.get_or_insert_with(|| zeroes(segment as usize));
        buffer[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        entry.offset = offset;
        let more = packing.taken() - work.packing.taken();
        // What was copied of a block that was forgotten meanwhile is overwritten or no block.
        if !self.pending.lock().take(entry) {
            return Took::Not;
        }
        work.packing = packing;
        Took::Bytes(u64::from(more))
    }

    /// Whether so many tombstones wait that they are worth a segment.
    pub(crate) fn has_many_dead(&self) -> bool {
        self.pending.lock().tombstones.len() as u64 * 32 >= self.superblock.segment / DEAD_PART
    }

    /// Writes the segment that was filled over the oldest one. Returns the bytes written.
    ///
    /// # Errors
    /// The device's: then what was in the segment is not on flash, and nothing else has changed.
    pub(crate) fn close(&self, core: &Core, work: &mut Work) -> Result<u64> {
        let sequence = self.next();
        let segment = self.segment_of(sequence);
        self.evict(core, work, sequence);
        let payload = work.packing.taken();
        let room = (self.superblock.segment - u64::from(payload)) as usize;
        // All but the cover.
        let room = (room - UNIT) / 32 - 1;
        let (blocks, fresh) = self.pending.lock().close(sequence, room);
        let rest = room - blocks.len() - fresh.len();
        let (last, repeated) = &work.last;
        let is_known = *last > 0 && repeated.len() <= rest;
        let (cover, repeated) = if is_known { (*last, &repeated[..]) } else { (sequence, &[][..]) };
        let mut entries = Vec::with_capacity(1 + blocks.len() + fresh.len() + repeated.len());
        entries.push(dead::cover(cover));
        entries.extend(&blocks);
        entries.extend(&fresh);
        entries.extend(repeated);
        let table = Table { device: work.superblock.device, sequence, payload, entries };
        let outcome = self.write_segment(work, segment, &table);
        self.note_write(core, outcome.is_ok());
        self.set_next(sequence + 1);
        work.packing = Default::default();
        match outcome {
            Ok(bytes) => {
                core.stats.writes.add(1);
                core.stats.write_bytes.add(bytes);
                self.counts.write_bytes.fetch_add(bytes, Ordering::Relaxed);
                (work.is_unflushed, work.is_unsettled) = (true, false);
                if !fresh.is_empty() {
                    work.newest_dead = sequence;
                }
                work.unflushed.extend(&fresh);
                work.last = (sequence, fresh);
                self.arrive(core, &blocks, segment);
                Ok(bytes)
            }
            Err(error) => {
                work.is_unsettled = true;
                let mut pending = self.pending.lock();
                pending.end(fresh);
                // Some of it may be there nevertheless (D1).
                pending.bury(dead::whole(sequence));
                Err(error)
            }
        }
    }

    /// Writes payload and table: at once when little lies between them.
    fn write_segment(&self, work: &mut Work, segment: u32, table: &Table) -> Result<u64> {
        let start = self.superblock.start_of(segment);
        let len = self.superblock.segment as usize;
        let buffer = work.buffer.get_or_insert_with(|| zeroes(len));
        table.encode(buffer)?;
        let (payload, tail) = (table.payload as usize, len - Table::bytes_for(table.entries.len()));
        if tail - payload <= len / 16 {
            buffer[payload..tail].fill(0);
            self.vdev.write(start, buffer)?;
            return Ok(len as u64);
        }
        if payload > 0 {
            self.vdev.write(start, &buffer[..payload])?;
        }
        self.vdev.write(start + tail as u64, &buffer[tail..])?;
        Ok((payload + len - tail) as u64)
    }

    /// What was written gets into the index (D2).
    fn arrive(&self, core: &Core, blocks: &[TableEntry], segment: u32) {
        let start = self.superblock.start_of(segment);
        let mut replaced = Vec::new();
        for batch in blocks.chunks(BATCH) {
            let mut pending = self.pending.lock();
            for block in batch.iter().filter(|block| pending.arrive(block)) {
                let entry = self.entry_of(block, start);
                replaced.extend(core.index.put(block.key, entry));
                self.came(&entry);
            }
        }
        self.pending.lock().end(Vec::new());
        core.bury_all(&replaced);
    }

    /// The entry of the index for one of a table.
    pub(crate) fn entry_of(&self, block: &TableEntry, start: u64) -> Entry {
        Entry {
            checksum: block.checksum,
            device: self.slot,
            offset: start + u64::from(block.offset),
            len: block.len,
            is_metadata: block.is_metadata,
            is_frequent: block.is_frequent,
            was_read: false,
        }
    }

    /// Takes what lies where the segment `sequence` will lie out of the index.
    fn evict(&self, core: &Core, work: &Work, sequence: u64) {
        let segment = self.segment_of(sequence);
        if self.blocks_of(segment) == 0 {
            return;
        }
        let start = self.superblock.start_of(segment);
        core.stats.evicted_segments.add(1);
        let older = sequence.checked_sub(u64::from(self.superblock.segments));
        let table = self.read_table(core, work, segment).filter(|table| Some(table.sequence) == older);
        let Some(table) = table else {
            core.index.remove_range(self.slot, start..start + self.superblock.segment);
            return self.clear(segment);
        };
        let mut unread = 0;
        for block in table.entries.iter().filter(|entry| !entry.is_tombstone) {
            let offset = start + u64::from(block.offset);
            if let Some(entry) = core.index.remove_at(block.key, self.slot, offset) {
                unread += u64::from(!entry.was_read);
                self.left(&entry);
            }
        }
        core.stats.fed_never_read.add(unread);
    }

    fn read_table(&self, core: &Core, work: &Work, segment: u32) -> Option<Table> {
        let end = self.superblock.start_of(segment) + self.superblock.segment;
        let mut unit = zeroes(UNIT);
        if !self.read_units(core, end - UNIT as u64, &mut unit) {
            return None;
        }
        let head = Head::decode(&unit, work.superblock.device)?;
        let len = head.bytes();
        if len as u64 > self.superblock.segment {
            return None;
        }
        let mut bytes = zeroes(len);
        if !self.read_units(core, end - len as u64, &mut bytes) {
            return None;
        }
        Table::decode(&bytes, work.superblock.device)
    }

    /// Reads units, and says whether that could be done.
    pub(crate) fn read_units(&self, core: &Core, offset: u64, into: &mut [u8]) -> bool {
        let mut reads = [Read::new(offset, into)];
        self.vdev.read(&mut reads);
        let outcome = reads[0].outcome();
        self.note_read(core, outcome.is_ok());
        outcome.is_ok()
    }

    /// Writes what waits, however little, and makes it durable. What was forgotten before is forgotten for good then.
    ///
    /// # Errors
    /// The device's: then what was forgotten since the last flush that succeeded may come back after a restart.
    pub(crate) fn flush(&self, core: &Core, work: &mut Work) -> Result<()> {
        let mut waiting = {
            let pending = self.pending.lock();
            (pending.len() > 0, pending.tombstones.len())
        };
        while waiting.0 || waiting.1 > 0 || work.is_unsettled {
            let before = work.unflushed.len();
            self.close(core, work)?;
            waiting = (false, waiting.1.saturating_sub(work.unflushed.len() - before));
        }
        if !work.is_unflushed {
            return Ok(());
        }
        let outcome = self.vdev.flush();
        self.note_write(core, outcome.is_ok());
        let unflushed = std::mem::take(&mut work.unflushed);
        if let Err(error) = outcome {
            // None of it is sure to be there, and no later flush will tell.
            self.pending.lock().tombstones.splice(0..0, unflushed);
            work.is_unsettled = true;
            return Err(error);
        }
        work.is_unflushed = false;
        if work.newest_dead > work.noted {
            note::write(&*self.vdev, work.superblock.device, work.newest_dead)?;
            work.noted = work.newest_dead;
        }
        Ok(())
    }

    /// Whether something was forgotten that is not known to be durable; what the hand has overwritten is forgotten, too.
    pub(crate) fn owes(&self, work: &Work) -> bool {
        let is_noted = work.newest_dead <= work.noted;
        work.is_unsettled || work.is_unflushed || !is_noted || !self.pending.lock().tombstones.is_empty()
    }

    /// What the newest table of an earlier run says is dead: it is said once more in the next one.
    pub(crate) fn continue_from(&self, work: &mut Work, newest: &Table) {
        if work.last.0 == 0 && newest.sequence + 1 == self.next() {
            let tombstones = newest.entries.iter().filter(|entry| dead::is_lasting(entry));
            work.last = (newest.sequence, tombstones.copied().collect());
        }
    }

    /// Up to which table tombstones are known to be durable; nothing if that cannot be read.
    pub(crate) fn noted(&self, core: &Core, work: &mut Work) -> Option<u64> {
        let noted = note::read(&*self.vdev, work.superblock.device);
        self.note_read(core, noted.is_ok());
        let noted = noted.ok()?;
        work.noted = noted;
        Some(noted)
    }

    /// Sees to it that nothing of what lies there now is believed after a restart.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn relabel(&self, core: &Core, work: &mut Work) -> Result<()> {
        let superblock = label::again(&*self.vdev, &work.superblock);
        self.note_write(core, superblock.is_ok());
        work.superblock = superblock?;
        self.pending.lock().id = work.superblock.device;
        (work.last, work.newest_dead, work.noted) = ((0, Vec::new()), 0, 0);
        Ok(())
    }
}
