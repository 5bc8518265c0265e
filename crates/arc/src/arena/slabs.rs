//! Which slots of which slabs are free: pure bookkeeping, no memory is touched.
//!
//! Slots are given out from the lowest slab of their class that has any, and the lowest in it, so that
//! high slabs run empty. A slab that is empty is gone. One that is not may still have pages that no slot
//! in use touches: those can be given back alone, and are *hollow* until a slot on them is taken.
//!
//! - **R4** A slab has as many slots in use as its bits say, at least one, and is among the open ones of
//!   its class exactly if it has a free slot.
//! - **R5** No slot in use touches a hollow page.

use std::collections::BTreeSet;
use std::ops::Range;

use hashbrown::HashMap;

use crate::arena::region::PAGE;
use crate::arena::size::{CLASSES, SLAB, slot_bytes};

/// One bit for each page of a slab.
pub(super) type PageBits = u16;

const _: () = assert!(SLAB / PAGE == PageBits::BITS as usize, "a bit for each page");

#[derive(Debug)]
struct Slab {
    class: u8,
    used: u16,
    hollow: PageBits,
    /// A bit for each slot, set if it is free.
    free: Box<[u64]>,
}

impl Slab {
    fn slots(&self) -> u16 {
        (SLAB / slot_bytes(self.class)) as u16
    }

    fn is_free(&self, slot: u16) -> bool {
        self.free[usize::from(slot) / 64] >> (slot % 64) & 1 == 1
    }

    /// The pages that `slot` touches.
    fn pages_of(&self, slot: u16) -> PageBits {
        let bytes = slot_bytes(self.class);
        let first = usize::from(slot) * bytes;
        let (low, high) = (first / PAGE, (first + bytes - 1) / PAGE);
        (PageBits::MAX << low) & (PageBits::MAX >> (PageBits::BITS as usize - 1 - high))
    }

    /// The pages that slots in use touch.
    fn touched(&self) -> PageBits {
        (0..self.slots()).filter(|slot| !self.is_free(*slot)).fold(0, |bits, slot| bits | self.pages_of(slot))
    }
}

/// All slabs.
#[derive(Debug)]
pub(super) struct Slabs {
    slabs: HashMap<u32, Slab>,
    open: Box<[BTreeSet<u32>; CLASSES]>,
    hollow_pages: u64,
}

impl Default for Slabs {
    fn default() -> Self {
        let open = Box::new([const { BTreeSet::new() }; CLASSES]);
        Slabs { slabs: HashMap::new(), open, hollow_pages: 0 }
    }
}

impl Slabs {
    /// Pages of slabs that no memory stands behind.
    pub(super) fn hollow_pages(&self) -> u64 {
        self.hollow_pages
    }

    /// Makes slab `at` slots of `class`, all free. The next slot of the class has to be taken from it.
    pub(super) fn open(&mut self, at: u32, class: u8, hollow: PageBits) {
        let slots = SLAB / slot_bytes(class);
        let mut free = vec![u64::MAX; slots.div_ceil(64)];
        if !slots.is_multiple_of(64) {
            free[slots / 64] = (1 << (slots % 64)) - 1;
        }
        let was = self.slabs.insert(at, Slab { class, used: 0, hollow, free: free.into() });
        assert!(was.is_none(), "R4: slab {at} was open");
        self.open[usize::from(class)].insert(at);
        self.hollow_pages += u64::from(hollow.count_ones());
    }

    /// Takes a slot: which slab, and how many bytes into it. Nothing if all slabs of the class are full.
    pub(super) fn take(&mut self, class: u8) -> Option<(u32, usize)> {
        let at = *self.open[usize::from(class)].first()?;
        let slab = self.slabs.get_mut(&at)?;
        let word = slab.free.iter().position(|word| *word != 0)?;
        let slot = (word * 64) as u16 + slab.free[word].trailing_zeros() as u16;
        slab.free[word] &= slab.free[word] - 1;
        slab.used += 1;
        let filled = slab.hollow & slab.pages_of(slot);
        slab.hollow ^= filled;
        self.hollow_pages -= u64::from(filled.count_ones());
        if slab.used == slab.slots() {
            self.open[usize::from(class)].remove(&at);
        }
        Some((at, usize::from(slot) * slot_bytes(class)))
    }

    /// Gives the slot of `class` back that lies `offset` bytes into slab `at`. If the slab is empty then,
    /// it is gone, and these of its pages are hollow.
    pub(super) fn put(&mut self, at: u32, class: u8, offset: usize) -> Option<PageBits> {
        let slot = (offset / slot_bytes(class)) as u16;
        let Some(slab) = self.slabs.get_mut(&at).filter(|slab| slab.class == class && !slab.is_free(slot))
        else {
            panic!("R4: slot {slot} of class {class} in slab {at} is not in use");
        };
        slab.free[usize::from(slot) / 64] |= 1 << (slot % 64);
        slab.used -= 1;
        if slab.used > 0 {
            if slab.used + 1 == slab.slots() {
                self.open[usize::from(class)].insert(at);
            }
            return None;
        }
        let hollow = slab.hollow;
        self.slabs.remove(&at);
        self.open[usize::from(class)].remove(&at);
        self.hollow_pages -= u64::from(hollow.count_ones());
        Some(hollow)
    }

    /// The lowest slab, at or above `from`, that has free slots.
    pub(super) fn next_open(&self, from: u32) -> Option<u32> {
        self.open.iter().filter_map(|open| open.range(from..).next().copied()).min()
    }

    /// Makes the pages of slab `at` hollow that no slot in use touches, and names them: runs of pages,
    /// counted from the slab's first.
    pub(super) fn hollow_out(&mut self, at: u32) -> impl Iterator<Item = Range<u32>> + use<> {
        let mut idle = 0;
        if let Some(slab) = self.slabs.get_mut(&at) {
            idle = !slab.hollow & !slab.touched();
            slab.hollow |= idle;
            self.hollow_pages += u64::from(idle.count_ones());
        }
        bit_runs(idle)
    }

    /// Every slab: its number, the bytes of its slots in use, and its hollow pages.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, u64, PageBits)> {
        self.slabs
            .iter()
            .map(|(at, slab)| (*at, u64::from(slab.used) * slot_bytes(slab.class) as u64, slab.hollow))
    }

    /// Whether the slot of `class` that lies `offset` bytes into slab `at` is in use.
    pub(super) fn in_use(&self, at: u32, class: u8, offset: usize) -> bool {
        let slot = offset / slot_bytes(class);
        offset.is_multiple_of(slot_bytes(class))
            && self.slabs.get(&at).is_some_and(|slab| slab.class == class && !slab.is_free(slot as u16))
    }

    /// Recounts: R4 and R5.
    ///
    /// # Errors
    /// What does not hold.
    pub(super) fn recount(&self) -> Result<(), String> {
        let mut hollow = 0;
        for (at, slab) in &self.slabs {
            let free = slab.free.iter().map(|word| word.count_ones()).sum::<u32>();
            if free + u32::from(slab.used) != u32::from(slab.slots()) || slab.used == 0 {
                return Err(format!("R4: slab {at} has {free} slots free and {} in use", slab.used));
            }
            if (free > 0) != self.open[usize::from(slab.class)].contains(at) {
                return Err(format!("R4: slab {at} has {free} slots free, but is among the wrong ones"));
            }
            if slab.hollow & slab.touched() != 0 {
                return Err(format!("R5: slots in use touch hollow pages of slab {at}: {:b}", slab.hollow));
            }
            hollow += u64::from(slab.hollow.count_ones());
        }
        let open: usize = self.open.iter().map(BTreeSet::len).sum();
        if hollow != self.hollow_pages || open > self.slabs.len() {
            return Err(format!("R5: {hollow} pages of slabs are hollow, counted {}", self.hollow_pages));
        }
        Ok(())
    }
}

/// Runs of set bits, lowest first.
pub(super) fn bit_runs(mut bits: PageBits) -> impl Iterator<Item = Range<u32>> {
    std::iter::from_fn(move || {
        (bits != 0).then(|| {
            let start = bits.trailing_zeros();
            let end = start + (bits >> start).trailing_ones();
            bits &= PageBits::MAX.checked_shl(end).unwrap_or(0);
            start..end
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::size::Size;

    fn class(len: usize) -> u8 {
        match Size::of(len) {
            Size::Slot(class) => class,
            Size::Pages(_) => unreachable!("{len} bytes go into a slot"),
        }
    }

    #[test]
    fn runs_of_bits_are_named_in_order() {
        assert_eq!(bit_runs(0b1100_0000_0110_0001).collect::<Vec<_>>(), [0..1, 5..7, 14..16]);
        assert_eq!((bit_runs(0).next(), bit_runs(PageBits::MAX).next()), (None, Some(0..16)));
    }

    #[test]
    fn low_slots_of_low_slabs_go_first_and_empty_slabs_are_gone() {
        let (mut slabs, class) = (Slabs::default(), class(2000));
        let bytes = slot_bytes(class);
        slabs.open(7, class, 0);
        while slabs.take(class).is_some() {}
        slabs.open(3, class, 0);
        assert_eq!(slabs.take(class), Some((3, 0)));
        assert_eq!(slabs.put(7, class, 5 * bytes), None);
        assert_eq!(slabs.take(class), Some((3, bytes)));
        slabs.recount().unwrap();
        assert_eq!((slabs.put(3, class, 0), slabs.put(3, class, bytes)), (None, Some(0)));
        assert_eq!(slabs.take(class), Some((7, 5 * bytes)));
        slabs.recount().unwrap();
    }

    #[test]
    fn pages_that_no_slot_touches_become_hollow_and_fill_again() {
        let (mut slabs, class) = (Slabs::default(), class(512));
        slabs.open(1, class, PageBits::MAX);
        let bytes = slot_bytes(class);
        let slots = 3 * PAGE / bytes;
        for slot in 0..slots {
            assert_eq!(slabs.take(class), Some((1, slot * bytes)));
        }
        assert_eq!((slabs.hollow_pages(), slabs.hollow_out(1).count()), (13, 0));
        for slot in 0..slots - 1 {
            assert_eq!(slabs.put(1, class, slot * bytes), None);
        }
        assert_eq!((slabs.next_open(0), slabs.next_open(2)), (Some(1), None));
        assert!(slabs.hollow_out(1).eq(std::iter::once(0..2)));
        slabs.recount().unwrap();
        assert_eq!((slabs.take(class), slabs.hollow_pages()), (Some((1, 0)), 14));
        slabs.recount().unwrap();
    }

    #[test]
    #[should_panic(expected = "R4")]
    fn a_slot_that_is_free_cannot_be_freed() {
        let mut slabs = Slabs::default();
        slabs.open(1, 0, 0);
        slabs.put(1, 0, 16);
    }
}
