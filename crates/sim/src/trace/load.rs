//! A trace in memory: columns.
//!
//! Four bytes an access for the block's number, and more only where a trace has sizes, or kinds and acts
//! other than reads of data. While it is loaded there is also the way from key to number: eight bytes a
//! block for the key, and a hash table with nothing but numbers in it.

use std::hash::BuildHasher;
use std::io::Read;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::format::stem;
use super::request::Mark;
use super::{Access, Act, Cause, Error, Format, Options, Place, Recorded, Request, Requests};

/// How many accesses, and how many distinct blocks, a trace may have: numbers of four bytes can count
/// them, with room for one that means "none".
pub const MAX_ACCESSES: usize = u32::MAX as usize - 1;

/// What the capacity of a cache is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Every block has size 1, whatever it holds.
    Blocks,
    /// A block has the bytes that the trace gives it; 1 where it gives none.
    Bytes,
}

/// A load in memory, ready to be replayed any number of times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    name: String,
    format: Option<Format>,
    /// A block's number for each access.
    blocks: Vec<u32>,
    /// Bytes for each access; empty where all are 1.
    sizes: Vec<u32>,
    /// Kind and act for each access; empty where all are reads of data.
    marks: Vec<Mark>,
    unique: u32,
    requests: u64,
    bytes: u64,
    recorded: Option<Recorded>,
}

impl Trace {
    /// Reads a whole trace from `input`, packed or not. `name` is its file's name: it helps to guess the
    /// format, and stands in messages.
    ///
    /// # Errors
    ///
    /// Those of [`Requests`], and [`Cause::TooMany`] and [`Cause::Memory`].
    pub fn read(name: &str, input: impl Read, options: &Options) -> Result<Trace, Error> {
        let mut requests = Requests::open(name, input, options)?;
        let mut loading = Loading::new(stem(name));
        while let Some(request) = requests.next() {
            loading.push(request?).map_err(|cause| requests.error(cause))?;
        }
        loading.trace.format = Some(requests.format());
        loading.trace.recorded = requests.recorded();
        Ok(loading.finish())
    }

    /// A trace of `requests` that did not come from a file.
    ///
    /// # Errors
    ///
    /// [`Cause::TooMany`] and [`Cause::Memory`].
    pub fn of(name: &str, requests: impl IntoIterator<Item = Request>) -> Result<Trace, Error> {
        let mut loading = Loading::new(name);
        for (good, request) in (0..).zip(requests) {
            let error = |cause| Error { trace: name.into(), good, place: Place::Line(good + 1), cause };
            loading.push(request).map_err(error)?;
        }
        Ok(loading.finish())
    }

    /// Its name: the file's, without endings.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The format of the file that it came from; none if it came from elsewhere.
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    /// How many accesses it has, of any act.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether it has no access at all.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// How many of its accesses are requests ([`Act::Read`]): what hits are counted among.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// How many bytes its requests ask for; as many as requests where it has no sizes.
    pub fn requested_bytes(&self) -> u64 {
        self.bytes
    }

    /// How many distinct blocks it has. Their numbers are 0 to one less.
    pub fn unique(&self) -> u32 {
        self.unique
    }

    /// Whether it gives blocks sizes.
    pub fn has_sizes(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// Whether it has anything other than reads of data: a recording has.
    pub fn has_acts(&self) -> bool {
        !self.marks.is_empty()
    }

    /// What a recording tells besides its accesses; none for any other trace.
    pub fn recorded(&self) -> Option<&Recorded> {
        self.recorded.as_ref()
    }

    /// Access number `place`, from 0. Panics when there are not as many.
    pub fn access(&self, place: usize, unit: Unit) -> Access {
        self.part(place..place + 1, unit).access(place)
    }

    /// All accesses in order, with sizes in `unit`.
    pub fn accesses(&self, unit: Unit) -> Accesses<'_> {
        self.part(0..self.len(), unit)
    }

    /// Those in `range` (clamped to what there is), for replays that say how far they are.
    ///
    /// `for_each` and `fold` are the fast ways through: where there are only blocks nothing else is
    /// looked at.
    pub fn part(&self, range: Range<usize>, unit: Unit) -> Accesses<'_> {
        let sizes = if unit == Unit::Bytes { &self.sizes[..] } else { &[] };
        let end = range.end.min(self.len());
        let next = range.start.min(end);
        Accesses { blocks: &self.blocks, sizes, marks: &self.marks, next, end }
    }
}

/// The accesses of a trace, or of a part of it.
#[derive(Clone, Debug)]
pub struct Accesses<'a> {
    blocks: &'a [u32],
    /// Empty where all are 1.
    sizes: &'a [u32],
    /// Empty where all are reads of data.
    marks: &'a [Mark],
    next: usize,
    end: usize,
}

impl Accesses<'_> {
    fn access(&self, place: usize) -> Access {
        let mark = self.marks.get(place).copied().unwrap_or(Mark::PLAIN);
        let size = self.sizes.get(place).copied().unwrap_or(1);
        Access { block: self.blocks[place], size, kind: mark.kind(), act: mark.act() }
    }
}

impl Iterator for Accesses<'_> {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        let place = self.next;
        if place == self.end {
            return None;
        }
        self.next += 1;
        Some(self.access(place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }

    fn fold<B, F: FnMut(B, Access) -> B>(self, first: B, mut visit: F) -> B {
        if self.sizes.is_empty() && self.marks.is_empty() {
            let (kind, act) = (Mark::PLAIN.kind(), Mark::PLAIN.act());
            let blocks = self.blocks[self.next..self.end].iter();
            blocks.fold(first, |value, &block| visit(value, Access { block, size: 1, kind, act }))
        } else {
            (self.next..self.end).fold(first, |value, place| visit(value, self.access(place)))
        }
    }
}

impl ExactSizeIterator for Accesses<'_> {}

/// A trace that grows, with what finds a key's number.
struct Loading {
    trace: Trace,
    numbers: HashTable<u32>,
    keys: Vec<u64>,
    hasher: DefaultHashBuilder,
}

impl Loading {
    fn new(name: &str) -> Self {
        let trace = Trace {
            name: name.to_owned(),
            format: None,
            blocks: Vec::new(),
            sizes: Vec::new(),
            marks: Vec::new(),
            unique: 0,
            requests: 0,
            bytes: 0,
            recorded: None,
        };
        let hasher = DefaultHashBuilder::default();
        Loading { trace, numbers: HashTable::new(), keys: Vec::new(), hasher }
    }

    fn push(&mut self, request: Request) -> Result<(), Cause> {
        if self.trace.len() == MAX_ACCESSES {
            return Err(Cause::TooMany);
        }
        let block = self.number(request.key)?;
        let Trace { blocks, sizes, marks, requests, bytes, .. } = &mut self.trace;
        append(sizes, blocks.len(), request.size, 1)?;
        append(marks, blocks.len(), Mark::new(request.kind, request.act), Mark::PLAIN)?;
        blocks.try_reserve(1).map_err(Cause::Memory)?;
        blocks.push(block);
        if request.act == Act::Read {
            *requests += 1;
            *bytes += u64::from(request.size);
        }
        Ok(())
    }

    /// The number of a key: a new one where it is seen for the first time.
    fn number(&mut self, key: u64) -> Result<u32, Cause> {
        let Loading { numbers, keys, hasher, .. } = self;
        let hash = hasher.hash_one(key);
        if let Some(&number) = numbers.find(hash, |&number| keys[number as usize] == key) {
            return Ok(number);
        }
        // There are not more blocks than accesses, whose number `push` has looked at.
        let number = keys.len() as u32;
        keys.try_reserve(1).map_err(Cause::Memory)?;
        keys.push(key);
        numbers.insert_unique(hash, number, |&number| hasher.hash_one(keys[number as usize]));
        Ok(number)
    }

    fn finish(self) -> Trace {
        let Loading { mut trace, keys, .. } = self;
        trace.unique = keys.len() as u32;
        // Given back first, so that shrinking finds room.
        drop((keys, self.numbers));
        trace.blocks.shrink_to_fit();
        trace.sizes.shrink_to_fit();
        trace.marks.shrink_to_fit();
        trace
    }
}

/// Puts `value` at place `length` of a column that is empty as long as all of it is `usual`.
fn append<T: Copy + PartialEq>(column: &mut Vec<T>, length: usize, value: T, usual: T) -> Result<(), Cause> {
    if column.is_empty() {
        if value == usual {
            return Ok(());
        }
        column.try_reserve(length + 1).map_err(Cause::Memory)?;
        column.resize(length, usual);
    }
    column.try_reserve(1).map_err(Cause::Memory)?;
    column.push(value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use arcwell_base::Kind;

    use super::*;

    fn trace(requests: &[Request]) -> Trace {
        Trace::of("x", requests.iter().copied()).expect("it is small")
    }

    #[test]
    fn blocks_are_numbered_as_they_appear() {
        let trace = trace(&[70, 5, 70, u64::MAX, 5].map(Request::of));
        let blocks: Vec<_> = trace.accesses(Unit::Bytes).map(|access| access.block).collect();
        assert_eq!(blocks, [0, 1, 0, 2, 1]);
        assert_eq!((trace.len(), trace.requests(), trace.unique()), (5, 5, 3));
        assert_eq!(trace.requested_bytes(), 5);
        assert!(!trace.has_sizes() && !trace.has_acts());
    }

    #[test]
    fn columns_that_begin_late_are_right_from_the_start() {
        let removal = Request { act: Act::Remove, kind: Kind::Metadata, ..Request::of(2) };
        let trace =
            trace(&[Request::of(1), Request::of(2), Request::of(3).sized(10), removal, Request::of(1)]);
        let all: Vec<_> = trace.accesses(Unit::Bytes).map(|access| (access.size, access.act)).collect();
        let reads = |size| (size, Act::Read);
        assert_eq!(all, [reads(1), reads(1), reads(10), (1, Act::Remove), reads(1)]);
        assert_eq!(trace.access(3, Unit::Bytes).kind, Kind::Metadata);
        assert_eq!((trace.len(), trace.requests(), trace.requested_bytes()), (5, 4, 13));
        assert!(trace.accesses(Unit::Blocks).all(|access| access.size == 1));
    }

    #[test]
    fn both_ways_through_a_part_see_the_same() {
        for size in [1, 2] {
            let trace = trace(&(0..10).map(|key| Request::of(key).sized(size)).collect::<Vec<_>>());
            for range in [0..10, 3..7, 8..99, 99..100] {
                let part = trace.part(range.clone(), Unit::Bytes);
                let mut slow = Vec::new();
                for access in part.clone() {
                    slow.push(access);
                }
                let mut fast = Vec::new();
                part.for_each(|access| fast.push(access));
                assert_eq!(slow, fast);
                assert_eq!(slow.len(), range.end.min(10).saturating_sub(range.start), "{range:?}");
            }
        }
    }
}
