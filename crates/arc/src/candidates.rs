//! What a second level sees of this one: candidates to be written to flash, and marks on blocks.
//!
//! A feed wants the blocks that will be evicted soon, before they are. It walks through the lists by itself, a few
//! blocks now and then, and must cost nobody else anything: it takes no part in the blocks' lives. So a candidate is
//! pinned by a peek, which is no use, counts nowhere and moves nothing; no lock is held while headers are
//! looked at, and a list's own lock never for more than a few blocks ([`AT_ONCE`]). Where the feed stands it keeps
//! itself, in a [`Cursor`]: the cache knows of no feed, and there may be several.
//!
//! What the feed knows of a block lies in two bits of its header, where they go when the block goes: nobody has to
//! look them up. *May be fed* is said before the block is published, by who knows what it is of; *on flash* by
//! the feed. Both end with the block: new bytes under the same key are another block. A block that is evicted with
//! the first and without the second is counted: the feed was too slow for it, or was not to write as much.
//!
//! Refused: to have eviction hand its blocks over. It would wait for the device, or copy what it is about to free.

use arcwell_base::Kind;

use crate::cache::Cache;
use crate::header::{Header, State, Word};
use crate::list::{AT_ONCE, End, Sighting, Stand};
use crate::pin::Pin;
use crate::sync::Ordering;

/// A block that might be written to flash.
#[derive(Debug)]
pub struct Candidate {
    /// The block. Held, it cannot be evicted: not for long, and not many at once.
    pub pin: Pin,
    /// Prefetch has read it, and nobody has asked for it.
    pub is_guess: bool,
    /// It has been marked as being on flash.
    pub is_on_flash: bool,
}

/// What came of a look at candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Walked {
    /// Blocks that were looked at: those handed out, and those that were gone or had moved when their turn came.
    pub looked: usize,
    /// The list was walked to its end. The cursor stands before its beginning again.
    pub is_end: bool,
}

/// Where a walk through the blocks of a state and kind stands. It is of one cache, and of one list at a time: used
/// with another list or from the other end, it begins anew. It holds nothing.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    on: Option<(State, Kind, End)>,
    stand: Stand,
}

impl Cursor {
    /// A cursor that stands before the first block of whatever it is used for.
    pub fn new() -> Cursor {
        Cursor::default()
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        *self = Cursor::default();
    }

    fn face(&mut self, on: (State, Kind, End)) -> &mut Stand {
        if self.on != Some(on) {
            *self = Cursor { on: Some(on), stand: Stand::default() };
        }
        &mut self.stand
    }
}

impl Cache {
    /// Hands out the blocks of a state and kind from one end of their list inwards, from where `cursor` stands,
    /// until `limit` of them were looked at or the list is at its end. Nothing counts as a use, and nothing moves.
    ///
    /// A block that stays where it is is handed out once until the walk ends. One that moves, or that eviction has in
    /// hand at the moment, may be missed, or with some kinds of lists be met twice. What comes to the head after the
    /// walk has begun does not prolong it. Anon and uncached blocks are no candidates.
    pub fn candidates(
        &self,
        state: State,
        kind: Kind,
        from: End,
        cursor: &mut Cursor,
        limit: usize,
        each: &mut dyn FnMut(Candidate),
    ) -> Walked {
        let mut walked = Walked::default();
        if state.rank().is_none() {
            cursor.reset();
            return Walked { is_end: true, ..walked };
        }
        let list = self.shared.partition.list(state, kind);
        let mut seen = Sighting::new();
        while walked.looked < limit && !walked.is_end {
            seen.clear();
            let want = (limit - walked.looked).min(AT_ONCE);
            walked.is_end = !list.go_on(from, cursor.face((state, kind, from)), want, &mut seen);
            walked.looked += seen.len();
            self.hand_out(&seen, (state, kind), each);
        }
        if walked.is_end {
            cursor.reset();
        }
        walked
    }

    /// Pins what was seen on a list and still stands there.
    fn hand_out(&self, seen: &Sighting, on: (State, Kind), each: &mut dyn FnMut(Candidate)) {
        seen.iter().for_each(|listed| self.shared.headers.prefetch(listed.number));
        for listed in seen {
            let is_it = |header: Header<'_>, word: Word| {
                header.listed() == listed.place && (word.state(), word.kind()) == (Some(on.0), on.1)
            };
            let Some((pin, word)) = Pin::take_if(&self.shared, listed.number, is_it, |word| word) else {
                continue;
            };
            let is_on_flash = pin.is_on_flash();
            each(Candidate { pin, is_guess: word.has(Word::GUESS), is_on_flash });
        }
    }

    /// Whether any block that was to stay was ever evicted: before, what is at the tail of a list is no nearer to
    /// its end than the rest.
    pub fn is_warm(&self) -> bool {
        self.shared.is_warm.load(Ordering::Relaxed)
    }
}

impl Pin {
    /// Says that the block is on flash, or not any more.
    pub fn set_on_flash(&self, is_on_flash: bool) {
        self.parts().0.mark(Header::ON_FLASH, is_on_flash);
    }

    /// Whether the block was marked as being on flash.
    pub fn is_on_flash(&self) -> bool {
        self.parts().0.has_mark(Header::ON_FLASH)
    }

    /// Whether the block was published as one that may be fed.
    pub fn may_be_fed(&self) -> bool {
        self.parts().0.has_mark(Header::MAY_BE_FED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Admit, Asked, Config, Keep};
    use arcwell_base::{BlockKey, ObjectId};

    fn publish(cache: &Cache, index: u64) -> Pin {
        let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
        cache.admit(BlockKey::new(ObjectId(1), index), Kind::Data, 64, how).unwrap().publish()
    }

    #[test]
    fn a_header_that_is_used_again_has_no_marks_though_the_vacant_one_still_had() {
        let cache = Cache::new(Config::new(1 << 20));
        let pin = publish(&cache, 1);
        let number = pin.number();
        pin.set_on_flash(true);
        drop(pin);
        assert!(cache.remove(BlockKey::new(ObjectId(1), 1)));
        let header = cache.shared.headers.at(number);
        assert!(header.load().state().is_none() && header.has_mark(Header::ON_FLASH));
        let pin = publish(&cache, 2);
        assert_eq!((pin.number(), pin.is_on_flash(), pin.may_be_fed()), (number, false, false));
    }
}
