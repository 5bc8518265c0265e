//! Metadata as blocks: how attributes, names, listings, links and extended attributes are laid out.
//!
//! Each is a metadata block of the same cache as the data, so that one policy weighs them all. Keys:
//! bit 63 is set, bits 60–62 say which sort ([`Sort`]), the rest is a hash or a number. Two names whose
//! hashes agree share a key; the block holds the name itself, so the second is a miss, never a wrong
//! answer. Everything is little-endian; a block that does not decode is a miss.
//!
//! | sort | under object | number | holds |
//! |---|---|---|---|
//! | dnode | the dataset | hash of the inode number | attributes and object of a file |
//! | name | the directory | [`NameHash`] | which file it is, or that there is none |
//! | listing | the directory | part | entries; part 0 begins with the count of parts |
//! | link | the link | 0 | its target |
//! | xattr | the file | [`NameHash`] | its value, or that there is none |
//! | xattrs | the file | 0 | the names |
//! | sheet | the directory | part | attributes of a listing's part: copies of dnodes |
//! | stamp | the directory | 0 | which sheets are true: those of this stamp |

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use arcwell_base::identity::DatasetId;
use arcwell_base::origin::{DirEntry, FileId, FileType, Stat, Timestamp};
use arcwell_base::{BlockKey, ObjectId};
use siphasher::sip::SipHasher13;

use crate::znode::ObjectIdentity;

/// Which sort of metadata a block holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    Dnode = 0,
    Name = 1,
    Listing = 2,
    Link = 3,
    Xattr = 4,
    XattrNames = 5,
    Sheet = 6,
    Stamp = 7,
}

const NUMBER_BITS: u32 = 60;

fn key(object: ObjectId, sort: Sort, number: u64) -> BlockKey {
    let number = number & ((1 << NUMBER_BITS) - 1);
    BlockKey::new(object, 1 << 63 | (sort as u64) << NUMBER_BITS | number)
}

/// The key of a file's dnode; `dataset` is the dataset's own object.
pub(crate) fn dnode_key(dataset: ObjectId, ino: u64) -> BlockKey {
    key(dataset, Sort::Dnode, BlockKey::new(dataset, ino).hash())
}

/// Numbers for names that only a dataset can compute.
///
/// Keys go into recordings, and recordings are handed on: with a plain hash, anybody could try names
/// until one fits. SipHash under the dataset's id, which is random and in no recording, is the same in
/// every run and nobody else's.
pub(crate) struct NameHash(SipHasher13);

impl NameHash {
    pub(crate) fn new(dataset: DatasetId) -> Self {
        NameHash(SipHasher13::new_with_key(&dataset.0.to_le_bytes()))
    }

    /// The key of a name in a directory.
    pub(crate) fn name_key(&self, directory: ObjectId, name: &OsStr) -> BlockKey {
        key(directory, Sort::Name, self.0.hash(name.as_bytes()))
    }

    /// The key of an extended attribute.
    pub(crate) fn xattr_key(&self, file: ObjectId, name: &OsStr) -> BlockKey {
        key(file, Sort::Xattr, self.0.hash(name.as_bytes()))
    }
}

/// The key of one part of a listing.
pub(crate) fn listing_key(directory: ObjectId, part: u64) -> BlockKey {
    key(directory, Sort::Listing, part)
}

/// The key of a symbolic link's target.
pub(crate) fn link_key(link: ObjectId) -> BlockKey {
    key(link, Sort::Link, 0)
}

/// The key of the names of extended attributes.
pub(crate) fn xattr_names_key(file: ObjectId) -> BlockKey {
    key(file, Sort::XattrNames, 0)
}

/// The key of the attributes of one part of a listing.
pub(crate) fn sheet_key(directory: ObjectId, part: u64) -> BlockKey {
    key(directory, Sort::Sheet, part)
}

/// The key of the stamp that a directory's sheets must have.
pub(crate) fn stamp_key(directory: ObjectId) -> BlockKey {
    key(directory, Sort::Stamp, 0)
}

/// A file's attributes and the object that it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dnode {
    pub(crate) stat: Stat,
    pub(crate) object: ObjectId,
    pub(crate) record_size: u32,
    pub(crate) checked: u64,
    pub(crate) is_young: bool,
}

impl Dnode {
    pub(crate) fn new(stat: &Stat, identity: &ObjectIdentity) -> Self {
        Dnode {
            stat: *stat,
            object: identity.object,
            record_size: identity.record_size,
            checked: identity.checked,
            is_young: identity.is_young,
        }
    }

    pub(crate) fn identity(&self) -> ObjectIdentity {
        ObjectIdentity {
            object: self.object,
            record_size: self.record_size,
            version: self.stat.version(),
            checked: self.checked,
            is_young: self.is_young,
            has_other_names: has_other_names(&self.stat),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let s = &self.stat;
        let mut out = Vec::with_capacity(DNODE_BYTES);
        for word in [s.id.ino, s.id.generation, s.size, s.blocks, self.object.0, self.checked] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for time in [s.atime, s.mtime, s.ctime, s.btime] {
            out.extend_from_slice(&time.sec.to_le_bytes());
            out.extend_from_slice(&time.nsec.to_le_bytes());
        }
        for word in [s.nlink, s.uid, s.gid, s.rdev, s.blksize, self.record_size] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&s.perm.to_le_bytes());
        out.push(type_code(Some(s.kind)));
        out.push(u8::from(self.is_young));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let id = FileId { ino: from.u64()?, generation: from.u64()? };
        let (size, blocks) = (from.u64()?, from.u64()?);
        let (object, checked) = (ObjectId(from.u64()?), from.u64()?);
        let [atime, mtime, ctime, btime] = [from.time()?, from.time()?, from.time()?, from.time()?];
        let (nlink, uid, gid) = (from.u32()?, from.u32()?, from.u32()?);
        let (rdev, blksize, record_size) = (from.u32()?, from.u32()?, from.u32()?);
        let perm = u16::from_le_bytes(from.array()?);
        let kind = type_of(from.u8()?)?;
        let is_young = from.u8()? != 0;
        #[rustfmt::skip]
        let stat = Stat { id, kind, perm, nlink, uid, gid, rdev, size, blocks, blksize, atime, mtime, ctime, btime };
        Some(Dnode { stat, object, record_size, checked, is_young })
    }
}

/// Bytes of an encoded [`Dnode`].
const DNODE_BYTES: usize = 124;
/// Bytes before a sheet's records: its stamp, and when the oldest record was looked at.
const SHEET_HEADER: usize = 16;

/// Bytes of a sheet of `entries` records.
pub(crate) fn sheet_bytes(entries: usize) -> usize {
    SHEET_HEADER + entries * DNODE_BYTES
}

/// Begins a sheet: no record is known yet.
pub(crate) fn begin_sheet(sheet: &mut [u8], stamp: u64) {
    sheet.fill(0);
    sheet[..8].copy_from_slice(&stamp.to_le_bytes());
    sheet[8..SHEET_HEADER].copy_from_slice(&u64::MAX.to_le_bytes());
}

/// Puts a copy of a dnode block, looked at at `checked`, into a sheet.
pub(crate) fn put_record(sheet: &mut [u8], number: usize, dnode: &[u8], checked: u64) {
    let at = sheet_bytes(number);
    sheet[at..at + DNODE_BYTES].copy_from_slice(dnode);
    let oldest = sheet_header(sheet).map_or(checked, |(_, oldest)| oldest.min(checked));
    sheet[8..SHEET_HEADER].copy_from_slice(&oldest.to_le_bytes());
}

/// A sheet's stamp, and when its oldest record was looked at.
pub(crate) fn sheet_header(sheet: &[u8]) -> Option<(u64, u64)> {
    let mut from = Reader(sheet);
    Some((from.u64()?, from.u64()?))
}

/// Records that a sheet has room for.
pub(crate) fn sheet_len(sheet: &[u8]) -> u64 {
    (sheet.len().saturating_sub(SHEET_HEADER) / DNODE_BYTES) as u64
}

/// A record of a sheet; `None` when it is not known.
pub(crate) fn sheet_record(sheet: &[u8], number: u16) -> Option<Dnode> {
    let at = sheet_bytes(usize::from(number));
    Dnode::decode(sheet.get(at..at + DNODE_BYTES)?)
}

/// Whether a file may be changed through a name other than the one that is known. A directory has one
/// name, whatever its count says.
pub(crate) fn has_other_names(stat: &Stat) -> bool {
    stat.nlink > 1 && stat.kind != FileType::Directory
}

/// What a name in a directory is known to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Named {
    /// This file.
    File(FileId),
    /// Nothing: the origin said so.
    Absent,
}

/// A name block.
pub(crate) fn encode_name(name: &OsStr, named: Named) -> Vec<u8> {
    let mut out = Vec::with_capacity(17 + name.len());
    let (tag, id) = match named {
        Named::Absent => (0, FileId { ino: 0, generation: 0 }),
        Named::File(id) => (1, id),
    };
    out.push(tag);
    out.extend_from_slice(&id.ino.to_le_bytes());
    out.extend_from_slice(&id.generation.to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    out
}

/// What a name block says of `name`; `None` when it is about another name.
pub(crate) fn decode_name(bytes: &[u8], name: &OsStr) -> Option<Named> {
    let mut from = Reader(bytes);
    let tag = from.u8()?;
    let id = FileId { ino: from.u64()?, generation: from.u64()? };
    if from.0 != name.as_bytes() {
        return None;
    }
    Some(if tag == 0 { Named::Absent } else { Named::File(id) })
}

/// Bytes that one part of a listing may have: small enough to fill a cache evenly.
const PART_BYTES: usize = 32 << 10;

/// A listing, cut into blocks.
pub(crate) fn encode_listing(entries: &[DirEntry]) -> Vec<Vec<u8>> {
    let mut parts = vec![vec![0u8; 4]];
    for entry in entries {
        let needs = 10 + entry.name.len();
        if parts[parts.len() - 1].len() + needs > PART_BYTES {
            parts.push(Vec::new());
        }
        let last = parts.len() - 1;
        let part = &mut parts[last];
        part.extend_from_slice(&entry.ino.to_le_bytes());
        part.push(type_code(entry.kind));
        part.push(entry.name.len() as u8);
        part.extend_from_slice(entry.name.as_bytes());
    }
    let count = parts.len() as u32;
    parts[0][..4].copy_from_slice(&count.to_le_bytes());
    parts
}

/// The number of parts, from part 0, and the entries behind it.
pub(crate) fn listing_parts(part_0: &[u8]) -> Option<(u64, &[u8])> {
    let mut from = Reader(part_0);
    let count = from.u32()?;
    Some((u64::from(count), from.0))
}

/// One entry of a listing as it lies in its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListedEntry<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) ino: u64,
    pub(crate) kind: Option<FileType>,
}

/// The entry at the head of `bytes`, and what is behind it.
pub(crate) fn split_entry(bytes: &[u8]) -> Option<(ListedEntry<'_>, &[u8])> {
    let mut from = Reader(bytes);
    let ino = from.u64()?;
    let kind = type_of(from.u8()?);
    let length = usize::from(from.u8()?);
    let name = from.0.get(..length)?;
    Some((ListedEntry { name: OsStr::from_bytes(name), ino, kind }, &from.0[length..]))
}

/// An extended attribute with its name; `None` when there is none.
pub(crate) fn encode_xattr(name: &OsStr, value: Option<&[u8]>) -> Vec<u8> {
    let mut out = vec![u8::from(value.is_some()), name.len() as u8];
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value.unwrap_or_default());
    out
}

/// What an xattr block says of `name`: outer `None` when it is about another.
pub(crate) fn decode_xattr<'a>(bytes: &'a [u8], name: &OsStr) -> Option<Option<&'a [u8]>> {
    let mut from = Reader(bytes);
    let is_there = from.u8()? != 0;
    let length = usize::from(from.u8()?);
    if from.0.get(..length)? != name.as_bytes() {
        return None;
    }
    Some(is_there.then(|| &from.0[length..]))
}

fn type_code(kind: Option<FileType>) -> u8 {
    match kind {
        None => 0,
        Some(FileType::Regular) => 1,
        Some(FileType::Directory) => 2,
        Some(FileType::Symlink) => 3,
        Some(FileType::Fifo) => 4,
        Some(FileType::Socket) => 5,
        Some(FileType::CharDevice) => 6,
        Some(FileType::BlockDevice) => 7,
    }
}

fn type_of(code: u8) -> Option<FileType> {
    Some(match code {
        1 => FileType::Regular,
        2 => FileType::Directory,
        3 => FileType::Symlink,
        4 => FileType::Fifo,
        5 => FileType::Socket,
        6 => FileType::CharDevice,
        7 => FileType::BlockDevice,
        _ => return None,
    })
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<Timestamp> {
        Some(Timestamp { sec: self.u64()? as i64, nsec: self.u32()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn stat(ino: u64, size: u64, sec: i64, nsec: u32) -> Stat {
        let time = Timestamp { sec, nsec };
        Stat {
            id: FileId { ino, generation: ino ^ size },
            kind: FileType::Symlink,
            perm: 0o7123,
            nlink: 3,
            uid: 4,
            gid: 5,
            rdev: 6,
            size,
            blocks: 8,
            blksize: 4096,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
        }
    }

    fn entries(names: &[Vec<u8>]) -> Vec<DirEntry> {
        let entry = |(n, name): (usize, &Vec<u8>)| DirEntry {
            name: OsString::from_vec(name.clone()),
            ino: n as u64 + 2,
            kind: type_of((n % 8) as u8),
        };
        names.iter().enumerate().map(entry).collect()
    }

    fn decoded(parts: &[Vec<u8>]) -> Vec<DirEntry> {
        let (count, first) = listing_parts(&parts[0]).unwrap();
        assert_eq!(count, parts.len() as u64);
        let mut all = Vec::new();
        for part in std::iter::once(first).chain(parts[1..].iter().map(Vec::as_slice)) {
            let mut rest = part;
            while let Some((entry, behind)) = split_entry(rest) {
                all.push(DirEntry { name: entry.name.into(), ino: entry.ino, kind: entry.kind });
                rest = behind;
            }
        }
        all
    }

    proptest! {
        #[test]
        fn dnodes_survive(ino: u64, size: u64, sec: i64, nsec in 0u32..1_000_000_000, checked: u64, is_young: bool) {
            let stat = stat(ino, size, sec, nsec);
            let dnode = Dnode { stat, object: ObjectId(9), record_size: 4096, checked, is_young };
            prop_assert_eq!(Dnode::decode(&dnode.encode()), Some(dnode));
            prop_assert_eq!(dnode.encode().len(), DNODE_BYTES);
            let mut sheet = vec![0xff; sheet_bytes(3)];
            begin_sheet(&mut sheet, 7);
            put_record(&mut sheet, 1, &dnode.encode(), checked);
            prop_assert_eq!(sheet_record(&sheet, 1), Some(dnode));
            prop_assert_eq!((sheet_record(&sheet, 0), sheet_record(&sheet, 3)), (None, None));
            prop_assert_eq!((sheet_header(&sheet), sheet_len(&sheet)), (Some((7, checked)), 3));
        }

        #[test]
        fn listings_survive(names in prop::collection::vec(prop::collection::vec(1u8.., 1..255), 0..400)) {
            let entries = entries(&names);
            prop_assert_eq!(decoded(&encode_listing(&entries)), entries);
        }

        #[test]
        fn garbage_is_a_miss_not_a_panic(bytes: Vec<u8>) {
            let name = OsStr::new("a");
            let _ = (Dnode::decode(&bytes), decode_name(&bytes, name), decode_xattr(&bytes, name));
            let _ = (listing_parts(&bytes), split_entry(&bytes));
        }
    }

    #[test]
    fn a_name_block_speaks_only_of_its_own_name() {
        let block = encode_name(OsStr::new("a"), Named::Absent);
        assert_eq!(decode_name(&block, OsStr::new("a")), Some(Named::Absent));
        assert_eq!(decode_name(&block, OsStr::new("b")), None);
    }

    #[test]
    fn an_absent_xattr_is_not_an_empty_one() {
        let name = OsStr::new("user.a");
        assert_eq!(decode_xattr(&encode_xattr(name, None), name), Some(None));
        assert_eq!(decode_xattr(&encode_xattr(name, Some(b"")), name), Some(Some(&b""[..])));
    }
}
