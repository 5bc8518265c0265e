//! [`Pin`]: a block that somebody uses, and the place that one is filled in.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use aligned_vec::{AVec, ConstAlign};
use arcwell_arc::Anon;

const PAGE: usize = 4096;

/// Memory beside the cache, laid out as the cache's own is.
type Aside = AVec<u8, ConstAlign<PAGE>>;

/// The bytes of a block, for as long as one holds it.
///
/// A pinned block is not evicted. It can be replaced or removed: others then find the new bytes or
/// none, while this pin keeps the bytes that it had. Cloning is cheap and copies no bytes.
///
/// What is pinned counts within the cache's limit and cannot make room for anything else, so pins are
/// to be held as long as the bytes are read, and not longer.
#[derive(Clone)]
pub struct Pin(Held);

#[derive(Clone)]
enum Held {
    Cached(arcwell_arc::Pin),
    Aside(Arc<Aside>),
}

impl Pin {
    /// Whether these bytes lie in the cache's memory. If not, they were read for their asker (and
    /// those who waited with him) alone, because so much of the cache was in use that nothing could
    /// be evicted, or because the block is larger than half of the cache.
    ///
    /// It says nothing of whether the block can still be found: see
    /// [`Cache::contains`](super::Cache::contains).
    pub fn is_cached(&self) -> bool {
        matches!(self.0, Held::Cached(_))
    }

    /// Copies the bytes from `at` on, as many as `out` has room for. For blocks of some KiB that lie in none of the
    /// processor's caches, as most of a large cache, this is faster than `copy_from_slice`: the memory is asked
    /// for the next bytes while those before are copied.
    ///
    /// ```
    /// # let cache = arcwell::Cache::builder().size_max(1 << 20).build()?;
    /// let pin = cache.insert((1, 10), b"page ten")?;
    /// let mut out = [0; 3];
    /// pin.copy_to(5, &mut out);
    /// assert_eq!(&out, b"ten");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// When the block has not so many bytes.
    pub fn copy_to(&self, at: usize, out: &mut [u8]) {
        match &self.0 {
            Held::Cached(pin) => pin.copy_to(at, out),
            Held::Aside(bytes) => out.copy_from_slice(&bytes[at..at + out.len()]),
        }
    }
}

impl From<arcwell_arc::Pin> for Pin {
    fn from(pin: arcwell_arc::Pin) -> Self {
        Pin(Held::Cached(pin))
    }
}

impl Deref for Pin {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Cached(pin) => pin,
            Held::Aside(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Pin {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Held::Cached(pin) => pin.fmt(f),
            Held::Aside(bytes) => write!(f, "{} bytes beside the cache", bytes.len()),
        }
    }
}

/// Where a block is filled.
pub(super) enum Room {
    /// In the cache.
    Cached(Anon),
    /// Beside it, as it is full.
    Aside(Aside),
}

impl Room {
    /// Zeroed memory beside the cache.
    pub(super) fn aside(len: usize) -> Room {
        let mut bytes = AVec::with_capacity(PAGE, len);
        bytes.resize(len, 0);
        Room::Aside(bytes)
    }

    /// Keeps the first `len` bytes; beside the cache, when it has no room for so few.
    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Room::Cached(anon) => {
                if anon.truncate(len).is_err() {
                    let mut bytes = AVec::with_capacity(PAGE, len);
                    bytes.extend_from_slice(&anon[..len]);
                    *self = Room::Aside(bytes);
                }
            }
            Room::Aside(bytes) => bytes.truncate(len),
        }
    }

    /// Makes the block findable, if it lies in the cache.
    pub(super) fn publish(self) -> Pin {
        match self {
            Room::Cached(anon) => anon.publish().into(),
            Room::Aside(bytes) => Pin(Held::Aside(Arc::new(bytes))),
        }
    }
}

impl Deref for Room {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Room::Cached(anon) => anon,
            Room::Aside(bytes) => bytes,
        }
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Room::Cached(anon) => anon,
            Room::Aside(bytes) => bytes,
        }
    }
}
