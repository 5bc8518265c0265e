//! The index: from a key to where its block lies, 16 bytes a block.

mod entry;
mod shard;

use std::ops::Range;

use arcwell_base::BlockKey;
use arcwell_base::lock::Mutex;

pub(crate) use entry::Entry;
use entry::Packed;
use shard::Shard;

/// Shards: the upper twelve bits of a hash.
const SHARDS: usize = 4096;

/// See the module's doc.
pub(crate) struct Index {
    shards: Box<[Mutex<Shard>]>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "index of {} blocks", self.len())
    }
}

impl Index {
    pub(crate) fn new() -> Index {
        Index { shards: (0..SHARDS).map(|_| Mutex::named("l2.index")).collect() }
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

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.len() * 16
    }
}
