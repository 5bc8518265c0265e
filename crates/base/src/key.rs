//! Identity of a block: which record of which object.

use std::fmt;

/// The id of an *object*: one file or volume as of one foreign change.
///
/// Ids are handed out by the pool, are never used twice, and are never zero. When the origin shows a
/// change that we did not cause, the file gets a new id, and blocks under the old one are simply
/// never asked for again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u64);

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {:x}", self.0)
    }
}

/// Names one block: a record of an object, or a piece of its metadata.
///
/// For data, `index` is the record's number: byte offset divided by the object's record size. For
/// metadata the pool gives indexes their meaning; bit 63 is then set, so that the two never meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockKey {
    /// The object that the block belongs to.
    pub object: ObjectId,
    /// The block's place within its object.
    pub index: u64,
}

impl BlockKey {
    /// The key of record `index` of `object`.
    pub const fn new(object: ObjectId, index: u64) -> Self {
        BlockKey { object, index }
    }

    /// A well-mixed 64-bit hash, the same in every run: tables, sublists and ghosts share it.
    ///
    /// Two rounds of multiply-and-fold (as in wyhash); every output bit depends on every input bit,
    /// so that disjoint bit ranges may be used for shard, sublist and tag.
    pub const fn hash(self) -> u64 {
        const A: u64 = 0x9e37_79b9_7f4a_7c15;
        const B: u64 = 0xd6e8_feb8_6659_fd93;
        let first = fold(self.object.0 ^ A, self.index ^ B);
        fold(first ^ B, self.index.rotate_left(32) ^ A)
    }
}

const fn fold(a: u64, b: u64) -> u64 {
    let wide = (a as u128).wrapping_mul(b as u128);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// The pair as a program that embeds the cache has it: object (a file, say) and place within it.
impl From<(u64, u64)> for BlockKey {
    fn from((object, index): (u64, u64)) -> Self {
        BlockKey { object: ObjectId(object), index }
    }
}

impl fmt::Debug for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {:x}/{:x}", self.object.0, self.index)
    }
}

/// What a block holds. The two kinds are kept apart at the top level of the policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// File or volume contents.
    Data,
    /// Attributes, listings, links, extended attributes, absence.
    Metadata,
}

impl Kind {
    /// Both kinds, in the order of [`Kind::index`].
    pub const ALL: [Kind; 2] = [Kind::Data, Kind::Metadata];

    /// 0 for data, 1 for metadata: for tables with one row a kind.
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_spread_over_all_bits() {
        let mut ones = [0u32; 64];
        for index in 0..4096 {
            let hash = BlockKey::new(ObjectId(7), index).hash();
            for (bit, count) in ones.iter_mut().enumerate() {
                *count += (hash >> bit & 1) as u32;
            }
        }
        assert!(ones.iter().all(|&n| (1800..2300).contains(&n)), "{ones:?}");
    }
}
