//! The table: from the hash of a key to the number of its header, without a lock for who looks.
//!
//! A bucket is one cache line: seven entries, each 32 bits of the hash beside the number of a header,
//! and a word that tells which spill line continues it and how often it has changed. The lowest bit of
//! that count is the lock of those who change the bucket. Who looks reads the entries, goes to the header
//! that one names and believes only what stands there: so an entry that is found needs no check of the
//! bucket. Only who has found nothing checks that nothing changed while he looked, and else looks again.
//!
//! Buckets come one by one as the number of entries grows, each taking from one other the entries that
//! belong to it (W. Litwin, "Linear hashing", VLDB 1980), and go in the opposite order. So no operation
//! has more to do than one bucket's worth, and the table is as full after as before.
//!
//! Locks: who changes has one bucket's; who makes or drops a bucket has the right to resize, which is
//! only tried, then those of the two buckets. No other lock is waited for under them but a ghost's.

use std::io;

use crate::arena::line::{Line, Lines};
use crate::stack::Stack;
use crate::sync::{AtomicU64, Fault, Ordering, fence, is_broken, sized, wait_a_moment};

/// Entries in a line.
const ENTRIES: usize = 7;
/// Its last word: count of changes in the upper half, number of the next line in the lower.
const META: usize = 7;

/// Buckets at least: a page of them.
const BUCKETS_MIN: u64 = sized(64, 2) as u64;

/// A bucket is added when there are more than so many entries for two buckets, and one is dropped when
/// there are fewer: the space between keeps it from going back and forth.
const GROW: u64 = 9;
const SHRINK: u64 = 4;

/// Spill lines that a look follows at most: a chain changes while it is followed, and so might never end.
const CHAIN_MAX: usize = 64;

const LOCKED: u64 = 1 << 32;
const CHANGE: u64 = 1 << 32;
const NEXT: u64 = u32::MAX as u64;

/// See the module's doc.
#[derive(Debug)]
pub(crate) struct Table {
    buckets: Lines,
    spill: Spill,
    /// Buckets in use.
    extent: AtomicU64,
    entries: AtomicU64,
    /// 1 while somebody makes or drops a bucket.
    resizing: AtomicU64,
}

/// What is asked of a key's header while its bucket is locked.
pub(crate) struct Taken<R> {
    /// The number that stood in the entry.
    pub(crate) number: u32,
    /// What the question gave.
    pub(crate) answer: R,
}

impl Table {
    /// Room for `entries` entries.
    ///
    /// # Errors
    /// The kernel's, for want of address space.
    pub(crate) fn reserve(entries: u64) -> io::Result<Table> {
        let buckets = (entries * 2 / GROW + 2).next_power_of_two().max(BUCKETS_MIN);
        Ok(Table {
            buckets: Lines::reserve(buckets as usize)?,
            spill: Spill::reserve(buckets as usize)?,
            extent: AtomicU64::new(BUCKETS_MIN),
            entries: AtomicU64::new(0),
            resizing: AtomicU64::new(0),
        })
    }

    /// Asks for huge pages.
    pub(crate) fn want_huge(&self) {
        self.buckets.want_huge();
    }

    /// Asks `visit` about each entry that could be of this hash, until it answers.
    #[inline]
    pub(crate) fn find<R>(&self, hash: u64, mut visit: impl FnMut(u32) -> Option<R>) -> Option<R> {
        let tag = tag_of(hash);
        for tries in 0.. {
            let extent = self.extent.load(Ordering::Acquire);
            let bucket = &self.buckets[address(hash, extent)];
            let before = bucket.0[META].load(Ordering::Acquire);
            let (mut line, mut meta) = (bucket, before);
            for _ in 0..CHAIN_MAX {
                let mut matches = matches(line, tag);
                while matches != 0 {
                    let entry = line.0[matches.trailing_zeros() as usize].load(Ordering::Acquire);
                    matches &= matches - 1;
                    if let Some(number) = named(entry)
                        && let Some(answer) = visit(number)
                    {
                        return Some(answer);
                    }
                }
                if meta & NEXT == 0 {
                    break;
                }
                line = self.spill.at(meta & NEXT);
                meta = line.0[META].load(Ordering::Acquire);
            }
            // The entries were read before this, though not in order among themselves.
            fence(Ordering::Acquire);
            let after = bucket.0[META].load(Ordering::Acquire);
            let is_quiet = after == before && before & LOCKED == 0 || is_broken(Fault::FindWithoutCheck);
            if is_quiet && self.extent.load(Ordering::Acquire) == extent {
                return None;
            }
            wait_a_moment(tries);
        }
        None
    }

    /// Has the bucket of a hash fetched from memory.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.buckets[address(hash, self.extent.load(Ordering::Relaxed))].prefetch();
    }

    /// The first header that could be the one of this hash, without asking it.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> Option<u32> {
        let (tag, extent) = (tag_of(hash), self.extent.load(Ordering::Relaxed));
        let line = &self.buckets[address(hash, extent)];
        let matches = matches(line, tag);
        (matches != 0)
            .then(|| line.0[matches.trailing_zeros() as usize].load(Ordering::Relaxed))
            .and_then(named)
    }

    /// Puts a header in, in place of the one that `is_same` says is of the same key. With the bucket
    /// locked, and before anybody can find the header, `prepare` is told which one it replaces.
    pub(crate) fn put<R>(
        &self,
        hash: u64,
        number: u32,
        is_same: impl Fn(u32) -> bool,
        prepare: impl FnOnce(Option<u32>) -> R,
    ) -> R {
        let bucket = self.lock(hash);
        let entry = tag_of(hash) << 32 | (u64::from(number) + 1);
        let old = self.entry(bucket, hash, is_same);
        let answer = prepare(old.and_then(|word| named(word.load(Ordering::Relaxed))));
        match old {
            Some(word) => word.store(entry, Ordering::Release),
            None => self.append(bucket, entry),
        }
        unlock(bucket);
        if old.is_none() {
            let entries = self.entries.fetch_add(1, Ordering::Relaxed) + 1;
            if entries * 2 > self.extent.load(Ordering::Relaxed) * GROW {
                self.grow();
            }
        }
        answer
    }

    /// Takes the entry out for which `is_it` is true, if there is one. `before` is done with the bucket
    /// locked while the entry still is there.
    pub(crate) fn take<R>(
        &self,
        hash: u64,
        is_it: impl Fn(u32) -> bool,
        before: impl FnOnce(Option<u32>) -> R,
    ) -> Option<Taken<R>> {
        let bucket = self.lock(hash);
        let found = self.entry(bucket, hash, is_it);
        let number = found.and_then(|word| named(word.load(Ordering::Relaxed)));
        let answer = before(number);
        if let Some(word) = found {
            word.store(0, Ordering::Release);
            self.tidy(bucket);
        }
        unlock(bucket);
        let number = number?;
        let entries = self.entries.fetch_sub(1, Ordering::Relaxed) - 1;
        let extent = self.extent.load(Ordering::Relaxed);
        if extent > BUCKETS_MIN && entries * 2 < extent * SHRINK {
            self.shrink();
        }
        Some(Taken { number, answer })
    }

    /// Entries in the table.
    pub(crate) fn len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Locks the bucket of a hash.
    fn lock(&self, hash: u64) -> &Line {
        for tries in 0.. {
            let extent = self.extent.load(Ordering::Acquire);
            let bucket = &self.buckets[address(hash, extent)];
            if try_lock(bucket) {
                if address(hash, self.extent.load(Ordering::Acquire)) == address(hash, extent) {
                    return bucket;
                }
                unlock(bucket);
            }
            wait_a_moment(tries);
        }
        unreachable!("the loop has no end")
    }

    /// The lines of a bucket that is locked.
    fn chain<'a>(&'a self, bucket: &'a Line) -> impl Iterator<Item = &'a Line> {
        let next = |line: &Line| line.0[META].load(Ordering::Relaxed) & NEXT;
        std::iter::successors(Some(bucket), move |line| (next(line) != 0).then(|| self.spill.at(next(line))))
    }

    /// The entry of a locked bucket that is of this hash and for whose number `is_it` is true.
    fn entry<'a>(
        &'a self,
        bucket: &'a Line,
        hash: u64,
        is_it: impl Fn(u32) -> bool,
    ) -> Option<&'a AtomicU64> {
        let is_it = |word: &&AtomicU64| {
            let entry = word.load(Ordering::Relaxed);
            entry >> 32 == tag_of(hash) && named(entry).is_some_and(&is_it)
        };
        self.chain(bucket).find_map(|line| line.0[..ENTRIES].iter().find(is_it))
    }

    /// Adds an entry to a bucket that is locked.
    fn append(&self, bucket: &Line, entry: u64) {
        let mut last = bucket;
        for line in self.chain(bucket) {
            if let Some(free) = line.0[..ENTRIES].iter().find(|word| word.load(Ordering::Relaxed) == 0) {
                free.store(entry, Ordering::Release);
                return;
            }
            last = line;
        }
        let number = self.spill.take();
        self.spill.at(number).0[0].store(entry, Ordering::Release);
        let meta = last.0[META].load(Ordering::Relaxed);
        last.0[META].store(meta & !NEXT | number, Ordering::Release);
    }

    /// Fills holes of a locked bucket from the end of its chain, and gives back a line that has become
    /// empty. Who looks meanwhile may miss the entry that moves, and then sees that the bucket changed.
    fn tidy(&self, bucket: &Line) {
        let Some((before, last)) = self.chain(bucket).zip(self.chain(bucket).skip(1)).last() else { return };
        let is_free = |word: &&AtomicU64| word.load(Ordering::Relaxed) == 0;
        for word in last.0[..ENTRIES].iter().filter(|word| !is_free(word)) {
            let hole = self.chain(bucket).take_while(|line| !std::ptr::eq(*line, last));
            let Some(hole) = hole.flat_map(|line| &line.0[..ENTRIES]).find(is_free) else { return };
            hole.store(word.load(Ordering::Relaxed), Ordering::Release);
            word.store(0, Ordering::Release);
        }
        let meta = before.0[META].load(Ordering::Relaxed);
        let number = meta & NEXT;
        before.0[META].store(meta & !NEXT, Ordering::Release);
        self.spill.give(number);
    }
}

/// Growing and shrinking.
impl Table {
    /// Makes one bucket more.
    fn grow(&self) {
        self.resize(|extent| {
            if extent as usize >= self.buckets.len() {
                return;
            }
            let (old, new) = (parent_of(extent), extent);
            self.redistribute(old as usize, new as usize, extent + 1);
        });
    }

    /// Drops the last bucket.
    fn shrink(&self) {
        self.resize(|extent| {
            if extent > BUCKETS_MIN {
                self.redistribute(parent_of(extent - 1) as usize, (extent - 1) as usize, extent - 1);
            }
        });
    }

    fn resize(&self, step: impl FnOnce(u64)) {
        // Who comes second has nothing to wait for: the next entry will do it.
        if self.resizing.swap(1, Ordering::Acquire) == 0 {
            step(self.extent.load(Ordering::Relaxed));
            self.resizing.store(0, Ordering::Release);
        }
    }

    /// Deals the entries of two buckets out anew, as `extent` buckets want it.
    fn redistribute(&self, old: usize, new: usize, extent: u64) {
        let buckets = [&self.buckets[old], &self.buckets[new]];
        for bucket in buckets {
            let mut tries = 0;
            while !try_lock(bucket) {
                tries += 1;
                wait_a_moment(tries);
            }
        }
        let all: smallvec::SmallVec<[u64; 32]> =
            buckets.iter().flat_map(|bucket| self.emptied(bucket)).collect();
        for entry in all {
            // An entry keeps the bits by which buckets are found.
            let goes = address_of_entry(entry, extent);
            self.append(if goes == new { buckets[1] } else { buckets[0] }, entry);
        }
        self.extent.store(extent, Ordering::Release);
        buckets.iter().rev().for_each(|bucket| unlock(bucket));
    }

    /// Takes all entries out of a locked bucket.
    fn emptied(&self, bucket: &Line) -> smallvec::SmallVec<[u64; 16]> {
        let words = self.chain(bucket).flat_map(|line| &line.0[..ENTRIES]);
        let all = words.map(|word| word.swap(0, Ordering::AcqRel)).filter(|entry| *entry != 0).collect();
        while self.chain(bucket).nth(1).is_some() {
            self.tidy(bucket);
        }
        all
    }
}

/// The bits of a hash that an entry keeps: those by which buckets are found, so that an entry tells where it
/// belongs.
fn tag_of(hash: u64) -> u64 {
    hash & u64::from(u32::MAX)
}

/// A bit for each entry of a line with this tag. All are compared, and nothing depends on which it is: a
/// branch for each could not be foreseen, and costs more than the line.
#[inline]
fn matches(line: &Line, tag: u64) -> u32 {
    let bit = |place: usize| u32::from(line.0[place].load(Ordering::Relaxed) >> 32 == tag) << place;
    (0..ENTRIES).fold(0, |bits, place| bits | bit(place))
}

#[inline]
fn named(entry: u64) -> Option<u32> {
    (entry as u32).checked_sub(1)
}

/// The bucket of a hash when there are `extent` of them.
#[inline]
fn address(hash: u64, extent: u64) -> usize {
    let all = extent.next_power_of_two() - 1;
    let bucket = hash & all;
    (if bucket < extent { bucket } else { bucket & (all >> 1) }) as usize
}

fn address_of_entry(entry: u64, extent: u64) -> usize {
    address(entry >> 32, extent)
}

/// The bucket whose entries a new last one shares.
fn parent_of(bucket: u64) -> u64 {
    bucket ^ (1 << bucket.ilog2())
}

fn try_lock(bucket: &Line) -> bool {
    let meta = bucket.0[META].load(Ordering::Relaxed);
    meta & LOCKED == 0
        && bucket.0[META].compare_exchange(meta, meta + CHANGE, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

fn unlock(bucket: &Line) {
    bucket.0[META].fetch_add(CHANGE, Ordering::Release);
}

/// Lines that continue buckets.
#[derive(Debug)]
struct Spill {
    row: Lines,
    used: AtomicU64,
    /// Lines that no bucket has, linked through their first entries.
    vacant: Stack,
}

impl Spill {
    fn reserve(count: usize) -> io::Result<Spill> {
        Ok(Spill { row: Lines::reserve(count + 1)?, used: AtomicU64::new(0), vacant: Stack::default() })
    }

    #[inline]
    fn at(&self, number: u64) -> &Line {
        &self.row[number as usize]
    }

    /// Takes an empty line. There are as many as buckets: entries that need more have hashes that agree, and
    /// then there are not enough of them in the world.
    fn take(&self) -> u64 {
        // In the upper half of an entry: who still looks there sees one that names nothing.
        let popped = self.vacant.pop(|line| (self.at(line.into()).0[0].load(Ordering::Relaxed) >> 32) as u32);
        let number = match popped {
            Some(line) => line.into(),
            None => self.used.fetch_add(1, Ordering::Relaxed) + 1,
        };
        // The link of the stack lay in the first entry.
        self.at(number).0[0].store(0, Ordering::Relaxed);
        self.at(number).0[META].store(0, Ordering::Release);
        number
    }

    fn give(&self, number: u64) {
        let link = &self.at(number).0[0];
        self.vacant.push(number as u32, |below| link.store(u64::from(below) << 32, Ordering::Relaxed));
    }
}
