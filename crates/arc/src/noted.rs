//! What hits leave behind: counts, and notes of what is to be done about them later.
//!
//! A hit takes no lock and writes nothing that other threads write. What the lists and the trial of the
//! two rules have to know of it goes into a ring of the thread's [lane](arcwell_base::lane), and the next
//! admission does it, before it learns and before it evicts: until then it changes nothing that anybody
//! could see. A ring that is full takes no more. Then a used block keeps its mark, and the eviction that
//! comes upon it spares it once.

use std::sync::OnceLock;

use arcwell_base::Kind;
use crossbeam_utils::CachePadded;

use crate::admit::Asked;
use crate::header::{State, Word};
use crate::sync::lane::{self, LANES, lane};
use crate::sync::{AtomicU64, Ordering, sized};

/// Notes in a ring.
const RING: usize = sized(1024, 4);

/// Something a hit wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    /// The block's header, and of its generation what fits.
    pub(crate) number: u32,
    pub(crate) generation: u32,
    /// The block is to move on its list.
    pub(crate) moves: bool,
    /// The trial of the rules is to be told.
    pub(crate) is_sampled: bool,
    /// For the trial: prefetch had read the block, and this was its first use.
    pub(crate) is_first_use: bool,
}

impl Note {
    /// Bits of a generation that fit.
    pub(crate) const GENERATION: u32 = (1 << 29) - 1;

    fn packed(self) -> u64 {
        let flag = |flag, place: u32| u64::from(flag) << place;
        let flags = flag(self.moves, 0) | flag(self.is_sampled, 1) | flag(self.is_first_use, 2);
        u64::from(self.number) << 32 | u64::from(self.generation & Note::GENERATION) << 3 | flags
    }

    fn unpacked(bits: u64) -> Note {
        Note {
            number: (bits >> 32) as u32,
            generation: (bits >> 3) as u32 & Note::GENERATION,
            moves: bits & 1 != 0,
            is_sampled: bits & 2 != 0,
            is_first_use: bits & 4 != 0,
        }
    }
}

#[derive(Debug)]
struct Ring {
    notes: Box<[AtomicU64]>,
    /// Notes ever put in.
    put: CachePadded<AtomicU64>,
    /// Notes ever taken out.
    taken: CachePadded<AtomicU64>,
}

impl Ring {
    fn new() -> Ring {
        let notes = (0..RING).map(|_| AtomicU64::new(0)).collect();
        Ring { notes, put: CachePadded::default(), taken: CachePadded::default() }
    }

    #[inline]
    fn put(&self, note: Note, own: usize) {
        let put = self.put.load(Ordering::Relaxed);
        if put.wrapping_sub(self.taken.load(Ordering::Relaxed)) >= RING as u64 {
            return;
        }
        self.notes[put as usize % RING].store(note.packed(), Ordering::Relaxed);
        if own == lane::SHARED {
            // Two may have written to one place: then a note is lost, and the other is told twice.
            self.put.fetch_add(1, Ordering::Release);
        } else {
            self.put.store(put + 1, Ordering::Release);
        }
    }

    /// Hands out what was put in. By one at a time.
    fn take(&self, mut each: impl FnMut(Note)) {
        let (taken, put) = (self.taken.load(Ordering::Relaxed), self.put.load(Ordering::Acquire));
        for place in taken.max(put.saturating_sub(RING as u64))..put {
            each(Note::unpacked(self.notes[place as usize % RING].load(Ordering::Relaxed)));
        }
        self.taken.store(put, Ordering::Release);
    }
}

/// Outcomes that a lookup can have: the state as a word has it, zero for a miss, by who asked and for what.
const OUTCOMES: usize = 8 * 4;

type Counts = CachePadded<[AtomicU64; OUTCOMES]>;

/// See the module's doc.
#[derive(Debug)]
pub(crate) struct Noted {
    counts: Box<[Counts; LANES]>,
    rings: Box<[OnceLock<Box<Ring>>]>,
    /// Lanes that have a ring lie below.
    lanes: AtomicU64,
}

impl Default for Noted {
    fn default() -> Self {
        Noted {
            counts: Box::new(std::array::from_fn(|_| Counts::default())),
            rings: (0..LANES).map(|_| OnceLock::new()).collect(),
            lanes: AtomicU64::new(0),
        }
    }
}

#[inline]
fn outcome(kind: Kind, asked: Asked, found: Word) -> usize {
    let asked = (asked as usize) << 1 | kind.index();
    asked << 3 | found.state_bits()
}

impl Noted {
    /// Counts a lookup.
    #[inline]
    pub(crate) fn count(&self, kind: Kind, asked: Asked, found: Word) {
        let own = lane();
        lane::add(&self.counts[own][outcome(kind, asked, found)], 1, own);
    }

    /// How many lookups had an outcome.
    pub(crate) fn counted(&self, kind: Kind, asked: Asked, found: Option<State>) -> u64 {
        let found = found.map_or(Word::vacant(0), |state| Word::vacant(0).with_state(state));
        let of = outcome(kind, asked, found);
        self.counts.iter().map(|counts| counts[of].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }

    /// Leaves a note.
    #[inline]
    pub(crate) fn leave(&self, note: Note) {
        let own = lane();
        let ring = self.rings[own].get_or_init(|| {
            self.lanes.fetch_max(own as u64 + 1, Ordering::Relaxed);
            Box::new(Ring::new())
        });
        ring.put(note, own);
    }

    /// Hands out all notes, those of one thread in order. By one at a time.
    pub(crate) fn take(&self, mut each: impl FnMut(Note)) {
        let lanes = self.lanes.load(Ordering::Relaxed) as usize;
        self.rings[..lanes].iter().filter_map(OnceLock::get).for_each(|ring| ring.take(&mut each));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: u32) -> Note {
        Note { number, generation: number, moves: true, is_sampled: false, is_first_use: number % 2 == 1 }
    }

    #[test]
    fn notes_come_out_in_order_and_a_full_ring_takes_no_more() {
        let noted = Noted::default();
        let taken = || {
            let mut all = Vec::new();
            noted.take(|note| all.push(note));
            all
        };
        for round in 0..5 {
            (0..700).for_each(|number| noted.leave(note(number + round)));
            assert_eq!(taken(), (0..700).map(|number| note(number + round)).collect::<Vec<_>>());
        }
        (0..2 * RING as u32).for_each(|number| noted.leave(note(number)));
        assert_eq!(taken(), (0..RING as u32).map(note).collect::<Vec<_>>());
        assert_eq!(taken(), []);
    }

    #[test]
    fn outcomes_are_counted_apart() {
        let noted = Noted::default();
        noted.count(Kind::Data, Asked::Demand, Word::vacant(7).with_state(State::Mfu));
        noted.count(Kind::Metadata, Asked::Prefetch, Word::vacant(7));
        assert_eq!(noted.counted(Kind::Data, Asked::Demand, Some(State::Mfu)), 1);
        assert_eq!(noted.counted(Kind::Metadata, Asked::Prefetch, None), 1);
        assert_eq!(noted.counted(Kind::Data, Asked::Demand, None), 0);
    }
}
