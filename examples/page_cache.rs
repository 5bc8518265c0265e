//! An embedded page cache: what a database puts between its pages and its file.
//!
//!     cargo run --release --example page_cache
//!
//! A store keeps pages of 8 KiB in a file four times as large as its cache. Threads read pages, some
//! of them much more often than others, and write a few. Every word of a page tells which page and
//! which version it belongs to, so that a torn, foreign or old one is noticed. In the end the file is
//! read past the cache and compared as well, and the cache's statistics are printed.

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Instant;

use arcwell::{BlockKey, Cache, Pin};
use parking_lot::RwLock;

const PAGE: usize = 8 << 10;
const PAGES: u64 = 8 << 10;
const CACHE_BYTES: u64 = 16 << 20;
const THREADS: u64 = 4;
const REQUESTS: u64 = 200_000;
/// One request in so many is a write.
const WRITES: u64 = 20;

type Failure = Box<dyn Error + Send + Sync>;

/// Pages of a file, through a cache.
struct PageStore {
    file: File,
    /// Tells this file from others in the same cache.
    id: u64,
    cache: Cache,
    /// A latch for each page, which guards its version. A page is not read from the file while it is
    /// being written, as a read could see half of the write; the cache does not know when that is, so
    /// it is the store's business. Hits take no latch.
    latches: Vec<RwLock<u64>>,
}

impl PageStore {
    /// Writes the first version of every page.
    fn create(file: File, id: u64, cache: Cache) -> io::Result<PageStore> {
        for page in 0..PAGES {
            file.write_all_at(&image(page, 0), place(page))?;
        }
        let latches = (0..PAGES).map(|_| RwLock::new(0)).collect();
        Ok(PageStore { file, id, cache, latches })
    }

    /// A page, from memory or from the file. Its bytes stay what they are while the pin is held.
    fn read(&self, page: u64) -> io::Result<Pin> {
        let fetch = |buffer: &mut [u8]| {
            let _latch = self.latches[page as usize].read();
            self.file.read_exact_at(buffer, place(page)).map(|()| PAGE)
        };
        Ok(self.cache.get_or_fetch((self.id, page), PAGE, fetch)?)
    }

    /// Writes the next version of a page: to the file first, then to the cache.
    fn write(&self, page: u64) -> io::Result<()> {
        let mut version = self.latches[page as usize].write();
        let bytes = image(page, *version + 1);
        match self.file.write_all_at(&bytes, place(page)) {
            // Without room for it nothing is found, and the next reader fetches the page.
            Ok(()) => _ = self.cache.insert((self.id, page), &bytes),
            // Half of it may be there: the next reader is to see what is.
            Err(error) => {
                self.cache.remove((self.id, page));
                return Err(error);
            }
        }
        *version += 1;
        Ok(())
    }

    fn version(&self, page: u64) -> u64 {
        *self.latches[page as usize].read()
    }
}

/// Where a page lies in the file, bytes.
fn place(page: u64) -> u64 {
    page * PAGE as u64
}

/// A page's bytes: its version, then words that follow from page and version.
fn image(page: u64, version: u64) -> Vec<u8> {
    let word = BlockKey::from((page, version)).hash();
    let mut bytes = word.to_le_bytes().repeat(PAGE / 8);
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Checks that these are the bytes of a page, in a version that is not older than `least`.
fn check(page: u64, bytes: &[u8], least: u64) -> Result<(), Failure> {
    let version = u64::from_le_bytes(bytes[..8].try_into()?);
    if version < least {
        return Err(format!("page {page}: found version {version}, expected {least} or later").into());
    }
    if *bytes != *image(page, version) {
        return Err(format!("page {page}: these are not the bytes of version {version}").into());
    }
    Ok(())
}

/// What one thread does. Returns the number of its writes.
fn work(store: &PageStore, thread: u64) -> Result<u64, Failure> {
    let mut writes = 0;
    for turn in 0..REQUESTS {
        let random = BlockKey::from((thread, turn)).hash();
        // Of a number between 0 and 1 the fourth power: half of the requests go to a sixteenth of
        // the pages.
        let part = (random >> 11) as f64 / (1u64 << 53) as f64;
        let page = (part.powi(4) * PAGES as f64) as u64;
        if random % WRITES == 0 {
            store.write(page)?;
            writes += 1;
        } else {
            let least = store.version(page);
            check(page, &store.read(page)?, least)?;
        }
    }
    Ok(writes)
}

fn main() -> Result<(), Failure> {
    let cache = Cache::builder().size_max(CACHE_BYTES).typical_block(PAGE as u64).build()?;
    let store = PageStore::create(tempfile::tempfile()?, 1, cache)?;

    let began = Instant::now();
    let writes = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                scope.spawn({
                    let store = &store;
                    move || work(store, number)
                })
            })
            .collect();
        let counts = threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked")?);
        counts.sum::<Result<u64, Failure>>()
    })?;
    let took = began.elapsed();

    let mut bytes = vec![0; PAGE];
    for page in 0..PAGES {
        store.file.read_exact_at(&mut bytes, place(page))?;
        check(page, &bytes, store.version(page))?;
    }
    let reads = THREADS * REQUESTS - writes;
    println!("{reads} reads and {writes} writes by {THREADS} threads in {took:.1?}; all pages are right");
    println!("{}", store.cache.stats());
    Ok(())
}
