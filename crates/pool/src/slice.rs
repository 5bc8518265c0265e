//! The bytes of one read: pieces of blocks in order, pinned until the reply is out.

use std::ops::Range;
use std::sync::Arc;

use arcwell_arc::Pin;
use smallvec::SmallVec;

/// Bytes of one block: pinned in the cache, or our own when the cache could not keep them.
#[derive(Clone)]
pub(crate) enum Piece {
    Pinned(Pin),
    Loose(Arc<[u8]>),
}

impl Piece {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Piece::Pinned(pin) => pin,
            Piece::Loose(bytes) => bytes,
        }
    }
}

/// The bytes of one read, in order. Blocks stay pinned while it lives.
#[derive(Default)]
pub struct Slices {
    pieces: SmallVec<[(Piece, Range<u32>); 2]>,
    len: usize,
}

impl std::fmt::Debug for Slices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slices").field("pieces", &self.pieces.len()).field("len", &self.len).finish()
    }
}

impl Slices {
    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing: the end of the file.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, piece by piece.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|(piece, range)| &piece.bytes()[range.start as usize..range.end as usize])
    }

    /// All bytes copied together.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len);
        self.iter().for_each(|piece| all.extend_from_slice(piece));
        all
    }

    /// Adds the part of a block that the read wants; `false` when the block is too short for it.
    #[must_use]
    pub(crate) fn push(&mut self, piece: Piece, range: Range<u32>) -> bool {
        if (range.end as usize) > piece.bytes().len() {
            return false;
        }
        self.len += range.len();
        self.pieces.push((piece, range));
        true
    }
}
