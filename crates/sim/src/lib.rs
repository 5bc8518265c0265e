//! The simulator: what a cache of some size and policy would have hit on a recorded load.
//!
//! A trace is read once, its keys become small numbers, and any number of policies then replay it,
//! each at any number of sizes. The production policy among them is the cache of the daemon itself,
//! `arcwell-arc` with blocks that have no bytes: what is measured here is what runs there. Beside it
//! stand the policies of the literature, each exact to its paper or its authors' program: `tests/exact.rs`
//! holds them against hits that are known.
//!
//! This crate opens no file and starts no thread: it reads from what implements `Read`, and one
//! [`replay`] is one pass on the thread that calls it.
//!
//! # Rooms
//!
//! - [`trace`]: formats of traces, and [`trace::Trace`], the form in which they are replayed.
//! - [`policy`]: one file a policy, behind [`policy::Policy`].
//! - [`replay`]: runs one policy of one size over a trace and counts.
//! - [`sizes`]: which sizes, as people ask for them.
//! - [`curve`]: what came out, as a table for other programs.
//! - [`chart`]: the same as a picture.
//!
//! # Example
//!
//! A loop that is one block larger than the cache:
//!
//! ```
//! use arcwell_sim::policy::{self, Setup};
//! use arcwell_sim::replay::replay;
//! use arcwell_sim::trace::{Request, Trace, Unit};
//!
//! let trace = Trace::of("loop", (0..101 * 100).map(|number| Request::of(number % 101)))?;
//! let hits = |name: &str| {
//!     let row = policy::find(name).expect("a policy of that name");
//!     replay(&mut *(row.build)(&Setup::blocks(100), &trace), &trace, Unit::Blocks, |_| ()).hits
//! };
//! assert_eq!(hits("lru"), 0);
//! assert!(hits("lirs") > 9000 && hits("opt") > hits("lirs"));
//! # Ok::<(), arcwell_sim::trace::Error>(())
//! ```

pub mod chart;
pub mod curve;
pub mod policy;
pub mod replay;
pub mod sizes;
pub mod trace;
