//! Throws bytes at the decoders of traces. The first byte picks the format, or none, so that one is
//! guessed; what follows is the file, packed or not. What can be read is written again, and must then
//! be the same trace.
//!
//! Run with `RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Cunsafe-allow-abi-mismatch=sanitizer cargo fuzz run trace`.

#![no_main]

use arcwell_sim::trace::{Format, Options, Requests, Trace, Unit, WRITTEN, write};
use libfuzzer_sys::fuzz_target;

/// Entries that are read at most: a few bytes can stand for millions.
const LIMIT: u64 = 10_000;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let format = Format::ALL.get(usize::from(first) % (Format::ALL.len() + 1)).copied();
    let options = Options { format, limit: Some(LIMIT), ..Options::default() };
    let Ok(trace) = Trace::read("x", bytes, &options) else { return };
    assert!(trace.requests() <= LIMIT);
    assert!(trace.accesses(Unit::Bytes).all(|access| access.block < trace.unique() && access.size > 0));
    for format in WRITTEN {
        let Ok(requests) = Requests::open("x", bytes, &options) else { panic!("it opened before") };
        let mut again = Vec::new();
        // A key that does not fit is refused; nothing else can be.
        if write(format, &mut again, requests).is_ok() {
            compare(&trace, format, &again);
        }
    }
});

/// A trace that was written in `format` has as many requests as before, and, where it has nothing but
/// reads of data, for the same blocks. (What a recording has besides is left out by other formats, and
/// one key may then be two blocks.)
fn compare(trace: &Trace, format: Format, bytes: &[u8]) {
    let options = Options { format: Some(format), ..Options::default() };
    let again = Trace::read("x", bytes, &options).expect("it was written by us");
    assert_eq!(trace.requests(), again.requests(), "{format}");
    if !trace.has_acts() {
        assert!(trace.accesses(Unit::Blocks).eq(again.accesses(Unit::Blocks)), "{format}");
    }
}
