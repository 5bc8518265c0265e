//! Knowing again what lies on a device, from its tables alone, a step at a time while all else goes on.
//!
//! First the heads of all tables are read, which say how new each is; until then nothing is fed, since nobody knows where
//! the hand stands. Then the tables, from the newest to the oldest: what is dead is known before it is met, and so
//! no block is found for a moment that was forgotten. What was forgotten or fed since open is
//! newer than any table.
//!
//! A table that is not there costs its segment. If it was durable once it may also have told what is dead: that
//! stands in the next table as well (D4), and where that is gone, too, nothing older is believed.
//!
//! What cannot be read now may be readable another day, and is dead by then: a place that counts no more is buried (D1),
//! and if heads could not be read, the hand goes on behind all that may be there.

use arcwell_base::BlockKey;
use arcwell_base::atomic::Ordering;
use arcwell_base::vdev::Read;

use crate::device::dead::{self, Dead};
use crate::device::{Device, Work};
use crate::layout::{Aligned, Head, Table, TableEntry, UNIT, zeroes};
use crate::level2::Core;

/// Heads that are read in one batch.
const HEADS: usize = 256;
/// Bytes of tables that are read in one batch, unless one alone has more.
const TABLES: usize = 4 << 20;
/// Blocks that get into the index under one hold of the lock.
const BATCH: usize = 256;

/// How often a head is asked for that cannot be read.
const TRIES: usize = 3;

/// How far the rebuild of a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuild {
    /// Dealt with so many segments of so many, heads and tables together.
    Going {
        /// So many.
        done: u32,
        /// Of so many.
        of: u32,
    },
    /// All that there is is known.
    Done,
}

/// Where the rebuild of a device stands.
#[derive(Debug)]
pub(crate) enum Progress {
    /// So many heads have been read; each is that of its segment.
    Heads(Vec<Option<Head>>),
    /// Tables from here down are still to be read.
    Tables(Tables),
    /// Nothing is left to do.
    Done,
}

/// What is known between two steps.
#[derive(Debug)]
pub(crate) struct Tables {
    heads: Vec<Option<Head>>,
    newest: u64,
    /// The sequence that comes next, down from the newest.
    at: u64,
    /// The tables that were read repeat all tombstones from here on.
    cover: u64,
    /// Up to here tables were durable.
    noted: u64,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress::Heads(Vec::new())
    }
}

impl Device {
    /// One step.
    pub(crate) fn rebuild(
        &self,
        core: &Core,
        work: &mut Work,
        step: usize,
        wanted: &dyn Fn(&BlockKey) -> bool,
    ) -> Rebuild {
        if !self.health.is_readable() {
            work.progress = Progress::Done;
        }
        match std::mem::replace(&mut work.progress, Progress::Done) {
            Progress::Heads(heads) => work.progress = self.read_heads(core, work, heads, step),
            Progress::Tables(tables) => work.progress = self.read_tables(core, work, tables, step, wanted),
            Progress::Done => {}
        }
        let segments = self.superblock.segments;
        let done = match &work.progress {
            Progress::Heads(heads) => heads.len() as u32,
            Progress::Tables(tables) => segments + (tables.newest - tables.at).min(segments.into()) as u32,
            Progress::Done => 2 * segments,
        };
        self.counts.rebuild_of.store(2 * segments, Ordering::Relaxed);
        self.counts.rebuilt.store(done, Ordering::Relaxed);
        if matches!(work.progress, Progress::Done) {
            self.pending.lock().dead = None;
            return Rebuild::Done;
        }
        Rebuild::Going { done, of: 2 * segments }
    }

    /// Finds out where the hand stands, if nobody knows yet.
    pub(crate) fn find_newest(&self, core: &Core, work: &mut Work) -> bool {
        while self.next() == 0 && matches!(work.progress, Progress::Heads(_)) {
            self.rebuild(core, work, HEADS, &|_| true);
        }
        self.next() > 0
    }

    fn read_heads(
        &self,
        core: &Core,
        work: &mut Work,
        mut heads: Vec<Option<Head>>,
        step: usize,
    ) -> Progress {
        let segments = self.superblock.segments as usize;
        let mut again = zeroes(UNIT);
        let mut left = step.min(segments - heads.len());
        while left > 0 && self.health.is_readable() {
            let some = left.min(HEADS);
            let spans: Vec<_> =
                (heads.len()..heads.len() + some).map(|segment| self.end_of(segment, UNIT)).collect();
            let (units, outcomes) = self.read_spans_of(core, &spans);
            for (place, unit) in units.chunks_exact(UNIT).enumerate() {
                let segment = heads.len();
                let is_read =
                    outcomes[place] || (1..TRIES).any(|_| self.read_units(core, spans[place].0, &mut again));
                let unit = if outcomes[place] { unit } else { &again };
                work.unread_heads += u64::from(!is_read);
                let head = Head::decode(unit, work.superblock.device).filter(|_| is_read);
                heads.push(head.filter(|head| self.fits(head, segment)));
            }
            left -= some;
        }
        if !self.health.is_readable() {
            return Progress::Done;
        }
        if heads.len() < segments { Progress::Heads(heads) } else { self.end_heads(core, work, heads) }
    }

    /// All heads are read: the hand goes on behind the newest.
    fn end_heads(&self, core: &Core, work: &mut Work, heads: Vec<Option<Head>>) -> Progress {
        let newest = heads.iter().flatten().map(|head| head.sequence).max().unwrap_or(0);
        let noted = self.noted(core, work);
        if !self.health.is_readable() {
            return Progress::Done;
        }
        let newest = newest.max(noted.unwrap_or(0)) + work.unread_heads;
        self.set_next(newest + 1);
        if noted.is_none() && work.unread_heads > 0 {
            self.believe_nothing(core, work);
            return Progress::Done;
        }
        let noted = noted.unwrap_or(u64::MAX);
        Progress::Tables(Tables { heads, newest, at: newest, cover: u64::MAX, noted })
    }

    /// What was told to be dead nobody knows any more (D4). If even that cannot be written down, the device is of no
    /// use, neither now nor to the pool's next run.
    fn believe_nothing(&self, core: &Core, work: &mut Work) {
        if self.relabel(core, work).is_err() {
            self.health.give_up();
            self.drop_blocks(core);
        }
    }

    /// Whether a head may be that of the segment in which it was found.
    fn fits(&self, head: &Head, segment: usize) -> bool {
        let bytes = head.bytes() as u64 + u64::from(head.payload);
        self.segment_of(head.sequence) as usize == segment && bytes <= self.superblock.segment
    }

    /// The last `len` bytes of a segment.
    fn end_of(&self, segment: usize, len: usize) -> (u64, usize) {
        (self.superblock.start_of(segment as u32 + 1) - len as u64, len)
    }

    /// Reads ranges one behind the other, and says which of them could be read.
    fn read_spans_of(&self, core: &Core, spans: &[(u64, usize)]) -> (Aligned, Vec<bool>) {
        let all: usize = spans.iter().map(|span| span.1).sum();
        let mut bytes = zeroes(all);
        let mut rest = &mut bytes[..];
        let mut reads = Vec::with_capacity(spans.len());
        for &(offset, len) in spans {
            let (first, others) = std::mem::take(&mut rest).split_at_mut(len);
            rest = others;
            reads.push(Read::new(offset, first));
        }
        self.vdev.read(&mut reads);
        let outcomes: Vec<bool> = reads.iter_mut().map(|read| read.outcome().is_ok()).collect();
        drop(reads);
        outcomes.iter().for_each(|is_good| self.note_read(core, *is_good));
        core.stats.rebuild_bytes.add(all as u64);
        (bytes, outcomes)
    }

    fn read_tables(
        &self,
        core: &Core,
        work: &mut Work,
        mut tables: Tables,
        step: usize,
        wanted: &dyn Fn(&BlockKey) -> bool,
    ) -> Progress {
        let mut left = step;
        while left > 0 && self.health.is_readable() {
            let batch = self.batch(&tables, left);
            if batch.is_empty() {
                return Progress::Done;
            }
            left -= batch.len();
            let read = self.read_batch(core, work, &tables, &batch);
            for (sequence, table) in batch.into_iter().zip(read) {
                tables.at = sequence - 1;
                if let Some(table) = table {
                    tables.cover = tables.cover.min(dead::covered(&table.entries).unwrap_or(table.sequence));
                    self.continue_from(work, &table);
                    self.apply(core, &table, wanted);
                    core.stats.rebuild_segments.add(1);
                    continue;
                }
                core.stats.rebuild_lost.add(1);
                // It may be readable again another day (D1).
                self.pending.lock().bury(dead::whole(sequence));
                if sequence <= tables.noted && tables.cover > sequence {
                    self.believe_nothing(core, work);
                    return Progress::Done;
                }
            }
        }
        if self.health.is_readable() { Progress::Tables(tables) } else { Progress::Done }
    }

    /// The sequences that are dealt with next, all of which have segments of their own still.
    fn batch(&self, tables: &Tables, most: usize) -> Vec<u64> {
        let segments = u64::from(self.superblock.segments);
        // What is further behind the hand was overwritten, or is being so.
        let oldest = self.next().saturating_sub(segments).max(1);
        let mut bytes = 0;
        let down = (oldest..=tables.at).rev().take(most);
        let fits = |sequence: &u64| {
            bytes += self.head(tables, *sequence).map_or(0, |head| head.bytes());
            bytes <= TABLES || *sequence == tables.at
        };
        down.take_while(fits).collect()
    }

    /// The head of the table with this sequence, if it is there.
    fn head(&self, tables: &Tables, sequence: u64) -> Option<Head> {
        tables.heads[self.segment_of(sequence) as usize].filter(|head| head.sequence == sequence)
    }

    fn read_batch(&self, core: &Core, work: &Work, tables: &Tables, batch: &[u64]) -> Vec<Option<Table>> {
        let len = |sequence: u64| self.head(tables, sequence).map_or(0, |head| head.bytes());
        let spans: Vec<_> = batch
            .iter()
            .filter(|sequence| len(**sequence) > 0)
            .map(|&sequence| self.end_of(self.segment_of(sequence) as usize, len(sequence)))
            .collect();
        let (bytes, outcomes) = self.read_spans_of(core, &spans);
        let (mut rest, mut outcomes) = (&bytes[..], outcomes.into_iter());
        let decode = |&sequence: &u64| {
            let (first, others) = rest.split_at(len(sequence));
            rest = others;
            let is_read = !first.is_empty() && outcomes.next() == Some(true);
            let table = is_read.then(|| Table::decode(first, work.superblock.device)).flatten();
            table.filter(|table| table.sequence == sequence)
        };
        batch.iter().map(decode).collect()
    }

    /// Notes what a table tells, unless newer ones told that it is dead.
    fn apply(&self, core: &Core, table: &Table, wanted: &dyn Fn(&BlockKey) -> bool) {
        let start = self.superblock.start_of(self.segment_of(table.sequence));
        let blocks: Vec<&TableEntry> = table.entries.iter().filter(|entry| !entry.is_tombstone).collect();
        let (mut replaced, mut count, mut unwanted) = (Vec::new(), 0, 0);
        for batch in blocks.chunks(BATCH) {
            // Asked before the lock is taken: it is the pool that answers.
            let wants: Vec<bool> = batch.iter().map(|entry| wanted(&entry.key)).collect();
            let mut pending = self.pending.lock();
            if pending.is_gone {
                break;
            }
            for (block, is_wanted) in batch.iter().zip(wants) {
                let place = dead::place(table.sequence, block.offset);
                if pending
                    .dead
                    .as_ref()
                    .is_some_and(|dead: &Dead| dead.has(&block.key, table.sequence, block.offset))
                {
                    continue;
                }
                unwanted += u64::from(!is_wanted);
                if !is_wanted || pending.has(&block.key) || core.index.contains(block.key) {
                    pending.bury(place);
                    continue;
                }
                let entry = self.entry_of(block, start);
                replaced.extend(core.index.put(block.key, entry));
                self.came(&entry);
                count += 1;
            }
        }
        let mut pending = self.pending.lock();
        if let Some(dead) = &mut pending.dead {
            table.entries.iter().filter(|entry| entry.is_tombstone).for_each(|entry| dead.add(entry));
        }
        drop(pending);
        core.bury_all(&replaced);
        core.stats.rebuilt_blocks.add(count);
        core.stats.rebuild_unwanted.add(unwanted);
    }
}
