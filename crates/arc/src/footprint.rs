//! What a block really costs: the numbers that the limit is kept in.
//!
//! A cache of a million blocks of a hundred bytes is mostly bookkeeping. So that the limit means
//! memory of the process, a block is charged with what the allocator takes for its bytes and with
//! all that is remembered of it, and a ghost with its entry.
//!
//! What this does not see: storage of headers, nodes and ghosts is given back only when a whole slab
//! is empty, and the allocator decides when freed bytes go back to the machine.

use crate::ghost::Ghost;
use crate::header::Header;
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
const TABLE: u64 = 12;

/// The shared handle of a buffer: two counts, address and length, in the allocator's wrapping.
const HANDLE: u64 = 48;

/// Storage of headers and nodes grows ahead of its use, and small allocations are rounded up. Measured: a
/// cache of 600,000 metadata blocks held 50 MiB more than the sum of their parts.
const SPARE: u64 = 24;

/// All that is remembered of a resident block. Two nodes, as the storage of one state's list keeps
/// its size while blocks move to another's.
const BLOCK: u64 = size_of::<Header>() as u64 + 2 * size_of::<Node>() as u64 + TABLE + HANDLE + SPARE;

/// All that is remembered of a ghost.
const GHOST: u64 = size_of::<Ghost>() as u64 + TABLE;

/// What the trial of the two rules remembers of a block.
const SHADOW: u64 = size_of::<crate::duel::Entry>() as u64 + TABLE;

const _: () = assert!(BLOCK <= 168, "memory per resident block beyond its bytes");

/// Allocations from this size on come in whole pages.
const LARGE: u64 = 128 << 10;
const PAGE: u64 = 4 << 10;

/// One part in so many of a block's bytes lies idle: what one size freed serves another only when a
/// whole page of the allocator is empty. Measured: about 3 % of a full cache of 8 KiB blocks.
const SLACK: u64 = 32;

impl Overhead {
    /// The charge for a block of `len` bytes.
    pub(crate) fn of_block(self, len: usize) -> u64 {
        let len = len as u64;
        match self {
            // Nothing is free: else there could be any number of empty blocks.
            Overhead::Ignored => len.max(1),
            Overhead::Counted if len < LARGE => (len + 8).next_multiple_of(16).max(32) + len / SLACK + BLOCK,
            Overhead::Counted => (len + 16).next_multiple_of(PAGE) + len / SLACK + BLOCK,
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
