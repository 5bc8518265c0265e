//! [`Cache`]: the door.

use std::fmt;
use std::sync::Arc;

use arcwell_arc::{Asked, Config, Full};
use arcwell_base::table::Tunables;
use arcwell_base::{BlockKey, Error, Kind};

use super::builder::{CacheBuilder, check_size_max};
use super::fetch::ON_DEMAND;
use super::flight::Flights;
use super::stats::Tally;
use super::{CacheStats, FetchError, Pin};

/// A cache in memory for blocks that are slow to get: pages of a database, chunks of files or objects.
///
/// What stays is decided by adaptive replacement: blocks that were used once and blocks that were used
/// again share the memory, and the cache learns from what it evicted too early how much of it either
/// should have (N. Megiddo and D. Modha, "ARC: a self-tuning, low overhead replacement cache",
/// FAST 2003). A scan does not flush it, and there is nothing to tune but the size.
///
/// # Shapes and units
///
/// - A *key* is a [`BlockKey`]: two numbers of 64 bits, such as file id and page number; every method
///   takes a pair as well. All their bits are the caller's. The pool of a mount marks metadata by the
///   index's bit 63; a cache of one's own shares no keys with a pool, and
///   [of a kind](Cache::of_kind) is what one says it is.
/// - A *block* is 0 bytes to 1 GiB, and each may have another length. The cache holds those up to half
///   of its size. Blocks of 4 KiB or more begin on a page boundary, so that `O_DIRECT` can fill them.
/// - *Sizes* are bytes of memory, bookkeeping included.
///
/// # Threads
///
/// A `Cache` is a handle: clones are cheap and mean the same cache, whose memory goes back when the
/// last handle and the last [`Pin`] are gone. It is `Send` and `Sync` and starts no thread. A hit
/// waits for no I/O. Fetches run on the thread that asked, with no lock held; they may use the cache,
/// but two that wait for each other's keys wait for ever, as with any lock.
///
/// In asynchronous programs hits can be served where one is ([`pin`](Cache::pin) never waits for a
/// fetch); misses belong on a thread that may block:
///
/// ```
/// # use std::{io, os::unix::fs::FileExt, sync::Arc};
/// # use arcwell::{BlockKey, Cache, Pin};
/// const PAGE: usize = 8 << 10;
///
/// async fn page(cache: &Cache, file: &Arc<std::fs::File>, key: BlockKey) -> io::Result<Pin> {
///     if let Some(pin) = cache.pin(key) {
///         return Ok(pin);
///     }
///     let (cache, file, at) = (cache.clone(), Arc::clone(file), key.index * PAGE as u64);
///     let fetch = move |page: &mut [u8]| file.read_exact_at(page, at).map(|()| PAGE);
///     let waits = tokio::task::spawn_blocking(move || cache.get_or_fetch(key, PAGE, fetch));
///     Ok(waits.await??)
/// }
/// # let file = tempfile::tempfile()?;
/// # file.write_all_at(&[7; 2 * PAGE], 0)?;
/// # let cache = Cache::builder().size_max(1 << 20).build().unwrap();
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let pin = runtime.block_on(page(&cache, &Arc::new(file), (1, 1).into()))?;
/// # assert!(pin.iter().all(|byte| *byte == 7) && pin.len() == PAGE);
/// # io::Result::Ok(())
/// ```
///
/// (`pin` counts a miss there, and `get_or_fetch` the same one again.)
///
/// # Writes
///
/// The cache writes nothing anywhere. Whoever changes what a block is the copy of calls
/// [`insert`](Cache::insert) or [`remove`](Cache::remove) *afterwards*. Once that has returned, nobody
/// finds older bytes, not even by a fetch that began before: such a fetch is done again. What a fetch
/// reads while it is being written is the caller's matter; databases hold a latch on the page (see
/// `examples/page_cache.rs`).
///
/// # Errors
///
/// Reads fail only when their fetch does. No error is remembered: the next caller fetches anew.
#[derive(Clone)]
pub struct Cache {
    pub(super) shared: Arc<Shared>,
    /// What this handle's blocks are.
    pub(super) kind: Kind,
}

/// What all handles share.
pub(super) struct Shared {
    pub(super) engine: arcwell_arc::Cache,
    pub(super) flights: Flights,
    pub(super) tally: Tally,
}

impl Cache {
    /// Settings for a new cache.
    ///
    /// ```
    /// let cache = arcwell::Cache::builder().size_max(64 << 20).typical_block(8 << 10).build()?;
    /// assert_eq!(cache.stats().size_max, 64 << 20);
    ///
    /// let error = arcwell::Cache::builder().size_max(64).build().unwrap_err();
    /// assert_eq!(error.to_string(), "configure a cache: size_max is 64 B, expected 1 MiB to 128 TiB");
    /// # Ok::<(), arcwell::Error>(())
    /// ```
    pub fn builder() -> CacheBuilder {
        CacheBuilder::default()
    }

    /// A cache, and what is set of its tunables beyond its configuration.
    ///
    /// # Errors
    /// There is not so much address space.
    pub(super) fn from_config(config: &Config, tunables: &[(&str, u64)]) -> Result<Cache, Error> {
        let engine =
            arcwell_arc::Cache::try_new(config).map_err(|e| Error::new("reserve address space", e))?;
        for (name, value) in tunables {
            engine.tunables().store(name, *value);
        }
        let shared = Shared { engine, flights: Flights::default(), tally: Tally::default() };
        Ok(Cache { shared: Arc::new(shared), kind: Kind::Data })
    }

    /// A handle of the same cache for blocks of a kind. Other handles are for data.
    ///
    /// The two kinds are weighed against each other, and metadata (inner nodes of a tree, directories,
    /// bitmaps) counts as dearer to lose. A key is to have one kind always; it is no part of the key.
    #[must_use]
    pub fn of_kind(&self, kind: Kind) -> Cache {
        Cache { shared: Arc::clone(&self.shared), kind }
    }

    /// The block under `key`, fetched if it is not there.
    ///
    /// `fetch` fills a buffer of `len` bytes, in place in the cache's own memory, and returns how many of
    /// them are the block: fewer at the end of a file, say. What is in the buffer before is unspecified,
    /// and may be what another block of this cache held: so every byte that is to be the block has to be
    /// written. Of all who miss a key at once
    /// one fetches, and the others wait for it as long as it takes: a fetch that can hang should have
    /// a time limit. A block that is there already has the length that it came with, whatever `len`.
    ///
    /// When there is no room because too much is pinned, the block is returned all the same, and not
    /// kept ([`Pin::is_cached`]).
    ///
    /// `fetch` is called again when the block was [inserted](Cache::insert) or
    /// [removed](Cache::remove) while it ran and is not to be found after that.
    ///
    /// # Errors
    /// [`FetchError::Fetch`] with what `fetch` returned. It goes to this caller alone; those who waited
    /// fetch for themselves, one at a time. The other variants are wrong use.
    ///
    /// # Panics
    /// When `fetch` asks for its own key. When `fetch` panics, the panic is this caller's; those who
    /// waited fetch for themselves.
    #[inline]
    pub fn get_or_fetch<E>(
        &self,
        key: impl Into<BlockKey>,
        len: usize,
        mut fetch: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Pin, FetchError<E>> {
        let key = key.into();
        match self.pin(key) {
            Some(pin) => Ok(pin),
            None => self.fetch_missing(key, len, &mut fetch),
        }
    }

    /// The block under `key`, if it is there. A hit or a miss is counted.
    #[inline]
    pub fn pin(&self, key: impl Into<BlockKey>) -> Option<Pin> {
        self.shared.engine.lookup(key.into(), self.kind, Asked::Demand).map(Pin::from)
    }

    /// Shows the blocks under many keys, in their order: `visit` gets each key's place in `keys`, and
    /// its bytes if they are there, for the time of the call. Nothing is fetched. Returns the hits.
    ///
    /// Cheaper than as many calls of [`pin`](Cache::pin) where the bytes are only looked at or copied
    /// out.
    ///
    /// ```
    /// # use arcwell::{BlockKey, Cache};
    /// # let cache = Cache::builder().size_max(1 << 20).build()?;
    /// cache.insert((1, 10), b"ten")?;
    /// let keys = [10, 11].map(|page| BlockKey::from((1, page)));
    /// let mut missing = Vec::new();
    /// let hits = cache.read_many(&keys, |place, bytes| match bytes {
    ///     Some(bytes) => assert_eq!(bytes, b"ten"),
    ///     None => missing.push(keys[place]),
    /// });
    /// assert_eq!((hits, missing), (1, vec![keys[1]]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_many(&self, keys: &[BlockKey], mut visit: impl FnMut(usize, Option<&[u8]>)) -> usize {
        let mut hits = 0;
        self.shared.engine.lookup_many(keys, self.kind, Asked::Demand, |place, pin| {
            hits += usize::from(pin.is_some());
            visit(place, pin.as_deref());
        });
        hits
    }

    /// Puts a copy of `bytes` under `key`, in place of what was there. Who has that pinned keeps the
    /// bytes that he has. To be called *after* the bytes were written to where they are fetched from;
    /// of two threads that insert at once, the later wins.
    ///
    /// # Errors
    /// [`Full`] when there is no room: so much is pinned that nothing can be evicted, or there are more
    /// bytes than half of the cache's size. Then nothing is found under `key`, so that the next reader
    /// fetches; mostly this needs no handling.
    pub fn insert(&self, key: impl Into<BlockKey>, bytes: &[u8]) -> Result<Pin, Full> {
        let Shared { engine, flights, .. } = &*self.shared;
        let key = key.into();
        match engine.admit(key, self.kind, bytes.len(), ON_DEMAND) {
            Ok(mut anon) => {
                anon.copy_from_slice(bytes);
                Ok(flights.overtake(key, || anon.publish()).into())
            }
            Err(full) => {
                self.remove(key);
                Err(full)
            }
        }
    }

    /// Forgets the block under `key`; `true` when there was one. Who has it pinned keeps its bytes.
    ///
    /// A file that is dropped whole needs no removing of its blocks if its id is not used again: what
    /// nobody asks for is evicted in time.
    pub fn remove(&self, key: impl Into<BlockKey>) -> bool {
        let (Shared { engine, flights, .. }, key) = (&*self.shared, key.into());
        flights.overtake(key, || engine.remove(key))
    }

    /// Whether there is a block under `key` now. Counts nothing and changes nothing.
    pub fn contains(&self, key: impl Into<BlockKey>) -> bool {
        self.shared.engine.contains(key.into())
    }

    /// What the cache has done and what it holds. Sums counters of all threads: for reports, not for
    /// every request.
    pub fn stats(&self) -> CacheStats {
        CacheStats::of(self)
    }

    /// Makes the cache larger or smaller, at once; `size_min` is lowered to `bytes` while it is larger.
    /// What is pinned stays and may keep it larger for a while.
    ///
    /// # Errors
    /// [`Cause::Invalid`](arcwell_base::Cause::Invalid) when `bytes` is out of the range of
    /// [`CacheBuilder::size_max`].
    pub fn resize(&self, bytes: u64) -> Result<(), Error> {
        check_size_max(bytes)?;
        self.shared.engine.set_size_max(bytes);
        Ok(())
    }

    /// Gives up to `bytes` of memory back, but keeps `size_min`: for a program that needs memory
    /// elsewhere. Returns how many were freed. The cache grows again with what comes in; to keep it
    /// small, [`resize`](Cache::resize) it.
    pub fn shrink(&self, bytes: u64) -> u64 {
        self.shared.engine.shrink(bytes)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CacheStats { size, target, blocks, .. } = self.stats();
        let kind = self.kind;
        f.debug_struct("Cache")
            .field("kind", &kind)
            .field("size", &size)
            .field("target", &target)
            .field("blocks", &blocks)
            .finish()
    }
}
