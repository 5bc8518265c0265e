//! Reading: memory, then flash, else one flight to the origin for adjacent misses.
//!
//! A read that the cache can answer is answered on the thread that asked ([`OpenFile::cached_read`]):
//! no allocation, no other thread. What it could not find goes, with what it found, to
//! [`OpenFile::finish_read`] on a worker. Every block that is asked for counts as one hit or one miss.
//!
//! Where others may write to the origin, a file's version is looked at after every read of the origin:
//! if it is not the expected one, the file has become a new object, and the whole read begins again, so
//! that old and new blocks are never mixed.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arcwell_arc::{Admit, Asked, Keep};
use arcwell_base::{BlockKey, Cause, Error, Kind, Result};
use smallvec::SmallVec;

use crate::blocks::Filling;
use crate::dataset::Dataset;
use crate::file::OpenFile;
use crate::flight::{Claim, Lead, Outcome};
use crate::property::Coherence;
use crate::slice::{Piece, Slices};
use crate::stream::Found;
use crate::znode::{ObjectIdentity, Znode};

/// Times that a read begins again when the file changes under it.
const RETRIES: usize = 32;

/// The outcome of a read that does not wait.
#[derive(Debug)]
pub enum CachedRead {
    /// All of it.
    Done(Slices),
    /// The rest has to be waited for.
    Rest(PartRead),
}

/// A read of which some is still to be found.
#[derive(Debug)]
pub struct PartRead {
    offset: u64,
    len: u32,
    identity: ObjectIdentity,
    sequence: u64,
    found: Slices,
    /// The block that was asked for and not there: counted already.
    missed: Option<u64>,
}

/// What came of blocks that were read, by their index.
pub(crate) type Outcomes = SmallVec<[(u64, Outcome); 8]>;

/// How one attempt at a read ended.
enum Attempt {
    Done(Slices),
    Changed,
}

/// The part of block `index` that `wanted` (bytes of the file) covers.
fn part_of(index: u64, record_size: u32, wanted: &Range<u64>) -> Range<u32> {
    let start = index * u64::from(record_size);
    let from = wanted.start.saturating_sub(start) as u32;
    let to = (wanted.end - start).min(u64::from(record_size)) as u32;
    from..to
}

/// Bytes that block `index` has in a file of `size`.
pub(crate) fn block_len(index: u64, identity: &ObjectIdentity) -> usize {
    let record_size = u64::from(identity.record_size);
    identity.version.size.saturating_sub(index * record_size).min(record_size) as usize
}

impl OpenFile {
    /// Reads what the cache has. Bytes beyond the end of the file are left out.
    pub fn cached_read(&self, offset: u64, len: u32) -> CachedRead {
        let mut part = PartRead::begin(&self.node, offset, len);
        let identity = part.identity;
        if !self.dataset.is_fresh(&self.node, &identity) || part.may_be_cut_short() {
            return CachedRead::Rest(part);
        }
        let wanted = part.wanted();
        if wanted.is_empty() {
            return CachedRead::Done(part.found);
        }
        let blocks = part.blocks();
        for index in blocks.clone() {
            let key = BlockKey::new(identity.object, index);
            let pin = self.dataset.blocks.lookup(key, Kind::Data, Asked::Demand);
            let range = part_of(index, identity.record_size, &wanted);
            let is_there = pin.is_some_and(|pin| part.found.push(Piece::Pinned(pin), range));
            if !is_there {
                part.missed = Some(index);
                return CachedRead::Rest(part);
            }
        }
        self.dataset.read_ahead(self, &identity, blocks, Found::Cached);
        CachedRead::Done(part.found)
    }

    /// Finishes what [`OpenFile::cached_read`] began. May block.
    ///
    /// # Errors
    /// The origin's; ESTALE when the file keeps changing under the read.
    pub fn finish_read(&self, rest: PartRead) -> Result<Slices> {
        let (offset, len) = (rest.offset, rest.len);
        let mut attempt = rest;
        if attempt.may_be_cut_short() {
            // Waits for the change to end: its outcome may have been seen already.
            drop(self.node.changing.lock());
        }
        for _ in 0..RETRIES {
            self.dataset.refresh(&self.node)?;
            let identity = self.node.identity();
            if identity.is_young {
                // Nothing read now may be kept; by the next look it may have come of age.
                self.dataset.revalidate(&self.node)?;
            }
            let identity = self.node.identity();
            if identity.object != attempt.identity.object
                || identity.version.size != attempt.identity.version.size
            {
                attempt = PartRead::begin(&self.node, offset, len);
            }
            match self.dataset.read_rest(self, attempt)? {
                Attempt::Done(slices) => return Ok(slices),
                Attempt::Changed => attempt = PartRead::begin(&self.node, offset, len),
            }
        }
        Err(Error::new("read", Cause::Stale))
    }

    /// Reads `len` bytes from `offset`, fewer only at the end of the file. May block.
    ///
    /// # Errors
    /// The origin's.
    pub fn read(&self, offset: u64, len: u32) -> Result<Slices> {
        match self.cached_read(offset, len) {
            CachedRead::Done(slices) => Ok(slices),
            CachedRead::Rest(rest) => self.finish_read(rest),
        }
    }
}

impl PartRead {
    /// The sequence is noted before the identity: a change in between is then seen at the end.
    fn begin(node: &Znode, offset: u64, len: u32) -> Self {
        let sequence = node.sequence();
        let identity = node.identity();
        PartRead { offset, len, identity, sequence, found: Slices::default(), missed: None }
    }

    fn wanted(&self) -> Range<u64> {
        let end = self.offset.saturating_add(u64::from(self.len)).min(self.identity.version.size);
        self.offset.min(end)..end
    }

    /// Whether it ends at an end of the file that a change under way may be moving: whoever asked for
    /// the attributes meanwhile knows of more.
    fn may_be_cut_short(&self) -> bool {
        !self.sequence.is_multiple_of(2)
            && self.offset.saturating_add(u64::from(self.len)) > self.identity.version.size
    }

    fn blocks(&self) -> Range<u64> {
        let wanted = self.wanted();
        let record_size = u64::from(self.identity.record_size);
        wanted.start / record_size..wanted.end.div_ceil(record_size)
    }
}

/// Adjacent blocks that are to be read from the origin in one go.
#[derive(Default)]
struct Run {
    leads: SmallVec<[Lead; 4]>,
    bytes: u64,
}

impl Dataset {
    fn read_rest(&self, file: &OpenFile, part: PartRead) -> Result<Attempt> {
        let identity = part.identity;
        let wanted = part.wanted();
        if wanted.is_empty() {
            return Ok(Attempt::Done(part.found));
        }
        let blocks = part.blocks();
        let first = part.missed.unwrap_or(blocks.start);
        let mut how_found = Found::Missed;
        // Look at all that is missing first, so that adjacent misses become one read of the origin.
        let mut waiting: SmallVec<[(u64, Wait); 8]> = SmallVec::new();
        let mut run = Run::default();
        for index in first..blocks.end {
            let key = BlockKey::new(identity.object, index);
            let pin = match part.missed == Some(index) {
                true => self.blocks.peek(key).inspect(|pin| self.blocks.use_guess(pin)),
                false => self.blocks.lookup(key, Kind::Data, Asked::Demand),
            };
            let needed = part_of(index, identity.record_size, &wanted).end as usize;
            if let Some(pin) = pin.filter(|pin| pin.len() >= needed) {
                self.take_off(&file.node, &identity, part.sequence, &mut run, &mut waiting);
                waiting.push((index, Wait::Ready(Piece::Pinned(pin))));
                continue;
            }
            match self.flights.claim(key, part.sequence) {
                Claim::Lead(lead) => {
                    let len = block_len(index, &identity) as u64;
                    if run.bytes + len > self.shared.tunables.join_max() {
                        self.take_off(&file.node, &identity, part.sequence, &mut run, &mut waiting);
                    }
                    run.bytes += len;
                    run.leads.push(lead);
                }
                other => {
                    self.take_off(&file.node, &identity, part.sequence, &mut run, &mut waiting);
                    if let Claim::Follow(flight) = other {
                        how_found = Found::Late;
                        self.shared.stats.flights_joined.add(1);
                        waiting.push((index, Wait::Flight(flight)));
                    } else {
                        waiting.push((index, Wait::Alone));
                    }
                }
            }
        }
        self.take_off(&file.node, &identity, part.sequence, &mut run, &mut waiting);
        self.read_ahead(file, &identity, blocks, how_found);
        self.gather(&file.node, part, waiting)
    }

    /// Puts the pieces together in the order of the file, waiting where others read.
    fn gather(
        &self,
        node: &Znode,
        mut part: PartRead,
        waiting: SmallVec<[(u64, Wait); 8]>,
    ) -> Result<Attempt> {
        let wanted = part.wanted();
        let at_most = Duration::from_millis(self.shared.tunables.origin_timeout());
        for (index, wait) in waiting {
            let outcome = match wait {
                Wait::Ready(piece) => Outcome::Landed(piece),
                Wait::Ended(outcome) => outcome,
                Wait::Flight(flight) => self.used(flight.wait(at_most)?),
                Wait::Alone => self.read_alone(node, &part.identity, index)?,
            };
            match outcome {
                Outcome::Landed(piece) => {
                    let range = part_of(index, part.identity.record_size, &wanted);
                    if !part.found.push(piece, range) {
                        // The file was cut meanwhile.
                        self.revalidate(node)?;
                        return Ok(Attempt::Changed);
                    }
                }
                Outcome::Changed => return Ok(Attempt::Changed),
                Outcome::Failed(errno) => {
                    let key = BlockKey::new(part.identity.object, index);
                    return Err(Error::new("read", errno).about(key));
                }
            }
        }
        Ok(Attempt::Done(part.found))
    }

    /// Notes that a reader waited for what another flight read: if that was prefetch, it guessed right.
    fn used(&self, outcome: Outcome) -> Outcome {
        if let Outcome::Landed(Piece::Pinned(pin)) = &outcome {
            self.blocks.use_guess(pin);
        }
        outcome
    }

    /// Reads a run of blocks that we lead, and ends their flights.
    fn take_off(
        &self,
        node: &Znode,
        identity: &ObjectIdentity,
        sequence: u64,
        run: &mut Run,
        waiting: &mut SmallVec<[(u64, Wait); 8]>,
    ) {
        let Run { leads, .. } = std::mem::take(run);
        if leads.is_empty() {
            return;
        }
        let landed = self.fill(node, identity, sequence, leads, Asked::Demand);
        waiting.extend(landed.into_iter().map(|(index, outcome)| (index, Wait::Ended(outcome))));
    }

    /// Reads adjacent blocks, from flash what is there, and keeps them if the file did not change meanwhile. Ends
    /// the flights, and returns their outcomes in the order of the file.
    pub(crate) fn fill(
        &self,
        node: &Znode,
        identity: &ObjectIdentity,
        sequence: u64,
        leads: SmallVec<[Lead; 4]>,
        asked: Asked,
    ) -> Outcomes {
        let mut outcomes = Outcomes::new();
        let mut rest = self.fill_from_flash(node, identity, sequence, leads, asked, &mut outcomes);
        while !rest.is_empty() {
            let is_behind = |pair: &[Lead]| pair[0].key().index + 1 == pair[1].key().index;
            let adjacent = 1 + rest.windows(2).take_while(|pair| is_behind(pair)).count();
            let run = rest.drain(..adjacent).collect();
            self.fill_from_origin(node, identity, sequence, run, asked, &mut outcomes);
        }
        outcomes.sort_unstable_by_key(|(index, _)| *index);
        outcomes
    }

    /// The same by one read of the origin.
    fn fill_from_origin(
        &self,
        node: &Znode,
        identity: &ObjectIdentity,
        sequence: u64,
        leads: SmallVec<[Lead; 4]>,
        asked: Asked,
        outcomes: &mut Outcomes,
    ) {
        let landed = match &leads[..] {
            [lead] => self.read_one(node, identity, lead.key(), sequence, asked),
            leads => self.read_joined(node, identity, leads, sequence, asked),
        };
        let pieces = landed.map_err(|error| error.errno());
        for (place, lead) in leads.into_iter().enumerate() {
            let outcome = match &pieces {
                Ok(pieces) => pieces[place].clone().map_or(Outcome::Changed, Outcome::Landed),
                Err(errno) => Outcome::Failed(*errno),
            };
            outcomes.push((lead.key().index, outcome.clone()));
            lead.end(outcome);
        }
    }

    /// Reads one block straight into its buffer.
    fn read_one(
        &self,
        node: &Znode,
        identity: &ObjectIdentity,
        key: BlockKey,
        sequence: u64,
        asked: Asked,
    ) -> Result<SmallVec<[Option<Piece>; 4]>> {
        // Another flight may have landed between the look-up and the claim.
        let len = block_len(key.index, identity);
        if let Some(pin) = self.blocks.peek(key).filter(|pin| pin.len() >= len) {
            if asked == Asked::Demand {
                self.blocks.use_guess(&pin);
            }
            return Ok(smallvec::smallvec![Some(Piece::Pinned(pin))]);
        }
        let offset = key.index * u64::from(identity.record_size);
        let how = Admit { asked, keep: self.keep(Kind::Data) };
        let Ok(mut anon) = self.blocks.admit(key, Kind::Data, len, how) else {
            self.shared.stats.cache_full.add(1);
            let mut bytes = vec![0; len];
            let is_right = self.read_origin(node, identity, offset, &mut bytes, 1)?;
            return Ok(smallvec::smallvec![is_right.then(|| Piece::Loose(bytes.into()))]);
        };
        if !self.read_origin(node, identity, offset, &mut anon, 1)? {
            return Ok(smallvec::smallvec![None]);
        }
        Ok(smallvec::smallvec![Some(self.land(node, identity, anon, sequence))])
    }

    /// Reads several adjacent blocks in one go and cuts them up.
    fn read_joined(
        &self,
        node: &Znode,
        identity: &ObjectIdentity,
        leads: &[Lead],
        sequence: u64,
        asked: Asked,
    ) -> Result<SmallVec<[Option<Piece>; 4]>> {
        let offset = leads[0].key().index * u64::from(identity.record_size);
        let mut joined = vec![0; leads.iter().map(|lead| block_len(lead.key().index, identity)).sum()];
        if !self.read_origin(node, identity, offset, &mut joined, leads.len() as u64)? {
            return Ok(leads.iter().map(|_| None).collect());
        }
        let mut rest = &joined[..];
        let mut pieces = SmallVec::new();
        for lead in leads {
            let (block, behind) = rest.split_at(block_len(lead.key().index, identity));
            rest = behind;
            let how = Admit { asked, keep: self.keep(Kind::Data) };
            let piece = match self.blocks.admit(lead.key(), Kind::Data, block.len(), how) {
                Ok(mut anon) => {
                    anon.copy_from_slice(block);
                    self.land(node, identity, anon, sequence)
                }
                Err(_) => {
                    self.shared.stats.cache_full.add(1);
                    Piece::Loose(block.into())
                }
            };
            pieces.push(Some(piece));
        }
        Ok(pieces)
    }

    pub(crate) fn keep(&self, kind: Kind) -> Keep {
        if self.properties.primarycache.covers(kind) { Keep::Cached } else { Keep::Uncached }
    }

    /// Puts a filled block into the cache, unless the file changed since `sequence` was noted or
    /// what was read is too young to be trusted: then the reader alone gets it.
    pub(crate) fn land(
        &self,
        node: &Znode,
        read_as: &ObjectIdentity,
        anon: Filling<'_>,
        sequence: u64,
    ) -> Piece {
        let identity = node.identity.lock();
        let is_same = identity.object == read_as.object && identity.version.size == read_as.version.size;
        if is_same && !identity.is_young && sequence.is_multiple_of(2) && node.sequence() == sequence {
            let piece = Piece::Pinned(anon.publish());
            let is_first = !node.has_data.swap(true, Ordering::Relaxed);
            let identity = *identity;
            if is_first {
                self.remember(node, &identity);
            }
            return piece;
        }
        drop(identity);
        self.shared.stats.fills_unkept.add(1);
        Piece::Loose(anon[..].into())
    }

    /// Fills `buffer` from the origin. `false` when the file turned out to be another than `identity`
    /// says: by now it is a new object.
    fn read_origin(
        &self,
        node: &Znode,
        identity: &ObjectIdentity,
        offset: u64,
        buffer: &mut [u8],
        blocks: u64,
    ) -> Result<bool> {
        let stats = &self.shared.stats;
        stats.fills.add(1);
        stats.fill_blocks.add(blocks);
        let read = self.ask(|| false, |origin| origin.read(node, offset, buffer))?;
        stats.fill_bytes.add(read as u64);
        let is_whole = read == buffer.len();
        if is_whole && self.properties.coherence == Coherence::Exclusive {
            return Ok(true);
        }
        let sequence = node.sequence();
        let stat = self.ask(|| false, |origin| origin.stat(node))?;
        self.observe(node, &stat, sequence)?;
        if node.identity().object != identity.object {
            return Ok(false);
        }
        // Short though nobody else changed it: a truncation of ours is under way, or ended since.
        Ok(is_whole)
    }

    /// Reads a block for one reader alone, while a change of the file is under way.
    fn read_alone(&self, node: &Znode, identity: &ObjectIdentity, index: u64) -> Result<Outcome> {
        let mut bytes = vec![0; block_len(index, identity)];
        let offset = index * u64::from(identity.record_size);
        self.shared.stats.fills_unkept.add(1);
        if self.read_origin(node, identity, offset, &mut bytes, 1)? {
            return Ok(Outcome::Landed(Piece::Loose(bytes.into())));
        }
        if !node.sequence().is_multiple_of(2) {
            // Cut short by a truncation under way: wait for it to end, then look again.
            drop(node.changing.lock());
        }
        Ok(Outcome::Changed)
    }
}

/// What a block of a read is waiting for.
enum Wait {
    Ready(Piece),
    Ended(Outcome),
    Flight(Arc<crate::flight::Flight>),
    Alone,
}
