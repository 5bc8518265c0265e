//! Headers: what is remembered of a resident block, in one cache line.
//!
//! A header is eight atomic words. The first that a reader needs is the [`Word`]: how many hold the
//! block, where it stands, and which of the blocks that used this line one after the other it is. Whoever
//! changes the word by compare-and-swap from a value under which he has read the key knows that the key
//! was, and stays, that of the block he has got hold of.
//!
//! | word | holds | who writes |
//! |---|---|---|
//! | 0, 1 | key: object, index | the publisher, before the block can be found |
//! | 2 | the [`Word`] | everybody, by one atomic operation |
//! | 3 | where the bytes lie | the publisher |
//! | 4 | length (32 bits), time of the last use (32 bits) | the publisher; then readers the time |
//! | 5 | place on the list | who holds the word's lock bit |
//! | 6 | next free header, while vacant | the stack of free headers |
//! | 7 | what level 2 knows of the block: two bits, see `candidates` | the publisher; then who holds it |

use arcwell_base::{BlockKey, Kind, ObjectId};

use crate::arena::Place;
use crate::arena::line::Line;
use crate::policy::{Rank, Tick};
use crate::sync::{AtomicU64, Fault, Ordering, is_broken};

/// Where a resident block stands. A ghost is not resident, so its states are not among these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Being filled, or replaced or removed while someone still reads it: cannot be evicted.
    Anon,
    /// Seen once lately.
    Mru,
    /// Seen at least twice.
    Mfu,
    /// May pass through but not stay.
    Uncached,
}

impl State {
    /// All states, in the order of [`State::index`].
    pub(crate) const ALL: [State; 4] = [State::Anon, State::Mru, State::Mfu, State::Uncached];

    /// The states that have lists.
    pub(crate) const LISTED: [State; 3] = [State::Mru, State::Mfu, State::Uncached];

    /// For tables with one row a state.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The ghost list that a block evicted from this state goes to.
    pub(crate) const fn rank(self) -> Option<Rank> {
        match self {
            State::Mru => Some(Rank::Mru),
            State::Mfu => Some(Rank::Mfu),
            State::Anon | State::Uncached => None,
        }
    }
}

impl From<Rank> for State {
    fn from(rank: Rank) -> State {
        match rank {
            Rank::Mru => State::Mru,
            Rank::Mfu => State::Mfu,
        }
    }
}

/// The word that decides: pins in the lowest 20 bits, then flags, kind and state, and in the upper half
/// the generation, which counts the blocks that have used the header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    /// One pin.
    pub(crate) const PIN: u64 = 1;
    const PINS: u64 = (1 << 20) - 1;
    /// Somebody changes the block's standing. Readers do not care.
    pub(crate) const LOCKED: u64 = 1 << 20;
    /// Who gives the last pin back has something to do.
    pub(crate) const ERRAND: u64 = 1 << 21;
    /// The cache was closed while the block was pinned.
    pub(crate) const ORPHAN: u64 = 1 << 22;
    /// Used since its standing was last looked at.
    pub(crate) const USED: u64 = 1 << 23;
    /// Read ahead of demand and not asked for yet.
    pub(crate) const GUESS: u64 = 1 << 24;
    const METADATA: u64 = 1 << 25;
    const STATE_SHIFT: u32 = 26;
    const STATE: u64 = 7 << Word::STATE_SHIFT;
    /// In the place of the state, one more than its index. Zero is a header that no block has.
    const FIND_FROM: u64 = (State::Mru as u64 + 1) << Word::STATE_SHIFT;
    const GENERATION_SHIFT: u32 = 32;

    /// A block that has just been published by one who holds it.
    pub(crate) fn of_new(generation: u32, state: State, kind: Kind) -> Word {
        Word((u64::from(generation) << Word::GENERATION_SHIFT) | Word::PIN).with_state(state).with_kind(kind)
    }

    /// The word of a header that was vacated.
    pub(crate) fn vacant(generation: u32) -> Word {
        Word(u64::from(generation) << Word::GENERATION_SHIFT)
    }

    /// How many hold the block.
    #[inline]
    pub(crate) fn pins(self) -> u64 {
        self.0 & Word::PINS
    }

    /// Whether no more can hold it.
    #[inline]
    pub(crate) fn is_crowded(self) -> bool {
        self.pins() >= Word::PINS / 2
    }

    #[inline]
    pub(crate) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[must_use]
    #[inline]
    pub(crate) fn with(self, flag: u64) -> Word {
        Word(self.0 | flag)
    }

    #[must_use]
    #[inline]
    pub(crate) fn without(self, flag: u64) -> Word {
        Word(self.0 & !flag)
    }

    /// The state's bits alone: below eight, zero for a header without a block.
    #[inline]
    pub(crate) fn state_bits(self) -> usize {
        ((self.0 & Word::STATE) >> Word::STATE_SHIFT) as usize
    }

    /// Where the block stands; `None` for a header without a block.
    #[inline]
    pub(crate) fn state(self) -> Option<State> {
        let place = (self.0 & Word::STATE) >> Word::STATE_SHIFT;
        State::ALL.get((place as usize).checked_sub(1)?).copied()
    }

    #[must_use]
    pub(crate) fn with_state(self, state: State) -> Word {
        Word(self.0 & !Word::STATE | ((state as u64 + 1) << Word::STATE_SHIFT))
    }

    /// Whether the block may be found and pinned.
    #[inline]
    pub(crate) fn can_be_found(self) -> bool {
        self.0 & Word::STATE >= Word::FIND_FROM
    }

    /// What the block holds.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        if self.has(Word::METADATA) { Kind::Metadata } else { Kind::Data }
    }

    fn with_kind(self, kind: Kind) -> Word {
        if kind == Kind::Metadata { self.with(Word::METADATA) } else { self.without(Word::METADATA) }
    }

    /// Which of the blocks that used the header this is.
    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> Word::GENERATION_SHIFT) as u32
    }

    /// Whether the block stands in mru and nobody has asked for it.
    pub(crate) fn is_mru_guess(self) -> bool {
        self.has(Word::GUESS) && self.state() == Some(State::Mru)
    }
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?} of generation {}", self.kind(), self.state(), self.generation())?;
        write!(f, ", {} pins", self.pins())?;
        for (flag, name) in [
            (Word::LOCKED, "locked"),
            (Word::ERRAND, "errand"),
            (Word::ORPHAN, "orphan"),
            (Word::USED, "used"),
            (Word::GUESS, "guess"),
        ] {
            if self.has(flag) {
                write!(f, ", {name}")?;
            }
        }
        Ok(())
    }
}

/// No place on any list.
pub(crate) const UNLISTED: u64 = 0;

/// A header, seen as what it holds.
#[derive(Clone, Copy)]
pub(crate) struct Header<'a>(pub(crate) &'a Line);

impl<'a> Header<'a> {
    /// Of the marks: the block was written to flash.
    pub(crate) const ON_FLASH: u64 = 1;
    /// Of the marks: it may be.
    pub(crate) const MAY_BE_FED: u64 = 2;

    #[inline]
    fn object(self) -> &'a AtomicU64 {
        &self.0.0[0]
    }

    #[inline]
    fn index(self) -> &'a AtomicU64 {
        &self.0.0[1]
    }

    /// The word that decides.
    #[inline]
    pub(crate) fn word(self) -> &'a AtomicU64 {
        &self.0.0[2]
    }

    #[inline]
    pub(crate) fn load(self) -> Word {
        Word(self.word().load(Ordering::Acquire))
    }

    /// Whose block it is. Only to be believed under a word that was looked at before and again after.
    #[inline]
    pub(crate) fn key(self) -> BlockKey {
        let object = ObjectId(self.object().load(Ordering::Relaxed));
        BlockKey { object, index: self.index().load(Ordering::Relaxed) }
    }

    /// Where the bytes lie.
    #[inline]
    pub(crate) fn place(self) -> Place {
        Place::from_bits(self.0.0[3].load(Ordering::Relaxed))
    }

    /// Length in bytes, also when the block is a phantom and has none.
    #[inline]
    pub(crate) fn len(self) -> u32 {
        self.0.0[4].load(Ordering::Relaxed) as u32
    }

    /// When it was last asked for, or came in.
    #[inline]
    pub(crate) fn tick(self) -> Tick {
        Tick((self.0.0[4].load(Ordering::Relaxed) >> 32) as u32)
    }

    /// Two readers at once may both write: either time is right.
    #[inline]
    pub(crate) fn set_tick(self, tick: Tick) {
        let both = u64::from(tick.0) << 32 | u64::from(self.len());
        if self.0.0[4].load(Ordering::Relaxed) != both {
            self.0.0[4].store(both, Ordering::Relaxed);
        }
    }

    /// Its place on the list of its state and kind, or [`UNLISTED`]. Under the word's lock.
    pub(crate) fn listed(self) -> u64 {
        self.0.0[5].load(Ordering::Relaxed)
    }

    pub(crate) fn set_listed(self, place: u64) {
        self.0.0[5].store(place, Ordering::Relaxed);
    }

    /// The next free header.
    pub(crate) fn next_free(self) -> &'a AtomicU64 {
        &self.0.0[6]
    }

    fn marks(self) -> &'a AtomicU64 {
        &self.0.0[7]
    }

    pub(crate) fn has_mark(self, mark: u64) -> bool {
        self.marks().load(Ordering::Relaxed) & mark != 0
    }

    /// Sets or takes off a mark of a block that the caller holds.
    pub(crate) fn mark(self, mark: u64, is_set: bool) {
        if is_set {
            self.marks().fetch_or(mark, Ordering::Relaxed);
        } else {
            self.marks().fetch_and(!mark, Ordering::Relaxed);
        }
    }

    /// Describes a block that nobody can find yet. What was marked of the one before it is gone.
    pub(crate) fn describe(self, key: BlockKey, place: Place, len: u32, tick: Tick, marks: u64) {
        self.object().store(key.object.0, Ordering::Relaxed);
        self.index().store(key.index, Ordering::Relaxed);
        self.0.0[3].store(place.to_bits(), Ordering::Relaxed);
        self.0.0[4].store(u64::from(tick.0) << 32 | u64::from(len), Ordering::Relaxed);
        self.marks().store(marks, Ordering::Relaxed);
        self.set_listed(UNLISTED);
    }

    /// Changes the word by `change` until that is `None`; what it was before is returned if it changed.
    pub(crate) fn update(self, mut change: impl FnMut(Word) -> Option<Word>) -> Option<Word> {
        let changed = self
            .word()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| change(Word(word)).map(|word| word.0));
        changed.ok().map(Word)
    }

    /// Takes the lock of a block of some generation; `None` when it can no longer be found. What cannot be
    /// found is its last holder's alone, who need not lock it.
    pub(crate) fn lock(self, generation: u32) -> Option<Locked<'a>> {
        let mut tries = 0u32;
        loop {
            let word = self.load();
            if word.generation() != generation || !word.can_be_found() {
                return None;
            }
            if !word.has(Word::LOCKED)
                && let Some(locked) = self.lock_from(word)
            {
                return Some(locked);
            }
            // Who has it holds it for some hundred instructions, if it runs.
            tries += 1;
            crate::sync::wait_a_moment(tries);
        }
    }

    /// Takes the lock of a block that can be found, if nobody has it.
    pub(crate) fn try_lock(self) -> Option<Locked<'a>> {
        let word = self.load();
        if word.has(Word::LOCKED) || !word.can_be_found() { None } else { self.lock_from(word) }
    }

    fn lock_from(self, word: Word) -> Option<Locked<'a>> {
        let locked = word.with(Word::LOCKED).0;
        let taken = self.word().compare_exchange(word.0, locked, Ordering::AcqRel, Ordering::Relaxed);
        // Made only now: one that is dropped unlocks.
        taken.is_ok().then(|| Locked { header: self, is_vacated: false })
    }

    /// Ends a block that nobody has and nobody can find.
    pub(crate) fn vacate(self) {
        let generation = self.load().generation().wrapping_add(1);
        self.word().store(Word::vacant(generation).0, Ordering::Release);
    }
}

impl std::fmt::Debug for Header<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {:?}, {} bytes at {:?}", self.key(), self.load(), self.len(), self.place())
    }
}

/// The right to change a block's standing: state and place on the list. Pins come and go meanwhile.
pub(crate) struct Locked<'a> {
    header: Header<'a>,
    is_vacated: bool,
}

impl<'a> std::ops::Deref for Locked<'a> {
    type Target = Header<'a>;

    #[inline]
    fn deref(&self) -> &Header<'a> {
        &self.header
    }
}

impl<'a> Locked<'a> {
    /// Makes sure that nobody holds the block and nobody will find it any more. Returns the word from before:
    /// one that was read earlier may have been changed by a reader who has come and gone. `None` when the block
    /// is held.
    pub(crate) fn claim(&self) -> Option<Word> {
        self.header.update(|word| {
            let is_held = word.pins() > 0 && !is_broken(Fault::ClaimIgnoresPins);
            let is_free = !is_held && word.state() != Some(State::Anon);
            is_free.then(|| word.with_state(State::Anon).without(Word::ERRAND))
        })
    }

    /// Whoever gives the last pin back has nothing to do any more, unless the cache was closed meanwhile.
    pub(crate) fn drop_errand(&self) {
        let spares_orphans = !is_broken(Fault::ErrandOffOrphan);
        self.header.update(|word| {
            let is_orphan = word.has(Word::ORPHAN) && spares_orphans;
            (!is_orphan).then(|| word.without(Word::ERRAND))
        });
    }

    /// Unlocks a block that will not be found any more: whoever gives the last pin back has to end it. If
    /// nobody has one, that is the caller, who gets header and word back.
    pub(crate) fn hide(mut self) -> Option<(Header<'a>, Word)> {
        self.is_vacated = true;
        let hidden = |word: Word| word.with_state(State::Anon).with(Word::ERRAND);
        let before = self.header.update(|word| Some(hidden(word).without(Word::LOCKED | Word::USED)))?;
        (before.pins() == 0).then_some((self.header, before))
    }

    /// Unlocks by ending a block that was claimed.
    pub(crate) fn vacate(mut self) {
        self.is_vacated = true;
        self.header.vacate();
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if !self.is_vacated {
            self.header.word().fetch_and(!Word::LOCKED, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_parts_apart() {
        for state in State::ALL {
            for kind in Kind::ALL {
                let word = Word::of_new(u32::MAX, state, kind).with(Word::USED | Word::GUESS);
                assert_eq!((word.state(), word.kind(), word.pins()), (Some(state), kind, 1));
                assert_eq!((word.generation(), word.has(Word::LOCKED)), (u32::MAX, false));
                assert_eq!(word.can_be_found(), state != State::Anon);
            }
        }
        assert_eq!((Word::vacant(7).state(), Word::vacant(7).can_be_found()), (None, false));
    }

    #[test]
    fn a_block_is_claimed_only_when_nobody_holds_it() {
        let line = Line::default();
        let header = Header(&line);
        header.word().store(Word::of_new(3, State::Mru, Kind::Data).0, Ordering::Relaxed);
        let locked = header.lock(3).unwrap();
        assert!(header.try_lock().is_none() && locked.claim().is_none());
        header.word().fetch_sub(Word::PIN, Ordering::Relaxed);
        assert!(locked.claim().is_some() && !header.load().can_be_found());
        locked.vacate();
        assert!(header.lock(3).is_none() && header.load() == Word::vacant(4));
    }
}
