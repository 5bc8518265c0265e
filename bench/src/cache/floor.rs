//! The floors: what the memory costs where no cache is in the way. They run as peers of their own, and
//! between the runs of all others.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::Result;
use crate::cache::peer::{Peer, Resident};
use crate::cache::work::{Load, PAGE, VALUE};

/// Nothing is held: the floors give no account of memory.
const NOTHING: Resident = Resident { entries: 0, bytes: 0 };

/// Values in one flat piece of memory on pages of 4 KiB; where each lies is known beforehand.
#[derive(Debug)]
pub struct Flat {
    bytes: Vec<u8>,
    /// Where the first value begins: at a page, as nothing copies faster.
    first: usize,
}

impl Flat {
    /// As much memory as a full cache's values take.
    ///
    /// # Errors
    /// When the kernel does not let this process do without huge pages.
    pub fn new(load: &Load) -> Result<Self> {
        nix::sys::prctl::set_thp_disable(true)?;
        let mut bytes: Vec<u8> = Vec::with_capacity(load.entries as usize * VALUE + PAGE);
        let first = bytes.as_ptr().align_offset(PAGE);
        bytes.resize(first, 0);
        (0..load.entries).for_each(|key| bytes.extend_from_slice(load.value(key)));
        Ok(Flat { bytes, first })
    }

    fn value(&self, key: u32) -> &[u8] {
        let start = self.first + key as usize * VALUE;
        &self.bytes[start..start + VALUE]
    }
}

impl Peer for Flat {
    fn copy(&self, key: u32, out: &mut [u8]) -> bool {
        out.copy_from_slice(self.value(key));
        true
    }

    fn touch(&self, key: u32) -> bool {
        std::hint::black_box(self.value(key)[0]);
        true
    }

    fn insert(&self, _key: u32, _value: &[u8]) {}

    fn resident(&self) -> Resident {
        NOTHING
    }
}

/// A line of the processor's cache.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// Keys of one line: a table of eight words a line is half full.
const PER_LINE: u32 = 4;

/// What no table can do without: a line that says where the entry is, and the entry's own, which is
/// counted up and down again.
#[derive(Debug)]
pub struct Lines {
    table: Vec<Line>,
    entries: Vec<Line>,
}

impl Lines {
    /// As many entries as a cache has.
    pub fn new(load: &Load) -> Self {
        let mut places: Vec<u64> = (0..u64::from(load.entries)).collect();
        places.shuffle(&mut SmallRng::seed_from_u64(0xf1));
        let line = |places: &[u64]| Line(std::array::from_fn(|n| places.get(n).copied().unwrap_or(0).into()));
        let table = places.chunks(PER_LINE as usize).map(line).collect();
        Lines { table, entries: places.iter().map(|_| Line::default()).collect() }
    }
}

impl Peer for Lines {
    fn copy(&self, _key: u32, _out: &mut [u8]) -> bool {
        // There are no bytes behind the lines.
        false
    }

    fn touch(&self, key: u32) -> bool {
        let place =
            self.table[(key / PER_LINE) as usize].0[(key % PER_LINE) as usize].load(Ordering::Relaxed);
        let count = &self.entries[place as usize].0[0];
        count.fetch_add(1, Ordering::Acquire);
        count.fetch_sub(1, Ordering::Release);
        true
    }

    fn insert(&self, _key: u32, _value: &[u8]) {}

    fn resident(&self) -> Resident {
        NOTHING
    }
}
