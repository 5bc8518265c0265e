//! What the index knows of a block, as fields and packed into 16 bytes.
//!
//! | bits | what | largest |
//! |---|---|---|
//! | 24 | tag | with the shard's 12 bits: 36 of the key's hash |
//! | 36 | checksum | wrong bytes agree once in 69 billion times |
//! | 1 | there is an entry | |
//! | 3 | is metadata, was frequent, was read | |
//! | 3 | device | 8 devices |
//! | 37 | offset in units of 64 bytes | 8 TiB a device |
//! | 24 | length − 1 | 16 MiB |
//!
//! Tag, checksum and flags are the upper word, the rest the lower one, so that packed entries are in the order
//! of their tags when compared as numbers.

use crate::layout::{BLOCK_MAX, GRAIN};

/// Devices that an entry can tell apart.
pub(crate) const DEVICES: u8 = 8;

/// Where a device must end for blocks on it to be noted.
pub(crate) const DEVICE_BYTES_MAX: u64 = (1 << OFFSET_BITS) * GRAIN as u64;

const OFFSET_BITS: u32 = 37;
const LEN_BITS: u32 = 24;
const CHECKSUM_BITS: u32 = 36;
pub(super) const TAG_BITS: u32 = 24;

const FREQUENT: u64 = 1;
const METADATA: u64 = 1 << 1;
const READ: u64 = 1 << 2;
const THERE: u64 = 1 << 3;
const CHECKSUM_AT: u32 = 4;
const TAG_AT: u32 = CHECKSUM_AT + CHECKSUM_BITS;

const _: () = assert!(TAG_AT + TAG_BITS == 64 && LEN_BITS + OFFSET_BITS + 3 == 64);
const _: () = assert!(BLOCK_MAX == 1 << LEN_BITS && DEVICES == 1 << 3);

/// What is known of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// All of it when it is put; what [`Index::get`](super::Index::get) gives back holds the lower 36 bits.
    pub(crate) checksum: u64,
    /// Below [`DEVICES`].
    pub(crate) device: u8,
    /// On the device: a multiple of 64 below [`DEVICE_BYTES_MAX`].
    pub(crate) offset: u64,
    /// More than none, at most 16 MiB.
    pub(crate) len: u32,
    pub(crate) is_metadata: bool,
    pub(crate) is_frequent: bool,
    /// Whether it has been read since it was written.
    pub(crate) was_read: bool,
}

/// An entry as it is kept; or a slot that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Packed {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Packed {
    /// The bits of a hash that tell entries of a shard apart: those below the shard's.
    #[inline]
    pub(super) fn tag_of(hash: u64) -> u32 {
        (hash << 12 >> (64 - TAG_BITS)) as u32
    }

    /// The part of a checksum that is kept.
    #[inline]
    pub(super) fn kept(checksum: u64) -> u64 {
        checksum & ((1 << CHECKSUM_BITS) - 1)
    }

    /// Nothing if it does not fit.
    pub(super) fn pack(tag: u32, entry: Entry) -> Option<Packed> {
        let fits = entry.device < DEVICES
            && entry.offset < DEVICE_BYTES_MAX
            && entry.offset.is_multiple_of(GRAIN.into())
            && (1..=BLOCK_MAX).contains(&entry.len);
        debug_assert!(fits, "{entry:?} cannot be noted");
        let flag = |is: bool, bit: u64| if is { bit } else { 0 };
        fits.then(|| Packed {
            high: u64::from(tag) << TAG_AT
                | Packed::kept(entry.checksum) << CHECKSUM_AT
                | THERE
                | flag(entry.is_metadata, METADATA)
                | flag(entry.is_frequent, FREQUENT)
                | flag(entry.was_read, READ),
            low: u64::from(entry.device) << (OFFSET_BITS + LEN_BITS)
                | (entry.offset / u64::from(GRAIN)) << LEN_BITS
                | u64::from(entry.len - 1),
        })
    }

    pub(super) fn unpack(self) -> Entry {
        Entry {
            checksum: Packed::kept(self.high >> CHECKSUM_AT),
            device: (self.low >> (OFFSET_BITS + LEN_BITS)) as u8,
            offset: (self.low >> LEN_BITS & ((1 << OFFSET_BITS) - 1)) * u64::from(GRAIN),
            len: (self.low & ((1 << LEN_BITS) - 1)) as u32 + 1,
            is_metadata: self.high & METADATA != 0,
            is_frequent: self.high & FREQUENT != 0,
            was_read: self.high & READ != 0,
        }
    }

    #[inline]
    pub(super) fn tag(self) -> u32 {
        (self.high >> TAG_AT) as u32
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.high & THERE == 0
    }

    #[inline]
    pub(super) fn read(self) -> Packed {
        Packed { high: self.high | READ, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_and_the_smallest_entry_come_back_as_they_were() {
        let large = Entry {
            checksum: (1 << CHECKSUM_BITS) - 1,
            device: DEVICES - 1,
            offset: DEVICE_BYTES_MAX - u64::from(GRAIN),
            len: BLOCK_MAX,
            is_metadata: true,
            is_frequent: true,
            was_read: true,
        };
        let small = Entry {
            checksum: 0,
            device: 0,
            offset: 0,
            len: 1,
            is_metadata: false,
            is_frequent: false,
            was_read: false,
        };
        for (entry, tag) in [(large, (1 << TAG_BITS) - 1), (small, 0)] {
            let packed = Packed::pack(tag, entry).unwrap();
            assert_eq!((packed.unpack(), packed.tag(), packed.is_empty()), (entry, tag, false));
        }
        for one in 0..3 {
            let is = |bit| one == bit;
            let entry = Entry { is_metadata: is(0), is_frequent: is(1), was_read: is(2), ..small };
            assert_eq!(Packed::pack(5, entry).unwrap().unpack(), entry);
        }
        assert!(Packed::default().is_empty());
        assert!(Packed::pack(5, small).unwrap().read().unpack().was_read);
    }

    #[test]
    fn a_tag_is_made_of_the_bits_below_those_of_the_shard() {
        assert_eq!(Packed::tag_of(0xfff0_0000_0fff_ffff), 0);
        assert_eq!(Packed::tag_of(0x000a_bcde_f000_0000), 0xab_cdef);
    }
}
