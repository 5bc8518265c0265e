//! The index: from a key to where its block lies, 16 bytes a block.
//!
//! 4,096 shards, named by the upper bits of a key's hash, each with a lock and a row of entries in the order of the
//! hash's next 24 bits, the *tag* (`shard`). `entry` says what an entry holds and how, `arena` where rows come
//! from. Keys are not kept: a look-up finds the entry with the key's tag, which is another block's once in
//! some thousand misses at ten million blocks. Its bytes do not agree with the checksum then, which the key seeds
//! (L1), and that is a miss that has cost a read.
//!
//! So two keys with the same 36 bits cannot both be known: who is put last has the entry, and the other block is lost to
//! level 2. Among ten million blocks this happens to seven hundred. To let both stand would cost more than that: an
//! entry that is overwritten or forgotten could not be told from its neighbour. Nor does forgetting ever
//! leave anything: it takes out whatever has the tag (L3).
//!
//! The largest device has 8 TiB, a pool has eight of them, a block 16 MiB: an entry has no more bits.
//!
//! # Load and memory
//!
//! A shard grows by a sixteenth when nine in ten of its slots are taken, in pieces of 512 bytes; so between 85 and 90 %
//! are, and a block takes 17.8 to 18.9 bytes and what the shards themselves take: 350 KiB.
//!
//! `figures` holds the process to it.
//!
//! # Speed
//!
//! A look-up waits for memory once, for the home of the tag: nearly all of its time. Measured only on a busy
//! machine so far (two cores, ten others who wanted them), ten million blocks: 290 to 530 ns a look-up, hit or
//! miss; three million: 830 ns a put. `cargo test --release -p arcwell-l2arc --lib -- index::figures --ignored
//! --nocapture --test-threads=1`
#[allow(unsafe_code, reason = "an island: see its opening doc")]
mod arena;
mod entry;
#[cfg(test)]
mod figures;
mod shard;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use arcwell_base::BlockKey;
use arcwell_base::lock::Mutex;

use arena::Arena;
use entry::Packed;
pub(crate) use entry::{DEVICE_BYTES_MAX, DEVICES, Entry};
use shard::Shard;

/// Shards: the upper twelve bits of a hash.
const SHARDS: usize = 4096;

/// See the module's doc.
pub(crate) struct Index {
    shards: Box<[Mutex<Shard>]>,
    arena: Arc<Arena>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "index of {} blocks", self.len())
    }
}

impl Index {
    pub(crate) fn new() -> Index {
        let arena = Arc::new(Arena::new());
        let shard = |_| Mutex::new("l2.index", Shard::new(Arc::clone(&arena)));
        Index { shards: (0..SHARDS).map(shard).collect(), arena }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 52) as usize]
    }

    /// What is known of a block. It may be another's whose tag agrees: only its bytes tell.
    pub(crate) fn get(&self, key: BlockKey) -> Option<Entry> {
        let hash = key.hash();
        self.shard(hash).lock().get(Packed::tag_of(hash)).map(Packed::unpack)
    }

    /// Whether something is known of a block.
    pub(crate) fn contains(&self, key: BlockKey) -> bool {
        self.get(key).is_some()
    }

    /// Whether bytes with this checksum may be those of an entry: in the bits that it kept.
    pub(crate) fn agrees(entry: &Entry, checksum: u64) -> bool {
        Packed::kept(entry.checksum) == Packed::kept(checksum)
    }

    /// Notes where a block lies. Returns what was noted before of it, or of another block with the same
    /// tag, which is thereby lost. What cannot be noted (see [`Entry`]) is not, and what was noted before goes.
    pub(crate) fn put(&self, key: BlockKey, entry: Entry) -> Option<Entry> {
        let hash = key.hash();
        let tag = Packed::tag_of(hash);
        let mut shard = self.shard(hash).lock();
        match Packed::pack(tag, entry) {
            Some(packed) => shard.put(packed).map(Packed::unpack),
            None => shard.remove_if(tag, |_| true).map(Packed::unpack),
        }
    }

    /// Forgets a block, and returns what was known of it.
    pub(crate) fn remove(&self, key: BlockKey) -> Option<Entry> {
        self.remove_if(key, |_| true)
    }

    /// Forgets a block if it lies there.
    pub(crate) fn remove_at(&self, key: BlockKey, device: u8, offset: u64) -> Option<Entry> {
        self.remove_if(key, |entry| entry.device == device && entry.offset == offset)
    }

    fn remove_if(&self, key: BlockKey, is_it: impl Fn(Entry) -> bool) -> Option<Entry> {
        let hash = key.hash();
        let mut shard = self.shard(hash).lock();
        shard.remove_if(Packed::tag_of(hash), |packed| is_it(packed.unpack())).map(Packed::unpack)
    }

    /// Notes that a block was read from its device.
    pub(crate) fn mark_read(&self, key: BlockKey) {
        let hash = key.hash();
        self.shard(hash).lock().mark_read(Packed::tag_of(hash));
    }

    /// Forgets all blocks of a device, and says how many.
    pub(crate) fn remove_device(&self, device: u8) -> u64 {
        self.remove_range(device, 0..u64::MAX)
    }

    /// Forgets all blocks that begin in a range of a device, and says how many.
    pub(crate) fn remove_range(&self, device: u8, range: Range<u64>) -> u64 {
        let stays = |packed: Packed| {
            let entry = packed.unpack();
            entry.device != device || !range.contains(&entry.offset)
        };
        self.shards.iter().map(|shard| shard.lock().retain(stays)).sum()
    }

    /// Blocks that are known.
    pub(crate) fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Bytes of memory that it takes, with what lies idle for it.
    pub(crate) fn bytes(&self) -> u64 {
        let beside: usize = self.shards.iter().map(|shard| shard.lock().beside()).sum();
        self.arena.held() + (size_of_val(&*self.shards) + beside) as u64
    }

    /// Has what a look-up of a block begins with fetched from memory.
    #[cfg_attr(not(test), allow(dead_code, reason = "the rebuild's, when it looks ahead"))]
    pub(crate) fn prefetch(&self, key: BlockKey) {
        let hash = key.hash();
        if let Some(shard) = self.shard(hash).try_lock() {
            shard.prefetch(Packed::tag_of(hash));
        }
    }
}
