//! Reads of blocks: in batches, verified, each device's part apart.

use arcwell_base::atomic::{AtomicU64, Ordering};
use arcwell_base::vdev::Read;
use arcwell_base::{BlockKey, Result};

use crate::checksum::checksum;
use crate::device::Device;
use crate::index::{Entry, Index};
use crate::layout::{Aligned, zeroes};
use crate::level2::Core;

/// A block that is wanted, and whether it was there.
#[derive(Debug)]
pub struct Want<'a> {
    /// Which block.
    pub key: BlockKey,
    /// Where its bytes go: as many as it has. Aligned as the device wants it, they are read straight to there. Holds
    /// anything when the block was not found.
    pub buffer: &'a mut [u8],
    /// What was known of it, if it was there.
    pub found: Option<Found>,
}

/// What was known of a block that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Whether it was frequently used when it was fed.
    pub is_frequent: bool,
}

/// One device's part of a batch.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A block that the index knows.
type Known<'a, 'b> = (&'a mut Want<'b>, Entry);

impl<'a> Want<'a> {
    /// A want that nobody has looked after yet.
    pub fn new(key: BlockKey, buffer: &'a mut [u8]) -> Want<'a> {
        Want { key, buffer, found: None }
    }
}

impl Core {
    pub(crate) fn read(&self, wants: &mut [Want<'_>], run: &dyn Fn(Vec<Job<'_>>)) {
        let devices = self.devices();
        let mut parts = [const { Vec::<Known<'_, '_>>::new() }; crate::index::DEVICES as usize];
        let count = wants.len() as u64;
        // Each look-up waits for memory once; those of a batch wait together.
        if wants.len() > 1 {
            wants.iter().for_each(|want| self.index.prefetch(want.key));
        }
        for want in wants.iter_mut() {
            want.found = None;
            let Some(entry) = self.index.get(want.key) else { continue };
            if entry.len as usize == want.buffer.len() {
                parts[usize::from(entry.device)].push((want, entry));
            } else {
                // Another block with the same tag, or not what the pool thinks that it is.
                self.stats.cksum_bad.add(1);
                self.drop_block(want.key, &entry);
            }
        }
        let hits = AtomicU64::new(0);
        let add = |found: u64| _ = hits.fetch_add(found, Ordering::Relaxed);
        let pairs = devices.iter().zip(parts).filter(|(_, part)| !part.is_empty());
        let mut jobs: Vec<_> = pairs.filter_map(|(device, part)| Some((device.as_deref()?, part))).collect();
        if jobs.len() == 1 {
            // Nothing to do at the same time.
            jobs.drain(..).for_each(|(device, part)| add(device.read(self, part)));
        } else if !jobs.is_empty() {
            let add = &add;
            let job = |(device, part)| job(self, device, part, add);
            run(jobs.into_iter().map(job).collect());
        }
        let hits = hits.into_inner();
        self.stats.hits.add(hits);
        self.stats.misses.add(count - hits);
    }

    /// Whether the index still has a block at that place.
    fn is_still(&self, key: BlockKey, entry: &Entry) -> bool {
        let is_it = |now: Entry| now.device == entry.device && now.offset == entry.offset;
        self.index.get(key).is_some_and(|now| is_it(now) && now.checksum == entry.checksum)
    }
}

/// A device's part as a job of its own.
fn job<'a, 'b: 'a>(
    core: &'a Core,
    device: &'a Device,
    part: Vec<Known<'a, 'b>>,
    add: &'a (dyn Fn(u64) + Sync),
) -> Job<'a> {
    Box::new(move || add(device.read(core, part)))
}

/// What a block takes of its device, in the device's units.
struct Span {
    from: u64,
    len: usize,
    /// Where the block begins in it.
    at: usize,
    /// Whether it is read to somewhere else and copied, since its place or its buffer is not aligned.
    is_bounced: bool,
}

impl Span {
    fn of(want: &Want<'_>, entry: &Entry, unit: u64) -> Span {
        let from = entry.offset / unit * unit;
        let end = (entry.offset + u64::from(entry.len)).next_multiple_of(unit);
        let is_whole = from == entry.offset && end - from == u64::from(entry.len);
        let is_aligned = (want.buffer.as_ptr() as usize).is_multiple_of(unit as usize);
        let at = (entry.offset - from) as usize;
        Span { from, len: (end - from) as usize, at, is_bounced: !(is_whole && is_aligned) }
    }
}

impl Device {
    /// Reads one device's part of a batch, and returns how many blocks were found.
    fn read(&self, core: &Core, mut part: Vec<Known<'_, '_>>) -> u64 {
        if !self.health.is_readable() {
            return 0;
        }
        let unit = u64::from(self.shape.unit);
        let spans: Vec<Span> = part.iter().map(|(want, entry)| Span::of(want, entry, unit)).collect();
        let bounced = spans.iter().filter(|span| span.is_bounced).map(|span| span.len).sum();
        let mut bounce = zeroes(bounced);
        let outcomes = self.read_spans(&mut part, &spans, &mut bounce);
        let (mut found, mut bytes, mut at) = (0, 0, 0);
        for (((want, entry), span), outcome) in part.iter_mut().zip(&spans).zip(outcomes) {
            if span.is_bounced {
                want.buffer.copy_from_slice(&bounce[at + span.at..][..want.buffer.len()]);
                at += span.len;
            }
            self.note_read(core, outcome.is_ok());
            if outcome.is_err() {
                core.drop_block(want.key, entry);
            } else if self.believe(core, want, entry) {
                found += 1;
                bytes += u64::from(entry.len);
            }
        }
        self.counts.hits.fetch_add(found, Ordering::Relaxed);
        self.counts.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        core.stats.read_bytes.add(bytes);
        found
    }

    fn read_spans(
        &self,
        part: &mut [Known<'_, '_>],
        spans: &[Span],
        bounce: &mut Aligned,
    ) -> Vec<Result<()>> {
        let mut rest = &mut bounce[..];
        let mut reads = Vec::with_capacity(spans.len());
        for ((want, _), span) in part.iter_mut().zip(spans) {
            let buffer = if span.is_bounced {
                let (first, others) = std::mem::take(&mut rest).split_at_mut(span.len);
                rest = others;
                first
            } else {
                &mut *want.buffer
            };
            reads.push(Read::new(span.from, buffer));
        }
        self.vdev.read(&mut reads);
        reads.iter_mut().map(Read::outcome).collect()
    }

    /// Decides whether what was read is the block (L1), and that the block was not forgotten meanwhile.
    fn believe(&self, core: &Core, want: &mut Want<'_>, entry: &Entry) -> bool {
        let agrees = Index::agrees(entry, checksum(want.key, want.buffer));
        if !core.is_still(want.key, entry) {
            core.stats.rw_clash.add(1);
            return false;
        }
        if !agrees {
            core.stats.cksum_bad.add(1);
            self.counts.checksums_bad.fetch_add(1, Ordering::Relaxed);
            core.drop_block(want.key, entry);
            return false;
        }
        if !entry.was_read {
            core.index.mark_read(want.key);
        }
        want.found = Some(Found { is_frequent: entry.is_frequent });
        true
    }
}
