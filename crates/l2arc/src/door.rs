//! What decodes a device's bytes, for strangers: only for the fuzz targets, which know nothing of layout.

use crate::checksum::checksum_of_layout;
use crate::layout::{Found, Head, Superblock, Table, UNIT, zeroes};

/// Gives the last unit a checksum that agrees.
fn seal(bytes: &mut [u8]) {
    if let Some(last) = bytes.len().checked_sub(UNIT) {
        let sum = checksum_of_layout(&bytes[last..bytes.len() - 8]);
        let end = bytes.len() - 8;
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The two halves of `bytes` as the two copies of a superblock, brought to their length if they are to be sealed.
///
/// # Panics
/// When what was decoded is not what is then encoded.
pub fn superblock(bytes: &[u8], is_sealed: bool) {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let unit = |bytes: &[u8]| {
        if !is_sealed {
            return bytes.to_vec();
        }
        let mut unit = bytes.to_vec();
        unit.resize(UNIT, 0);
        if bytes.first().is_some_and(|first| first & 1 == 1) {
            unit[..8].copy_from_slice(b"ARCWELL2");
        }
        seal(&mut unit);
        unit
    };
    if let Found::Ours(found) = Superblock::choose(&unit(first), &unit(second)) {
        assert_eq!(Superblock::choose(&found.encode(), &zeroes(UNIT)), Found::Ours(found.clone()));
        let end = found.start_of(found.segments);
        assert!(end <= found.bytes, "segments end at {end} of {}", found.bytes);
    }
}

/// `bytes` as what a segment ends with; with a head of ours for as many entries as there are bytes if sealed.
///
/// # Panics
/// When what was decoded is not what is then encoded, or is larger than what it was decoded from.
pub fn segment_table(bytes: &[u8], is_sealed: bool) {
    const DEVICE: u128 = 7;
    let mut bytes = bytes.to_vec();
    if is_sealed {
        let (count, payload) = (bytes.len() / 32, bytes.first().map_or(0, |first| u32::from(*first) << 12));
        bytes.resize((count * 32).next_multiple_of(UNIT), 0);
        let rows = checksum_of_layout(&bytes);
        let head = bytes.len();
        bytes.resize(head + UNIT, 0);
        bytes[head..head + 8].copy_from_slice(b"ARCWTABL");
        bytes[head + 8..head + 12].copy_from_slice(&(count as u32).to_le_bytes());
        bytes[head + 12..head + 16].copy_from_slice(&payload.to_le_bytes());
        bytes[head + 16..head + 32].copy_from_slice(&DEVICE.to_le_bytes());
        bytes[head + 40..head + 48].copy_from_slice(&rows.to_le_bytes());
        seal(&mut bytes);
    }
    if let Some(last) = bytes.len().checked_sub(UNIT)
        && let Some(head) = Head::decode(&bytes[last..], DEVICE)
    {
        assert!(head.bytes() <= 64 << 20);
    }
    let Some(table) = Table::decode(&bytes, DEVICE) else { return };
    let takes = Table::bytes_for(table.entries.len());
    assert!(takes <= bytes.len() && table.entries.capacity() * 32 <= bytes.len());
    let mut again = vec![0; takes];
    assert!(table.encode(&mut again).is_ok(), "it was decoded, so it can be encoded");
    assert_eq!(Table::decode(&again, DEVICE), Some(table));
}
