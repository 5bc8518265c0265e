//! What makes bytes from a device believable.
//!
//! The key is the seed, so that the bytes of another block, intact as they may be, do not agree: a
//! stale entry of the index, two keys with one tag, a write that went elsewhere. All three are then
//! the same thing, a miss.

use arcwell_base::BlockKey;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The checksum of the bytes of a block: XXH3-64, seeded by the key's hash.
#[inline]
pub(crate) fn checksum(key: BlockKey, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, key.hash())
}

/// The checksum of what is no block: superblocks and tables.
pub(crate) fn checksum_of_layout(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

#[cfg(test)]
mod tests {
    use arcwell_base::ObjectId;

    use super::*;

    #[test]
    fn the_bytes_of_another_block_do_not_agree() {
        let bytes = [7; 4096];
        let key = |index| BlockKey::new(ObjectId(3), index);
        assert_eq!(checksum(key(1), &bytes), checksum(key(1), &bytes));
        assert_ne!(checksum(key(1), &bytes), checksum(key(2), &bytes));
        assert_ne!(checksum(key(1), &bytes), checksum(key(1), &bytes[..4095]));
        // Without the key they would.
        assert_eq!(checksum_of_layout(&bytes), checksum_of_layout(&bytes.clone()));
    }

    /// What is on a device was written by an earlier version: the sum must not change with a library's.
    #[test]
    fn the_checksum_is_what_it_always_was() {
        let text = b"arcwell";
        assert_eq!(checksum_of_layout(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(
            checksum(BlockKey::new(ObjectId(1), 2), text),
            xxh3_64_with_seed(text, BlockKey::new(ObjectId(1), 2).hash())
        );
    }
}
