//! The cache for programs that embed it: [`Cache`], over the engine of `arcwell-arc`.
//!
//! The engine finds, admits and evicts. What a program needs beyond that is here: one fetch however
//! many ask (`flight`), an answer also when the cache has no room (`pin`), and settings that are
//! checked (`builder`).
//!
//! # Invariants
//!
//! - **L1** What a fetch brings that began before a [`Cache::insert`] or [`Cache::remove`] of its key is
//!   never found after that. Those two end the key's flight, and a fetch whose flight has been ended is
//!   not published; both are decided under the lock of the flight's shard.
//! - **L2** Nobody waits for a flight that nobody leads: whoever leads ends it, also by an error or a
//!   panic.
//! - **L3** No lock is held while a fetch runs.

mod builder;
mod cache;
mod fetch;
mod flight;
mod pin;
mod stats;

pub use builder::CacheBuilder;
pub use cache::Cache;
pub use fetch::FetchError;
pub use pin::Pin;
pub use stats::CacheStats;
