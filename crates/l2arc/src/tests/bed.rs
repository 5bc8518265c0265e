//! What the tests stand on: a device in memory that can be made to fail, and a source of blocks that is no cache.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arcwell_arc::{End, State};
use arcwell_base::atomic::{AtomicBool, AtomicU64, Ordering};
use arcwell_base::clock::ManualClock;
use arcwell_base::lock::Mutex;
use arcwell_base::vdev::{Read, Shape, Vdev};
use arcwell_base::{BlockKey, Error, Kind, ObjectId, Result};
use rustix::io::Errno;

use crate::feed::{Block, Fed, ListOf, Source, Walk};
use crate::level2::{Add, Level2};
use crate::read::Want;
use crate::rebuild::Rebuild;
use crate::{DeviceId, L2Stats};

pub(super) const PAGE: usize = 4096;
pub(super) const POOL: u128 = 7;

type Pages = HashMap<u64, Box<[u8; PAGE]>>;

/// A sparse device in memory. What was written and not flushed is lost, or kept in part, by [`MemDevice::crash`].
#[derive(Debug)]
pub(super) struct MemDevice {
    bytes: AtomicU64,
    unit: u32,
    pages: Mutex<Pages>,
    /// What lay under the pages that were written since the last flush.
    before: Mutex<HashMap<u64, Option<Box<[u8; PAGE]>>>>,
    pub(super) read_bytes: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) fails_reads: AtomicBool,
    pub(super) fails_writes: AtomicBool,
    pub(super) fails_flushes: AtomicBool,
    /// Writes that are said to have been done, and were not.
    pub(super) loses_writes: AtomicBool,
    /// Only the first half of each write is done.
    pub(super) tears_writes: AtomicBool,
    /// Bytes that each write goes astray by.
    pub(super) misses_by: AtomicU64,
}

impl MemDevice {
    pub(super) fn new(bytes: u64) -> Arc<MemDevice> {
        MemDevice::with_unit(bytes, 512)
    }

    pub(super) fn with_unit(bytes: u64, unit: u32) -> Arc<MemDevice> {
        Arc::new(MemDevice {
            bytes: AtomicU64::new(bytes),
            unit,
            pages: Mutex::named("test: pages"),
            before: Mutex::named("test: before"),
            read_bytes: AtomicU64::default(),
            written: AtomicU64::default(),
            batches: AtomicU64::default(),
            fails_reads: AtomicBool::default(),
            fails_writes: AtomicBool::default(),
            fails_flushes: AtomicBool::default(),
            loses_writes: AtomicBool::default(),
            tears_writes: AtomicBool::default(),
            misses_by: AtomicU64::default(),
        })
    }

    pub(super) fn truncate(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Puts bytes there, past all faults and counts; durable at once.
    pub(super) fn poke(&self, offset: u64, data: &[u8]) {
        let mut pages = self.pages.lock();
        for (place, byte) in data.iter().enumerate() {
            let at = offset + place as u64;
            let page = pages.entry(at / PAGE as u64).or_insert_with(|| Box::new([0; PAGE]));
            page[at as usize % PAGE] = *byte;
        }
    }

    pub(super) fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        let pages = self.pages.lock();
        let at = |at: u64| pages.get(&(at / PAGE as u64)).map_or(0, |page| page[at as usize % PAGE]);
        (offset..offset + len as u64).map(at).collect()
    }

    /// Turns the bits of a page.
    pub(super) fn corrupt(&self, page: u64) {
        let bytes = self.peek(page * PAGE as u64, PAGE);
        self.poke(page * PAGE as u64, &bytes.iter().map(|byte| !byte).collect::<Vec<_>>());
    }

    /// Loses the power: of what was not flushed only those pages are kept that `keeps` says.
    pub(super) fn crash(&self, mut keeps: impl FnMut(u64) -> bool) {
        let mut pages = self.pages.lock();
        let mut before: Vec<_> = self.before.lock().drain().collect();
        before.sort_unstable_by_key(|(place, _)| *place);
        for (place, page) in before {
            if !keeps(place) {
                match page {
                    Some(page) => pages.insert(place, page),
                    None => pages.remove(&place),
                };
            }
        }
    }

    /// All that the device holds, to compare.
    pub(super) fn image(&self) -> Vec<(u64, Box<[u8; PAGE]>)> {
        let mut image: Vec<_> =
            self.pages.lock().iter().map(|(place, page)| (*place, page.clone())).collect();
        image.sort_unstable_by_key(|(place, _)| *place);
        image
    }

    fn check(&self, offset: u64, len: usize, address: usize) -> Result<()> {
        let unit = u64::from(self.unit);
        assert!(offset.is_multiple_of(unit) && (len as u64).is_multiple_of(unit), "{len} at {offset}");
        assert!((address as u64).is_multiple_of(unit), "memory at {address:x}");
        let is_within = offset + len as u64 <= self.bytes.load(Ordering::Relaxed);
        if is_within { Ok(()) } else { Err(Error::new("reach", Errno::NXIO)) }
    }

    fn read_one(&self, read: &mut Read<'_>) -> Result<()> {
        self.check(read.offset, read.buffer.len(), read.buffer.as_ptr() as usize)?;
        if self.fails_reads.load(Ordering::Relaxed) {
            return Err(Error::new("read", Errno::IO));
        }
        self.read_bytes.fetch_add(read.buffer.len() as u64, Ordering::Relaxed);
        let pages = self.pages.lock();
        let (mut at, mut done) = (read.offset, 0);
        while done < read.buffer.len() {
            let within = at as usize % PAGE;
            let some = (PAGE - within).min(read.buffer.len() - done);
            match pages.get(&(at / PAGE as u64)) {
                Some(page) => read.buffer[done..done + some].copy_from_slice(&page[within..within + some]),
                None => read.buffer[done..done + some].fill(0),
            }
            (at, done) = (at + some as u64, done + some);
        }
        Ok(())
    }
}

impl Vdev for MemDevice {
    fn shape(&self) -> Shape {
        let bytes = self.bytes.load(Ordering::Relaxed);
        Shape { name: "mem".to_owned(), bytes, unit: self.unit, is_buffered: false, can_discard: false }
    }

    fn read(&self, reads: &mut [Read<'_>]) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        for read in reads {
            let outcome = self.read_one(read);
            read.end(outcome);
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check(offset, data.len(), data.as_ptr() as usize)?;
        assert!(
            offset.is_multiple_of(PAGE as u64) && data.len().is_multiple_of(PAGE),
            "level 2 writes whole units"
        );
        if self.fails_writes.load(Ordering::Relaxed) {
            return Err(Error::new("write", Errno::IO));
        }
        self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        if self.loses_writes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let offset = offset + self.misses_by.load(Ordering::Relaxed);
        let half = data.len() / PAGE / 2 * PAGE;
        let data = if self.tears_writes.load(Ordering::Relaxed) { &data[..half] } else { data };
        let (mut pages, mut before) = (self.pages.lock(), self.before.lock());
        for (place, page) in data.as_chunks().0.iter().enumerate() {
            let place = offset / PAGE as u64 + place as u64;
            let old = pages.insert(place, Box::new(*page));
            before.entry(place).or_insert(old);
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        if self.fails_flushes.load(Ordering::Relaxed) {
            return Err(Error::new("flush", Errno::IO));
        }
        self.before.lock().clear();
        Ok(())
    }

    fn discard(&self, _: Range<u64>) -> Result<()> {
        Err(Error::new("discard", Errno::OPNOTSUPP))
    }
}

/// A block of a list.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) key: BlockKey,
    pub(super) bytes: Arc<[u8]>,
    pub(super) is_guess: bool,
    pub(super) is_fed: Arc<AtomicBool>,
}

impl Block for Piece {
    fn key(&self) -> BlockKey {
        self.key
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn is_guess(&self) -> bool {
        self.is_guess
    }

    fn set_on_flash(&self) {
        self.is_fed.store(true, Ordering::Relaxed);
    }
}

fn at(list: ListOf) -> (bool, Kind) {
    (list.0 == State::Mfu, list.1)
}

/// Lists of blocks, each from head to tail.
#[derive(Debug)]
pub(super) struct Lists {
    lists: HashMap<(bool, Kind), Vec<Piece>>,
    pub(super) is_cold: bool,
    pub(super) target: u64,
    cursors: HashMap<(bool, Kind), usize>,
    /// Blocks that were looked at.
    pub(super) looked: u64,
}

impl Lists {
    pub(super) fn new() -> Lists {
        let (lists, cursors) = (HashMap::new(), HashMap::new());
        Lists { lists, is_cold: false, target: u64::MAX, cursors, looked: 0 }
    }

    /// Puts a block at the head.
    pub(super) fn push(&mut self, list: ListOf, key: BlockKey, bytes: Arc<[u8]>) -> &mut Piece {
        let (is_fed, list) = (Arc::default(), self.lists.entry(at(list)).or_default());
        list.insert(0, Piece { key, bytes, is_guess: false, is_fed });
        &mut list[0]
    }

    pub(super) fn of(&self, list: ListOf) -> &[Piece] {
        self.lists.get(&at(list)).map_or(&[], |pieces| pieces)
    }

    pub(super) fn clear(&mut self) {
        self.lists.clear();
        self.cursors.clear();
    }
}

impl Source for Lists {
    type Block = Piece;

    fn is_cold(&self) -> bool {
        self.is_cold
    }

    fn target(&self) -> u64 {
        self.target
    }

    fn walk(&mut self, list: ListOf, from: End, limit: usize, to: &mut Vec<Piece>) -> Walk {
        let Some(blocks) = self.lists.get(&at(list)) else { return Walk::default() };
        let cursor = self.cursors.entry(at(list)).or_default();
        let end = (*cursor + limit).min(blocks.len());
        let places = *cursor..end;
        self.looked += places.len() as u64;
        let mut walk = Walk { blocks: places.len() as u64, bytes: 0, goes_on: end < blocks.len() };
        for place in places {
            let block = match from {
                End::Head => &blocks[place],
                End::Tail => &blocks[blocks.len() - 1 - place],
            };
            walk.bytes += block.bytes.len() as u64;
            if !block.is_fed.load(Ordering::Relaxed) {
                to.push(block.clone());
            }
        }
        *cursor = if end == blocks.len() { 0 } else { end };
        walk
    }

    fn rewind(&mut self) {
        self.cursors.clear();
    }
}

pub(super) const MFU_DATA: ListOf = (State::Mfu, Kind::Data);
pub(super) const MRU_DATA: ListOf = (State::Mru, Kind::Data);
pub(super) const MFU_META: ListOf = (State::Mfu, Kind::Metadata);
pub(super) const MRU_META: ListOf = (State::Mru, Kind::Metadata);

pub(super) fn key(index: u64) -> BlockKey {
    BlockKey::new(ObjectId(1), index)
}

/// Bytes that no other block, version or length has.
pub(super) fn bytes_of(key: BlockKey, version: u64, len: usize) -> Arc<[u8]> {
    let seed = key.hash() ^ version.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ len as u64;
    let mut word = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        word = word.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(23);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

/// A second level with its clock.
pub(super) struct Bed {
    pub(super) level2: Level2,
    pub(super) clock: Arc<ManualClock>,
}

impl Bed {
    pub(super) fn new() -> Bed {
        let clock = Arc::new(ManualClock::default());
        let bed = Bed { level2: Level2::new(POOL, clock.clone()), clock };
        bed.set("l2arc.segment_size", 64 << 10);
        bed.set("l2arc.dwpd_limit", 0);
        bed
    }

    pub(super) fn set(&self, name: &str, value: u64) {
        use arcwell_base::table::Tunables;
        assert!(self.level2.tunables().store(name, value), "{name}");
    }

    pub(super) fn stats(&self) -> &L2Stats {
        self.level2.stats()
    }

    pub(super) fn add(&self, device: &Arc<MemDevice>) -> DeviceId {
        self.level2.add(device.clone(), Add::default()).unwrap()
    }

    /// Adds a device and does its rebuild.
    pub(super) fn open(&self, device: &Arc<MemDevice>) -> DeviceId {
        let id = self.add(device);
        self.rebuild(id);
        id
    }

    pub(super) fn rebuild(&self, id: DeviceId) {
        while self.level2.rebuild(id, 3) != Rebuild::Done {}
    }

    /// A step of the feed, of anything.
    pub(super) fn feed(&self, id: DeviceId, lists: &mut Lists) -> Fed {
        self.level2.feed_from(id, lists, &|_, _| true)
    }

    /// Steps until nothing is left, as if time did not matter.
    pub(super) fn feed_all(&self, id: DeviceId, lists: &mut Lists) {
        loop {
            let fed = self.feed(id, lists);
            self.clock.advance(fed.next.max(Duration::from_secs(1)));
            if fed.wrote == 0 {
                return;
            }
        }
    }

    /// Feeds blocks of a length, first version, and flushes.
    pub(super) fn put(&self, id: DeviceId, keys: Range<u64>, len: usize) {
        let mut lists = Lists::new();
        for index in keys {
            lists.push(MRU_DATA, key(index), bytes_of(key(index), 0, len));
        }
        self.feed_all(id, &mut lists);
        self.level2.flush(id).unwrap();
    }

    /// The bytes of a block, if it is there.
    pub(super) fn get(&self, key: BlockKey, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut wants = [Want::new(key, &mut bytes)];
        self.level2.read(&mut wants);
        wants[0].found.is_some().then_some(bytes)
    }

    /// Which of these blocks are there; each must be what it was.
    pub(super) fn there(&self, keys: Range<u64>, len: usize) -> Vec<u64> {
        let is_there = |index: &u64| {
            let got = self.get(key(*index), len);
            got.is_some_and(|got| {
                assert_eq!(got[..], bytes_of(key(*index), 0, len)[..], "L1: block {index}");
                true
            })
        };
        keys.filter(is_there).collect()
    }

    /// That the index holds exactly what is counted for the segments, and that its gauges agree.
    pub(super) fn check(&self) {
        self.level2.refresh_gauges();
        let reports = self.level2.devices();
        let blocks: u64 = reports.iter().map(|report| report.blocks).sum();
        assert_eq!(blocks, self.level2.core().index.len(), "D1: what is counted is what is there");
        assert_eq!(self.stats().index_entries.value(), blocks);
        assert_eq!(self.stats().size.value(), reports.iter().map(|report| report.size).sum::<u64>());
    }
}
