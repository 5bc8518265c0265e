//! Memory straight from the kernel: address space that is reserved at once and becomes memory page by
//! page, when it is first written to.
//!
//! Where a [`Region`] begins never changes and it is unmapped only when it is dropped, so an offset into
//! it stays good for as long as its owner lives. Fresh memory reads as zeroes. All calls of the kernel
//! that manage memory stand in this file.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The smallest piece that the kernel gives and takes.
pub(crate) const PAGE: usize = 4096;

/// The piece in which the kernel gives huge pages.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Reserved address space. It holds plain bytes, and whoever shares them between threads sees to it that
/// nobody reads what another writes.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a region is a range of addresses that nobody else has; all access to its bytes goes through
// unsafe code, which has to order it itself.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves at least `len` bytes, beginning at a huge page.
    ///
    /// # Errors
    /// The kernel's: ENOMEM when there is not so much address space, or the process may not have it.
    pub(crate) fn reserve(len: usize) -> io::Result<Region> {
        let len = len.max(1).checked_next_multiple_of(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let with_edges = len.checked_add(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let mapped = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), with_edges, prot, flags) }?;
        let mapped = mapped.cast::<u8>();
        let before = mapped.align_offset(HUGE_PAGE);
        let behind = with_edges - before - len;
        // SAFETY: both edges lie in the mapping just made, and nobody knows of them.
        unsafe {
            if before > 0 {
                rustix::mm::munmap(mapped.cast(), before)?;
            }
            if behind > 0 {
                rustix::mm::munmap(mapped.add(before + len).cast(), behind)?;
            }
        }
        // SAFETY: `before` bytes behind the start still lies within what was mapped, which is not at zero.
        let base = unsafe { NonNull::new_unchecked(mapped.add(before)) };
        Ok(Region { base, len })
    }

    /// Bytes that are reserved.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where it begins.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Gives the memory of whole pages back; they read as zeroes from then on.
    ///
    /// # Safety
    /// Nobody uses these bytes meanwhile.
    pub(crate) unsafe fn give_back(&self, pages: Range<usize>) {
        // The kernel's pages may be larger than ours: then only what they lie wholly in goes.
        let pages = within(pages, rustix::param::page_size());
        if pages.is_empty() {
            return;
        }
        // SAFETY: the caller's promise.
        let given = unsafe { self.advise(pages, Advice::LinuxDontNeed) };
        // The kernel refuses pages that somebody locked, and keeps them: that costs memory, nothing else.
        debug_assert!(given.is_ok(), "{given:?}");
    }

    /// Asks for huge pages where memory is not there yet, or for small ones. Says whether the kernel
    /// knows the difference.
    pub(crate) fn want_huge(&self, pages: Range<usize>, huge: bool) -> bool {
        let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: this advice changes no byte.
        unsafe { self.advise(pages, advice) }.is_ok()
    }

    /// # Safety
    /// If the advice takes bytes away, nobody uses them.
    unsafe fn advise(&self, pages: Range<usize>, advice: Advice) -> rustix::io::Result<()> {
        assert!(pages.start <= pages.end && pages.end <= self.len, "{pages:?} lies outside of the region");
        debug_assert!(pages.start.is_multiple_of(PAGE) && pages.end.is_multiple_of(PAGE));
        // SAFETY: the range lies in our mapping; the caller answers for its bytes.
        unsafe { rustix::mm::madvise(self.base.as_ptr().add(pages.start).cast(), pages.len(), advice) }
    }
}

/// The part of a range that consists of whole pages of a size.
fn within(range: Range<usize>, page: usize) -> Range<usize> {
    let start = range.start.next_multiple_of(page);
    start..(range.end / page * page).max(start)
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever borrowed from it borrowed from `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_pages_go_only_as_a_whole() {
        for (range, page, left) in [
            (4096..12_288, 4096, 4096..12_288),
            (4096..12_288, 16_384, 16_384..16_384),
            (4096..65_536, 16_384, 16_384..65_536),
            (16_384..40_960, 16_384, 16_384..32_768),
        ] {
            assert_eq!(within(range, page), left);
        }
    }

    #[test]
    fn a_region_begins_at_a_huge_page_and_forgets_what_is_given_back() {
        let region = Region::reserve(5).unwrap();
        assert_eq!((region.len(), region.base().as_ptr() as usize % HUGE_PAGE), (HUGE_PAGE, 0));
        let first = region.base().as_ptr();
        // SAFETY: both bytes lie in the region, and only this thread knows of it.
        unsafe {
            first.write(7);
            first.add(PAGE).write(8);
            region.give_back(0..PAGE);
            assert_eq!((first.read(), first.add(PAGE).read()), (0, 8));
        }
        assert!(Region::reserve(usize::MAX).is_err());
    }
}
