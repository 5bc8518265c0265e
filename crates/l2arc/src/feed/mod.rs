//! The feed: which blocks of the cache go to a device, how many and when. One step at a time; whoever calls it sleeps
//! in between.
//!
//! What is pure lies apart: [`rate`] is how much may be written, [`lists`] which lists are looked at.
//! Blocks come from a [`Source`], so that a test needs no cache.

pub(crate) mod rate;
pub(crate) mod source;

use std::time::Duration;

use arcwell_arc::{End, State};
use arcwell_base::{BlockKey, Kind};

use self::rate::{Pace, Rate};
use crate::checksum::checksum;
use crate::device::hand::Took;
use crate::device::{Device, Work};
use crate::layout::TableEntry;
use crate::level2::{Core, IDLE};
use crate::tunable::L2Tunables;

/// Blocks that are pinned at a time.
const BATCH: u64 = 64;

/// What a block is taken for as long as none was seen.
const USUAL: u64 = 32 << 10;

/// What a step of the feed did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// Bytes that were copied for the device.
    pub wrote: u64,
    /// When it should be called again.
    pub next: Duration,
}

impl Fed {
    pub(crate) const NOTHING: Fed = Fed { wrote: 0, next: IDLE };
}

/// A list of the cache.
pub(crate) type ListOf = (State, Kind);

/// Where blocks come from: the cache, or a test.
pub(crate) trait Source {
    /// A block whose bytes stay what they are while this lives.
    type Block: Block;

    /// Whether nothing has been evicted yet.
    fn is_cold(&self) -> bool;

    /// Bytes that the cache may hold.
    fn target(&self) -> u64;

    /// Looks at up to `limit` blocks of a list, from where the last call left off, inwards from an end, and adds to `to`
    /// those that may be fed. After the end of the list it begins anew.
    fn walk(&mut self, list: ListOf, from: End, limit: usize, to: &mut Vec<Self::Block>) -> Walk;

    /// Begins anew in all lists.
    fn rewind(&mut self);
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Blocks.
    pub(crate) blocks: u64,
    /// Bytes of those that were still there.
    pub(crate) bytes: u64,
    /// Whether the list has not come to its end.
    pub(crate) goes_on: bool,
}

/// A block of a source.
pub(crate) trait Block {
    fn key(&self) -> BlockKey;
    fn bytes(&self) -> &[u8];
    /// Whether prefetch read it and nobody has used it.
    fn is_guess(&self) -> bool;
    /// Notes that it was fed.
    fn set_on_flash(&self);
}

/// What the feed of a device remembers from step to step.
#[derive(Debug, Default)]
pub(crate) struct Feeding {
    rate: Rate,
    /// Steps in a row that had room for nothing but metadata.
    metadata_steps: u64,
    was_warm: bool,
    pub(crate) cursors: source::Cursors,
}

/// Lists in the order in which they are looked at.
pub(crate) fn lists(mfuonly: u64, with_metadata: bool) -> impl Iterator<Item = ListOf> {
    use Kind::{Data, Metadata};
    use State::{Mfu, Mru};
    let all = [(Mfu, Metadata), (Mru, Metadata), (Mfu, Data), (Mru, Data)];
    let is_meant = move |&(state, kind): &ListOf| match (state, mfuonly) {
        (Mru, 1) => false,
        (Mru, 2) => kind == Metadata,
        _ => true,
    };
    all.into_iter().filter(is_meant).filter(move |list| with_metadata || list.1 == Data)
}

/// What a step may do and has done.
struct Step<'a> {
    tunables: &'a L2Tunables,
    eligible: &'a dyn Fn(&BlockKey, Kind) -> bool,
    /// Bytes that may still be written; the last block may take more.
    left: i64,
    spent: u64,
    /// Bytes of blocks that are looked at in each list.
    headroom: u64,
    from: End,
    data_blocks: u64,
    is_failing: bool,
    /// Whether there is no time for more.
    is_late: &'a dyn Fn() -> bool,
}

impl Device {
    /// One step of the feed.
    pub(crate) fn feed<S: Source>(
        &self,
        core: &Core,
        work: &mut Work,
        source: &mut S,
        eligible: &dyn Fn(&BlockKey, Kind) -> bool,
    ) -> Fed {
        let tunables = &core.tunables;
        // Before the heads are read nobody knows where the hand stands.
        if !self.health.is_writable() || self.next() == 0 {
            return Fed::NOTHING;
        }
        if self.has_many_dead() {
            // What was forgotten is written whatever may be fed: it is what keeps the rest believable.
            let _ = self.close(core, work);
        }
        if core.index.bytes() as u128 * 100
            >= u128::from(source.target()) * u128::from(tunables.meta_percent())
        {
            core.stats.feed_skipped_memory.add(1);
            return Fed::NOTHING;
        }
        let (rate, boost) = (tunables.write_max(), tunables.write_boost());
        let pace = Pace::new(rate, boost, self.bytes(), self.is_full(), tunables.dwpd_limit());
        let left = work.feeding.rate.allow(core.clock.now(), &pace);
        let is_warm = !source.is_cold();
        if is_warm && !work.feeding.was_warm {
            source.rewind();
        }
        work.feeding.was_warm = is_warm;
        let mut step = Step {
            tunables,
            eligible,
            left,
            spent: 0,
            headroom: tunables.headroom().saturating_mul(pace.step),
            from: if is_warm { End::Tail } else { End::Head },
            data_blocks: 0,
            is_failing: false,
            is_late: &|| false,
        };
        if left > 0 {
            self.pending.lock().watch();
            self.fill(core, work, source, &mut step);
            self.pending.lock().unwatch();
        }
        self.end_step(core, work, &step, &pace)
    }

    /// Copies all that the device has room for and is worth it, from the heads on, without a limit but `is_late`. Returns
    /// the bytes.
    pub(crate) fn save<S: Source>(
        &self,
        core: &Core,
        work: &mut Work,
        source: &mut S,
        is_late: &dyn Fn() -> bool,
    ) -> u64 {
        if !self.health.is_writable() || self.next() == 0 {
            return 0;
        }
        let mut step = Step {
            tunables: &core.tunables,
            eligible: &|_, _| true,
            // More would overwrite what was just written.
            left: i64::try_from(self.bytes() / 2).unwrap_or(i64::MAX),
            spent: 0,
            headroom: 0,
            from: End::Head,
            data_blocks: 0,
            is_failing: false,
            is_late,
        };
        self.pending.lock().watch();
        for list in lists(core.tunables.mfuonly(), true) {
            self.fill_from(core, work, source, &mut step, list);
        }
        self.pending.lock().unwatch();
        step.spent
    }

    fn end_step(&self, core: &Core, work: &mut Work, step: &Step<'_>, pace: &Pace) -> Fed {
        let feeding = &mut work.feeding;
        feeding.rate.spend(step.spent);
        let is_full = step.left <= 0;
        core.stats.feed_skipped_rate.add(is_full.into());
        let next = if is_full && !feeding.rate.is_day_over() { pace.pause() } else { IDLE };
        Fed { wrote: step.spent, next: if step.is_failing { IDLE } else { next } }
    }

    /// Goes through the lists until the step's bytes are spent.
    fn fill<S: Source>(&self, core: &Core, work: &mut Work, source: &mut S, step: &mut Step<'_>) {
        let cycles = step.tunables.meta_cycles();
        let with_metadata = cycles == 0 || work.feeding.metadata_steps < cycles;
        for list in lists(step.tunables.mfuonly(), with_metadata) {
            self.fill_from(core, work, source, step, list);
            if step.left <= 0 || step.is_failing {
                break;
            }
        }
        let is_all_metadata = step.left <= 0 && step.data_blocks == 0 && step.spent > 0;
        let row = if with_metadata && is_all_metadata { work.feeding.metadata_steps + 1 } else { 0 };
        work.feeding.metadata_steps = row;
    }

    fn fill_from<S: Source>(
        &self,
        core: &Core,
        work: &mut Work,
        source: &mut S,
        step: &mut Step<'_>,
        list: ListOf,
    ) {
        let (mut looked, mut usual) = (0, USUAL);
        let mut batch = Vec::new();
        let mut goes_on = true;
        let headroom = if step.headroom == 0 { u64::MAX } else { step.headroom };
        while goes_on && step.left > 0 && looked < headroom && !(step.is_late)() {
            // No more than may be written: what is looked at now is not looked at again soon.
            let limit = (step.left as u64 / usual).clamp(1, BATCH);
            let walk = source.walk(list, step.from, limit as usize, &mut batch);
            for block in batch.drain(..) {
                self.offer(core, work, step, list, &block);
                if step.is_failing {
                    return;
                }
            }
            goes_on = walk.goes_on;
            looked += walk.bytes.max(walk.blocks);
            usual = walk.bytes.checked_div(walk.blocks).unwrap_or(usual).max(1);
        }
    }

    /// Copies a block, if it is to be fed.
    fn offer(&self, core: &Core, work: &mut Work, step: &mut Step<'_>, list: ListOf, block: &impl Block) {
        let (key, (state, kind)) = (block.key(), list);
        let is_left_out = step.tunables.noprefetch() != 0 && block.is_guess();
        if is_left_out || core.index.contains(key) || !(step.eligible)(&key, kind) {
            return;
        }
        let entry = TableEntry {
            key,
            checksum: checksum(key, block.bytes()),
            offset: 0,
            len: u32::try_from(block.bytes().len()).unwrap_or(u32::MAX),
            is_metadata: kind == Kind::Metadata,
            is_frequent: state == State::Mfu,
            is_tombstone: false,
        };
        let mut took = self.take(work, entry, block.bytes());
        if took == Took::Full {
            step.is_failing = self.close(core, work).is_err();
            took = if step.is_failing { Took::Not } else { self.take(work, entry, block.bytes()) };
        }
        if let Took::Bytes(bytes) = took {
            block.set_on_flash();
            let bytes = bytes + size_of::<[u64; 4]>() as u64;
            step.left -= bytes as i64;
            step.spent += bytes;
            step.data_blocks += u64::from(kind == Kind::Data);
            core.stats.fed_blocks.add(1);
            core.stats.fed_bytes.add(u64::from(entry.len));
        }
    }
}
