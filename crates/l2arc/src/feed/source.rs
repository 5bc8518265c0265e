//! The cache as a source of blocks to feed.
//!
//! Only blocks that were published as ones that may be fed, and are not on flash yet.

use arcwell_arc::{Cache, Cursor, End, Pin};
use arcwell_base::BlockKey;

use super::{Block, ListOf, Source, Walk};

/// Where a device's feed stands in each of the four lists.
#[derive(Debug, Default)]
pub(crate) struct Cursors([Cursor; 4]);

/// See the module's doc.
pub(crate) struct CacheSource<'a> {
    cache: &'a Cache,
    cursors: &'a mut Cursors,
}

/// A block, pinned.
pub(crate) struct Pinned {
    pin: Pin,
    is_guess: bool,
}

impl<'a> CacheSource<'a> {
    pub(crate) fn new(cache: &'a Cache, cursors: &'a mut Cursors) -> CacheSource<'a> {
        CacheSource { cache, cursors }
    }
}

impl Source for CacheSource<'_> {
    type Block = Pinned;

    fn is_cold(&self) -> bool {
        !self.cache.is_warm()
    }

    fn target(&self) -> u64 {
        let (target, most) = (self.cache.stats().c.value(), self.cache.tunables().size_max());
        // The gauge is as old as somebody's last look, or nobody has looked.
        if target > 0 { target.min(most) } else { most }
    }

    fn walk(&mut self, list: ListOf, from: End, limit: usize, to: &mut Vec<Pinned>) -> Walk {
        let (state, kind) = list;
        let place = super::lists(0, true).position(|other| other == list).unwrap_or(0);
        let mut bytes = 0;
        let walked =
            self.cache.candidates(state, kind, from, &mut self.cursors.0[place], limit, &mut |candidate| {
                let pin = candidate.pin;
                bytes += pin.len() as u64;
                if pin.may_be_fed() && !candidate.is_on_flash {
                    to.push(Pinned { pin, is_guess: candidate.is_guess });
                }
            });
        Walk { blocks: walked.looked as u64, bytes, goes_on: !walked.is_end }
    }

    fn rewind(&mut self) {
        self.cursors.0.iter_mut().for_each(Cursor::reset);
    }
}

impl Block for Pinned {
    fn key(&self) -> BlockKey {
        self.pin.key()
    }

    fn bytes(&self) -> &[u8] {
        &self.pin
    }

    fn is_guess(&self) -> bool {
        self.is_guess
    }

    fn set_on_flash(&self) {
        self.pin.set_on_flash(true);
    }
}
