#![doc = include_str!("../../../docs/GLOSSARY.md")]
//!
//! # This crate
//!
//! The vocabulary that every other crate speaks, and nothing that acts: no thread, no I/O, no lock
//! that is held across a call. Rooms:
//!
//! - [`atomic`]: atomics, and which lines are written to.
//! - [`key`]: what a block is the block of.
//! - [`size`]: bytes and durations as people write them.
//! - [`error`]: one error type; the one table that maps it to errno.
//! - [`table`]: one row declares a tunable or a statistic; everything else is printed from it.
//! - [`clock`]: time as a thing that a test can move.
//! - [`identity`]: what is remembered of files from one run to the next.
//! - [`lane`]: a place of its own for what each thread counts.
//! - [`lock`]: locks with names, and who waited for which.
//! - [`origin`]: the trait of whatever holds the truth behind a dataset.
//! - [`vdev`]: the trait of a device of ours.
//! - [`record`]: what was asked of the cache, as events and as bytes.

pub mod atomic;
pub mod clock;
pub mod error;
pub mod identity;
pub mod key;
pub mod lane;
pub mod lock;
pub mod origin;
pub mod record;
pub mod size;
pub mod table;
pub mod vdev;

pub use clock::Clock;
pub use error::{Cause, Error, Result};
pub use key::{BlockKey, Kind, ObjectId};
pub use size::ByteSize;
