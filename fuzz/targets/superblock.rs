//! Throws bytes at what decodes superblocks: the first half is one copy, the second half the other. The first
//! byte says whether both are given checksums that agree, so that what lies behind those is reached, too.
//!
//! Run with `RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Cunsafe-allow-abi-mismatch=sanitizer cargo fuzz run superblock`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    arcwell_l2arc::door::superblock(bytes, first & 1 == 1);
});
