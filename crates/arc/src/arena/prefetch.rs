//! Telling the processor what will be read soon.

/// Has a cache line fetched; nothing else happens, whatever the address.
#[inline]
pub(crate) fn line<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that reads nothing and cannot fault; SSE is part of every x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(at).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
