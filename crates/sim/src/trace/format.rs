//! Which formats there are, and which of them a file is likely to be in.

use std::fmt;
use std::str::FromStr;

use arcwell_base::record::MAGIC;

use super::Cause;
use super::decode::{is_header, vscsi_version};

/// How a trace is written down.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Text of the ARC paper's traces.
    Lis,
    /// Text of the LIRS paper's traces.
    Lirs,
    /// Big-endian numbers of four bytes.
    BeI32,
    /// Big-endian numbers of eight bytes.
    BeI64,
    /// Little-endian numbers of four bytes.
    U32,
    /// Block numbers as text.
    Lbn,
    /// A table of text.
    Csv,
    /// Records of libCacheSim.
    OracleGeneral,
    /// Records of virtual disks.
    Vscsi,
    /// A recording of a running mount.
    Arcwell,
}

/// Format, name, what it is.
type Row = (Format, &'static str, &'static str);

const ROWS: [Row; 10] = [
    (Format::Lis, "lis", "text: 'start_block blocks ignored request'; a line asks for that many blocks"),
    (Format::Lirs, "lirs", "text: one block number a line; '*' and empty lines mean nothing"),
    (Format::BeI32, "be-i32", "big-endian numbers of 4 bytes, one a block"),
    (Format::BeI64, "be-i64", "big-endian numbers of 8 bytes, one a block"),
    (Format::U32, "u32", "little-endian numbers of 4 bytes, one a block"),
    (Format::Lbn, "lbn", "text: one block number a line, decimal or after 0x"),
    (Format::Csv, "csv", "text: a table with a column for the key, perhaps also for size and time"),
    (Format::OracleGeneral, "oracleGeneral", "records: u32 seconds, u64 key, u32 bytes, i64 next access"),
    (Format::Vscsi, "vscsi", "records of a virtual disk's commands, version 1 or 2"),
    (Format::Arcwell, "arcwell", "what 'arcwell trace record' writes: lookups, admissions, removals"),
];

impl Format {
    /// Every format, in the order in which they are listed.
    pub const ALL: [Format; ROWS.len()] = {
        let mut all = [Format::Lis; ROWS.len()];
        let mut place = 0;
        while place < all.len() {
            all[place] = ROWS[place].0;
            place += 1;
        }
        all
    };

    /// Its name, as `--format` takes it.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What it is, in one line.
    pub fn about(self) -> &'static str {
        self.row().2
    }

    /// The format of the trace in a file called `name` whose first unpacked bytes, some thousands if
    /// there are as many, are `head`.
    ///
    /// A name decides where its endings do (`OLTP.lis.zst`, `w01.oracleGeneral.bin.xz`); `.trace`, which
    /// many use, and any other name leave it to the bytes.
    ///
    /// # Errors
    ///
    /// [`Cause::Unclear`] where neither tells.
    pub fn guess(name: &str, head: &[u8]) -> Result<Format, Cause> {
        let name = file_name(name).to_ascii_lowercase();
        let mut endings = name.rsplit('.').filter(|ending| !PACKED.contains(ending)).take(3);
        let by_name = endings.find_map(|ending| NAMED.iter().find(|(known, _)| *known == ending));
        match by_name {
            Some(&(_, format)) => Ok(format),
            None => by_head(name.split('.').any(|part| part == "trace"), head),
        }
    }

    fn row(self) -> &'static Row {
        // The table has a row for every format: a test looks.
        ROWS.iter().find(|row| row.0 == self).unwrap_or(&ROWS[0])
    }
}

/// Endings that say how a file is packed, and nothing of its format.
const PACKED: [&str; 4] = ["zst", "gz", "xz", "bin"];

/// Endings that decide.
const NAMED: [(&str, Format); 13] = [
    ("lis", Format::Lis),
    ("lirs", Format::Lirs),
    ("be-i32", Format::BeI32),
    ("be-i64", Format::BeI64),
    ("u32", Format::U32),
    ("lbn", Format::Lbn),
    ("csv", Format::Csv),
    ("tsv", Format::Csv),
    ("oraclegeneral", Format::OracleGeneral),
    ("vscsi", Format::Vscsi),
    ("vscsi1", Format::Vscsi),
    ("vscsi2", Format::Vscsi),
    ("arcwell", Format::Arcwell),
];

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The trace's own name: the file's, without what `path` says of folders, format and packing.
///
/// `../traces/OLTP.lis.zst` is `OLTP`.
pub fn stem(path: &str) -> &str {
    let mut stem = file_name(path);
    while let Some((rest, ending)) = stem.rsplit_once('.') {
        let ending = ending.to_ascii_lowercase();
        let is_format = NAMED.iter().any(|(known, _)| *known == ending);
        let is_ending = is_format || PACKED.contains(&&*ending) || ["trace", "txt"].contains(&&*ending);
        if rest.is_empty() || !is_ending {
            break;
        }
        stem = rest;
    }
    stem
}

/// The format of what begins with `head`. `is_trace`: whether the file is called `.trace`, as the texts
/// of the LIRS authors and the numbers of cache2k are.
fn by_head(is_trace: bool, head: &[u8]) -> Result<Format, Cause> {
    let is_text = |byte: &u8| (b' '..=b'~').contains(byte) || byte.is_ascii_whitespace();
    let format = if head.starts_with(&MAGIC) {
        Some(Format::Arcwell)
    } else if head.is_empty() {
        None
    } else if head.iter().all(is_text) {
        of_text(is_trace, head)
    } else if vscsi_version(head).is_some_and(|_| head.len() >= 80) {
        Some(Format::Vscsi)
    } else if is_trace {
        of_numbers(head)
    } else {
        None
    };
    format.ok_or_else(|| {
        let is_text = head.iter().all(is_text);
        let texts = [Format::Lirs, Format::Lbn, Format::Csv];
        let numbers = [Format::BeI32, Format::BeI64, Format::U32, Format::OracleGeneral];
        Cause::Unclear { candidates: if is_text { texts.to_vec() } else { numbers.to_vec() } }
    })
}

fn of_text(is_trace: bool, head: &[u8]) -> Option<Format> {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let words: Vec<_> = first.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let is_number = |word: &&[u8]| word.iter().all(u8::is_ascii_digit);
    if is_header(first) {
        Some(Format::Csv)
    } else if words.len() == 4 && words.iter().all(is_number) {
        Some(Format::Lis)
    } else if words.len() == 1 && (first == b"*" || is_trace && is_number(&first)) {
        Some(Format::Lirs)
    } else if words.len() == 1 && (is_number(&first) || first.starts_with(b"0x")) {
        Some(Format::Lbn)
    } else {
        None
    }
}

/// Keys are small numbers more often than not: read in the wrong order of bytes they are large, and
/// numbers of eight bytes taken for two of four have nothing in every other one.
fn of_numbers(head: &[u8]) -> Option<Format> {
    let words: Vec<[u8; 4]> = head.as_chunks().0.to_vec();
    let sum = |number: fn([u8; 4]) -> u32| words.iter().map(|&word| u64::from(number(word))).sum::<u64>();
    if sum(u32::from_be_bytes) >= sum(u32::from_le_bytes) {
        return None;
    }
    let is_wide = words.len() >= 8 && words.iter().step_by(2).all(|word| *word == [0; 4]);
    Some(if is_wide { Format::BeI64 } else { Format::BeI32 })
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no format's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadFormat {
    given: String,
}

impl fmt::Display for BadFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Format::ALL.map(Format::name).join(", ");
        write!(f, "'{}' is not a format: {names}", self.given)
    }
}

impl std::error::Error for BadFormat {}

impl FromStr for Format {
    type Err = BadFormat;

    fn from_str(name: &str) -> Result<Self, BadFormat> {
        let format = Format::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| BadFormat { given: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_one_row_and_is_read_back_from_its_name() {
        for (place, format) in Format::ALL.into_iter().enumerate() {
            assert_eq!(format.row(), &ROWS[place], "a second row for {format}");
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let refusal = "lris".parse::<Format>().expect_err("no such format").to_string();
        assert!(refusal.contains("lirs") && refusal.contains("'lris'"), "{refusal}");
    }

    #[test]
    fn a_name_decides_before_the_bytes() {
        for (name, format) in [
            ("../traces/OLTP.lis.zst", Format::Lis),
            ("x.oracleGeneral.bin.xz", Format::OracleGeneral),
            ("x.oracleGeneral.zst", Format::OracleGeneral),
            ("w.oracleGeneral.sample10.zst", Format::OracleGeneral),
            ("w.vscsi.xz", Format::Vscsi),
            ("w.csv", Format::Csv),
            ("w.arcwell", Format::Arcwell),
            ("w.u32.gz", Format::U32),
        ] {
            assert_eq!(Format::guess(name, b"\0\x01\x02").expect(name), format, "{name}");
        }
    }

    #[test]
    fn bytes_decide_where_the_name_does_not() {
        let wide: Vec<u8> = (0..20u64).flat_map(u64::to_be_bytes).collect();
        for (name, head, format) in [
            ("gli.trace.gz", &b"0\n1\n"[..], Format::Lirs),
            ("x", b"*\n1\n", Format::Lirs),
            ("x.txt", b"17\n18\n", Format::Lbn),
            ("x", b"0x17\n", Format::Lbn),
            ("x", b"1 1 0 0\n", Format::Lis),
            ("x", b"version,time,op,size,lbn\n", Format::Csv),
            ("x", b"timestamp\tobj_id\n", Format::Csv),
            ("web12.trace.xz", b"\0\0\0\x01\0\0\x01\0", Format::BeI32),
            ("x.trace", &wide, Format::BeI64),
        ] {
            assert_eq!(Format::guess(name, head).expect(name), format, "{name}");
        }
    }

    #[test]
    fn what_is_not_clear_asks_for_the_flag() {
        for (name, head) in [
            ("x", &b""[..]),
            ("x", b"hello\n"),
            ("x.bin", b"\x01\0\0\0"),
            ("x.trace", b"\x01\0\0\0\x02\0\0\0"),
        ] {
            let refusal = Format::guess(name, head).expect_err(name).to_string();
            assert!(refusal.contains("--format"), "{refusal}");
        }
    }

    #[test]
    fn a_stem_has_no_endings_of_format_and_packing() {
        for (path, name) in [
            ("/a/OLTP.lis.zst", "OLTP"),
            ("gli.trace.gz", "gli"),
            ("cloudPhysicsIO.oracleGeneral.bin.xz", "cloudPhysicsIO"),
            ("w01.2020.csv", "w01.2020"),
            (".csv", ".csv"),
        ] {
            assert_eq!(stem(path), name);
        }
    }
}
