//! All headers: a row that never moves, and stacks of those that no block has.
//!
//! A header is known by its number. Vacated ones lie on a few [stacks](Stack), linked through themselves. A
//! thread takes from and gives to the stack of its lane, and takes from others before it asks for
//! headers that were never used.

use std::io;
use std::ops::Range;

use crossbeam_utils::CachePadded;

use crate::arena::line::Lines;
use crate::header::Header;
use crate::stack::Stack;
use crate::sync::lane::lane;
use crate::sync::{AtomicU32, Ordering, sized};

const STACKS: usize = sized(16, 2);

/// See the module's doc.
#[derive(Debug)]
pub(crate) struct Headers {
    row: Lines,
    /// Headers that were ever used.
    used: AtomicU32,
    /// There a header's number is one more than it is.
    vacant: Box<[CachePadded<Stack>]>,
}

impl Headers {
    /// Room for `count` headers.
    ///
    /// # Errors
    /// The kernel's, for want of address space.
    pub(crate) fn reserve(count: u32) -> io::Result<Headers> {
        let vacant = (0..STACKS).map(|_| CachePadded::default()).collect();
        Ok(Headers { row: Lines::reserve(count as usize)?, used: AtomicU32::new(0), vacant })
    }

    /// Asks for huge pages.
    pub(crate) fn want_huge(&self) {
        self.row.want_huge();
    }

    /// The header of a number that was once taken.
    #[inline]
    pub(crate) fn at(&self, number: u32) -> Header<'_> {
        Header(&self.row[number as usize])
    }

    /// Has a header fetched from memory.
    #[inline]
    pub(crate) fn prefetch(&self, number: u32) {
        if let Some(line) = self.row.get(number as usize) {
            line.prefetch();
        }
    }

    /// The numbers that were ever taken.
    pub(crate) fn numbers(&self) -> Range<u32> {
        0..self.used.load(Ordering::Acquire).min(self.row.len() as u32)
    }

    /// Takes a header that no block has; `None` when there are no more.
    pub(crate) fn take(&self) -> Option<u32> {
        let own = lane();
        let vacant = (0..STACKS).find_map(|step| self.pop((own + step) % STACKS));
        vacant.or_else(|| {
            let room = self.row.len() as u32;
            self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| (n < room).then(|| n + 1)).ok()
        })
    }

    /// Gives a header back that no block has any more.
    pub(crate) fn give(&self, number: u32) {
        let next = self.at(number).next_free();
        self.vacant[lane() % STACKS].push(number + 1, |below| next.store(below.into(), Ordering::Relaxed));
    }

    fn pop(&self, stack: usize) -> Option<u32> {
        let next = |number: u32| self.at(number - 1).next_free().load(Ordering::Relaxed) as u32;
        self.vacant[stack].pop(next).map(|number| number - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_header_is_taken_twice_and_none_is_lost() {
        let headers = Headers::reserve(1000).unwrap();
        let held: Vec<AtomicU32> = (0..1000).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2000 {
                        let taken: Vec<u32> = (0..1 + round % 200).filter_map(|_| headers.take()).collect();
                        for &number in &taken {
                            assert_eq!(held[number as usize].fetch_add(1, Ordering::AcqRel), 0);
                        }
                        for &number in &taken {
                            held[number as usize].fetch_sub(1, Ordering::AcqRel);
                            headers.give(number);
                        }
                    }
                });
            }
        });
        let all: std::collections::HashSet<u32> = std::iter::from_fn(|| headers.take()).collect();
        assert_eq!(all.len(), 1000);
        assert_eq!(headers.numbers(), 0..1000);
    }
}
