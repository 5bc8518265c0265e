//! Arcwell: memory in front of slow storage. ZFS's adaptive replacement cache (ARC) as a library.
//!
//! The program `arcwell` mounts a directory through the cache; a program that embeds Arcwell uses
//! the same parts without FUSE. An *origin* holds the truth, a [`Dataset`] shows it through the one
//! cache of its [`Pool`]:
//!
//! ```
//! use std::ffi::OsStr;
//! use std::sync::Arc;
//!
//! use arcwell::{
//!     CacheConfig, Coherence, DirOptions, DirOrigin, Looked, MemoryIdentities, OpenHow, Pool, PoolConfig, Properties,
//!     SystemClock,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let slow = directory.path();
//! std::fs::write(slow.join("greeting"), "hello, ghost")?;
//!
//! let pool = Pool::new(PoolConfig {
//!     arc: CacheConfig::new(64 << 20),
//!     identities: Arc::new(MemoryIdentities::default()),
//!     clock: Arc::new(SystemClock::default()),
//! });
//! let origin = Arc::new(DirOrigin::open(slow, DirOptions::default())?);
//! let nobody_else_writes = Properties { coherence: Coherence::Exclusive, ..Properties::default() };
//! let dataset = pool.add_dataset("greetings", origin, nobody_else_writes)?;
//!
//! let Looked::Found(entry) = dataset.lookup(dataset.root_ino(), OsStr::new("greeting"))? else {
//!     panic!("it was written above");
//! };
//! let file = dataset.open(entry.stat.id.ino, OpenHow { write: false, truncate: false })?;
//! for _ in 0..2 {
//!     let bytes = file.read(7, 5)?;
//!     assert_eq!(bytes.iter().collect::<Vec<_>>().concat(), b"ghost");
//! }
//!
//! let hits = pool.samples().into_iter().find(|sample| sample.row.name == "arc.demand_data_hits");
//! assert_eq!(hits.map(|sample| sample.value), Some(1));
//!
//! drop(file);
//! pool.stop();
//! # Ok(())
//! # }
//! ```
//!
//! Words: [the glossary](arcwell_base). Rooms of the workspace: `ARCHITECTURE.md`. What each tunable
//! and statistic means: [`mod@reference`].

pub mod reference;

pub use arcwell_arc::{ArcStats, ArcTunables, Config as CacheConfig, ListKind, Policy as CachePolicy};
pub use arcwell_backend::{
    Counted, DirOptions, DirOrigin, MachineMemory, MemoryIdentities, OriginStats, Profile, Simulated,
    StateDir, raise_descriptor_limit,
};
pub use arcwell_base::clock::SystemClock;
pub use arcwell_base::{ByteSize, Cause, Clock, Error, Result, identity, key, origin, record, size, table};
pub use arcwell_front::{control, fuse};
pub use arcwell_pool::{
    Attributes, CacheMode, CachedRead, CachedReport, Class, Coherence, Dataset, DirItem, Entries, Entry,
    Holder, Looked, OpenDir, OpenFile, OpenHow, PartRead, Pool, PoolConfig, PoolStats, PoolTunables,
    PrimeProgress, Properties, PruneCandidate, Recording, Slices, Workers, WriteHow,
};
