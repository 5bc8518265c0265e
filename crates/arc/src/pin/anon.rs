//! Blocks that are being filled: memory that one writer has to himself.

use std::fmt;
use std::ops::{Deref, DerefMut};

use arcwell_base::{BlockKey, Kind};

use super::owner::Owner;
use super::{Pin, bytes_of};
use crate::admit::Full;
use crate::arena::Place;
use crate::block::Arrival;
use crate::header::State;

/// A block that is being filled; nobody else sees it until it is published. Dropping it instead
/// gives its memory back; what the cache learned when it was admitted stays learned.
pub struct Anon {
    owner: Owner,
    arrival: Arrival,
    /// Counted as anon until published; 0 afterwards.
    reserved: u64,
    /// Whether the header and the bytes are still ours.
    is_whole: bool,
}

impl Anon {
    /// A block for which `reserved` bytes were counted, a header was taken, and memory of the arena's unless it
    /// is a phantom.
    pub(crate) fn new(owner: Owner, arrival: Arrival, reserved: u64) -> Anon {
        Anon { owner, arrival, reserved, is_whole: true }
    }

    /// Takes memory for the bytes; `false` when there is none.
    pub(crate) fn has_memory(&mut self) -> bool {
        let len = self.arrival.len as usize;
        let place = if len == 0 { Some(Place::NONE) } else { self.owner.arena.alloc(len) };
        self.arrival.place = place.unwrap_or(Place::NONE);
        place.is_some()
    }

    /// Which block this will be.
    pub fn key(&self) -> BlockKey {
        self.arrival.key
    }

    /// Shortens the block (at the end of a file, say) and gives the rest back. A length that is not
    /// shorter changes nothing.
    ///
    /// # Errors
    /// [`Full`] when a few bytes of it would have to move, and there is no address space to move them to: then
    /// the block is as it was.
    pub fn truncate(&mut self, len: usize) -> Result<(), Full> {
        let Arrival { place, len: before, goal, kind, .. } = self.arrival;
        if len >= before as usize {
            return Ok(());
        }
        if place != Place::NONE {
            self.arrival.place = self.shorten(place, before as usize, len)?;
        }
        self.arrival.len = len as u32;
        let needed = self.owner.overhead.of_block(len);
        self.owner.partition.unreserve(goal, kind, self.reserved - needed);
        self.reserved = needed;
        Ok(())
    }

    fn shorten(&self, place: Place, from: usize, to: usize) -> Result<Place, Full> {
        if to == 0 {
            // SAFETY: the bytes are ours alone, and from here on we know of none.
            unsafe { self.owner.arena.free(place, from) };
            return Ok(Place::NONE);
        }
        // SAFETY: the bytes are ours alone, and from here on we know of their new place only.
        unsafe { self.owner.arena.shrink(place, from, to) }.ok_or(Full)
    }

    /// Says whether level 2 may have the block, once it is published; if nobody says so, it may not.
    pub fn may_feed(&mut self, may: bool) {
        self.arrival.may_be_fed = may;
    }

    /// Says that the block comes from level 2, and was one of mfu when it was written there: it will be in mfu
    /// again. Without this it is a block that is seen for the first time, unless a ghost tells more.
    ///
    /// The targets do not move for it: how long the lists should be is told by ghosts alone. A guess stays a guess
    /// (A6), since nobody has asked for it this time, and what is not to stay does not.
    pub fn was_frequent(&mut self) {
        let Arrival { goal, kind, is_guess, .. } = self.arrival;
        if goal == State::Mru && !is_guess {
            // First in, then out, as everywhere (A4): what is reserved moves with the goal.
            self.owner.partition.reserve(State::Mfu, kind, self.reserved);
            self.owner.partition.unreserve(State::Mru, kind, self.reserved);
            self.arrival.goal = State::Mfu;
        }
    }

    /// Makes the block findable. A block with the same key is replaced; who has it pinned keeps the
    /// bytes that it had.
    pub fn publish(mut self) -> Pin {
        (self.is_whole, self.reserved) = (false, 0);
        self.owner.publish(&self.arrival);
        // SAFETY: a published block has one pin, for us.
        unsafe { Pin::adopt(&self.owner, self.arrival.number) }
    }

    fn goal(&self) -> (State, Kind) {
        (self.arrival.goal, self.arrival.kind)
    }
}

impl Drop for Anon {
    fn drop(&mut self) {
        if self.is_whole {
            let Arrival { place, len, number, .. } = self.arrival;
            if place != Place::NONE {
                // SAFETY: the bytes are ours alone, and nobody looks at them again.
                unsafe { self.owner.arena.free(place, len as usize) };
            }
            self.owner.headers.give(number);
            let (goal, kind) = self.goal();
            self.owner.partition.unreserve(goal, kind, self.reserved);
        }
    }
}

impl Deref for Anon {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let (bytes, len) = bytes_of(&self.owner, self.arrival.place, self.arrival.len);
        // SAFETY: so many bytes lie there, and they are ours.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len as usize) }
    }
}

impl DerefMut for Anon {
    fn deref_mut(&mut self) -> &mut [u8] {
        let (bytes, len) = bytes_of(&self.owner, self.arrival.place, self.arrival.len);
        // SAFETY: so many bytes lie there, and they are ours alone until the block is published.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_ptr(), len as usize) }
    }
}

impl fmt::Debug for Anon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "anon {:?} ({:?}, {} bytes)", self.key(), self.arrival.kind, self.arrival.len)
    }
}
