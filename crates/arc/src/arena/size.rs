//! What a length is rounded up to: pure arithmetic.
//!
//! Bytes of a page or more take whole pages. Fewer take a slot of a [`SLAB`], in a class whose slots
//! follow one another without a remainder worth naming: a class is 'a slab by so many'. Up to
//! [`BY_SIXTEEN`] there is a class for each 16 bytes, which is also how slots are aligned; above, each is
//! about a twelfth larger than the one before, so that rounding costs 4 % in the mean.

use crate::arena::region::PAGE;

/// What slots are carved from; it begins at a multiple of itself.
pub(super) const SLAB: usize = 64 << 10;

/// Pages of a slab.
pub(super) const SLAB_PAGES: u32 = (SLAB / PAGE) as u32;

/// Slots begin at multiples of this.
pub(super) const GRAIN: usize = 16;

/// Up to here, classes are a grain apart.
const BY_SIXTEEN: usize = 256;

const TABLE: ([u16; 64], usize) = classes();

/// How many classes there are.
pub(super) const CLASSES: usize = TABLE.1;

/// The bytes of a slot of each class.
const SLOTS: [u16; 64] = TABLE.0;

/// The longest bytes that go into a slot.
pub(super) const LARGEST_SLOT: usize = SLOTS[CLASSES - 1] as usize;

/// The class of lengths, by grains.
const CLASS_OF: [u8; LARGEST_SLOT / GRAIN + 1] = class_of();

const fn classes() -> ([u16; 64], usize) {
    let (mut slots, mut count) = ([0; 64], 0);
    while count < BY_SIXTEEN / GRAIN {
        slots[count] = ((count + 1) * GRAIN) as u16;
        count += 1;
    }
    // Seventeen is the fewest that makes slots smaller than a page.
    let mut in_slab = SLAB / BY_SIXTEEN - 1;
    while in_slab >= 17 {
        let slot = SLAB / in_slab / GRAIN * GRAIN;
        if in_slab == 17 || slot * 12 >= slots[count - 1] as usize * 13 {
            slots[count] = slot as u16;
            count += 1;
        }
        in_slab -= 1;
    }
    (slots, count)
}

const fn class_of() -> [u8; LARGEST_SLOT / GRAIN + 1] {
    let mut of = [0; LARGEST_SLOT / GRAIN + 1];
    let (mut grains, mut class) = (1, 0);
    while grains < of.len() {
        if grains * GRAIN > SLOTS[class] as usize {
            class += 1;
        }
        of[grains] = class as u8;
        grains += 1;
    }
    of
}

/// What bytes of a length take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// A slot of this class.
    Slot(u8),
    /// So many pages.
    Pages(u32),
}

impl Size {
    /// Of `len` bytes, which are not zero and fewer than 4 GiB.
    #[inline]
    pub(super) fn of(len: usize) -> Size {
        debug_assert!(0 < len && len <= u32::MAX as usize, "no buffer has {len} bytes");
        if len <= LARGEST_SLOT {
            Size::Slot(CLASS_OF[len.div_ceil(GRAIN)])
        } else {
            Size::Pages(len.div_ceil(PAGE) as u32)
        }
    }

    /// Bytes that it takes.
    #[inline]
    pub(super) fn bytes(self) -> u64 {
        match self {
            Size::Slot(class) => slot_bytes(class) as u64,
            Size::Pages(pages) => u64::from(pages) * PAGE as u64,
        }
    }
}

/// The bytes of a slot of `class`.
#[inline]
pub(super) fn slot_bytes(class: u8) -> usize {
    usize::from(SLOTS[usize::from(class)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_rounded_up_to_the_next_class_and_little_is_lost() {
        let mut lost = 0.0;
        for len in 1..=2 * PAGE {
            let takes = Size::of(len).bytes() as usize;
            assert!(takes >= len && takes.is_multiple_of(GRAIN), "{len} takes {takes}");
            let limit =
                if len > LARGEST_SLOT { len.next_multiple_of(PAGE) } else { (len + GRAIN).max(len * 7 / 6) };
            assert!(takes <= limit, "{len} takes {takes}");
            if (16..2000).contains(&len) {
                lost += (takes - len) as f64 / takes as f64;
            }
        }
        let mean = lost / 1984.0;
        assert!((0.02..0.06).contains(&mean), "{mean}");
        assert_eq!((Size::of(1).bytes(), Size::of(LARGEST_SLOT).bytes()), (16, LARGEST_SLOT as u64));
        assert_eq!((Size::of(LARGEST_SLOT + 1), Size::of(PAGE + 1)), (Size::Pages(1), Size::Pages(2)));
    }

    #[test]
    fn slots_fill_their_slab() {
        for class in 0..CLASSES as u8 {
            let slot = slot_bytes(class);
            assert!(SLAB % slot <= SLAB / 50, "{slot} leaves {} bytes", SLAB % slot);
        }
    }
}
