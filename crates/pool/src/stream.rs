//! Prefetch streams: which blocks will be asked for next?
//!
//! Pure arithmetic over block numbers of one file; no I/O, no clock. Up to [`STREAMS_MAX`] streams
//! are followed at once, so that several readers of one file do not spoil each other's. A stream is a
//! run of reads forward, in which reads may arrive a little out of order and leave small holes: the more
//! reads continued it, the more disorder is taken for it. Reads that continue no run may form a stride of
//! single blocks. Nothing is fetched for a stream before one of its reads had to wait: what is cached
//! already needs no guess. The distance read ahead doubles with each hit of the stream up to an
//! initial cap; beyond it, it grows by an eighth only when a reader caught up with its prefetch (late
//! arrivals), up to the dataset's cap. After OpenZFS's `dmu_zfetch`.

use std::ops::Range;

use smallvec::SmallVec;

/// Streams that are followed a file.
pub(crate) const STREAMS_MAX: usize = 8;
/// Steps of one length after which a stride is believed.
const STRIDE_SURE: u64 = 2;
/// Steps that a stride is read ahead at most.
const STRIDE_AHEAD: u64 = 8;
/// Blocks by which reads of one stream may be out of order.
const REORDER: u64 = 16;

/// How far streams may run ahead, in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distances {
    /// Doubling ends here.
    pub(crate) initial: u64,
    /// Never more than this.
    pub(crate) max: u64,
}

/// How a read was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// All of it was in the cache.
    Cached,
    /// The origin was asked.
    Missed,
    /// A block of it was still on its way: the prefetch was not far enough ahead.
    Late,
}

/// What to prefetch: `count` blocks from `first`, each `stride` after the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ahead {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) stride: u64,
}

/// A run of reads forward.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// First block of the last read.
    last: u64,
    /// The block after the furthest read.
    next: u64,
    /// Reads that continued it.
    hits: u64,
    /// Whether a read of it had to wait.
    has_missed: bool,
    /// Blocks to be ahead by.
    distance: u64,
    /// The block after the furthest prefetch.
    ahead: u64,
    /// When it was used last: a count of reads.
    used: u64,
}

/// Single blocks at a constant distance, among the reads that continue no run.
#[derive(Clone, Copy, Debug, Default)]
struct Stride {
    /// The last such read.
    last: u64,
    /// From the one before to it; 0: not known.
    step: u64,
    /// Steps of this length in a row.
    hits: u64,
    /// The block after the furthest prefetch.
    ahead: u64,
    /// Whether a read of it had to wait.
    has_missed: bool,
}

/// The streams of one file.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    runs: SmallVec<[Stream; 2]>,
    stride: Stride,
    reads: u64,
}

impl Streams {
    /// Notes a read of `blocks` and says what to prefetch now.
    pub(crate) fn read(&mut self, blocks: Range<u64>, found: Found, caps: Distances) -> Option<Ahead> {
        self.reads += 1;
        if let Some(run) = self.runs.iter_mut().find(|run| run.continues(&blocks)) {
            run.used = self.reads;
            return run.forward(&blocks, found, caps);
        }
        let run = Stream {
            last: blocks.start,
            next: blocks.end,
            hits: 0,
            has_missed: found != Found::Cached,
            distance: blocks.end - blocks.start,
            ahead: blocks.end,
            used: self.reads,
        };
        if self.runs.len() < STREAMS_MAX {
            self.runs.push(run);
        } else if let Some(oldest) = self.runs.iter_mut().min_by_key(|run| run.used) {
            *oldest = run;
        }
        self.stride.read(&blocks, found, caps)
    }
}

impl Stream {
    /// Whether a read belongs to this run: it touches the next block, or lies a little before or
    /// after it.
    fn continues(&self, blocks: &Range<u64>) -> bool {
        let reach = self.hits.min(REORDER);
        let is_near = blocks.start <= self.next + reach && blocks.end + reach > self.next;
        is_near && blocks.start >= self.last.saturating_sub(reach)
    }

    fn forward(&mut self, blocks: &Range<u64>, found: Found, caps: Distances) -> Option<Ahead> {
        if blocks.end <= self.next {
            // Within what was read already: nothing new to guess from.
            return None;
        }
        self.hits += 1;
        self.has_missed |= found != Found::Cached;
        self.last = blocks.start;
        self.next = blocks.end;
        self.grow(found, caps);
        self.ahead = self.ahead.max(self.next);
        let until = self.next + self.distance;
        // Ask in runs of at least half the distance, so that origin reads stay large.
        let is_wanted = self.has_missed && self.distance > 0;
        if !is_wanted || until < self.ahead + self.distance.div_ceil(2) {
            return None;
        }
        let ahead = Ahead { first: self.ahead, count: until - self.ahead, stride: 1 };
        self.ahead = until;
        Some(ahead)
    }

    fn grow(&mut self, found: Found, caps: Distances) {
        let initial = caps.initial.min(caps.max);
        if self.distance < initial {
            self.distance = (self.distance * 2).clamp(1, initial);
        } else if found == Found::Late {
            self.distance += (self.distance / 8).max(1);
        }
        self.distance = self.distance.min(caps.max);
    }
}

impl Stride {
    fn read(&mut self, blocks: &Range<u64>, found: Found, caps: Distances) -> Option<Ahead> {
        let step = blocks.start.saturating_sub(self.last);
        self.last = blocks.start;
        if step == 0 || step != self.step || blocks.end - blocks.start != 1 {
            *self =
                Stride { last: blocks.start, step, hits: 0, ahead: 0, has_missed: found != Found::Cached };
            return None;
        }
        self.hits += 1;
        self.has_missed |= found != Found::Cached;
        let steps = self.hits.min(STRIDE_AHEAD).min(caps.initial.min(caps.max));
        if self.hits < STRIDE_SURE || steps == 0 || !self.has_missed {
            return None;
        }
        let first = self.ahead.max(self.last + step);
        let until = self.last + step * steps;
        if first > until {
            return None;
        }
        self.ahead = until + step;
        Some(Ahead { first, count: (until - first) / step + 1, stride: step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Distances = Distances { initial: 32, max: 128 };

    fn blocks_of(ahead: Ahead) -> Vec<u64> {
        (0..ahead.count).map(|n| ahead.first + n * ahead.stride).collect()
    }

    fn prefetched(streams: &mut Streams, reads: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let ahead = reads.into_iter().filter_map(|b| streams.read(b..b + 1, Found::Missed, CAPS));
        ahead.flat_map(blocks_of).collect()
    }

    #[test]
    fn a_forward_run_is_fetched_once_and_without_holes() {
        let mut streams = Streams::default();
        let got = prefetched(&mut streams, 0..100);
        let expected: Vec<u64> = (got[0]..got[0] + got.len() as u64).collect();
        assert_eq!(got, expected);
        assert!(got.len() > 100, "{}", got.len());
    }

    #[test]
    fn random_reads_fetch_nothing() {
        let mut streams = Streams::default();
        let random = (0..1000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30);
        assert_eq!(prefetched(&mut streams, random), []);
    }

    #[test]
    fn random_reads_of_a_small_file_fetch_little() {
        let mut streams = Streams::default();
        let random = (0..10_000u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30) % 128);
        let got = prefetched(&mut streams, random).len();
        assert!(got < 1000, "{got}");
    }

    #[test]
    fn nothing_is_fetched_where_nobody_waits() {
        let mut streams = Streams::default();
        let mut read = |block: u64, found| streams.read(block..block + 1, found, CAPS);
        assert!((0..50).all(|block| read(block, Found::Cached).is_none()));
        assert!(read(50, Found::Missed).is_some_and(|ahead| ahead.first == 51));
        assert!((51..80).any(|block| read(block, Found::Cached).is_some()), "it goes on once begun");
    }

    #[test]
    fn many_interleaved_readers_keep_their_streams() {
        let mut streams = Streams::default();
        let reads = (0..50u64).flat_map(|n| (0..8u64).map(move |reader| reader * 1_000_000 + n));
        let got = prefetched(&mut streams, reads);
        for reader in 0..8u64 {
            let of_reader = got.iter().filter(|b| **b / 1_000_000 == reader).count();
            assert!(of_reader >= 50, "reader {reader}: {of_reader}");
        }
    }

    #[test]
    fn small_disorder_does_not_end_a_run() {
        let mut streams = Streams::default();
        let swapped = (0..100u64).map(|n| if n > 4 { n ^ 1 } else { n });
        assert!(prefetched(&mut streams, swapped).len() > 90);
    }

    #[test]
    fn a_stride_is_followed() {
        let mut streams = Streams::default();
        let got = prefetched(&mut streams, (0..40u64).map(|n| n * 100));
        assert!(got.len() > 30 && got.iter().all(|b| b % 100 == 0), "{got:?}");
        let mut once = got.clone();
        once.dedup();
        assert_eq!(once, got);
    }

    #[test]
    fn only_late_arrivals_go_beyond_the_initial_cap() {
        let mut streams = Streams::default();
        for block in 0..200 {
            streams.read(block..block + 1, Found::Missed, CAPS);
        }
        assert_eq!(streams.runs[0].distance, CAPS.initial);
        for block in 200..400 {
            streams.read(block..block + 1, Found::Late, CAPS);
        }
        assert_eq!(streams.runs[0].distance, CAPS.max);
    }

    #[test]
    fn prefetch_can_be_switched_off() {
        let mut streams = Streams::default();
        let off = Distances { initial: 0, max: 0 };
        assert!((0..50).all(|b| streams.read(b..b + 1, Found::Missed, off).is_none()));
    }
}
