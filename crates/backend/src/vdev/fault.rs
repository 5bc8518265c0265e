//! A device that breaks when it is told to: for tests, of this crate and of all others.
//!
//! Goes around any other. Rules are set while it is in use; of those that fit a call all delays hold, and
//! else the first that was set and whose turn it is. A range of a batch is a call. Besides rules, the
//! whole may vanish, and a range may be frozen. What flash does that is worse than an error is that it
//! lies: most of the faults here are reported as success.

use std::fmt;
use std::ops::Range;
use std::sync::Arc as Shared;
use std::time::Duration;

use arcwell_base::error::{Error, Result};
use arcwell_base::vdev::{Read, Shape, Vdev};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::aligned::Aligned;
use super::dice::Dice;
use super::rule::{Call, Fate, Kept, Rule, SECTOR};

/// What a [`FaultyVdev`] was asked for, and what it did about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Calls of all sorts, ranges of batches one by one.
    pub calls: u64,
    /// Those that failed on purpose, for having vanished too.
    pub failed: u64,
    /// Those that were delayed.
    pub delayed: u64,
    /// Writes of which only a part reached the device.
    pub torn: u64,
    /// Writes of which nothing, or not what lies in the rule's range, reached the device; and lost flushes.
    pub lost: u64,
    /// Writes that went to another place.
    pub misdirected: u64,
    /// Reads that got bytes of a frozen range.
    pub stale: u64,
    /// Reads in which bits were flipped.
    pub flipped: u64,
}

/// A device with a switch. See the module's doc.
pub struct FaultyVdev {
    inner: Shared<dyn Vdev>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    has_vanished: bool,
    frozen: Vec<Frozen>,
    counts: FaultCounts,
}

/// What a range held when it was frozen.
struct Frozen {
    start: u64,
    bytes: Aligned,
}

impl FaultyVdev {
    /// A device that works, so far.
    pub fn new(inner: Shared<dyn Vdev>) -> FaultyVdev {
        FaultyVdev { inner, state: Mutex::default() }
    }

    /// Adds a rule behind those that hold already.
    pub fn add(&self, rule: Rule) {
        self.state.lock().rules.push(rule);
    }

    /// Takes all rules back, thaws what is frozen, and brings it back if it had vanished. What it did to
    /// the device stays done.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        *state = State { counts: state.counts, ..State::default() };
    }

    /// From now on everything fails (`ENODEV`), until it is healed.
    pub fn vanish(&self) {
        self.state.lock().has_vanished = true;
    }

    /// From now on reads of a range, which is taken to whole units, give the bytes that it holds now,
    /// whatever is written, until it is healed.
    ///
    /// # Errors
    /// The device's, of reading them.
    pub fn freeze(&self, range: Range<u64>) -> Result<()> {
        let Shape { bytes, unit, .. } = self.inner.shape();
        let unit = u64::from(unit);
        let start = range.start.min(bytes) / unit * unit;
        let end = range.end.min(bytes).next_multiple_of(unit);
        let bytes = self.old(start, end.saturating_sub(start) as usize)?;
        self.state.lock().frozen.push(Frozen { start, bytes });
        Ok(())
    }

    /// What it did so far.
    pub fn counts(&self) -> FaultCounts {
        self.state.lock().counts
    }

    /// What the device below holds.
    fn old(&self, offset: u64, length: usize) -> Result<Aligned> {
        let mut old = Aligned::zeros(length);
        let mut read = [Read::new(offset, &mut old)];
        self.inner.read(&mut read);
        read[0].outcome()?;
        Ok(old)
    }

    /// Writes those sectors that are to be kept, and what the device holds in place of the others.
    fn write_some(&self, offset: u64, data: &[u8], mut keep: impl FnMut(u64) -> bool) -> Result<()> {
        let mut mixed = self.old(offset, data.len())?;
        for (place, (old, new)) in mixed.chunks_mut(SECTOR).zip(data.chunks(SECTOR)).enumerate() {
            if keep(offset + (place * SECTOR) as u64) {
                old.copy_from_slice(new);
            }
        }
        self.inner.write(offset, &mixed)
    }

    fn tear(&self, offset: u64, data: &[u8], kept: Kept) -> Result<()> {
        match kept {
            Kept::Prefix(bytes) => {
                self.write_some(offset, data, |at| at + SECTOR as u64 <= offset.saturating_add(bytes))
            }
            Kept::Sectors(seed) => {
                let mut dice = Dice::new(seed ^ offset);
                self.write_some(offset, data, |_| dice.below(2) == 0)
            }
        }
    }

    fn misdirect(&self, offset: u64, data: &[u8], by: u64) -> Result<()> {
        let Shape { bytes, unit, .. } = self.inner.shape();
        let unit = u64::from(unit);
        let places = (bytes.saturating_sub(data.len() as u64) / unit).saturating_add(1);
        self.inner.write((offset / unit + by / unit) % places * unit, data)
    }

    /// Does to a read that succeeded what is to be done to it.
    fn spoil(&self, read: &mut Read<'_>, fate: &Fate) {
        let state = &mut *self.state.lock();
        let offset = read.offset;
        let mut is_stale = false;
        for frozen in &state.frozen {
            let ranges = (
                frozen.start..frozen.start + frozen.bytes.len() as u64,
                offset..offset + read.buffer.len() as u64,
            );
            let (start, end) = (ranges.0.start.max(ranges.1.start), ranges.0.end.min(ranges.1.end));
            if start < end {
                let within = |base: u64| (start - base) as usize..(end - base) as usize;
                read.buffer[within(offset)].copy_from_slice(&frozen.bytes[within(frozen.start)]);
                is_stale = true;
            }
        }
        state.counts.stale += u64::from(is_stale);
        if let Fate::Flip { bits, seed, range } = fate {
            state.counts.flipped += 1;
            // Another place at each read.
            let mut dice = Dice::new(seed ^ state.counts.flipped);
            let start = range.start.max(offset);
            let bits_there = (range.end.min(offset + read.buffer.len() as u64) - start) * 8;
            for _ in 0..*bits {
                let bit = (start - offset) * 8 + dice.below(bits_there);
                read.buffer[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
    }

    /// What is to become of a call, after its delay, which is the second.
    fn meet(&self, call: Call, range: &Range<u64>) -> (Fate, Duration) {
        let state = &mut *self.state.lock();
        state.counts.calls += 1;
        let (mut met, mut delay) = (Fate::Pass, Duration::ZERO);
        if state.has_vanished {
            met = Fate::Fail(Errno::NODEV);
        }
        for rule in &mut state.rules {
            match rule.turn(call, range) {
                Fate::Delay(time) => delay += time,
                fate if met == Fate::Pass => met = fate,
                _ => {}
            }
        }
        let counts = &mut state.counts;
        counts.delayed += u64::from(!delay.is_zero());
        match met {
            Fate::Fail(_) => counts.failed += 1,
            Fate::Tear(..) => counts.torn += 1,
            Fate::Lose(_) => counts.lost += 1,
            Fate::Misdirect(_) => counts.misdirected += 1,
            // Counted when it is done: the read may fail of itself.
            Fate::Pass | Fate::Delay(_) | Fate::Flip { .. } => {}
        }
        (met, delay)
    }

    fn meet_and_wait(&self, call: Call, range: &Range<u64>) -> Fate {
        let (fate, delay) = self.meet(call, range);
        std::thread::sleep(delay);
        fate
    }
}

fn broken(errno: Errno) -> Error {
    Error::new("meet a fault on purpose", errno)
}

impl Vdev for FaultyVdev {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn read(&self, reads: &mut [Read<'_>]) {
        let range = |read: &Read<'_>| read.offset..read.offset.saturating_add(read.buffer.len() as u64);
        let met: Vec<(Fate, Duration)> =
            reads.iter().map(|read| self.meet(Call::Read, &range(read))).collect();
        // They are under way together.
        std::thread::sleep(met.iter().map(|(_, delay)| *delay).max().unwrap_or_default());
        let passes = |fate: &Fate| !matches!(fate, Fate::Fail(_));
        let mut passed: Vec<Read<'_>> = reads
            .iter_mut()
            .zip(&met)
            .filter(|(_, (fate, _))| passes(fate))
            .map(|(read, _)| Read::new(read.offset, &mut *read.buffer))
            .collect();
        self.inner.read(&mut passed);
        let outcomes: Vec<Result<()>> = passed.iter_mut().map(Read::outcome).collect();
        let mut outcomes = outcomes.into_iter();
        for (read, (fate, _)) in reads.iter_mut().zip(&met) {
            let outcome = match fate {
                Fate::Fail(errno) => Err(broken(*errno)),
                _ => outcomes.next().unwrap_or(Ok(())),
            };
            if outcome.is_ok() {
                self.spoil(read, fate);
            }
            read.end(outcome);
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let range = offset..offset.saturating_add(data.len() as u64);
        match self.meet_and_wait(Call::Write, &range) {
            Fate::Fail(errno) => Err(broken(errno)),
            Fate::Tear(kept, then) => {
                self.tear(offset, data, kept)?;
                then.map_or(Ok(()), |errno| Err(broken(errno)))
            }
            Fate::Lose(lost) if lost.start <= range.start && lost.end >= range.end => Ok(()),
            Fate::Lose(lost) => {
                self.write_some(offset, data, |at| at + SECTOR as u64 <= lost.start || at >= lost.end)
            }
            Fate::Misdirect(by) => self.misdirect(offset, data, by),
            Fate::Pass | Fate::Delay(_) | Fate::Flip { .. } => self.inner.write(offset, data),
        }
    }

    fn flush(&self) -> Result<()> {
        match self.meet_and_wait(Call::Flush, &(0..u64::MAX)) {
            Fate::Fail(errno) => Err(broken(errno)),
            Fate::Lose(_) => Ok(()),
            _ => self.inner.flush(),
        }
    }

    fn discard(&self, range: Range<u64>) -> Result<()> {
        match self.meet_and_wait(Call::Discard, &range) {
            Fate::Fail(errno) => Err(broken(errno)),
            _ => self.inner.discard(range),
        }
    }
}

impl fmt::Debug for FaultyVdev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, broken by {:?}", self.inner, self.state.lock())
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {}", self.bytes.len(), self.start)
    }
}
