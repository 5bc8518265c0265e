//! A note beside the superblock: up to which table tombstones are known to be durable.
//!
//! Tables that were being written when the machine stopped may be torn, and what was forgotten since the last flush is
//! the pool's to know. But a table that *was* durable and cannot be read any more may have told what is dead. The note
//! tells the two apart. Two copies, at 64 KiB and 68 KiB, written one after the other:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic, `ARCWNOTE` |
//! | 8..24 | device id |
//! | 24..32 | sequence of the newest durable table with tombstones |
//! | 4088..4096 | XXH3-64 of all before |

use arcwell_base::Result;
use arcwell_base::vdev::{Read, Vdev};

use crate::checksum::checksum_of_layout;
use crate::layout::{UNIT, zeroes};

const MAGIC: &[u8; 8] = b"ARCWNOTE";
const CHECKSUM: usize = UNIT - 8;
const COPIES: [u64; 2] = [64 << 10, 68 << 10];

/// Writes both copies.
pub(crate) fn write(vdev: &dyn Vdev, device: u128, sequence: u64) -> Result<()> {
    let mut unit = zeroes(UNIT);
    unit[..8].copy_from_slice(MAGIC);
    unit[8..24].copy_from_slice(&device.to_le_bytes());
    unit[24..32].copy_from_slice(&sequence.to_le_bytes());
    let checksum = checksum_of_layout(&unit[..CHECKSUM]);
    unit[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    COPIES.iter().try_for_each(|at| vdev.write(*at, &unit))
}

/// The sequence that the copies tell; 0 when none is whole.
///
/// # Errors
/// The device's, when what it cannot read might be what tells.
pub(crate) fn read(vdev: &dyn Vdev, device: u128) -> Result<u64> {
    let mut bytes = zeroes(2 * UNIT);
    let (first, second) = bytes.split_at_mut(UNIT);
    let mut reads = [Read::new(COPIES[0], first), Read::new(COPIES[1], second)];
    vdev.read(&mut reads);
    let (mut told, mut failed) = (None, None);
    for read in &mut reads {
        match read.outcome() {
            Ok(()) => told = told.max(decode(read.buffer, device)),
            Err(error) => failed = Some(error),
        }
    }
    match (told, failed) {
        (None, Some(error)) => Err(error),
        (told, _) => Ok(told.unwrap_or(0)),
    }
}

fn decode(unit: &[u8], device: u128) -> Option<u64> {
    let is_ours = &unit[..8] == MAGIC && unit[8..24] == device.to_le_bytes();
    let is_whole = unit[CHECKSUM..] == checksum_of_layout(&unit[..CHECKSUM]).to_le_bytes();
    let sequence = unit[24..32].try_into().map(u64::from_le_bytes).ok()?;
    (is_ours && is_whole).then_some(sequence)
}
