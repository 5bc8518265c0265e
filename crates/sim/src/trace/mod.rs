//! Traces: a load as a list of accesses.
//!
//! In memory a trace is columns: four bytes an access for the block's number, and more only where a
//! trace has sizes, kinds or acts other than reading. Numbers are dense, from 0 in order of first
//! appearance, so that policies index arrays instead of hashing.

use arcwell_base::Kind;

/// What is done to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Act {
    /// Somebody asks for it: the only act that counts as a request, and the only one in most traces.
    #[default]
    Read,
    /// Prefetch looks whether it is there.
    Probe,
    /// It is put into the cache without a request: written, or read ahead of demand.
    Admit {
        /// Whether that was a guess of prefetch.
        is_guess: bool,
        /// Whether it may stay after its use.
        stays: bool,
    },
    /// It is no longer true.
    Remove,
}

/// One access, as policies see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The block's number in its trace.
    pub block: u32,
    /// Its size in units of the capacity: 1 where the capacity is in blocks.
    pub size: u32,
    /// What it holds.
    pub kind: Kind,
    /// What is done to it.
    pub act: Act,
}
