//! The table: from the hash of a key to the number of its header, without a lock for who looks.
//!
//! A bucket is one cache line: seven entries, each 32 bits of the hash beside the number of a header or of a
//! ghost, and a word that tells which spill line continues it and how often it has changed. The lowest bit of
//! that count is the lock of those who change the bucket. Who looks reads the entries, goes to the header
//! that one names and believes only what stands there: so an entry that is found needs no check of the
//! bucket. Only who has found nothing checks that nothing changed while he looked, and else looks again.
//!
//! Buckets come one by one as the number of entries grows, each taking from one other the entries that
//! belong to it (W. Litwin, "Linear hashing", VLDB 1980), and go in the opposite order. So no operation
//! has more to do than a few buckets' worth, and the table is as full after as before.
//!
//! Locks: who changes has one bucket's; who makes or drops a bucket has the right to resize, which is
//! only tried, then those of the two buckets. No other lock is waited for under them but those
//! that the order in the crate's essay puts behind them: a part of the ghosts, a list's own.

use std::io;

use crossbeam_utils::CachePadded;

use crate::arena::line::{Line, Lines};
use crate::stack::Stack;
use crate::sync::lane::{self, LANES, lane};
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

/// Entries that a lane counts before it tells the others: so seldom is the common number written to.
const COUNTED_AT_ONCE: u64 = sized(32, 1) as u64;

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
    /// What each lane has not added to the entries yet.
    changes: Box<[CachePadded<AtomicU64>; LANES]>,
    /// 1 while somebody makes or drops a bucket.
    resizing: AtomicU64,
}

/// What an entry leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// A block, by the number of its header.
    Block(u32),
    /// What is remembered of one that was evicted, by the place of the ghost in the part that its hash names.
    Ghost(u32),
}

impl Entry {
    /// In the lower half of an entry that leads to a ghost.
    const GHOST: u32 = 1 << 31;

    #[inline]
    fn of(word: u64) -> Option<Entry> {
        let number = (word as u32).checked_sub(1)?;
        Some(if number < Entry::GHOST { Entry::Block(number) } else { Entry::Ghost(number - Entry::GHOST) })
    }

    fn word(self, hash: u64) -> u64 {
        let number = match self {
            Entry::Block(number) => number,
            Entry::Ghost(place) => place + Entry::GHOST,
        };
        tag_of(hash) << 32 | (u64::from(number) + 1)
    }
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
            changes: Box::new(std::array::from_fn(|_| CachePadded::default())),
            resizing: AtomicU64::new(0),
        })
    }

    /// Asks for huge pages.
    pub(crate) fn want_huge(&self) {
        self.buckets.want_huge();
    }

    /// Asks `visit` about the header of each entry that could be of this hash, until it answers.
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
                    if let Some(Entry::Block(number)) = Entry::of(entry)
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
            if meta & NEXT != 0 {
                return self.find_locked(hash, visit);
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

    /// The same under the bucket's lock, where so many hashes agree that the chain is longer than one who has no lock
    /// would follow it.
    #[cold]
    fn find_locked<R>(&self, hash: u64, mut visit: impl FnMut(u32) -> Option<R>) -> Option<R> {
        let bucket = self.lock(hash);
        let entries = self.chain(bucket).flat_map(|line| &line.0[..ENTRIES]);
        let answer = entries.map(|word| word.load(Ordering::Relaxed)).find_map(|entry| {
            match Entry::of(entry).filter(|_| entry >> 32 == tag_of(hash))? {
                Entry::Block(number) => visit(number),
                Entry::Ghost(_) => None,
            }
        });
        unlock(bucket);
        answer
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
        (matches != 0).then(|| line.0[matches.trailing_zeros() as usize].load(Ordering::Relaxed)).and_then(
            |entry| match Entry::of(entry)? {
                Entry::Block(number) => Some(number),
                Entry::Ghost(_) => None,
            },
        )
    }

    /// Whether a ghost may be remembered under this hash. One that comes or goes meanwhile may be missed.
    pub(crate) fn may_remember(&self, hash: u64) -> bool {
        let tag = tag_of(hash);
        let mut line = &self.buckets[address(hash, self.extent.load(Ordering::Acquire))];
        for _ in 0..CHAIN_MAX {
            let is_ghost = |word: &AtomicU64| {
                let word = word.load(Ordering::Relaxed);
                word >> 32 == tag && matches!(Entry::of(word), Some(Entry::Ghost(_)))
            };
            if line.0[..ENTRIES].iter().any(is_ghost) {
                return true;
            }
            let meta = line.0[META].load(Ordering::Acquire);
            if meta & NEXT == 0 {
                break;
            }
            line = self.spill.at(meta & NEXT);
        }
        false
    }

    /// With the bucket of a hash locked, looks for the entry for which `is_it` is true, and asks `change` what it
    /// shall be from now on: another one in its place, a new one where there was none, or none any more. What
    /// `change` answers besides is returned. Until it has answered, nobody sees a difference.
    pub(crate) fn change<R>(
        &self,
        hash: u64,
        is_it: impl Fn(Entry) -> bool,
        change: impl FnOnce(Option<Entry>) -> (Option<Entry>, R),
    ) -> R {
        let bucket = self.lock(hash);
        let found = self.entry(bucket, hash, is_it);
        let (after, answer) = change(found.and_then(|word| Entry::of(word.load(Ordering::Relaxed))));
        match (found, after) {
            (Some(word), Some(after)) => word.store(after.word(hash), Ordering::Release),
            (Some(word), None) => {
                word.store(0, Ordering::Release);
                self.tidy(bucket);
            }
            (None, Some(after)) => self.append(bucket, after.word(hash)),
            (None, None) => {}
        }
        unlock(bucket);
        match (found, after) {
            (None, Some(_)) => self.count(1),
            (Some(_), None) => self.count(-1),
            _ => {}
        }
        answer
    }

    /// Counts entries, and now and then has the number of buckets follow.
    fn count(&self, n: i64) {
        let own = lane();
        if own == lane::SHARED {
            return self.tell(n);
        }
        let kept = &self.changes[own];
        let change = kept.load(Ordering::Relaxed).cast_signed() + n;
        if change.unsigned_abs() < COUNTED_AT_ONCE {
            kept.store(change.cast_unsigned(), Ordering::Relaxed);
        } else {
            kept.store(0, Ordering::Relaxed);
            self.tell(change);
        }
    }

    fn tell(&self, change: i64) {
        let change = change.cast_unsigned();
        let entries = self.entries.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        // Who has put them in may not have told yet.
        let entries = entries.cast_signed().max(0).cast_unsigned();
        for _ in 0..COUNTED_AT_ONCE {
            let extent = self.extent.load(Ordering::Relaxed);
            if change.cast_signed() > 0 && entries * 2 > extent * GROW {
                self.grow();
            } else if change.cast_signed() < 0 && extent > BUCKETS_MIN && entries * 2 < extent * SHRINK {
                self.shrink();
            } else {
                break;
            }
        }
    }

    /// Entries in the table.
    pub(crate) fn len(&self) -> u64 {
        let changes = self.changes.iter().map(|change| change.load(Ordering::Relaxed));
        changes.fold(self.entries.load(Ordering::Relaxed), u64::wrapping_add)
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

    /// The entry of a locked bucket that is of this hash and for which `is_it` is true.
    fn entry<'a>(
        &'a self,
        bucket: &'a Line,
        hash: u64,
        is_it: impl Fn(Entry) -> bool,
    ) -> Option<&'a AtomicU64> {
        let is_it = |word: &&AtomicU64| {
            let entry = word.load(Ordering::Relaxed);
            entry >> 32 == tag_of(hash) && Entry::of(entry).is_some_and(&is_it)
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

/// The bucket of a hash when there are `extent` of them.
#[inline]
fn address(hash: u64, extent: u64) -> usize {
    // Of the next power of two, which there are few instructions for.
    let all = u64::MAX >> ((extent - 1) | 1).leading_zeros();
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

/// Only who has the lock writes to the word: so this needs no atomic addition.
fn unlock(bucket: &Line) {
    let meta = bucket.0[META].load(Ordering::Relaxed);
    bucket.0[META].store(meta.wrapping_add(CHANGE), Ordering::Release);
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
        self.at(number).0[0].store(0, Ordering::Release);
        self.at(number).0[META].store(0, Ordering::Release);
        number
    }

    fn give(&self, number: u64) {
        let link = &self.at(number).0[0];
        self.vacant.push(number as u32, |below| link.store(u64::from(below) << 32, Ordering::Release));
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn put(table: &Table, numbers: std::ops::Range<u32>) {
        for number in numbers {
            table.change(number.into(), |_| false, |_| (Some(Entry::Block(number)), ()));
        }
    }

    fn take(table: &Table, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let is_it = |entry| entry == Entry::Block(number);
            assert!(table.change(number.into(), is_it, |found| (None, found.is_some())));
        }
    }

    /// Entries that are put in by threads which have not told of them are taken out by one that has.
    #[test]
    fn more_may_be_counted_out_than_was_told_of() {
        const EACH: u32 = COUNTED_AT_ONCE as u32 - 1;
        let (table, both) = (Table::reserve(1000).unwrap(), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                put(&table, 0..EACH);
                both.wait();
                both.wait();
            });
            put(&table, EACH..2 * EACH);
            both.wait();
            scope.spawn(|| take(&table, 0..2 * EACH)).join().unwrap();
            assert_eq!(table.len(), 0);
            put(&table, 0..1000);
            assert_eq!(table.len(), 1000);
            both.wait();
        });
        take(&table, 0..1000);
        assert_eq!((table.len(), table.extent.load(Ordering::Relaxed)), (0, BUCKETS_MIN));
    }

    #[test]
    fn an_entry_is_a_block_or_a_ghost_and_looks_see_which() {
        let table = Table::reserve(1000).unwrap();
        let find = |number| table.find(7, |found| (found == number).then_some(())).is_some();
        put(&table, 7..8);
        assert!(find(7) && !table.may_remember(7));
        let is_it = |entry| entry == Entry::Block(7);
        table.change(7, is_it, |_| (Some(Entry::Ghost(7)), ()));
        assert!(!find(7) && table.may_remember(7) && !table.may_remember(8));
        assert_eq!((table.len(), table.guess(7)), (1, None));
    }
}
