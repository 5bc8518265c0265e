//! Memory of our own that any device takes.

use std::ops::{Deref, DerefMut};

/// The largest unit that a device may have.
pub(super) const UNIT_MAX: usize = 4096;

/// Bytes that begin at a multiple of [`UNIT_MAX`]. Never grow, so that they stay where they are.
pub(super) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// So many zeros.
    pub(super) fn zeros(length: usize) -> Aligned {
        let bytes = vec![0; length + UNIT_MAX];
        let address = bytes.as_ptr().addr();
        Aligned { start: address.next_multiple_of(UNIT_MAX) - address, length, bytes }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

impl std::fmt::Debug for Aligned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.length)
    }
}
