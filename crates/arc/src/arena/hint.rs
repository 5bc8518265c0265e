//! Hints to the processor: what will be read soon. They read nothing, change nothing and cannot fail, whatever
//! the address.

use std::sync::LazyLock;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_NTA as ONCE, _MM_HINT_T0 as AGAIN, _mm_prefetch};

/// What will be read once: it takes no room in the processor's larger caches.
#[cfg(not(target_arch = "x86_64"))]
const ONCE: i32 = 0;
/// What will be read more often.
#[cfg(not(target_arch = "x86_64"))]
const AGAIN: i32 = 3;

/// Bytes that a processor fetches at once.
const LINE: usize = 64;

/// Bytes of a copy that are fetched while those before are copied: enough to keep the memory busy, so few that
/// they are still there when their turn comes.
const AHEAD: usize = 2048;

#[inline]
fn fetch_for<const READ: i32>(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that reads nothing and cannot fault; SSE is part of every x86-64.
    unsafe {
        _mm_prefetch::<READ>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Has the line at an address fetched from memory.
#[inline]
pub(crate) fn fetch(address: *const u8) {
    fetch_for::<AGAIN>(address);
}

/// Has the beginning of up to `len` bytes fetched: as many as [`copy`] would fetch first.
#[inline]
pub(crate) fn fetch_beginning(start: *const u8, len: usize) {
    (0..len.min(AHEAD)).step_by(LINE).for_each(|at| fetch(start.wrapping_add(at)));
}

/// Whether copies go better with hints. AMD's processors see that memory is read in order only after some misses,
/// and again after each page; Intel's see it at once, and there the same hints make a copy dearer by a quarter.
static COPIES_WITH_HINTS: LazyLock<bool> = LazyLock::new(is_amd);

#[cfg(target_arch = "x86_64")]
fn is_amd() -> bool {
    let leaf = std::arch::x86_64::__cpuid(0);
    [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
}

#[cfg(not(target_arch = "x86_64"))]
fn is_amd() -> bool {
    false
}

/// Copies bytes that are likely in none of the processor's caches.
///
/// # Panics
/// When the two differ in length.
#[inline]
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    if *COPIES_WITH_HINTS {
        copy_with_hints(from, to);
    } else {
        to.copy_from_slice(from);
    }
}

/// Copies, and has the next bytes fetched while those before are copied; and so that they do not stay: what
/// streams through a processor's caches drives out what the next look-up needs.
fn copy_with_hints(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "as many bytes as there is room for");
    let lines = |part: usize| from.chunks(AHEAD).nth(part).into_iter().flat_map(|part| part.chunks(LINE));
    let fetch_part = |part| lines(part).for_each(|line| fetch_for::<ONCE>(line.as_ptr()));
    fetch_part(0);
    for (part, to) in to.chunks_mut(AHEAD).enumerate() {
        fetch_part(part + 1);
        to.copy_from_slice(&from[part * AHEAD..][..to.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_whatever_the_length() {
        let source: Vec<u8> = (0..10_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for len in [0, 1, 63, 64, 2047, 2048, 2049, 4096, 8191, 10_000] {
            for way in [copy, copy_with_hints] {
                let mut copied = vec![0; len];
                way(&source[..len], &mut copied);
                assert_eq!(copied, source[..len]);
            }
        }
    }

    #[test]
    fn any_address_may_be_fetched() {
        fetch(std::ptr::null());
        fetch_beginning(std::ptr::null(), 1 << 20);
        fetch_for::<ONCE>(std::ptr::null());
    }
}
