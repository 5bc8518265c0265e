//! What is written comes back; what was changed, cut off or made up does not, and breaks nothing.

use arcwell_base::{BlockKey, ObjectId};
use proptest::prelude::*;

use super::superblock::Found;
use super::*;

fn superblock() -> Superblock {
    let (segment, segments) = Superblock::divide(1 << 30, 8 << 20).unwrap();
    Superblock { generation: 7, device: 1 << 100, pool: 9 << 99, bytes: 1 << 30, segment, segments }
}

fn row(number: u32) -> TableEntry {
    let key = BlockKey::new(ObjectId(u64::from(number) << 33), u64::MAX - u64::from(number));
    if number % 7 == 6 {
        return TableEntry::tombstone(key);
    }
    TableEntry {
        key,
        checksum: u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        offset: number * 4096,
        len: 4096 - number % 64,
        is_metadata: number.is_multiple_of(2),
        is_frequent: number.is_multiple_of(3),
        is_tombstone: false,
    }
}

fn table(count: u32) -> Table {
    Table {
        device: 3 << 90,
        sequence: 1 << 40,
        payload: count * 4096,
        entries: (0..count).map(row).collect(),
    }
}

fn encoded(table: &Table) -> Aligned {
    let mut bytes = zeroes(Table::bytes_for(table.entries.len()));
    table.encode(&mut bytes).unwrap();
    bytes
}

/// Gives `bytes` a checksum that agrees, as who forges or has none would.
fn seal(bytes: &mut [u8]) {
    let last = bytes.len() - UNIT;
    let rows = crate::checksum::checksum_of_layout(&bytes[..last]);
    let head = &mut bytes[last..];
    if last > 0 {
        put_at(head, 40, &rows.to_le_bytes());
    }
    let sum = crate::checksum::checksum_of_layout(&head[..UNIT - 8]);
    put_at(head, UNIT - 8, &sum.to_le_bytes());
}

#[test]
fn a_superblock_comes_back_and_the_later_one_holds() {
    let (old, blank) = (superblock(), zeroes(UNIT));
    let new = Superblock { generation: 8, ..old.clone() };
    let (older, newer) = (old.encode(), new.encode());
    assert_eq!(older.as_ptr() as usize % UNIT, 0);
    assert_eq!(Superblock::choose(&older, &blank), Found::Ours(old.clone()));
    assert_eq!(Superblock::choose(&older, &newer), Found::Ours(new.clone()));
    assert_eq!(Superblock::choose(&newer, &older), Found::Ours(new));
    assert_eq!(Superblock::choose(&blank, &blank), Found::Blank);
    assert_eq!(old.start_of(2), (1 << 20) + (16 << 20));
}

/// Each bit, and that it is the checksum that notices: with one that agrees, most flips are believed.
#[test]
fn every_flipped_bit_of_a_superblock_is_noticed() {
    let (whole, blank) = (superblock().encode(), zeroes(UNIT));
    let mut believed = 0;
    for bit in 0..UNIT * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let found = Superblock::choose(&flipped, &blank);
        let in_magic = bit < 64;
        assert_eq!(found, if in_magic { Found::Foreign } else { Found::Damaged }, "bit {bit}");
        // The other copy is enough for damage.
        if !in_magic {
            assert_eq!(Superblock::choose(&flipped, &whole), Found::Ours(superblock()));
        }
        seal(&mut flipped);
        believed += u32::from(matches!(Superblock::choose(&flipped, &blank), Found::Ours(_)));
    }
    assert!(believed > 8 * (16 + 16 + 8), "without the checksum only {believed} flips would be believed");
}

#[test]
fn what_is_not_ours_is_refused_even_beside_a_whole_copy() {
    let (whole, blank) = (superblock().encode(), zeroes(UNIT));
    let mut ext4 = whole.clone();
    ext4[1024..1100].fill(0x53);
    let mut other = zeroes(UNIT);
    other[..4].copy_from_slice(b"XFSB");
    for foreign in [&ext4, &other] {
        for copy in [&whole, &blank] {
            assert_eq!(Superblock::choose(foreign, copy), Found::Foreign);
            assert_eq!(Superblock::choose(copy, foreign), Found::Foreign);
        }
    }
    let mut newer = whole.clone();
    put_at(&mut newer, 8, &9u32.to_le_bytes());
    assert_eq!(Superblock::choose(&newer, &blank), Found::Damaged);
    seal(&mut newer);
    assert_eq!(Superblock::choose(&whole, &newer), Found::Newer(9));
    assert_eq!(Superblock::choose(&newer, &other), Found::Foreign);
}

#[test]
fn a_superblock_that_cannot_be_is_not_believed() {
    let blank = zeroes(UNIT);
    let good = superblock();
    let wrong = [
        Superblock { segment: 3 << 20, ..good.clone() },
        Superblock { segment: 0, ..good.clone() },
        Superblock { segment: 128 << 20, segments: 1, ..good.clone() },
        Superblock { segments: 0, ..good.clone() },
        Superblock { segments: good.segments + 1, ..good.clone() },
        Superblock { bytes: 0, ..good.clone() },
        Superblock { segments: u32::MAX, ..good.clone() },
    ];
    assert_eq!(Superblock::choose(&good.encode(), &blank), Found::Ours(good));
    for wrong in wrong {
        assert_eq!(Superblock::choose(&wrong.encode(), &blank), Found::Damaged, "{wrong:?}");
    }
}

#[test]
fn a_small_device_has_shorter_segments() {
    const MIB: u64 = 1 << 20;
    assert_eq!(Superblock::divide(1 << 30, 8 * MIB), Some((8 * MIB, 127)));
    assert_eq!(Superblock::divide(65 * MIB, 8 * MIB), Some((4 * MIB, 16)));
    assert_eq!(Superblock::divide(MIB + (64 << 10), 8 * MIB), Some((64 << 10, 1)));
    assert_eq!(Superblock::divide(MIB + (63 << 10), 8 * MIB), None);
    assert_eq!(Superblock::divide(0, 8 * MIB), None);
}

#[test]
fn a_table_comes_back_from_the_end_of_what_it_was_written_to() {
    for count in [0, 1, 127, 128, 129, 1016] {
        let table = table(count);
        let takes = Table::bytes_for(count as usize);
        assert!(takes.is_multiple_of(UNIT));
        let mut segment = zeroes(takes + 3 * UNIT);
        segment.fill(0xa5);
        table.encode(&mut segment).unwrap();
        assert!(segment[..3 * UNIT].iter().all(|byte| *byte == 0xa5));
        let head = Head::decode(&segment[segment.len() - UNIT..], table.device).unwrap();
        assert_eq!((head.sequence, head.count, head.payload), (table.sequence, count, table.payload));
        assert_eq!(head.bytes(), takes);
        assert_eq!(Table::decode(&segment, table.device).as_ref(), Some(&table));
        assert_eq!(Table::decode(&segment[3 * UNIT..], table.device).as_ref(), Some(&table));
        assert_eq!(Table::decode(&segment[3 * UNIT + 1..], table.device), None);
        assert_eq!(Table::decode(&segment, table.device + 1), None);
    }
}

#[test]
fn a_table_that_does_not_fit_or_cannot_be_is_not_written() {
    let good = table(200);
    let refuses = |table: &Table, room: usize| table.encode(&mut vec![0; room]).is_err();
    let takes = Table::bytes_for(200);
    assert!(!refuses(&good, takes) && refuses(&good, takes - UNIT) && refuses(&good, 0));
    let with = |change: &dyn Fn(&mut TableEntry)| {
        let mut table = good.clone();
        change(&mut table.entries[100]);
        table
    };
    assert!(refuses(&with(&|entry| entry.len = 0), takes));
    assert!(refuses(&with(&|entry| entry.offset += 1), takes));
    assert!(refuses(&with(&|entry| entry.offset = 200 * 4096), takes));
    assert!(refuses(&with(&|entry| entry.len = BLOCK_MAX + 1), takes));
    assert!(refuses(&with(&|entry| entry.is_tombstone = true), takes));
    assert!(refuses(&Table { payload: 64 << 20, ..good.clone() }, takes));
}

/// Each bit of entries, padding and head. With checksums that agree, most flips would be believed.
#[test]
fn every_flipped_bit_of_a_table_is_noticed() {
    let table = table(30);
    let whole = encoded(&table);
    let mut believed = 0;
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Table::decode(&flipped, table.device), None, "bit {bit}");
        seal(&mut flipped);
        believed += u32::from(Table::decode(&flipped, table.device).is_some_and(|other| other != table));
    }
    assert!(believed > 30 * 8 * 16, "without checksums only {believed} flips would be believed");
}

#[test]
fn a_head_that_names_more_than_a_segment_holds_is_not_believed() {
    let table = table(1);
    let whole = encoded(&table);
    for (at, wrong) in [(8, u32::MAX), (8, (64 << 20) / 32), (12, u32::MAX), (12, 64 << 20)] {
        let mut bytes = whole.clone();
        put_at(&mut bytes, whole.len() - UNIT + at, &wrong.to_le_bytes());
        seal(&mut bytes);
        assert_eq!(Head::decode(&bytes[UNIT..], table.device), None, "{wrong} at {at}");
        assert_eq!(Table::decode(&bytes, table.device), None);
    }
    // More than was read, though a segment could hold it.
    let mut bytes = whole.clone();
    put_at(&mut bytes, UNIT + 8, &129u32.to_le_bytes());
    seal(&mut bytes);
    assert_eq!(Head::decode(&bytes[UNIT..], table.device).map(|head| head.count), Some(129));
    assert_eq!(Table::decode(&bytes, table.device), None);
}

proptest! {
    #[test]
    fn random_bytes_and_pieces_break_nothing(
        noise in prop::collection::vec(any::<u8>(), 0..10_000),
        count in 0..300u32,
        cut in 0..20_000usize,
    ) {
        Superblock::choose(&noise, &noise);
        let unit = &noise[..noise.len().min(UNIT)];
        prop_assert_eq!(Head::decode(unit, 1), None);
        prop_assert_eq!(Table::decode(&noise, 1), None);
        let table = table(count);
        let bytes = encoded(&table);
        let cut = cut.min(bytes.len());
        prop_assert_eq!(Table::decode(&bytes[..bytes.len() - cut], table.device).is_some(), cut == 0);
        prop_assert_eq!(Table::decode(&bytes[cut..], table.device).is_some(), cut == 0);
        Superblock::choose(&bytes[cut..], &noise);
    }

    /// Bytes behind a checksum that agrees: whatever they say is believed only if it could have been written.
    #[test]
    fn what_is_decoded_can_be_encoded(noise in prop::collection::vec(any::<u8>(), 64..4096), count in 0..128u32) {
        let mut bytes = encoded(&table(count.max(1)));
        let len = noise.len();
        bytes[..len].copy_from_slice(&noise);
        seal(&mut bytes);
        if let Some(table) = Table::decode(&bytes, table(1).device) {
            prop_assert_eq!(Table::decode(&encoded(&table), table.device), Some(table));
        }
    }
}
