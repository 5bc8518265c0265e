//! The simulator: what a cache of some size and policy would have hit on a recorded load.
//!
//! A trace is read once, its keys become small numbers, and any number of policies then replay it,
//! each at any number of sizes. The production policy among them is the cache of the daemon itself,
//! `arcwell-arc` with blocks that have no bytes: what is measured here is what runs there. Beside it
//! stand the policies of the literature, each exact to its paper or its authors' program.
//!
//! This crate opens no file and starts no thread: it reads from what implements `Read`, and one
//! [`replay`] is one pass on the thread that calls it.
//!
//! # Rooms
//!
//! - [`trace`]: formats of traces, and [`trace::Trace`], the form in which they are replayed.
//! - [`policy`]: one file a policy, behind [`policy::Policy`].
//! - [`replay`]: runs one policy of one size over a trace and counts.

pub mod policy;
pub mod replay;
pub mod trace;
