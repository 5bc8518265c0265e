//! Pins: a reader's references to blocks.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use arcwell_base::{BlockKey, Kind};

use crate::buffer::Buffer;
use crate::shard::Shard;

/// A reader's reference to a block: as long as one lives, the block is not evicted. Its bytes stay
/// what they were, even when the block is removed or replaced.
pub struct Pin {
    pub(crate) shard: Arc<Shard>,
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) key: BlockKey,
    pub(crate) slot: u32,
    pub(crate) kind: Kind,
}

impl Pin {
    /// Which block this is.
    pub fn key(&self) -> BlockKey {
        self.key
    }

    /// What it holds.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl Deref for Pin {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Clone for Pin {
    fn clone(&self) -> Pin {
        self.shard.repin(self.slot);
        let Pin { ref shard, ref buffer, key, slot, kind } = *self;
        Pin { shard: Arc::clone(shard), buffer: Arc::clone(buffer), key, slot, kind }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.shard.release(self.slot, self.key.hash());
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pin of {:?} ({:?}, {} bytes)", self.key, self.kind, self.len())
    }
}
