//! What lies on a device, as bytes: the superblock and the tables of segments. Pure: no I/O, no clock.
//!
//! Bytes from a device are a stranger's. What decodes them believes no length before it has compared it
//! with what there is (L7), allocates no more than the bytes it was given could hold, and answers with the whole or
//! with nothing (L6).

pub(crate) mod superblock;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use aligned_vec::{AVec, ConstAlign};

pub(crate) use superblock::{Found, Superblock};
pub(crate) use table::{Head, Table, TableEntry};

/// The unit of the layout in bytes, whatever the device's own is.
pub(crate) const UNIT: usize = 4096;

/// Bytes that begin at a multiple of the unit, as devices want them.
pub(crate) type Aligned = AVec<u8, ConstAlign<UNIT>>;

/// Where the copies of the superblock lie.
pub(crate) const COPIES: [u64; 2] = [0, 32 << 10];

/// Where the first segment begins.
pub(crate) const FIRST_SEGMENT: u64 = 1 << 20;

/// A segment has so many bytes at least, and at most.
pub(crate) const SEGMENT: std::ops::RangeInclusive<u64> = (64 << 10)..=(64 << 20);

/// A block has so many bytes at most.
pub(crate) const BLOCK_MAX: u32 = 16 << 20;

/// Every block begins at a multiple of this.
pub(crate) const GRAIN: u32 = 64;

/// `len` bytes, all zero.
pub(crate) fn zeroes(len: usize) -> Aligned {
    let mut bytes = Aligned::new(UNIT);
    bytes.resize(len, 0);
    bytes
}

/// The `N` bytes at a place; zeroes if they are not there.
fn bytes_at<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    let slice = at.checked_add(N).and_then(|end| from.get(at..end));
    slice.and_then(|slice| slice.try_into().ok()).unwrap_or([0; N])
}

fn u32_at(from: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(from, at))
}

fn u64_at(from: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(from, at))
}

fn u128_at(from: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(bytes_at(from, at))
}

fn put_at(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}
