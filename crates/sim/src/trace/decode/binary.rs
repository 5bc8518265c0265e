//! Formats of fixed records.

use super::super::input::Input;
use super::super::{Cause, Request};
use super::Decode;

/// `N` bytes of a record, beginning at `at`.
fn part<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[at..at + N]);
    bytes
}

/// A big-endian number of four bytes each, as the traces of cache2k have it. Negative ones are keys
/// like others; none meets a positive one.
pub(super) struct BeI32;

impl Decode for BeI32 {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause> {
        let record = input.record::<4>()?;
        Ok(record.map(|bytes| Request::of(u64::from(u32::from_be_bytes(*bytes)))))
    }
}

/// A big-endian number of eight bytes each.
pub(super) struct BeI64;

impl Decode for BeI64 {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause> {
        let record = input.record::<8>()?;
        Ok(record.map(|bytes| Request::of(u64::from_be_bytes(*bytes))))
    }
}

/// A little-endian number of four bytes each.
pub(super) struct U32;

impl Decode for U32 {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause> {
        let record = input.record::<4>()?;
        Ok(record.map(|bytes| Request::of(u64::from(u32::from_le_bytes(*bytes)))))
    }
}

/// Little-endian and packed: u32 seconds, u64 key, u32 bytes, i64 the place of the next access to the
/// same key, which is not needed here.
///
/// Source: the documentation of libCacheSim.
pub(super) struct OracleGeneral;

impl Decode for OracleGeneral {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause> {
        let Some(record) = input.record::<24>()? else { return Ok(None) };
        let seconds = u32::from_le_bytes(part(record, 0));
        let key = u64::from_le_bytes(part(record, 4));
        let size = u32::from_le_bytes(part(record, 12));
        Ok(Some(Request::of(key).sized(size).at(u64::from(seconds) * 1_000_000)))
    }
}

/// Commands to virtual disks, in the two layouts that CloudPhysics recorded; little-endian.
///
/// The first: u32 sequence number, u32 bytes, u32 scatter-gather elements, u16 command, u16 version, u64
/// block, u64 microseconds. The second: command and version first, then the same, and a u64 response
/// time at the end. The version is in the high byte of its field.
///
/// Source: Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015, used these traces;
/// the layouts are those that libCacheSim reads.
struct Vscsi<const RECORD: usize> {
    version_at: usize,
    version: u8,
    size_at: usize,
}

const FIRST: Vscsi<32> = Vscsi { version_at: 14, version: 1, size_at: 4 };
const SECOND: Vscsi<40> = Vscsi { version_at: 2, version: 2, size_at: 8 };

const VERSION: &str = "a vscsi record with the trace's version, 1 or 2";

/// The decoder of the layout that the first records are in.
pub(super) fn vscsi<'a>(input: &mut Input<'_>) -> Result<Box<dyn Decode + 'a>, Cause> {
    let head = input.peek(2 * SECOND.length())?;
    match vscsi_version(head) {
        Some(1) => Ok(Box::new(FIRST)),
        Some(_) => Ok(Box::new(SECOND)),
        None if head.is_empty() => Ok(Box::new(FIRST)),
        None => Err(Cause::entry(VERSION, head)),
    }
}

/// Which of the two layouts `head`, the beginning of a trace, has.
pub(in crate::trace) fn vscsi_version(head: &[u8]) -> Option<u8> {
    if FIRST.begins(head) {
        Some(FIRST.version)
    } else if SECOND.begins(head) {
        Some(SECOND.version)
    } else {
        None
    }
}

impl<const RECORD: usize> Vscsi<RECORD> {
    const fn length(&self) -> usize {
        RECORD
    }

    fn has_version(&self, record: &[u8]) -> bool {
        record[self.version_at + 1] == self.version
    }

    /// Whether the first two records (of a trace of one record, the first) are of this layout.
    fn begins(&self, head: &[u8]) -> bool {
        let mut records = head.chunks_exact(RECORD).take(2).peekable();
        records.peek().is_some() && records.all(|record| self.has_version(record))
    }
}

impl<const RECORD: usize> Decode for Vscsi<RECORD> {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause> {
        let Some(record) = input.record::<RECORD>()? else { return Ok(None) };
        if !self.has_version(record) {
            return Err(Cause::entry(VERSION, record));
        }
        let size = u32::from_le_bytes(part(record, self.size_at));
        let (key, time) = (u64::from_le_bytes(part(record, 16)), u64::from_le_bytes(part(record, 24)));
        Ok(Some(Request::of(key).sized(size).at(time)))
    }
}
