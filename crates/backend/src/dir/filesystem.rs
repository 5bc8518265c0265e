//! What is known of kinds of file systems: their names, and how coarse their timestamps are.
//!
//! The granularity bounds what two equal timestamps can prove. A local file system stamps with the
//! kernel's coarse clock, which ticks no slower than a hundred times a second; a network one stamps
//! with a server's clock, which is not better than that; FAT keeps even seconds.

use std::time::Duration;

/// One kind of file system.
#[derive(Debug)]
struct Row {
    magic: u32,
    name: &'static str,
    granularity_ms: u64,
}

/// The slowest tick of Linux's coarse clock.
const TICK_MS: u64 = 10;

/// Where the birth time may change while the file stays: a copy-up shows the copy's.
const OVERLAY: u32 = 0x794c_7630;

const fn row(magic: u32, name: &'static str, granularity_ms: u64) -> Row {
    Row { magic, name, granularity_ms }
}

/// Magic numbers as `statfs` shows them.
const ROWS: &[Row] = &[
    row(0xef53, "ext4", TICK_MS),
    row(0x5846_5342, "xfs", TICK_MS),
    row(0x9123_683e, "btrfs", TICK_MS),
    row(0x0102_1994, "tmpfs", TICK_MS),
    row(0xf2f5_2010, "f2fs", TICK_MS),
    row(0x2fc1_2fc1, "zfs", TICK_MS),
    row(0xca45_1a4e, "bcachefs", TICK_MS),
    row(OVERLAY, "overlay", TICK_MS),
    row(0x6969, "nfs", TICK_MS),
    row(0xff53_4d42, "cifs", 100),
    row(0xfe53_4d42, "smb2", 100),
    row(0x00c3_6400, "ceph", TICK_MS),
    row(0x6573_5546, "fuse", 1000),
    row(0x0102_1997, "9p", 1000),
    row(0x4d44, "fat", 2000),
    row(0x2011_bab0, "exfat", 2000),
    row(0x7366_746e, "ntfs3", TICK_MS),
    row(0x5346_544e, "ntfs", TICK_MS),
    row(0x9660, "isofs", 1000),
    row(0x7371_7368, "squashfs", 1000),
    row(0x3434, "nilfs2", TICK_MS),
    row(0x3153_464a, "jfs", TICK_MS),
    row(0xe0f5_e1e2, "erofs", TICK_MS),
];

/// What is assumed of a file system that is not in the table.
const UNKNOWN: Row = row(0, "unknown", 1000);

/// Whether a file's birth time is the same for as long as the file exists.
pub(super) fn births_are_kept(magic: u64) -> bool {
    magic & 0xffff_ffff != u64::from(OVERLAY)
}

/// Name and timestamp granularity of the file system with this magic number.
pub(super) fn describe(magic: u64) -> (&'static str, Duration) {
    // The kernel's word is as wide as the machine's; the numbers are all 32 bits.
    let found = ROWS.iter().find(|row| u64::from(row.magic) == magic & 0xffff_ffff).unwrap_or(&UNKNOWN);
    (found.name, Duration::from_millis(found.granularity_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_magic_number_is_there_once() {
        for (at, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..at].iter().all(|other| other.magic != row.magic), "{}", row.name);
        }
    }

    #[test]
    fn an_unknown_kind_is_taken_for_a_coarse_one() {
        assert_eq!(describe(0xef53).0, "ext4");
        assert_eq!(describe(7), ("unknown", Duration::from_secs(1)));
    }
}
