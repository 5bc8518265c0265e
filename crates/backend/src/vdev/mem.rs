//! A device in memory, as large as one likes: for tests, simulations, and what crashes.
//!
//! It takes memory only for the chunks that were written, and is as strict about alignment as a real
//! one. Until a flush it also keeps what each 4 KiB held at the last flush, if that was anything, so that
//! [`MemVdev::crash`] can bring any of it back.

use std::fmt;
use std::ops::Range;
use std::sync::Arc as Shared;

use arcwell_base::error::Result;
use arcwell_base::vdev::{Read, Shape, Vdev};
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::bounds::Bounds;
use super::dice::Dice;

const CHUNK: usize = 64 << 10;

/// What a crash keeps or loses as a whole.
const PAGE: usize = 4096;

/// What was asked of a [`MemVdev`]: ranges, not batches. Requests that it refused are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemCounts {
    /// Ranges read.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Ranges written.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Ranges discarded.
    pub discards: u64,
}

/// All that a [`MemVdev`] held at a moment. Costs only what is changed afterwards.
#[derive(Clone)]
pub struct Snapshot(Bytes);

#[derive(Clone, Default)]
struct Bytes {
    /// Those of all chunks that were written.
    chunks: HashMap<u64, Shared<Vec<u8>>>,
    /// What pages that have changed since the last flush held then; none: zeros.
    flushed: HashMap<u64, Option<Shared<[u8]>>>,
}

#[derive(Default)]
struct State {
    bytes: Bytes,
    counts: MemCounts,
}

/// A device in memory. See the module's doc.
pub struct MemVdev {
    bounds: Bounds,
    /// Whether what was not flushed can be lost.
    can_crash: bool,
    state: Mutex<State>,
}

impl MemVdev {
    /// A device of zeros, of at least so many bytes, whose unit is 4,096.
    pub fn new(bytes: u64) -> MemVdev {
        MemVdev::with_unit(bytes, PAGE as u32)
    }

    /// The same with another unit: a power of two, 512 to 4,096.
    ///
    /// # Panics
    /// At another unit.
    pub fn with_unit(bytes: u64, unit: u32) -> MemVdev {
        assert!(unit.is_power_of_two() && (512..=4096).contains(&unit), "{unit} is no unit");
        let bounds = Bounds { bytes: bytes.next_multiple_of(u64::from(unit)), unit };
        MemVdev { bounds, can_crash: true, state: Mutex::default() }
    }

    /// One on which all that is written is durable at once: it keeps nothing for a crash, and so takes half the
    /// memory when it is written all over without a flush.
    #[must_use]
    pub fn durable(self) -> MemVdev {
        MemVdev { can_crash: false, ..self }
    }

    /// What was asked of it so far.
    pub fn counts(&self) -> MemCounts {
        self.state.lock().counts
    }

    /// How many bytes of memory its contents take.
    pub fn resident(&self) -> u64 {
        let state = self.state.lock();
        let old = state.bytes.flushed.values().flatten().count();
        (state.bytes.chunks.len() * CHUNK + old * PAGE) as u64
    }

    /// What it holds now, and what of it is not flushed.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.state.lock().bytes.clone())
    }

    /// Makes it hold what it held then.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.state.lock().bytes = snapshot.0.clone();
    }

    /// The machine loses power: of the pages of 4 KiB that have changed since the last flush some hold what
    /// they held then, and some what was written last. Which, `seed` decides: all, none, or about a
    /// quarter, a half or three quarters. Says how many have gone back.
    ///
    /// What was written in between and overwritten before the crash never comes back, as it could on a real
    /// device; nor is a page torn ([`FaultyVdev`](super::FaultyVdev) tears).
    pub fn crash(&self, seed: u64) -> usize {
        let mut dice = Dice::new(seed);
        let lost_in_four = dice.below(5);
        let bytes = &mut self.state.lock().bytes;
        let mut changed: Vec<_> = bytes.flushed.drain().collect();
        changed.sort_by_key(|(page, _)| *page);
        let mut lost = 0;
        for (page, old) in changed {
            if dice.below(4) < lost_in_four {
                bytes.put_page(page, old.as_deref());
                lost += 1;
            }
        }
        lost
    }
}

impl Bytes {
    fn put_page(&mut self, page: u64, old: Option<&[u8]>) {
        let start = page * PAGE as u64;
        match old {
            Some(old) => self.put(start, old),
            None => self.put(start, &[0; PAGE]),
        }
    }

    fn put(&mut self, offset: u64, data: &[u8]) {
        for (chunk, within, part) in parts(offset, data.len()) {
            let bytes = self.chunks.entry(chunk).or_insert_with(|| Shared::new(vec![0; CHUNK]));
            Shared::make_mut(bytes)[within].copy_from_slice(&data[part]);
        }
    }

    fn get(&self, offset: u64, buffer: &mut [u8]) {
        for (chunk, within, part) in parts(offset, buffer.len()) {
            match self.chunks.get(&chunk) {
                Some(bytes) => buffer[part].copy_from_slice(&bytes[within]),
                None => buffer[part].fill(0),
            }
        }
    }

    /// Keeps what the pages of a range hold, unless that is kept already.
    fn keep(&mut self, offset: u64, length: usize) {
        let pages = offset / PAGE as u64..(offset + length as u64).div_ceil(PAGE as u64);
        for page in pages {
            if self.flushed.contains_key(&page) {
                continue;
            }
            let start = page * PAGE as u64;
            let within = (start % CHUNK as u64) as usize;
            let held = self.chunks.get(&(start / CHUNK as u64)).map(|bytes| &bytes[within..within + PAGE]);
            let held = held.filter(|bytes| **bytes != [0; PAGE]).map(Shared::from);
            self.flushed.insert(page, held);
        }
    }
}

/// The chunks that a range touches: which, where within it, and which part of the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % CHUNK as u64) as usize;
        let part = (CHUNK - within).min(length - done);
        (part > 0).then(|| {
            done += part;
            (at / CHUNK as u64, within..within + part, done - part..done)
        })
    })
}

impl Vdev for MemVdev {
    fn shape(&self) -> Shape {
        let Bounds { bytes, unit } = self.bounds;
        Shape { name: "memory".to_owned(), bytes, unit, is_buffered: false, can_discard: true }
    }

    fn read(&self, reads: &mut [Read<'_>]) {
        for read in reads {
            let checked = self.bounds.check("read device", read.offset, read.buffer);
            if checked.is_ok() {
                let mut state = self.state.lock();
                state.counts.reads += 1;
                state.counts.read_bytes += read.buffer.len() as u64;
                state.bytes.get(read.offset, read.buffer);
            }
            read.end(checked);
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.bounds.check("write device", offset, data)?;
        let mut state = self.state.lock();
        state.counts.writes += 1;
        state.counts.write_bytes += data.len() as u64;
        if self.can_crash {
            state.bytes.keep(offset, data.len());
        }
        state.bytes.put(offset, data);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.counts.flushes += 1;
        state.bytes.flushed.clear();
        Ok(())
    }

    /// The range reads as zeros then, and gives back the memory of whole chunks.
    fn discard(&self, range: Range<u64>) -> Result<()> {
        let length = range.end.saturating_sub(range.start);
        self.bounds.check_range("discard on device", range.start, length)?;
        let mut state = self.state.lock();
        state.counts.discards += 1;
        let mut at = range.start;
        while at < range.start + length {
            let part = (CHUNK as u64 - at % CHUNK as u64).min(range.start + length - at) as usize;
            if state.bytes.chunks.contains_key(&(at / CHUNK as u64)) {
                if self.can_crash {
                    state.bytes.keep(at, part);
                }
                if part == CHUNK {
                    state.bytes.chunks.remove(&(at / CHUNK as u64));
                } else {
                    state.bytes.put(at, &vec![0; part]);
                }
            }
            at += part as u64;
        }
        Ok(())
    }
}

impl fmt::Debug for MemVdev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of memory: {:?}", self.bounds.bytes, self.counts())
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} chunks, {} pages not flushed", self.0.chunks.len(), self.0.flushed.len())
    }
}
