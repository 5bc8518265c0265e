//! What hits leave behind: counts, and notes of what is to be done about them later.
//!
//! A hit takes no lock and writes nothing that other threads write. What the lists and the trial of the
//! two rules have to know of it goes into a ring of the thread's [`lane`](lane()), and an admission does it, before
//! it learns and before it evicts: in a small cache the next one, in a large one that by which as much has come in
//! as eviction makes room for at once. A ring that is full takes no more. Then a used block keeps its mark, and the
//! eviction that comes upon it spares it once. That a guess was right is summed up beside the ring, where nothing is
//! lost.
//!
//! The lines of a lane are nobody else's: [`Noted::is_own`] knows them, and the feature `linestat` holds hits to
//! it. A thread's first note, which makes the ring, is the exception.

use std::sync::OnceLock;

use arcwell_base::Kind;
use arcwell_base::atomic::linestat::LINE;
use crossbeam_utils::CachePadded;

use crate::admit::Asked;
use crate::header::{State, Word};
use crate::sync::lane::{self, LANES, lane};
use crate::sync::{AtomicU64, Ordering, fence, sized};

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
    notes: CachePadded<[AtomicU64; RING]>,
    /// What was ever put in: the lane's own.
    put: CachePadded<Sums>,
    /// What was ever taken out.
    taken: CachePadded<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    notes: AtomicU64,
    proven: AtomicU64,
    proven_bytes: [AtomicU64; 2],
}

/// Guesses that were right.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Proven {
    pub(crate) count: u64,
    /// Bytes by kind of those that stood in mru.
    pub(crate) bytes: [u64; 2],
}

impl Proven {
    fn plus(self, more: Proven) -> Proven {
        let bytes = std::array::from_fn(|kind| self.bytes[kind] + more.bytes[kind]);
        Proven { count: self.count + more.count, bytes }
    }
}

impl Ring {
    fn new() -> Ring {
        let notes = CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0)));
        Ring { notes, put: CachePadded::default(), taken: CachePadded::default() }
    }

    #[inline]
    fn put(&self, note: Note, own: usize) {
        let put = self.put.notes.load(Ordering::Relaxed);
        if put.wrapping_sub(self.taken.notes.load(Ordering::Relaxed)) >= RING as u64 {
            return;
        }
        self.notes[put as usize % RING].store(note.packed(), Ordering::Relaxed);
        if own == lane::SHARED {
            // Two may have written to one place: then a note is lost, and the other is told twice.
            self.put.notes.fetch_add(1, Ordering::Release);
        } else {
            self.put.notes.store(put + 1, Ordering::Release);
        }
    }

    /// Hands out what was put in. By one at a time.
    fn take(&self, mut each: impl FnMut(Note)) {
        let (taken, put) = (self.taken.notes.load(Ordering::Relaxed), self.put.notes.load(Ordering::Acquire));
        for place in taken.max(put.saturating_sub(RING as u64))..put {
            each(Note::unpacked(self.notes[place as usize % RING].load(Ordering::Relaxed)));
        }
        self.taken.notes.store(put, Ordering::Release);
    }

    /// Guesses that were right, less those that were taken out.
    fn proven(&self) -> Proven {
        let load = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        let bytes = |kind: usize| {
            load(&self.put.proven_bytes[kind]).wrapping_sub(load(&self.taken.proven_bytes[kind]))
        };
        Proven {
            count: load(&self.put.proven).wrapping_sub(load(&self.taken.proven)),
            bytes: [bytes(0), bytes(1)],
        }
    }

    /// Takes them out. By one at a time.
    fn take_proven(&self) -> Proven {
        let add = |sum: &AtomicU64, n: u64| {
            if n > 0 {
                sum.store(sum.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
            }
        };
        let proven = self.proven();
        add(&self.taken.proven, proven.count);
        (0..2).for_each(|kind| add(&self.taken.proven_bytes[kind], proven.bytes[kind]));
        proven
    }
}

/// Outcomes that a lookup can have: the state as a word has it, zero for a miss, by who asked and for what.
const OUTCOMES: usize = 8 * 4;

/// What is counted besides.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A block was published.
    Published,
    /// A block ended.
    Ended,
    /// Of these, it was evicted.
    Evicted,
    /// And had so many bytes.
    EvictedBytes,
    /// It might have been fed to level 2, and was not.
    EvictedUnfed,
    /// And had so many bytes.
    EvictedUnfedBytes,
}

impl Event {
    const COUNT: usize = Event::EvictedUnfedBytes as usize + 1;
}

type Counts = CachePadded<[AtomicU64; OUTCOMES + Event::COUNT]>;

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
            counts: Box::new(std::array::from_fn(|_| {
                CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0)))
            })),
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
        self.sum(outcome(kind, asked, found))
    }

    /// Counts something that happened, `n` times.
    #[inline]
    pub(crate) fn happened(&self, event: Event, n: u64) {
        let own = lane();
        lane::add(&self.counts[own][OUTCOMES + event as usize], n, own);
    }

    /// How often something happened.
    pub(crate) fn times(&self, event: Event) -> u64 {
        self.sum(OUTCOMES + event as usize)
    }

    fn sum(&self, of: usize) -> u64 {
        self.counts.iter().map(|counts| counts[of].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }

    /// Leaves a note.
    #[inline]
    pub(crate) fn leave(&self, note: Note) {
        let own = lane();
        self.ring(own).put(note, own);
    }

    /// Makes the calling thread's ring, as its first note would.
    pub(crate) fn prepare(&self) {
        self.ring(lane());
    }

    #[inline]
    fn ring(&self, own: usize) -> &Ring {
        self.rings[own].get_or_init(|| {
            self.lanes.fetch_max(own as u64 + 1, Ordering::Relaxed);
            Box::new(Ring::new())
        })
    }

    fn rings(&self) -> impl Iterator<Item = &Ring> {
        let lanes = self.lanes.load(Ordering::Relaxed) as usize;
        self.rings[..lanes].iter().filter_map(OnceLock::get).map(|ring| &**ring)
    }

    /// Hands out all notes, those of one thread in order. By one at a time.
    pub(crate) fn take(&self, mut each: impl FnMut(Note)) {
        self.rings().for_each(|ring| ring.take(&mut each));
    }

    /// Counts that a guess was right; `bytes` are its own if it stood in mru.
    pub(crate) fn prove(&self, kind: Kind, bytes: u64) {
        let own = lane();
        let sums = &self.ring(own).put;
        // Who takes these out has then seen the guess counted in.
        fence(Ordering::Release);
        lane::add(&sums.proven, 1, own);
        lane::add(&sums.proven_bytes[kind.index()], bytes, own);
    }

    /// Guesses that were right since they were last taken out.
    pub(crate) fn proven(&self) -> Proven {
        self.rings().map(Ring::proven).fold(Proven::default(), Proven::plus)
    }

    /// The same, and takes them out. By one at a time.
    pub(crate) fn take_proven(&self) -> Proven {
        let all = self.rings().map(Ring::take_proven).fold(Proven::default(), Proven::plus);
        fence(Ordering::Acquire);
        all
    }

    /// Whether a line, as [`arcwell_base::atomic::linestat`] numbers them, is one that only this thread writes to.
    pub(crate) fn is_own(&self, line: usize) -> bool {
        // All of the line, and not only a part.
        fn holds<T>(rows: &CachePadded<T>, line: usize) -> bool {
            let start = (&raw const *rows).addr();
            (start.div_ceil(LINE)..(start + size_of_val(rows)) / LINE).contains(&line)
        }
        let own = lane();
        let is_of = |ring: &Ring| holds(&ring.notes, line) || holds(&ring.put, line);
        own != lane::SHARED
            && (holds(&self.counts[own], line) || self.rings[own].get().is_some_and(|ring| is_of(ring)))
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
    fn guesses_that_were_right_are_taken_out_once_and_none_is_lost() {
        let noted = Noted::default();
        for round in 1..4 {
            std::thread::scope(|scope| {
                scope.spawn(|| (0..2 * RING).for_each(|_| noted.prove(Kind::Metadata, 3)));
                noted.prove(Kind::Data, round);
            });
            let all = 2 * RING as u64;
            let proven = Proven { count: all + 1, bytes: [round, 3 * all] };
            assert_eq!(
                [noted.proven(), noted.take_proven(), noted.proven()],
                [proven, proven, Proven::default()]
            );
        }
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
