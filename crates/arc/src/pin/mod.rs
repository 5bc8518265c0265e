//! Pins: a reader's references to blocks. An island of unsafe code.
//!
//! # The contract
//!
//! A pin is one unit of the count in its header's word. While the count is above zero, the header stays
//! that of this block, its bytes stay where they are and what they are ([`Locked::claim`] refuses), and
//! the engine's memory is not freed ([`owner`]). All three follow from the word alone, so that a pin needs
//! to be written down nowhere else.
//!
//! [`Locked::claim`]: crate::header::Locked::claim

mod anon;
pub(crate) mod owner;

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;

use arcwell_base::{BlockKey, Kind};

pub use self::anon::Anon;
use self::owner::Owner;
use crate::arena::line::Line;
use crate::arena::{Place, hint};
use crate::header::{Header, Word};
use crate::shared::Shared;
use crate::sync::{Fault, Ordering, is_broken};

/// A reader's reference to a block: as long as one lives, the block is not evicted. Its bytes stay
/// what they were, even when the block is removed or replaced, or the cache is dropped.
pub struct Pin {
    engine: NonNull<Shared>,
    header: NonNull<Line>,
    bytes: NonNull<u8>,
    len: u32,
    number: u32,
}

// SAFETY: a pin gives shared access to bytes that nobody changes while it lives; its count is atomic.
unsafe impl Send for Pin {}
// SAFETY: as above.
unsafe impl Sync for Pin {}

impl Pin {
    /// Takes a pin of the block in a header, if it is that of `key` and can be found; says what the word was
    /// before. `mark` is what a use changes in the word.
    #[inline]
    pub(crate) fn take(
        owner: &Owner,
        number: u32,
        key: BlockKey,
        mark: impl Fn(Word) -> Word,
    ) -> Option<(Pin, Word)> {
        Pin::take_if(owner, number, |header, _| header.key() == key, mark)
    }

    /// The same if it is the block that `is_it` asks for, by what its header says and its word.
    #[inline]
    pub(crate) fn take_if(
        owner: &Owner,
        number: u32,
        is_it: impl Fn(Header<'_>, Word) -> bool,
        mark: impl Fn(Word) -> Word,
    ) -> Option<(Pin, Word)> {
        let header = owner.headers.at(number);
        let mut word = header.load();
        loop {
            if !word.can_be_found() || !is_it(header, word) || word.is_crowded() {
                return None;
            }
            if is_broken(Fault::PinUnderAnotherWord) {
                word = header.load();
            }
            let pinned = mark(word).0 + Word::PIN;
            // Success means that the word is still that under which the header was read.
            match header.word().compare_exchange_weak(word.0, pinned, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: the count was raised for it, from a word under which the block could be found.
                Ok(_) => return Some((unsafe { Pin::adopt(owner, number) }, word)),
                Err(now) => word = Word(now),
            }
        }
    }

    /// The pin for which the count of a header was raised already.
    ///
    /// # Safety
    /// Nobody else gives that unit back, and the header has been described.
    #[inline]
    unsafe fn adopt(owner: &Owner, number: u32) -> Pin {
        let header = owner.headers.at(number);
        let (bytes, len) = bytes_of(owner, header.place(), header.len());
        Pin { engine: owner.address(), header: NonNull::from(header.0), bytes, len, number }
    }

    #[inline]
    fn engine(&self) -> &Shared {
        // SAFETY: the engine's memory outlives every pin, see the contract.
        owner::alive(unsafe { self.engine.as_ref() })
    }

    #[inline]
    fn header(&self) -> Header<'_> {
        self.engine();
        // SAFETY: headers are part of the engine, and stay where they are.
        Header(unsafe { self.header.as_ref() })
    }

    /// Which block this is.
    pub fn key(&self) -> BlockKey {
        self.header().key()
    }

    /// What it holds.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.header().load().kind()
    }

    /// Copies the bytes from `at` on, as many as `out` has room for. Where the block is in none of the processor's
    /// caches this is faster than to copy out of the slice: the memory is asked for the next bytes while those
    /// before are copied.
    ///
    /// # Panics
    /// When the block has not so many bytes.
    #[inline]
    pub fn copy_to(&self, at: usize, out: &mut [u8]) {
        hint::copy(&self[at..at + out.len()], out);
    }

    /// Its header, and the number of it.
    #[inline]
    pub(crate) fn parts(&self) -> (Header<'_>, u32) {
        (self.header(), self.number)
    }

    /// The number of its header.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether it is a pin of this cache.
    pub(crate) fn is_of(&self, owner: &Owner) -> bool {
        self.engine == owner.address()
    }

    #[cold]
    fn release_with_errand(&mut self) {
        // Counted before the block is let go of: from then on nothing else would keep the engine.
        let is_kept = !is_broken(Fault::ErrandWithoutKeep);
        if is_kept {
            self.engine().keepers.fetch_add(1, Ordering::Relaxed);
        }
        let before = Word(self.header().word().fetch_sub(Word::PIN, Ordering::AcqRel));
        if before.pins() == 1 {
            self.engine().run_errand(self.number, before);
            if before.has(Word::ORPHAN) {
                // SAFETY: the orphan was counted when it was marked, and this was its last pin.
                unsafe { owner::let_go(self.engine) };
            }
        }
        self.engine();
        if is_kept {
            // SAFETY: counted above.
            unsafe { owner::let_go(self.engine) };
        }
    }
}

/// Where the bytes of a block lie, and how many there are: none for a phantom.
#[inline]
fn bytes_of(owner: &Owner, place: Place, len: u32) -> (NonNull<u8>, u32) {
    if place == Place::NONE {
        return (NonNull::dangling(), 0);
    }
    // SAFETY: headers and blocks being filled have places of this arena.
    (unsafe { owner.arena.bytes(place) }, len)
}

impl Shared {
    /// Gives the bytes of a block back that was claimed or hidden, and that nobody holds.
    pub(crate) fn free_bytes(&self, header: Header<'_>) {
        debug_assert_eq!(header.load().pins(), 0, "A3: a pinned block keeps its bytes");
        let place = header.place();
        if place != Place::NONE {
            // SAFETY: nobody has a pin, and nobody can get one: see the contract.
            unsafe { self.arena.free(place, header.len() as usize) };
        }
    }
}

impl Deref for Pin {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes lie there, and nobody writes to them or frees them while the pin lives.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.len as usize) }
    }
}

impl Clone for Pin {
    fn clone(&self) -> Pin {
        let before = Word(self.header().word().fetch_add(Word::PIN, Ordering::Relaxed));
        assert!(!before.is_crowded(), "more pins of one block than there is memory for");
        Pin { ..*self }
    }
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        let word = self.header().word();
        let mut now = word.load(Ordering::Relaxed);
        while !Word(now).has(Word::ERRAND) {
            match word.compare_exchange_weak(now, now - Word::PIN, Ordering::AcqRel, Ordering::Relaxed) {
                // From here on the engine may be gone.
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
        self.release_with_errand();
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pin of {:?} ({:?}, {} bytes)", self.key(), self.kind(), self.len())
    }
}
