//! Throws bytes at what decodes the table of a segment. The first byte says whether its head is made as ours is,
//! with checksums that agree, so that what lies behind those is reached, too.
//!
//! Run with `RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Cunsafe-allow-abi-mismatch=sanitizer cargo fuzz run segment_table`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    arcwell_l2arc::door::segment_table(bytes, first & 1 == 1);
});
