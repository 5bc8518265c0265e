//! What happens to a block: it is published, used, let go of, detached, evicted.
//!
//! A block's standing (its state, its place on a list) changes under the lock bit of its header; whether it
//! can be found is decided in the table's bucket; whether it may go, by the count of its pins. The order is
//! header, then bucket, then list or ghosts. A block that is being published can be found by nobody before all
//! is done but its entry.

use arcwell_base::{BlockKey, Kind};

use crate::arena::Place;
use crate::duel::Request;
use crate::header::{Header, Locked, State, UNLISTED, Word};
use crate::list::Listed;
use crate::noted::{Event, Note};
use crate::pin::Pin;
use crate::shared::Shared;
use crate::sync::{Fault, Ordering, is_broken};
use crate::table::Entry;

/// A block that is about to enter the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) key: BlockKey,
    pub(crate) kind: Kind,
    pub(crate) goal: State,
    pub(crate) is_guess: bool,
    /// Whether level 2 may have it.
    pub(crate) may_be_fed: bool,
    pub(crate) len: u32,
    /// Where its bytes lie.
    pub(crate) place: Place,
    /// Its header.
    pub(crate) number: u32,
}

/// What a block is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Someone reads it.
    Demand,
    /// Someone expects that it will be read.
    Prefetch,
    /// Someone looks, and its standing shall not change.
    Peek,
}

impl Shared {
    /// Puts a filled block into the table, pinned, in place of any other with its key. What was reserved for it
    /// becomes its state's.
    pub(crate) fn publish(&self, arrival: &Arrival) {
        let &Arrival { key, kind, goal, is_guess, may_be_fed, len, place, number } = arrival;
        let (header, hash, partition) = (self.headers.at(number), key.hash(), &self.partition);
        let bytes = self.overhead.of_block(len as usize);
        let generation = header.load().generation();
        let marks = if may_be_fed { Header::MAY_BE_FED } else { 0 };
        header.describe(key, place, len, self.now(), marks);
        let is_same = |entry| self.is_entry_of(entry, key, hash);
        let replaced = self.table.change(hash, is_same, |found| {
            // A5: nothing is resident and a ghost. The ghost of a demand load is gone by now; that of a
            // prefetch, or of an eviction between admission and now, is not.
            self.forget(found, hash);
            let other = self.block_of(found);
            let before = other.map(|(_, word)| word).filter(|word| word.can_be_found());
            // New bytes are no new access: the block keeps what it has earned.
            let was_frequent = before.is_some_and(|word| word.state() == Some(State::Mfu));
            let state = if goal == State::Mru && was_frequent { State::Mfu } else { goal };
            let is_guess = is_guess && before.is_none_or(|word| word.has(Word::GUESS));
            let mut word = Word::of_new(generation, state, kind);
            if is_guess {
                word = word.with(Word::GUESS);
            }
            // While the cache is over its limit, what is let go of goes at once.
            let is_over = self.is_over.load(Ordering::Relaxed);
            if !self.keeps_used || state == State::Uncached || is_over {
                word = word.with(Word::ERRAND);
            }
            partition.publish(goal, state, kind, bytes);
            if word.is_mru_guess() {
                partition.enter_guess(kind, bytes);
            }
            if self.keeps_used {
                // Eviction that comes upon it from here on cannot find it yet.
                header.set_listed(partition.list(state, kind).insert(hash, number, bytes));
            }
            header.word().store(word.0, Ordering::Release);
            (Some(Entry::Block(number)), other.map(|(other, word)| (other, word.generation())))
        });
        self.noted.happened(Event::Published, 1);
        if let Some((other, generation)) = replaced {
            self.detach(other, generation);
        }
    }

    /// Whether an entry of this key's hash is that of its block or its ghost.
    pub(crate) fn is_entry_of(&self, entry: Entry, key: BlockKey, hash: u64) -> bool {
        match entry {
            Entry::Block(number) => self.headers.at(number).key() == key,
            Entry::Ghost(_) => self.is_its_ghost(entry, hash),
        }
    }

    /// The header that an entry leads to, if to any, and its word.
    pub(crate) fn block_of(&self, entry: Option<Entry>) -> Option<(u32, Word)> {
        match entry? {
            Entry::Block(number) => Some((number, self.headers.at(number).load())),
            Entry::Ghost(_) => None,
        }
    }

    /// What a lookup does to the block that it has pinned, besides counting. `before` is its word from then.
    #[inline]
    pub(crate) fn use_block(&self, pin: &Pin, before: Word, hash: u64, purpose: Purpose) {
        let (header, number) = pin.parts();
        if self.keeps_used {
            if purpose == Purpose::Demand {
                self.note_use(header, number, before, hash);
            }
        } else if purpose != Purpose::Peek {
            self.move_at_once(number, before, purpose);
            if purpose == Purpose::Demand {
                self.note_use(header, number, before.with(Word::USED), hash);
            }
        }
    }

    /// Leaves a note of a use by demand for those to whom it matters.
    #[inline]
    fn note_use(&self, header: Header<'_>, number: u32, before: Word, hash: u64) {
        header.set_tick(self.now());
        let is_sampled = self.partition.is_on_trial(hash);
        let is_known = before.has(Word::USED) && !before.has(Word::GUESS);
        if is_sampled || !is_known {
            self.leave_note(header, number, before, is_sampled);
        }
    }

    #[inline(never)]
    fn leave_note(&self, header: Header<'_>, number: u32, before: Word, is_sampled: bool) {
        let is_first_use = before.has(Word::GUESS);
        if is_first_use {
            self.count_first_use(header, before);
        }
        let is_sampled = is_sampled && before.state() != Some(State::Uncached);
        let (moves, generation) = (!before.has(Word::USED), before.generation() & Note::GENERATION);
        self.noted.leave(Note { number, generation, moves, is_sampled, is_first_use });
    }

    /// Counts that a guess was right, for who has taken the mark off. Until notes are settled it still counts as one.
    #[cold]
    pub(crate) fn count_first_use(&self, header: Header<'_>, before: Word) {
        let bytes = if before.is_mru_guess() { self.bytes(header) } else { 0 };
        self.noted.prove(before.kind(), bytes);
    }

    /// Does what notes say, unless another is at it.
    pub(crate) fn settle_notes(&self) {
        let Some(_alone) = self.settling.try_lock() else { return };
        self.settle_proven();
        self.noted.take(|note| {
            let header = self.headers.at(note.number);
            let word = header.load();
            let is_there = word.can_be_found() && word.generation() & Note::GENERATION == note.generation;
            if !is_there {
                return;
            }
            if note.is_sampled {
                let (hash, bytes) = (header.key().hash(), self.bytes(header));
                self.observe(Request { hash, bytes, was_hit: !note.is_first_use });
            }
            if note.moves
                && let Some(locked) = header.try_lock()
                && locked.load().generation() == word.generation()
            {
                self.reward(&locked, note.number, note.is_first_use);
            }
        });
        self.tidy_lists();
    }

    /// Counts guesses that were right as guesses no more.
    fn settle_proven(&self) {
        let proven = self.noted.take_proven();
        if proven.count > 0 {
            self.stats.prefetch_used.add(proven.count);
        }
        for kind in Kind::ALL.into_iter().filter(|kind| proven.bytes[kind.index()] > 0) {
            self.partition.leave_guess(kind, proven.bytes[kind.index()]);
        }
    }

    /// Keeps the lists small, in small steps.
    fn tidy_lists(&self) {
        for list in self.partition.lists() {
            list.tidy(&mut |listed, place| {
                let header = self.headers.at(listed.number);
                let locked = header.try_lock().filter(|locked| locked.listed() == listed.place);
                locked.is_some_and(|locked| {
                    locked.set_listed(place);
                    true
                })
            });
        }
    }

    /// Lets the two rules compete for a request.
    pub(crate) fn observe(&self, request: Request) {
        if self.partition.is_on_trial(request.hash) && self.partition.observe(request, self.allowed_shadows())
        {
            self.stats.rule_changes.add(1);
        }
    }

    /// Moves a block that was used to where that puts it.
    pub(crate) fn reward(&self, locked: &Locked<'_>, number: u32, is_first_use: bool) {
        locked.word().fetch_and(!Word::USED, Ordering::Relaxed);
        let (word, place) = (locked.load(), locked.listed());
        let Some(state) = word.state().filter(|_| place != UNLISTED) else { return };
        // The first use of a guess is the block's first use.
        let rises = state == State::Mru && !is_first_use && self.partition.promotes_hits();
        let list = self.partition.list(state, word.kind());
        if rises || !list.is_near_head(place, self.tunables.move_threshold()) {
            let hash = locked.key().hash();
            self.unlist(locked, hash);
            if rises {
                self.promote(locked);
            }
            self.enlist(locked, number, hash);
        }
    }

    /// The same where lists do not keep what is used: takes the block off its list until it is let go of.
    fn move_at_once(&self, number: u32, before: Word, purpose: Purpose) {
        let header = self.headers.at(number);
        let Some(locked) = header.lock(before.generation()) else { return };
        self.unlist(&locked, header.key().hash());
        let is_new_use = purpose == Purpose::Demand && !before.has(Word::GUESS);
        if is_new_use && locked.load().state() == Some(State::Mru) && self.partition.promotes_hits() {
            self.promote(&locked);
        }
    }

    fn promote(&self, locked: &Locked<'_>) {
        let word = locked.load();
        self.partition.shift(State::Mru, State::Mfu, word.kind(), self.bytes(**locked));
        locked.update(|word| Some(word.with_state(State::Mfu)));
    }

    /// Moves a block that was seen at the tail of mru to mfu, if `fits` says that there is room for it. A guess
    /// stays where it is: it becomes young once more. Returns the bytes that are in mfu now; `None` when nothing
    /// was done.
    pub(crate) fn promote_listed(
        &self,
        listed: Listed,
        kind: Kind,
        fits: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let locked = self.headers.at(listed.number).try_lock()?;
        if !self.stands(&locked, listed, (State::Mru, kind)) {
            return None;
        }
        let (hash, is_guess, bytes) =
            (locked.key().hash(), locked.load().has(Word::GUESS), self.bytes(*locked));
        if !is_guess && !fits(bytes) {
            return None;
        }
        self.unlist(&locked, hash);
        if !is_guess {
            self.promote(&locked);
        }
        self.enlist(&locked, listed.number, hash);
        Some(if is_guess { 0 } else { bytes })
    }

    /// Whether a block that was seen on the list of a state and kind still stands there.
    pub(crate) fn stands(&self, header: &Header<'_>, listed: Listed, on: (State, Kind)) -> bool {
        let word = header.load();
        header.listed() == listed.place && (word.state(), word.kind()) == (Some(on.0), on.1)
    }

    /// What whoever gave the last pin back has left to do. `before` is the word from before that.
    pub(crate) fn run_errand(&self, number: u32, before: Word) {
        let header = self.headers.at(number);
        if before.state() == Some(State::Anon) {
            // Nobody finds it any more, and nobody has it: it is ours.
            return self.end_unfindable(header, number, before);
        }
        let Some(locked) = header.lock(before.generation()) else { return };
        let (word, hash) = (locked.load(), locked.key().hash());
        if word.pins() > 0 {
            return;
        }
        let is_spent = word.state() == Some(State::Uncached) && !word.has(Word::GUESS);
        if is_spent {
            if let Some(word) = locked.claim() {
                self.end(locked, number, word, false);
            }
        } else if self.is_over.load(Ordering::Relaxed) && self.size() > self.target() {
            // All was in use when room was needed: what is let go of now goes at once.
            if let Some(word) = locked.claim() {
                self.end(locked, number, word, true);
                self.trim_ghosts();
            }
        } else {
            if self.keeps_used && word.state() != Some(State::Uncached) {
                locked.drop_errand();
            }
            if locked.listed() == UNLISTED {
                self.enlist(&locked, number, hash);
            }
        }
    }

    /// Evicts a block that was seen on the list of a state and kind, if it is still there and nobody uses it.
    /// Returns the bytes that are free now.
    pub(crate) fn evict(&self, listed: Listed, from: (State, Kind), waits: bool) -> u64 {
        let header = self.headers.at(listed.number);
        let locked = header.try_lock().or_else(|| {
            self.stats.mutex_miss.add(1);
            if waits { header.lock(header.load().generation()) } else { None }
        });
        let Some(locked) = locked.filter(|locked| self.stands(locked, listed, from)) else { return 0 };
        let word = locked.load();
        if self.keeps_used && word.has(Word::USED) {
            // Its note was lost, or has not been read: it gets what it would have got.
            self.reward(&locked, listed.number, false);
            return 0;
        }
        let Some(word) = locked.claim() else {
            self.stats.evict_skipped.add(1);
            // Should the cache stay over its limit for it, the last to let go of it is to evict it.
            locked.update(|word| (word.pins() > 0).then(|| word.with(Word::ERRAND)));
            return 0;
        };
        self.end(locked, listed.number, word, true)
    }

    /// Takes a block out that was found in the table and is in it no more. Without pins it is freed, else it
    /// lives on as anon until the last one is given back.
    pub(crate) fn detach(&self, number: u32, generation: u32) {
        // If it went otherwise meanwhile, there is nothing to do.
        let Some(locked) = self.headers.at(number).lock(generation) else { return };
        let (word, bytes) = (locked.load(), self.bytes(*locked));
        let Some(state) = word.state() else { return };
        self.unlist(&locked, locked.key().hash());
        self.settle_guess(&locked);
        self.partition.shift(state, State::Anon, word.kind(), bytes);
        if let Some((header, word)) = locked.hide() {
            self.end_unfindable(header, number, word);
        }
    }

    /// From here on a block is no guess any more, if it was one.
    fn settle_guess(&self, locked: &Locked<'_>) {
        let before = locked.update(|word| word.has(Word::GUESS).then(|| word.without(Word::GUESS)));
        if let Some(word) = before.filter(|word| word.is_mru_guess()) {
            self.partition.leave_guess(word.kind(), self.bytes(**locked));
        }
    }

    /// Ends a block that was claimed. `word` is from before; `leaves_ghost` when it is evicted.
    fn end(&self, locked: Locked<'_>, number: u32, word: Word, leaves_ghost: bool) -> u64 {
        let (header, bytes) = (*locked, self.bytes(*locked));
        let (hash, kind) = (header.key().hash(), word.kind());
        let state = word.state().expect("what is claimed has a state");
        self.unlist_from(&locked, state, hash);
        self.table.change(
            hash,
            |entry| entry == Entry::Block(number),
            // The ghost takes the entry: else the block could come back before it appears (A5). When it is not
            // there, another of the same key has taken its place.
            |found| match found {
                Some(_) if leaves_ghost && !is_broken(Fault::GhostOutsideBucket) => {
                    (self.note_eviction(header, word, hash), ())
                }
                _ => (None, ()),
            },
        );
        if leaves_ghost && is_broken(Fault::GhostOutsideBucket) {
            self.table.change(hash, |_| false, |_| (self.note_eviction(header, word, hash), ()));
        }
        if word.is_mru_guess() {
            self.partition.leave_guess(kind, bytes);
        }
        self.partition.leave(state, kind, bytes);
        self.noted.happened(Event::Ended, 1);
        self.free_bytes(header);
        locked.vacate();
        self.headers.give(number);
        bytes
    }

    /// Ends a block that is in no table and on no list, and that nobody has.
    fn end_unfindable(&self, header: Header<'_>, number: u32, word: Word) {
        self.partition.leave(State::Anon, word.kind(), self.bytes(header));
        self.noted.happened(Event::Ended, 1);
        self.free_bytes(header);
        header.vacate();
        self.headers.give(number);
    }

    fn enlist(&self, locked: &Locked<'_>, number: u32, hash: u64) {
        let word = locked.load();
        if let Some(state) = word.state() {
            let list = self.partition.list(state, word.kind());
            locked.set_listed(list.insert(hash, number, self.bytes(**locked)));
        }
    }

    fn unlist(&self, locked: &Locked<'_>, hash: u64) {
        if let Some(state) = locked.load().state() {
            self.unlist_from(locked, state, hash);
        }
    }

    fn unlist_from(&self, locked: &Locked<'_>, state: State, hash: u64) {
        let place = locked.listed();
        if place != UNLISTED {
            let list = self.partition.list(state, locked.load().kind());
            list.remove(hash, place, self.bytes(**locked));
            locked.set_listed(UNLISTED);
        }
    }

    /// What a block is charged with.
    pub(crate) fn bytes(&self, header: Header<'_>) -> u64 {
        self.overhead.of_block(header.len() as usize)
    }
}
