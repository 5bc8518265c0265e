//! A buffer that is its owner's alone, for safe code.
//!
//! Its contract with the arena: the place was given for `len` bytes, or `len` is zero and it has none, and
//! while the buffer lives nobody else has the place.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::arena::{Arena, Place};

/// What keeps an arena alive.
///
/// # Safety
/// It is always the same arena, and lives as long as this does, wherever this is moved.
pub(crate) unsafe trait Home {
    /// The arena.
    fn arena(&self) -> &Arena;
}

// SAFETY: a count keeps it alive.
unsafe impl Home for Arc<Arena> {
    #[inline]
    fn arena(&self) -> &Arena {
        self
    }
}

// SAFETY: the borrow keeps it alive.
unsafe impl Home for &Arena {
    #[inline]
    fn arena(&self) -> &Arena {
        self
    }
}

/// Bytes in an arena; they are given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Buffer<H: Home> {
    home: H,
    place: Place,
    len: usize,
}

impl<H: Home> Buffer<H> {
    /// Of `len` bytes, with anything in them. Nothing if the arena has no address space left, or if that
    /// is 4 GiB or more.
    pub(crate) fn new(home: H, len: usize) -> Option<Buffer<H>> {
        let place = if len == 0 { Place::NONE } else { home.arena().alloc(len)? };
        Some(Buffer { home, place, len })
    }

    /// The buffer that [`Buffer::into_place`] gave up.
    ///
    /// # Safety
    /// It was a buffer of the same arena, of this length, and nobody else has its place.
    pub(crate) unsafe fn from_place(home: H, place: Place, len: usize) -> Buffer<H> {
        Buffer { home, place, len }
    }

    /// Keeps the first `len` bytes, and gives the memory of the rest back. Says whether that could be
    /// done: it needs address space when less than a page remains, and the buffer is as before if there
    /// is none.
    #[must_use]
    pub(crate) fn truncate(&mut self, len: usize) -> bool {
        if len >= self.len {
            return true;
        }
        if len == 0 {
            // SAFETY: the place is ours, for this length, and is forgotten.
            unsafe { self.home.arena().free(self.place, self.len) };
            (self.place, self.len) = (Place::NONE, 0);
            return true;
        }
        // SAFETY: the place is ours, for this length, and replaced if it is another now.
        let Some(place) = (unsafe { self.home.arena().shrink(self.place, self.len, len) }) else {
            return false;
        };
        (self.place, self.len) = (place, len);
        true
    }

    /// Gives the buffer up: whoever has its place now has to give it back, with its length.
    pub(crate) fn into_place(mut self) -> (Place, usize) {
        let parts = (self.place, self.len);
        (self.place, self.len) = (Place::NONE, 0);
        parts
    }
}

impl<H: Home> Deref for Buffer<H> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the place has `len` bytes, which are initialised and ours alone while `self` lives.
        unsafe { std::slice::from_raw_parts(self.home.arena().bytes(self.place).as_ptr(), self.len) }
    }
}

impl<H: Home> DerefMut for Buffer<H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.home.arena().bytes(self.place).as_ptr(), self.len) }
    }
}

impl<H: Home> Drop for Buffer<H> {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the place is ours, for this length, and nobody can use it any more.
            unsafe { self.home.arena().free(self.place, self.len) };
        }
    }
}
