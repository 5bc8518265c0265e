//! Making one page of two that have become sparse.
//!
//! Blocks that move to the head leave holes, and what is never asked for stays where it is: without this, a
//! list of few blocks could come to have as many pages as blocks. Two neighbours that fit into one page are
//! taken out of the chain, and their blocks put into a new page that stands where the older one stood, in
//! their order. A block whose header is busy stays behind in its page.

use super::{GONE, Listed, Pages, place_of};
use crate::sync::{Ordering, sized};

/// Pages for one that full pages would make, beyond which some are put together.
const SPARSE: u64 = sized(2, 1) as u64;

/// Pages that a list may have in any case.
const FREE: u64 = sized(16, 1) as u64;

/// Entries of the chain that are looked at in one go.
const LOOKED_AT: usize = 64;

impl Pages {
    /// Whether there are so many more pages than blocks need that some should be put together.
    pub(super) fn is_sparse(&self) -> bool {
        let (pages, len) = (self.filled.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        pages > FREE + SPARSE * len / self.page(0).size()
    }

    /// Puts two sparse pages together, if some are found. `moves` is told of a block and its new place, and
    /// says whether it has taken it there.
    pub(super) fn join_two(&self, moves: &mut dyn FnMut(Listed, u64) -> bool) {
        let Some([older, newer]) = self.claim_sparse() else { return };
        let joined = {
            let mut chain = self.chain.lock();
            let number = chain.take_vacant();
            self.page(number).begin(older.0);
            number
        };
        let page = self.page(joined);
        let generation = page.fill().generation();
        for (_, number) in [older, newer] {
            let from = self.page(number);
            for slot in 0..from.given() {
                let Some(block) = from.block(slot) else { continue };
                let Some(free) = page.reserve(generation) else { break };
                page.fill_slot(free, block);
                let listed = Listed { place: place_of(number, slot), number: block };
                if moves(listed, place_of(joined, free)) {
                    from.clear(slot);
                } else {
                    page.clear(free);
                }
            }
        }
        page.close();
        for claimed in [(older.0, joined), older, newer] {
            self.put_back(claimed);
        }
    }

    /// Takes two neighbours out of the chain that fit into one page. Never the head, which still fills.
    fn claim_sparse(&self) -> Option<[(u64, u32); 2]> {
        let mut chain = self.chain.lock();
        let last = chain.pages.len() - 1;
        let first = chain.pages.partition_point(|(sequence, _)| *sequence < chain.looked_at);
        let mut before: Option<usize> = None;
        for place in (first..last).take(LOOKED_AT) {
            let (sequence, number) = chain.pages[place];
            chain.looked_at = sequence + 1;
            if number == GONE {
                continue;
            }
            let live = |number: u32| self.page(number).fill().live();
            if let Some(before) = before
                && live(chain.pages[before].1) + live(number) <= self.page(0).size()
            {
                let both = [chain.pages[before], chain.pages[place]];
                [before, place].into_iter().for_each(|place| chain.forget(place));
                chain.trim();
                self.count_pages(&chain);
                // The two, and the one that they are put into.
                self.claimed.fetch_add(3, Ordering::Relaxed);
                return Some(both);
            }
            before = Some(place);
        }
        if first + LOOKED_AT >= last {
            chain.looked_at = 0;
        }
        None
    }
}
