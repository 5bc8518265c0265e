//! The superblock: whose device it is and how it is divided.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic, `ARCWELL2` |
//! | 8..12 | format |
//! | 12..16 | segments |
//! | 16..24 | generation |
//! | 24..40 | device id |
//! | 40..56 | pool id |
//! | 56..64 | bytes of the device |
//! | 64..72 | bytes of a segment |
//! | 72..4088 | zero |
//! | 4088..4096 | XXH3-64 of all before |
//!
//! A later format keeps magic, format and checksum where they are. The two copies are written in turn, so one
//! of them is whole at any time, and the higher generation holds.
//!
//! To overwrite what belongs to somebody else is the worst that level 2 could do. So as soon as *one* copy holds
//! bytes that we cannot have written, the device is foreign, even if the other copy is whole: a file system that was
//! made after us may have left it. That includes a copy with our magic and something in its zeroes, for instance
//! ext4's superblock at 1,024. One word there is taken for damage.

use super::{Aligned, FIRST_SEGMENT, SEGMENT, UNIT, put_at, u32_at, u64_at, u128_at, zeroes};
use crate::checksum::checksum_of_layout;

const MAGIC: &[u8; 8] = b"ARCWELL2";
const FORMAT: u32 = 1;
const FIELDS: usize = 72;
const CHECKSUM: usize = UNIT - 8;

/// A device has so many segments at least, if it is large enough.
const SEGMENTS_MIN: u64 = 16;

/// See the module's doc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Grows with each superblock that is written.
    pub(crate) generation: u64,
    /// The device's id.
    pub(crate) device: u128,
    /// The id of the pool that it belongs to.
    pub(crate) pool: u128,
    /// Bytes of the device that the layout is for.
    pub(crate) bytes: u64,
    /// Bytes of a segment.
    pub(crate) segment: u64,
    /// Segments.
    pub(crate) segments: u32,
}

/// What the two places for superblocks hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing but zeroes.
    Blank,
    /// A superblock: of one of our pools, not necessarily the one that asks.
    Ours(Superblock),
    /// Bytes that are not ours.
    Foreign,
    /// The superblock of a later format, whose number this is.
    Newer(u32),
    /// One of ours, of which no copy is whole.
    Damaged,
}

impl Superblock {
    /// How a device of `bytes` bytes is divided, into segments of `segment` bytes or, so that there are enough of them,
    /// shorter ones. Nothing if it is too small.
    pub(crate) fn divide(bytes: u64, segment: u64) -> Option<(u64, u32)> {
        let room = bytes.checked_sub(FIRST_SEGMENT)?;
        let mut segment = segment.clamp(*SEGMENT.start(), *SEGMENT.end()).next_power_of_two();
        while segment > *SEGMENT.start() && room / segment < SEGMENTS_MIN {
            segment /= 2;
        }
        let segments = u32::try_from(room / segment).ok()?;
        (segments > 0).then_some((segment, segments))
    }

    /// Where a segment begins.
    pub(crate) fn start_of(&self, segment: u32) -> u64 {
        FIRST_SEGMENT + u64::from(segment) * self.segment
    }

    /// The superblock as it lies on the device: one unit.
    pub(crate) fn encode(&self) -> Aligned {
        let mut unit = zeroes(UNIT);
        put_at(&mut unit, 0, MAGIC);
        put_at(&mut unit, 8, &FORMAT.to_le_bytes());
        put_at(&mut unit, 12, &self.segments.to_le_bytes());
        put_at(&mut unit, 16, &self.generation.to_le_bytes());
        put_at(&mut unit, 24, &self.device.to_le_bytes());
        put_at(&mut unit, 40, &self.pool.to_le_bytes());
        put_at(&mut unit, 56, &self.bytes.to_le_bytes());
        put_at(&mut unit, 64, &self.segment.to_le_bytes());
        let checksum = checksum_of_layout(&unit[..CHECKSUM]);
        put_at(&mut unit, CHECKSUM, &checksum.to_le_bytes());
        unit
    }

    /// What the two copies, each of a unit, say of their device.
    pub(crate) fn choose(first: &[u8], second: &[u8]) -> Found {
        match (decode(first), decode(second)) {
            (Found::Foreign, _) | (_, Found::Foreign) => Found::Foreign,
            (Found::Newer(a), Found::Newer(b)) => Found::Newer(a.max(b)),
            (Found::Newer(format), _) | (_, Found::Newer(format)) => Found::Newer(format),
            (Found::Ours(a), Found::Ours(b)) => Found::Ours(if b.generation > a.generation { b } else { a }),
            (Found::Ours(one), _) | (_, Found::Ours(one)) => Found::Ours(one),
            (Found::Damaged, _) | (_, Found::Damaged) => Found::Damaged,
            (Found::Blank, Found::Blank) => Found::Blank,
        }
    }

    /// Whether this can be: what a checksum agrees with may still be nonsense.
    fn is_sound(&self) -> bool {
        let takes = u64::from(self.segments).checked_mul(self.segment);
        let end = takes.and_then(|takes| takes.checked_add(FIRST_SEGMENT));
        self.segment.is_power_of_two()
            && SEGMENT.contains(&self.segment)
            && self.segments > 0
            && end.is_some_and(|end| end <= self.bytes)
    }
}

/// What one copy says.
fn decode(unit: &[u8]) -> Found {
    if unit.len() != UNIT {
        return Found::Damaged;
    }
    if unit.iter().all(|byte| *byte == 0) {
        return Found::Blank;
    }
    if &unit[..8] != MAGIC {
        return Found::Foreign;
    }
    let is_whole = u64_at(unit, CHECKSUM) == checksum_of_layout(&unit[..CHECKSUM]);
    let format = u32_at(unit, 8);
    if is_whole && format > FORMAT {
        return Found::Newer(format);
    }
    if !is_whole {
        let strays = unit[FIELDS..CHECKSUM].chunks_exact(8).filter(|word| word.iter().any(|byte| *byte != 0));
        return if strays.count() > 1 { Found::Foreign } else { Found::Damaged };
    }
    let found = Superblock {
        generation: u64_at(unit, 16),
        device: u128_at(unit, 24),
        pool: u128_at(unit, 40),
        bytes: u64_at(unit, 56),
        segment: u64_at(unit, 64),
        segments: u32_at(unit, 12),
    };
    if format == FORMAT && found.is_sound() { Found::Ours(found) } else { Found::Damaged }
}
