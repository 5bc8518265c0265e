//! Rows of cache lines that never move: what the table and the headers are made of.
//!
//! A line is eight atomic words, all zero when it is first looked at. Memory comes with the first write
//! to a page of them, so a row may be reserved for as many as there could ever be.

use std::io;
use std::ops::Deref;

use crate::arena::hint::fetch;
#[cfg(not(feature = "model"))]
use crate::arena::region::Region;
use crate::sync::AtomicU64;

/// What a processor fetches at once.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [AtomicU64; 8]);

const _: () = assert!(cfg!(feature = "model") || size_of::<Line>() == 64, "a line is one cache line");

impl Line {
    /// Has the line fetched from memory; nothing else happens.
    #[inline]
    pub(crate) fn prefetch(&self) {
        fetch(std::ptr::from_ref(self).cast());
    }
}

/// A row of lines in a model, whose atomic words do not begin as zeroes of the kernel's: few, and made one by one.
#[cfg(feature = "model")]
#[derive(Debug)]
pub(crate) struct Lines(Box<[Line]>);

#[cfg(feature = "model")]
impl Lines {
    pub(crate) fn reserve(count: usize) -> io::Result<Lines> {
        const MOST: usize = 32;
        Ok(Lines((0..count.min(MOST)).map(|_| Line::default()).collect()))
    }

    pub(crate) fn want_huge(&self) {}
}

#[cfg(feature = "model")]
impl Deref for Lines {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        &self.0
    }
}

/// A row of lines.
#[cfg(not(feature = "model"))]
#[derive(Debug)]
pub(crate) struct Lines {
    region: Region,
    count: usize,
}

#[cfg(not(feature = "model"))]
impl Lines {
    /// Reserves a row of `count` lines.
    ///
    /// # Errors
    /// The kernel's, for want of address space.
    pub(crate) fn reserve(count: usize) -> io::Result<Lines> {
        let bytes = count.checked_mul(size_of::<Line>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Lines { region: Region::reserve(bytes)?, count })
    }

    /// Asks for huge pages: a look-up goes to two lines anywhere in their rows, and with small pages also to
    /// where the processor keeps what it knows of pages.
    pub(crate) fn want_huge(&self) {
        self.region.want_huge(0..self.region.len(), true);
    }
}

#[cfg(not(feature = "model"))]
impl Deref for Lines {
    type Target = [Line];

    #[inline]
    fn deref(&self) -> &[Line] {
        // SAFETY: the region holds `count` lines and is aligned for them; eight atomic words may have any
        // bytes, zeroes among them; it is unmapped no sooner than `self` is dropped; and nobody writes to
        // it but through these atomics.
        unsafe { std::slice::from_raw_parts(self.region.base().cast().as_ptr(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn lines_begin_as_zeroes_and_keep_what_is_written() {
        let lines = Lines::reserve(1 << 24).unwrap();
        assert_eq!((lines.len(), lines[(1 << 24) - 1].0[7].load(Ordering::Relaxed)), (1 << 24, 0));
        lines[12_345].0[3].store(9, Ordering::Relaxed);
        assert_eq!(lines[12_345].0[3].load(Ordering::Relaxed), 9);
        assert_eq!(&raw const lines[1] as usize % 64, 0);
    }
}
