//! Arcwell: memory in front of slow storage. ZFS's adaptive replacement cache (ARC) as a library.
//!
//! There are two ways to embed it. A program with its own storage, such as a database, takes
//! [`Cache`] and says how a block is fetched. A program that wants to see a slow directory through
//! the cache takes a [`Pool`], as `arcwell mount` does.
//!
//! # A page cache
//!
//! Pages of 8 KiB of a file, read through the cache and written through it:
//!
//! ```
//! use std::fs::File;
//! use std::io;
//! use std::os::unix::fs::FileExt;
//!
//! use arcwell::{Cache, Pin};
//!
//! const PAGE: usize = 8 << 10;
//!
//! struct Pager {
//!     id: u64, // tells the file from others in the same cache
//!     file: File,
//!     cache: Cache,
//! }
//!
//! impl Pager {
//!     /// However many threads ask for a page at once, the file is read once.
//!     fn read(&self, page: u64) -> io::Result<Pin> {
//!         let at = page * PAGE as u64;
//!         let fetch = |buffer: &mut [u8]| self.file.read_exact_at(buffer, at).map(|()| PAGE);
//!         Ok(self.cache.get_or_fetch((self.id, page), PAGE, fetch)?)
//!     }
//!
//!     /// To the file first, then to the cache: from then on nobody finds the old bytes.
//!     fn write(&self, page: u64, bytes: &[u8; PAGE]) -> io::Result<()> {
//!         let written = self.file.write_all_at(bytes, page * PAGE as u64);
//!         match written {
//!             // Without room for it the next reader fetches the page.
//!             Ok(()) => _ = self.cache.insert((self.id, page), bytes),
//!             // Nobody knows what the file holds now.
//!             Err(_) => _ = self.cache.remove((self.id, page)),
//!         }
//!         written
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = tempfile::tempfile()?;
//! # file.set_len(100 * PAGE as u64)?;
//! let cache = Cache::builder().size_max(64 << 20).typical_block(PAGE as u64).build()?;
//! let pager = Pager { id: 1, file, cache };
//!
//! let before = pager.read(7)?;
//! pager.write(7, &[42; PAGE])?;
//! assert_eq!(pager.read(7)?[0], 42);
//! assert_eq!(before[0], 0, "a pin keeps the bytes that it had");
//!
//! let stats = pager.cache.stats();
//! assert_eq!((stats.hits, stats.misses, stats.fetches), (1, 1, 1));
//! println!("{stats}");
//! # Ok(())
//! # }
//! ```
//!
//! [`Cache`] says the rest: shapes, units, errors, threads, asynchronous programs, and what holds when
//! reads and writes meet. `examples/page_cache.rs` is the same with many threads and latches.
//!
//! # A directory
//!
//! An *origin* holds the truth, a [`Dataset`] shows it through the one cache of its [`Pool`]:
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
//!     id: 1,
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

mod library;
pub mod reference;

pub use library::{Cache, CacheBuilder, CacheStats, FetchError, Pin};

pub use arcwell_arc::{ArcStats, ArcTunables, Config as CacheConfig, Full, ListKind, Policy as CachePolicy};
pub use arcwell_backend::vdev;
pub use arcwell_backend::{
    Counted, DirOptions, DirOrigin, MachineMemory, MemoryIdentities, OriginStats, Profile, Simulated,
    StateDir, raise_descriptor_limit,
};
pub use arcwell_base::clock::SystemClock;
pub use arcwell_base::{
    BlockKey, ByteSize, Cause, Clock, Error, Kind, ObjectId, Result, identity, key, origin, record, size,
    table,
};
pub use arcwell_front::{control, fuse};
pub use arcwell_l2arc::{Condition, DeviceId, DeviceReport, L2Stats, L2Tunables, Label, Level2};
pub use arcwell_pool::{
    Attributes, CacheMode, CachedRead, CachedReport, Class, Coherence, Dataset, DirItem, Entries, Entry,
    Holder, Looked, OpenDir, OpenFile, OpenHow, PartRead, Pool, PoolConfig, PoolStats, PoolTunables,
    PrimeProgress, Properties, PruneCandidate, Recording, Slices, Workers, WriteHow,
};
