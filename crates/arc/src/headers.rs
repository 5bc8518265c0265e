//! All headers: a row that never moves, and stacks of those that no block has.
//!
//! A header is known by its number. Vacated ones lie on a few stacks (R. K. Treiber, 1986), linked
//! through themselves; a count beside the top of a stack tells it from the same top at another time.
//! A thread takes from and gives to the stack of its lane, and takes from others before it asks for
//! headers that were never used.

use std::io;
use std::ops::Range;

use crossbeam_utils::CachePadded;

use crate::arena::line::Lines;
use crate::header::Header;
use crate::sync::lane::lane;
use crate::sync::{AtomicU32, AtomicU64, Ordering, sized};

const STACKS: usize = sized(16, 2);

/// The end of a stack. Numbers are told as one more than they are.
const NONE: u64 = 0;
const NUMBER: u64 = u32::MAX as u64;

/// See the module's doc.
#[derive(Debug)]
pub(crate) struct Headers {
    row: Lines,
    /// Headers that were ever used.
    used: AtomicU32,
    /// By stack, its top and in the upper half how often it changed.
    vacant: Box<[CachePadded<AtomicU64>]>,
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
        let (stack, next) = (&self.vacant[lane() % STACKS], self.at(number).next_free());
        let pushed = stack.fetch_update(Ordering::Release, Ordering::Relaxed, |top| {
            next.store(top & NUMBER, Ordering::Relaxed);
            Some(changed(top) | (u64::from(number) + 1))
        });
        debug_assert!(pushed.is_ok());
    }

    fn pop(&self, stack: usize) -> Option<u32> {
        let popped = self.vacant[stack].fetch_update(Ordering::Acquire, Ordering::Acquire, |top| {
            if top & NUMBER == NONE {
                return None;
            }
            // If another takes it meanwhile this may be nonsense, but then the top has changed too.
            let next = self.at((top & NUMBER) as u32 - 1).next_free().load(Ordering::Relaxed);
            Some(changed(top) | (next & NUMBER))
        });
        popped.ok().map(|top| (top & NUMBER) as u32 - 1)
    }
}

fn changed(top: u64) -> u64 {
    (top & !NUMBER).wrapping_add(NUMBER + 1)
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
