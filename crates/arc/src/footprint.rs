//! What a block really costs: the numbers that the limit is kept in.
//!
//! A cache of a million blocks of a hundred bytes is mostly bookkeeping. So that the limit means
//! memory of the process, a block is charged with what the allocator takes for its bytes and with
//! all that is remembered of it, and a ghost with its entry.
//!
//! What this does not see: storage of headers and pages is never given back, and that of nodes and ghosts
//! only when a whole slab is empty.

use crate::arena::Arena;
use crate::arena::line::Line;
use crate::ghost::Ghost;
use crate::list::Node;

/// Whether bookkeeping counts within the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overhead {
    /// Blocks and ghosts are charged with the memory that they really take.
    Counted,
    /// A block is charged with its length and a ghost with nothing: for simulation.
    Ignored,
}

/// Entry and control byte of a `HashTable<u32>`, between 7/16 and 7/8 full, and a free-list entry.
const INDEX: u64 = 12;

/// A block's or ghost's share of the table: a line for four or five entries, and now and then one more.
const TABLE: u64 = 16;

/// Storage of nodes grows ahead of its use, and pages of slots are not full.
const SPARE: u64 = 8;

/// All that is remembered of a resident block. Two nodes, as the storage of one state's list keeps
/// its size while blocks move to another's.
const BLOCK: u64 = size_of::<Line>() as u64 + 2 * size_of::<Node>() as u64 + TABLE + SPARE;

/// All that is remembered of a ghost: its entry in the table was its block's.
const GHOST: u64 = size_of::<Ghost>() as u64 + TABLE;

/// What the trial of the two rules remembers of a block.
const SHADOW: u64 = size_of::<crate::duel::Entry>() as u64 + INDEX;

const _: () = assert!(cfg!(feature = "model") || BLOCK <= 128, "memory per resident block beyond its bytes");

/// One part in so many of a block's bytes lies idle in the arena, waiting for the next one.
const SLACK: u64 = 32;

impl Overhead {
    /// The charge for a block of `len` bytes.
    pub(crate) fn of_block(self, len: usize) -> u64 {
        match self {
            // Nothing is free: else there could be any number of empty blocks.
            Overhead::Ignored => (len as u64).max(1),
            Overhead::Counted => {
                let taken = Arena::taken(len);
                taken + taken / SLACK + BLOCK
            }
        }
    }

    /// The part of a block's charge that is not for its bytes.
    pub(crate) fn of_header(self) -> u64 {
        match self {
            Overhead::Ignored => 0,
            Overhead::Counted => BLOCK,
        }
    }

    /// The charge for what the trial of the two rules remembers of a block.
    pub(crate) fn of_shadow(self) -> u64 {
        match self {
            Overhead::Ignored => 0,
            Overhead::Counted => SHADOW,
        }
    }

    /// The charge for a ghost.
    pub(crate) fn of_ghost(self) -> u64 {
        match self {
            Overhead::Ignored => 0,
            Overhead::Counted => GHOST,
        }
    }
}
