//! What is asked of the caches: five works, and the requests of each, the same for every peer.
//!
//! - `A1`: uniform hits, each copied out. `A2`: the same, found and let go again, without a copy.
//! - `B`: zipf 0.99 over many more keys than fit; what is missing is put in, what is there is found and
//!   let go again. `C`: the same, and then, into the full cache, between any two requests one for a key
//!   that never comes again.
//! - `D`: as `B`, with values of 4 KiB to 1 MiB.
//!
//! Requests are drawn before the clock runs. Which keys are popular is shuffled, so that neighbours in
//! popularity are strangers to each other.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use crate::Result;

/// Bytes of a value in all works but `D`.
pub const VALUE: usize = 8 << 10;

/// Bytes of a page of memory.
pub const PAGE: usize = 4 << 10;

/// The values of `D`, in pages: from one to this many, evenly over the logarithm.
const PAGES_MAX: f64 = 256.0;

/// The exponent of the zipf distribution.
const SKEW: f64 = 0.99;

/// Values are windows of one source that begin at so many places, so many bytes apart: the source stays
/// in the processor's cache, so that all peers pay for the writing alone, and yet neighbours differ.
const WINDOWS: usize = 1021;
const WINDOW_STEP: usize = 8;

/// A work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Work {
    /// Uniform hits, copied out
    #[value(name = "A1")]
    A1,
    /// Uniform hits, found and let go
    #[value(name = "A2")]
    A2,
    /// Zipf over more than fits, put in when missing
    #[value(name = "B")]
    B,
    /// `B` with a scan of cold keys in between
    #[value(name = "C")]
    C,
    /// `B` with values of many sizes
    #[value(name = "D")]
    D,
}

impl Work {
    /// All of them.
    pub const ALL: [Work; 5] = [Work::A1, Work::A2, Work::B, Work::C, Work::D];

    /// Whether all that is asked for fits.
    pub fn fits(self) -> bool {
        matches!(self, Work::A1 | Work::A2)
    }
}

/// How much of everything.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Size {
    /// Values of 8 KiB that a cache has room for
    #[arg(long, default_value_t = 131_072, value_parser = clap::value_parser!(u32).range(64..=1 << 26))]
    pub entries: u32,

    /// Keys of the works with misses
    #[arg(long, default_value_t = 1_048_576, value_parser = clap::value_parser!(u32).range(64..=1 << 29))]
    pub keys: u32,

    /// Requests a run, of all threads together; D takes a tenth of it
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(64..=1 << 28))]
    pub ops: u32,
}

/// A work with its numbers and its values.
#[derive(Debug)]
pub struct Load {
    /// Which work it is.
    pub work: Work,
    /// Values of [`VALUE`] bytes that a cache has room for.
    pub entries: u32,
    /// Keys that come again lie below this; a scan's lie above.
    pub keys: u32,
    /// Requests a run.
    pub ops: usize,
    /// Bytes of the value of each key, where they differ.
    lengths: Vec<u32>,
    source: Vec<u8>,
}

impl Load {
    /// A work of a size.
    pub fn new(work: Work, size: Size) -> Self {
        let mut dice = SmallRng::seed_from_u64(0xd1ce);
        let fixed = |keys, ops: u32| (keys, ops as usize, Vec::new());
        let (keys, ops, lengths) = match work {
            Work::A1 | Work::A2 => fixed(size.entries, size.ops),
            Work::B | Work::C => fixed(size.keys, size.ops),
            Work::D => {
                let lengths = lengths_of(u64::from(size.keys) * VALUE as u64, &mut dice);
                (lengths.len() as u32, size.ops.div_ceil(10) as usize, lengths)
            }
        };
        let longest = lengths.iter().copied().max().map_or(VALUE, |length| length as usize);
        let mut source = vec![0; longest + WINDOWS * WINDOW_STEP];
        dice.fill_bytes(&mut source);
        Load { work, entries: size.entries, keys, ops, lengths, source }
    }

    /// Bytes of values that a cache may hold. Where all shall fit there is an eighth to spare: caches in
    /// parts are never filled evenly.
    pub fn capacity(&self) -> u64 {
        let bytes = u64::from(self.entries) * VALUE as u64;
        if self.work.fits() { bytes + bytes / 8 } else { bytes }
    }

    /// How many values that will be, nearly.
    pub fn expected(&self) -> usize {
        (u64::from(self.entries) * VALUE as u64 / self.typical() as u64).max(1) as usize
    }

    /// Bytes of a value, in the mean.
    pub fn typical(&self) -> usize {
        let sum: u64 = self.lengths.iter().map(|length| u64::from(*length)).sum();
        if self.lengths.is_empty() { VALUE } else { (sum / self.lengths.len() as u64) as usize }
    }

    /// The value of a key.
    pub fn value(&self, key: u32) -> &[u8] {
        let start = key as usize % WINDOWS * WINDOW_STEP;
        let length = self.lengths.get(key as usize).map_or(VALUE, |length| *length as usize);
        &self.source[start..start + length]
    }
}

/// Lengths of as many values as have `bytes` together; at least 64 of them.
fn lengths_of(bytes: u64, dice: &mut SmallRng) -> Vec<u32> {
    let (mut lengths, mut sum) = (Vec::new(), 0);
    while sum < bytes || lengths.len() < 64 {
        let pages = PAGES_MAX.powf(dice.random::<f64>()).round() as usize;
        lengths.push((pages * PAGE) as u32);
        sum += (pages * PAGE) as u64;
    }
    lengths
}

/// The requests of a work, run by run.
#[derive(Debug)]
pub struct Requests {
    /// Popularity to key; empty where all are asked for alike.
    shuffled: Vec<u32>,
    popularity: Zipf<f64>,
    keys: u32,
    /// The next key of the scan, where there is one.
    scan: Option<u32>,
    dice: SmallRng,
    drawn: Vec<u32>,
}

impl Requests {
    /// The requests of a work. All memory for them is taken here.
    ///
    /// # Errors
    /// When there is no distribution over so many keys.
    pub fn new(load: &Load) -> Result<Self> {
        let mut dice = SmallRng::seed_from_u64(0xa5c);
        let mut shuffled: Vec<u32> = if load.work.fits() { Vec::new() } else { (0..load.keys).collect() };
        shuffled.shuffle(&mut dice);
        Ok(Requests {
            shuffled,
            popularity: Zipf::new(f64::from(load.keys), SKEW)?,
            keys: load.keys,
            scan: None,
            dice,
            drawn: vec![u32::MAX; load.ops],
        })
    }

    /// From now on, every other request is for the next of the keys that never come again.
    pub fn begin_scan(&mut self) {
        self.scan = Some(self.keys);
    }

    /// The requests of the next run, for all threads.
    pub fn draw(&mut self) -> &[u32] {
        for place in 0..self.drawn.len() {
            self.drawn[place] = match &mut self.scan {
                Some(next) if place % 2 == 1 => {
                    let key = *next;
                    // After four billion the first are long forgotten everywhere.
                    *next = key.checked_add(1).unwrap_or(self.keys);
                    key
                }
                _ if self.shuffled.is_empty() => self.dice.random_range(0..self.keys),
                _ => self.shuffled[self.popularity.sample(&mut self.dice) as usize - 1],
            };
        }
        &self.drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { entries: 128, keys: 4096, ops: 8192 };

    #[test]
    fn popular_keys_come_often_and_a_scan_never_twice() {
        let load = Load::new(Work::C, SIZE);
        let mut requests = Requests::new(&load).unwrap();
        assert!(requests.draw().iter().all(|key| *key < load.keys));
        requests.begin_scan();
        let both: Vec<u32> = [requests.draw().to_vec(), requests.draw().to_vec()].concat();
        let (mut warm, cold): (Vec<u32>, Vec<u32>) = both.iter().partition(|key| **key < load.keys);
        assert_eq!(cold.len(), both.len() / 2);
        assert!(cold.is_sorted_by(|a, b| a < b));
        // The most popular of 4096 keys has one request in nine.
        warm.sort_unstable();
        let most = warm.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap();
        assert!((warm.len() / 15..warm.len() / 5).contains(&most), "{most} of {}", warm.len());
    }

    #[test]
    fn all_keys_are_asked_for_where_all_fit() {
        let load = Load::new(Work::A1, SIZE);
        let mut drawn = Requests::new(&load).unwrap().draw().to_vec();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, (0..128).collect::<Vec<u32>>());
    }

    #[test]
    fn sizes_are_mixed_and_have_the_promised_sum() {
        let load = Load::new(Work::D, Size { keys: 1 << 17, ..SIZE });
        let lengths = || (0..load.keys).map(|key| load.value(key).len());
        assert_eq!((lengths().min(), lengths().max()), (Some(4 << 10), Some(1 << 20)));
        assert!(lengths().all(|length| length % PAGE == 0));
        let sum: usize = lengths().sum();
        assert!((1 << 30..(1 << 30) + (1 << 20)).contains(&sum), "{sum}");
    }
}
