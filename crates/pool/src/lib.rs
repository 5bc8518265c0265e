//! The pool: datasets, and the read and write paths between whoever asks and the origins.
//!
//! A read goes memory → flash (`flash`) → origin, one flight per block however many ask, adjacent misses joined into one
//! origin read (`read`). A write goes through to the origin before it is acknowledged, and then into
//! the cache (`write`). Metadata takes the same way as blocks of its own (`metadata`). What is read
//! in order is read ahead (`stream`, `ahead`).
//!
//! What this crate never does: I/O. It is handed a `dyn Origin` and a `dyn IdentityStore`; it does not
//! know that FUSE exists, and is told who holds its znodes by [`Holder`].
//!
//! # Who may wait
//!
//! Methods named `cached_…` never wait, and are for threads that serve requests. Everything else may
//! wait for an origin for as long as that likes, and belongs on [`Workers`], which put a limit on it.
//!
//! # Invariants
//!
//! - **P1** A block is found only under the object that its file is now; a foreign change makes a new
//!   object, so old and new blocks are never mixed in one read.
//! - **P2** What was read from the origin is kept only if no change of ours began or was under way
//!   between the first look and the keeping (`znode`).
//! - **P3** A change is acknowledged after the origin has it and the cache shows it.
//! - **P4** Only the origin's own ENOENT is remembered as an absence.
//! - **P5** Every queue has a limit: workers' jobs, noticed events, pending identities, bytes on guess.

mod ahead;
mod attribute;
mod blocks;
mod coherence;
mod dataset;
mod file;
mod flash;
mod flight;
mod listing;
mod metadata;
mod name;
mod object;
mod pool;
mod prime;
mod property;
mod read;
mod recorder;
mod signal;
mod silence;
mod slice;
mod stream;
mod tunable;
mod workers;
mod write;
mod znode;

pub use arcwell_arc::Config as CacheConfig;
pub use dataset::{Attributes, Dataset, Entry, Holder, Looked, PruneCandidate};
pub use file::{OpenFile, OpenHow};
pub use listing::{DirItem, Entries, OpenDir};
pub use pool::{Pool, PoolConfig};
pub use prime::{CachedReport, PrimeProgress, ROWS_MAX};
pub use property::{BadWord, CacheMode, Coherence, Properties, RECORDSIZE_MAX, RECORDSIZE_MIN};
pub use read::{CachedRead, PartRead};
pub use recorder::Recording;
pub use slice::Slices;
pub use tunable::{PoolStats, PoolTunables};
pub use workers::{Class, Load, Workers};
pub use write::WriteHow;
