//! Where blocks lie within a segment. Pure arithmetic.
//!
//! Blocks of whole units lie one after the other. Others share a unit as long as they fit into what is left of it, so
//! that none crosses a unit's end that is not longer than one; one that is longer begins at a unit and leaves the rest
//! of its last one to others.

use crate::layout::{GRAIN, UNIT};

const WHOLE: u32 = UNIT as u32;

/// What is taken of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Packing {
    /// All from here on is free; a multiple of the unit.
    fill: u32,
    /// The rest of a unit that odd blocks share: from here on,
    odd: u32,
    /// to here.
    odd_end: u32,
}

impl Packing {
    /// Bytes that are taken from the segment's start on.
    pub(crate) fn taken(&self) -> u32 {
        self.fill
    }

    /// A place for `len` bytes, and what is taken then.
    pub(crate) fn with(mut self, len: u32) -> (u32, Packing) {
        let takes = len.next_multiple_of(GRAIN);
        if takes <= self.odd_end - self.odd && !len.is_multiple_of(WHOLE) {
            let at = self.odd;
            self.odd += takes;
            return (at, self);
        }
        let at = self.fill;
        self.fill += len.next_multiple_of(WHOLE);
        // The larger of the two rests is kept.
        if self.fill - (at + takes) > self.odd_end - self.odd {
            (self.odd, self.odd_end) = (at + takes, self.fill);
        }
        (at, self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_blocks_follow_each_other_and_small_ones_share_a_unit() {
        let mut packing = Packing::default();
        let mut places = Vec::new();
        for len in [8192, 100, 4096, 3000, 900, 64, 5000, 3000] {
            let (at, next) = packing.with(len);
            places.push(at);
            packing = next;
        }
        assert_eq!(places, [0, 8192, 12288, 8320, 11328, 16384, 20480, 16448]);
        assert_eq!(packing.taken(), 28672);
    }

    proptest! {
        #[test]
        fn no_two_blocks_meet_and_none_crosses_a_unit_without_need(
            lens in prop::collection::vec(prop_oneof![1u32..20_000, (1u32..5).prop_map(|n| n * 4096)], 1..200)
        ) {
            let mut packing = Packing::default();
            let mut taken: Vec<(u32, u32)> = Vec::new();
            for len in lens {
                let (at, next) = packing.with(len);
                packing = next;
                prop_assert!(at.is_multiple_of(GRAIN));
                prop_assert!(at + len <= packing.taken());
                let units = (at + len).div_ceil(WHOLE) - at / WHOLE;
                prop_assert_eq!(units, len.div_ceil(WHOLE));
                taken.push((at, at + len));
            }
            taken.sort_unstable();
            prop_assert!(taken.windows(2).all(|two| two[0].1 <= two[1].0));
        }
    }
}
