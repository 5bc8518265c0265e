//! Headers and buffers: what is remembered of a resident block, and its bytes.

use std::sync::Arc;

use arcwell_base::{BlockKey, Kind};

use crate::buffer::Buffer;
use crate::policy::{Rank, Tick};
use crate::slab::NONE;

/// Where a resident block stands. A ghost is not resident, so its states are not among these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Being filled, or replaced or removed while someone still reads it: cannot be evicted.
    Anon,
    /// Seen once lately.
    Mru,
    /// Seen at least twice.
    Mfu,
    /// May pass through but not stay.
    Uncached,
}

impl State {
    /// All states, in the order of [`State::index`].
    pub(crate) const ALL: [State; 4] = [State::Anon, State::Mru, State::Mfu, State::Uncached];

    /// The states that have lists.
    pub(crate) const LISTED: [State; 3] = [State::Mru, State::Mfu, State::Uncached];

    /// For tables with one row a state.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The ghost list that a block evicted from this state goes to.
    pub(crate) const fn rank(self) -> Option<Rank> {
        match self {
            State::Mru => Some(Rank::Mru),
            State::Mfu => Some(Rank::Mfu),
            State::Anon | State::Uncached => None,
        }
    }
}

impl From<Rank> for State {
    fn from(rank: Rank) -> State {
        match rank {
            Rank::Mru => State::Mru,
            Rank::Mfu => State::Mfu,
        }
    }
}

/// What is remembered of a resident block.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) key: BlockKey,
    /// Shared with the pins, and never changed once published. `None` in a vacated slot only.
    pub(crate) buffer: Option<Arc<Buffer>>,
    /// Length in bytes, also when the block is a phantom and has none.
    pub(crate) len: u32,
    /// Readers that hold the block.
    pub(crate) pins: u32,
    /// Its node on the list of its state and kind, or [`NONE`].
    pub(crate) node: u32,
    /// When it was last asked for, or came in.
    pub(crate) tick: Tick,
    pub(crate) state: State,
    pub(crate) kind: Kind,
    /// Read ahead of demand and not asked for yet.
    pub(crate) is_guess: bool,
}

const _: () = assert!(size_of::<Header>() <= 48, "headers are many");

impl Header {
    /// Whether the block stands in mru and nobody has asked for it.
    pub(crate) fn is_mru_guess(&self) -> bool {
        self.is_guess && self.state == State::Mru
    }

    /// Whether the block is on its list.
    pub(crate) fn is_listed(&self) -> bool {
        self.node != NONE
    }
}

impl Default for Header {
    fn default() -> Self {
        Header {
            key: BlockKey::new(arcwell_base::ObjectId(0), 0),
            buffer: None,
            len: 0,
            pins: 0,
            node: NONE,
            tick: Tick::default(),
            state: State::Anon,
            kind: Kind::Data,
            is_guess: false,
        }
    }
}
