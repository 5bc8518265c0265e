//! Atomics: those of the standard library, or in a build that counts which lines are written to, ones that
//! note every write.
//!
//! The engine and what it uses of this crate take theirs from here, and the lock bits that they make of them
//! are so counted too; [`crate::lock`] notes those of its locks. Built without the feature `linestat` these
//! are the standard library's types themselves, by another path.

#[cfg(feature = "linestat")]
mod counted;
pub mod linestat;

pub use std::sync::atomic::{Ordering, fence};

#[cfg(not(feature = "linestat"))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(feature = "linestat")]
pub use self::counted::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
