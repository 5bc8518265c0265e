//! Walking through pages: from one end inwards, without keeping anybody from anything.
//!
//! Under the chain's lock a page is found, and nothing is looked at but some places of the chain. The slots are
//! then read without it: a page's memory is always a page's, and its generation, looked at again afterwards, tells
//! whether it was this page's all the time. If not, nothing was seen: all of its blocks had left.
//!
//! A walk stands in a page of a sequence, before a slot. When it goes on, the page is looked for under that
//! sequence; if it is not there any more (it was retired, put together with its neighbour, or eviction is at it) the
//! walk goes on behind that sequence. So what was put together meanwhile may be missed, and from the head be met
//! twice.

use super::{Chain, GONE, Listed, Pages, Sighting, place_of};
use crate::list::End;
use crate::list::stand::{AT_ONCE, PageStand, Within};
use crate::sync::{Fault, Ordering, is_broken};

/// What comes next in a walk.
enum Next {
    /// The page in which it stands.
    Page,
    /// Nothing was found so far.
    Further,
    End,
}

impl Chain {
    /// How many places a walk passes until it comes to a sequence, or with `behind` has passed it too.
    fn passed(&self, from: End, sequence: u64, behind: bool) -> usize {
        match (from, behind) {
            (End::Tail, false) => self.pages.partition_point(|(other, _)| *other < sequence),
            (End::Tail, true) => self.pages.partition_point(|(other, _)| *other <= sequence),
            (End::Head, false) => {
                self.pages.len() - self.pages.partition_point(|(other, _)| *other <= sequence)
            }
            (End::Head, true) => {
                self.pages.len() - self.pages.partition_point(|(other, _)| *other < sequence)
            }
        }
    }

    /// What stands at a place, counted from an end.
    fn at(&self, from: End, place: usize) -> Option<(u64, u32)> {
        let place = match from {
            End::Tail => place,
            End::Head => self.pages.len().checked_sub(place + 1)?,
        };
        self.pages.get(place).copied()
    }
}

impl Pages {
    /// See [`List::go_on`](super::List::go_on).
    pub(super) fn walk_on(&self, from: End, stand: &mut PageStand, want: usize, seen: &mut Sighting) -> bool {
        if stand.newest.is_none() {
            let newest = self.newest.load(Ordering::Relaxed);
            let sequence = if from == End::Tail { 0 } else { newest };
            *stand = PageStand { newest: Some(newest), sequence, within: None };
        }
        match self.find_next(from, stand) {
            Next::End => false,
            Next::Further => true,
            Next::Page => {
                if let Some(within) = &mut stand.within {
                    self.look_through(from, within, want, seen);
                }
                true
            }
        }
    }

    /// Finds the page in which a walk stands, or the next one if that was looked through.
    fn find_next(&self, from: End, stand: &mut PageStand) -> Next {
        let chain = self.chain.lock();
        let begin = match stand.within {
            None => chain.passed(from, stand.sequence, false),
            Some(within) => match self.find_again(&chain, from, stand.sequence, within) {
                Some(place) if self.is_looked_through(from, within) => place + 1,
                Some(_) => return Next::Page,
                None => chain.passed(from, stand.sequence, true),
            },
        };
        stand.within = None;
        let mut place = begin;
        while let Some((sequence, number)) = chain.at(from, place) {
            if stand.newest.is_some_and(|newest| sequence > newest) {
                return Next::End;
            }
            // Not within a sequence, of which there may be many: then it would be the same ones once more.
            let is_another = chain.at(from, begin).is_some_and(|(first, _)| first != sequence);
            if place - begin >= AT_ONCE && is_another {
                stand.sequence = sequence;
                return Next::Further;
            }
            if number != GONE {
                let (page, generation) = (self.page(number), self.page(number).fill().generation());
                let slot = if from == End::Tail { 0 } else { page.given() };
                (stand.sequence, stand.within) = (sequence, Some(Within { number, generation, slot }));
                return Next::Page;
            }
            place += 1;
        }
        Next::End
    }

    /// At which place, counted from an end, the page stands that a walk was in.
    fn find_again(&self, chain: &Chain, from: End, sequence: u64, within: Within) -> Option<usize> {
        let first = chain.passed(from, sequence, false);
        let same = (first..).map_while(|place| chain.at(from, place)).take_while(|(at, _)| *at == sequence);
        let step = same.map(|(_, number)| number).position(|number| number == within.number)?;
        let is_it = self.page(within.number).fill().generation() == within.generation;
        (is_it || is_broken(Fault::WalkUnchecked)).then_some(first + step)
    }

    fn is_looked_through(&self, from: End, within: Within) -> bool {
        match from {
            End::Tail => within.slot >= self.page(within.number).given(),
            End::Head => within.slot == 0,
        }
    }

    /// Adds up to `want` blocks of a page. If the page has become another meanwhile, none: and then it will not be
    /// found again.
    fn look_through(&self, from: End, within: &mut Within, want: usize, seen: &mut Sighting) {
        let (page, known) = (self.page(within.number), seen.len());
        let given = page.given();
        while seen.len() - known < want {
            let slot = match from {
                End::Tail if within.slot < given => within.slot,
                End::Head if within.slot > 0 => within.slot - 1,
                End::Tail | End::Head => break,
            };
            within.slot = if from == End::Tail { slot + 1 } else { slot };
            let block = page.block(slot);
            seen.extend(block.map(|number| Listed { place: place_of(within.number, slot), number }));
        }
        let is_it = page.fill().generation() == within.generation;
        if !is_it && !is_broken(Fault::WalkUnchecked) {
            seen.truncate(known);
        }
    }
}
