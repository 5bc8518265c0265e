//! A block's bytes, placed so that copying them out is cheap.
//!
//! Bytes of a page or more begin on a page boundary: whoever copies them to a program or a device page
//! by page (the kernel, for a FUSE reply) then touches no page twice. Smaller ones lie where the allocator likes.

use std::ops::{Deref, DerefMut};

use aligned_vec::{AVec, ConstAlign};

const PAGE: usize = 4096;

/// Bytes of one block.
#[derive(Debug)]
pub(crate) enum Buffer {
    Small(Box<[u8]>),
    Paged(AVec<u8, ConstAlign<PAGE>>),
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer::Small(Box::default())
    }
}

impl Buffer {
    pub(crate) fn zeroed(len: usize) -> Self {
        if len < PAGE {
            return Buffer::Small(vec![0; len].into());
        }
        let mut bytes = AVec::with_capacity(PAGE, len);
        bytes.resize(len, 0);
        Buffer::Paged(bytes)
    }

    /// Keeps the first `len` bytes, and gives back the memory of the rest.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.len() {
            let mut shorter = Buffer::zeroed(len);
            shorter.copy_from_slice(&self[..len]);
            *self = shorter;
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Small(bytes) => bytes,
            Buffer::Paged(bytes) => bytes,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Buffer::Small(bytes) => bytes,
            Buffer::Paged(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_begin_on_a_page() {
        for len in [4096, 5000, 8192, 131_072] {
            let buffer = Buffer::zeroed(len);
            assert_eq!((buffer.as_ptr() as usize % PAGE, buffer.len()), (0, len));
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn what_is_cut_off_is_gone_and_the_rest_is_kept() {
        let mut buffer = Buffer::zeroed(9000);
        buffer[99] = 7;
        buffer.truncate(100);
        assert_eq!((buffer.len(), buffer[99]), (100, 7));
        buffer.truncate(200);
        assert_eq!(buffer.len(), 100);
    }
}
