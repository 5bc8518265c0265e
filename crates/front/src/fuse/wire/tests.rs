//! Layouts, by offset, against `linux/fuse.h`.

use std::ffi::OsString;

use arcwell_base::origin::FileId;

use super::*;
use arcwell_base::origin::Timestamp;

fn stat() -> Stat {
    let time = |sec, nsec| Timestamp { sec, nsec };
    Stat {
        id: FileId { ino: 0x1122, generation: 0x3344 },
        kind: FileType::Regular,
        perm: 0o4755,
        nlink: 3,
        uid: 1000,
        gid: 1001,
        // Major 0x123, minor 0x45678.
        rdev: 0x4561_2378,
        size: 0x5566_7788_99aa,
        blocks: 77,
        blksize: 4096,
        atime: time(-2, 999_999_999),
        mtime: time(1 << 33, 1),
        ctime: time(3, 2),
        btime: time(4, 5),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn a_request_is_taken_apart() {
    let mut message = Vec::new();
    for word in [40u32 + 8 + 3, opcode::LOOKUP] {
        message.extend(word.to_ne_bytes());
    }
    for word in [77u64, 1] {
        message.extend(word.to_ne_bytes());
    }
    for word in [5u32, 6, 7, 0] {
        message.extend(word.to_ne_bytes());
    }
    message.extend(9u64.to_ne_bytes());
    message.extend(b"ab\0");
    let request = Request::parse(&message).unwrap();
    assert_eq!((request.opcode, request.unique, request.node), (opcode::LOOKUP, 77, 1));
    assert_eq!((request.uid, request.gid, request.pid), (5, 6, 7));
    let mut fields = request.fields;
    assert_eq!(fields.u64(), Ok(9));
    assert_eq!(fields.name(), Ok(OsStr::new("ab")));
    assert_eq!(fields.u32(), Err(Errno::INVAL));
    assert!(Request::parse(&message[..message.len() - 1]).is_none());
    assert!(Request::parse(&[]).is_none());
}

#[test]
fn a_name_that_no_file_system_takes_is_refused() {
    let mut long = vec![b'x'; 256];
    long.push(0);
    assert_eq!(Fields(&long).name(), Err(Errno::NAMETOOLONG));
    assert_eq!(Fields(&long[1..]).name().map(OsStr::len), Ok(255));
    assert_eq!(Fields(b"no end").name(), Err(Errno::INVAL));
}

#[test]
fn the_header_of_a_reply_holds_length_error_and_number() {
    let head = out_header(0x0102_0304_0506_0708, -2, 4);
    assert_eq!(u32_at(&head, 0), 20);
    assert_eq!(u32_at(&head, 4) as i32, -2);
    assert_eq!(u64_at(&head, 8), 0x0102_0304_0506_0708);
}

#[test]
fn attributes_are_where_the_kernel_looks() {
    let reply = attributes(&stat(), Duration::new(5, 6));
    let bytes = reply.as_bytes();
    assert_eq!(bytes.len(), 104);
    assert_eq!((u64_at(bytes, 0), u32_at(bytes, 8)), (5, 6));
    let attr = &bytes[16..];
    assert_eq!((u64_at(attr, 0), u64_at(attr, 8), u64_at(attr, 16)), (0x1122, 0x5566_7788_99aa, 77));
    assert_eq!((u64_at(attr, 24) as i64, u64_at(attr, 32), u64_at(attr, 40)), (-2, 1 << 33, 3));
    assert_eq!((u32_at(attr, 48), u32_at(attr, 52), u32_at(attr, 56)), (999_999_999, 1, 2));
    assert_eq!((u32_at(attr, 60), u32_at(attr, 64)), (0o104_755, 3));
    assert_eq!((u32_at(attr, 68), u32_at(attr, 72)), (1000, 1001));
    assert_eq!((u32_at(attr, 76), u32_at(attr, 80), u32_at(attr, 84)), (0x4561_2378, 4096, 0));
}

#[test]
fn an_entry_is_where_the_kernel_looks() {
    let reply = entry(9, &stat(), Duration::new(1, 2), Duration::new(3, 4));
    let bytes = reply.as_bytes();
    assert_eq!(bytes.len(), 128);
    assert_eq!((u64_at(bytes, 0), u64_at(bytes, 8)), (9, 0x3344));
    assert_eq!((u64_at(bytes, 16), u64_at(bytes, 24)), (1, 3));
    assert_eq!((u32_at(bytes, 32), u32_at(bytes, 36)), (2, 4));
    assert_eq!(u64_at(bytes, 40), 0x1122);
    let created = created(&reply, 11, FOPEN_DIRECT_IO);
    assert_eq!(&created.as_bytes()[..128], bytes);
    assert_eq!((u64_at(created.as_bytes(), 128), u32_at(created.as_bytes(), 136)), (11, 1));
    let absence = absence(Duration::new(7, 8));
    assert_eq!(u64_at(absence.as_bytes(), 0), 0);
    assert_eq!((u64_at(absence.as_bytes(), 16), u32_at(absence.as_bytes(), 32)), (7, 8));
}

#[test]
fn the_agreement_is_where_the_kernel_looks() {
    let reply = agreement(&Agreement {
        minor: 40,
        max_readahead: 1,
        flags: 2 | 3 << 32,
        max_background: 64,
        max_write: 4,
        max_pages: 5,
    });
    let bytes = reply.as_bytes();
    assert_eq!(bytes.len(), 64);
    let words: Vec<u32> = [0, 4, 8, 12].map(|at| u32_at(bytes, at)).to_vec();
    assert_eq!(words, [7, 40, 1, 2]);
    assert_eq!((u16_at(bytes, 16), u16_at(bytes, 18)), (64, 48));
    assert_eq!((u32_at(bytes, 20), u32_at(bytes, 24), u16_at(bytes, 28), u32_at(bytes, 32)), (4, 1, 5, 3));
}

#[test]
fn space_is_where_the_kernel_looks() {
    let space = StatFs {
        blocks: 1,
        blocks_free: 2,
        blocks_available: 3,
        files: 4,
        files_free: 5,
        block_size: 6,
        fragment: 7,
        name_max: 8,
    };
    let reply = stat_fs(&space);
    let bytes = reply.as_bytes();
    assert_eq!([0, 8, 16, 24, 32].map(|at| u64_at(bytes, at)), [1, 2, 3, 4, 5]);
    assert_eq!([40, 44, 48].map(|at| u32_at(bytes, at)), [6, 8, 7]);
}

#[test]
fn a_listing_keeps_to_its_room_and_pads_to_eight() {
    let mut buffer = Vec::new();
    let mut listing = Listing::new(&mut buffer, 64);
    assert!(listing.has_room(OsStr::new("abc"), false));
    listing.name(5, 1, Some(FileType::Directory), OsStr::new("abc"));
    assert_eq!(listing.as_bytes().len(), 32);
    assert!(listing.has_room(OsStr::new("12345678"), false));
    assert!(!listing.has_room(OsStr::new("123456789"), false));
    let bytes = listing.as_bytes();
    assert_eq!((u64_at(bytes, 0), u64_at(bytes, 8)), (5, 1));
    assert_eq!((u32_at(bytes, 16), u32_at(bytes, 20)), (3, 4));
    assert_eq!(&bytes[24..32], b"abc\0\0\0\0\0");
}

#[test]
fn a_listing_with_attributes_names_its_nodes() {
    let mut buffer = Vec::new();
    let mut listing = Listing::new(&mut buffer, 4096);
    let known = entry(42, &stat(), Duration::ZERO, Duration::ZERO);
    for (number, node) in [None, Some(&known), None].into_iter().enumerate() {
        listing.plus(node);
        let name = OsString::from("x".repeat(number + 7));
        listing.name(number as u64 + 100, number as u64, None, &name);
    }
    assert_eq!(listing.nodes().collect::<Vec<_>>(), [0, 42, 0]);
    assert_eq!(u64_at(listing.as_bytes(), 128), 100);
}

#[test]
fn kinds_and_their_bits_go_both_ways() {
    for kind in [
        FileType::Regular,
        FileType::Directory,
        FileType::Symlink,
        FileType::Fifo,
        FileType::Socket,
        FileType::CharDevice,
        FileType::BlockDevice,
    ] {
        assert_eq!(kind_of(type_bits(kind) << 12 | 0o644), Some(kind));
    }
    assert_eq!(kind_of(0o644), Some(FileType::Regular));
    assert_eq!(kind_of(0o170_000), None);
}
