//! Tables of text: a row a request, with the key, and perhaps size and time, in columns of their own.

use std::fmt;
use std::str::FromStr;

use csv_core::ReadRecordResult;
use xxhash_rust::xxh3::xxh3_64;

use super::super::error::excerpt;
use super::super::input::{Input, WINDOW};
use super::super::{Cause, Place, Request};
use super::Decode;
use super::number::{decimal, decimal_or_hex, microseconds};

/// Columns that a row may have.
const MAX_COLUMNS: usize = 1024;

/// What may stand between columns, as far as it is found out without being told.
const SEPARATORS: [u8; 4] = *b",\t;|";

/// Which columns of a table mean what. What is absent is found out from the first line.
///
/// As text (`FromStr`): assignments with commas between, for example
/// `key=lbn,size=4,time=timestamp,separator=tab,header=no,keys=text`. A column is its name in the header,
/// or its number, from 1. libCacheSim's `obj-id-col=5,obj-size-col=4,time-col=2,delimiter=;` is
/// understood too.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Columns {
    /// Which block. Found by names such as `key`, `obj_id`, `lbn`, `offset`.
    pub key: Option<Column>,
    /// Its bytes. Found by names such as `size`, `len`; 1 where there is none.
    pub size: Option<Column>,
    /// When, in seconds, with or without a fraction. Found by names such as `time`, `timestamp`; 0 where
    /// there is none, or no number in it.
    pub time: Option<Column>,
    /// What stands between columns: the most frequent of comma, tab, `;` and `|` in the first line.
    pub separator: Option<u8>,
    /// Whether the first line names the columns: where one of the names above stands in it.
    pub has_header: Option<bool>,
    /// Whether keys are any text, which is hashed to 64 bits, and not numbers, decimal or after `0x`.
    pub has_text_keys: bool,
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column {
    /// By its place, from 1.
    Number(usize),
    /// By its name in the header, in any case.
    Name(String),
}

/// Names that a column is found by, the surest first.
const KEY: [&str; 12] = [
    "key",
    "obj_id",
    "object_id",
    "objid",
    "lbn",
    "lba",
    "block",
    "block_number",
    "blkno",
    "offset",
    "address",
    "id",
];
const SIZE: [&str; 7] = ["size", "obj_size", "object_size", "len", "length", "bytes", "size_bytes"];
const TIME: [&str; 4] = ["time", "timestamp", "ts", "clock_time"];

/// Whether a first line names columns of a trace: for guessing a format. Any separator will do.
pub(in crate::trace) fn is_header(line: &[u8]) -> bool {
    let separator = most_frequent(line);
    line.contains(&separator) && line.split(|&byte| byte == separator).any(|name| is_known(&plain(name)))
}

fn is_known(name: &str) -> bool {
    [&KEY[..], &SIZE, &TIME].iter().any(|names| names.contains(&name))
}

/// A name as it is compared: without quotes, in small letters, words joined by `_`.
fn plain(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    name.trim_matches(|c: char| c.is_whitespace() || c == '"').to_lowercase().replace(['-', ' '], "_")
}

fn most_frequent(line: &[u8]) -> u8 {
    let count = |separator: u8| line.iter().filter(|&&byte| byte == separator).count();
    // Of equals `max_by_key` takes the last, and the comma shall win.
    SEPARATORS.into_iter().rev().max_by_key(|&separator| count(separator)).unwrap_or(b',')
}

/// Decodes a table.
pub(super) struct Table {
    reader: csv_core::Reader,
    row: Row,
    /// Whether `row` holds the first row, and it is not a header.
    is_pending: bool,
    key: usize,
    size: Option<usize>,
    time: Option<usize>,
    has_text_keys: bool,
}

/// One row, unquoted.
struct Row {
    text: Box<[u8]>,
    ends: Box<[usize]>,
    columns: usize,
}

impl Row {
    fn get(&self, column: usize) -> Option<&[u8]> {
        let ends = &self.ends[..self.columns];
        let start = if column == 0 { 0 } else { *ends.get(column - 1)? };
        Some(self.text[start..*ends.get(column)?].trim_ascii())
    }

    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.columns).filter_map(|column| self.get(column))
    }

    /// The row as it can stand in a message.
    fn shown(&self) -> String {
        excerpt(&self.fields().collect::<Vec<_>>().join(&b' '))
    }

    /// Reads the next row; `false` at the end.
    fn read(&mut self, reader: &mut csv_core::Reader, input: &mut Input<'_>) -> Result<bool, Cause> {
        let (mut length, mut columns) = (0, 0);
        let begin = reader.line();
        input.set_place(Place::Line(begin));
        loop {
            let bytes = input.peek(1)?;
            let (text, ends) = (&mut self.text[length..], &mut self.ends[columns..]);
            let (result, taken, written, ended) = reader.read_record(bytes, text, ends);
            input.take(taken);
            (length, columns) = (length + written, columns + ended);
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => return Err(Cause::Long { limit: WINDOW }),
                ReadRecordResult::OutputEndsFull => {
                    let expected = "a row with at most 1024 columns";
                    return Err(Cause::entry(expected, &self.text[..length]));
                }
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return Ok(false),
            }
        }
        self.columns = columns;
        // Empty lines before the row were skipped: the line that it ends on is the surer place.
        input.set_place(Place::Line(begin.max(reader.line() - 1)));
        Ok(true)
    }
}

impl Table {
    /// Reads the first row, and says from it and from `columns` where everything stands.
    pub(super) fn open(input: &mut Input<'_>, columns: &Columns) -> Result<Table, Cause> {
        let head = input.peek(WINDOW)?;
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let separator = columns.separator.unwrap_or_else(|| most_frequent(line));
        let mut reader = csv_core::ReaderBuilder::new().delimiter(separator).build();
        let (text, ends) = (vec![0; WINDOW].into(), vec![0; MAX_COLUMNS].into());
        let mut row = Row { text, ends, columns: 0 };
        if !row.read(&mut reader, input)? {
            // Without a single row nothing will be asked of any column.
            return Ok(Table {
                reader,
                row,
                is_pending: false,
                key: 0,
                size: None,
                time: None,
                has_text_keys: false,
            });
        }
        let has_header = columns.has_header.unwrap_or_else(|| columns.seem_named_by(&row));
        let names: Vec<String> = if has_header { row.fields().map(plain).collect() } else { Vec::new() };
        let place = |column: &Option<Column>, known: &[&str]| match column {
            None => Ok(known.iter().find_map(|known| names.iter().position(|name| name == known))),
            Some(Column::Number(number)) if (1..=row.columns).contains(number) => Ok(Some(number - 1)),
            Some(Column::Number(number)) => Err(row.lacks(number)),
            Some(Column::Name(name)) => {
                let wanted = plain(name.as_bytes());
                names.iter().position(|name| *name == wanted).map(Some).ok_or_else(|| row.lacks(name))
            }
        };
        let key = place(&columns.key, &KEY)?.ok_or_else(|| row.lacks(&"the key"))?;
        let (size, time) = (place(&columns.size, &SIZE)?, place(&columns.time, &TIME)?);
        let has_text_keys = columns.has_text_keys;
        Ok(Table { reader, row, is_pending: !has_header, key, size, time, has_text_keys })
    }

    fn request(&self) -> Result<Request, Cause> {
        let field = |column: usize, expected: &'static str| {
            let field = self.row.get(column);
            field.ok_or_else(|| Cause::Entry { expected, found: self.row.shown() })
        };
        let key = field(self.key, "a row with a key")?;
        let number = if self.has_text_keys { Some(xxh3_64(key)) } else { decimal_or_hex(key) };
        let key = number.ok_or_else(|| Cause::entry("a key that is a number (or say keys=text)", key))?;
        let mut request = Request::of(key);
        if let Some(column) = self.size {
            const BYTES: &str = "a size in bytes, less than 2^32";
            let size = field(column, "a row with a size")?;
            let bytes = decimal(size).and_then(|bytes| u32::try_from(bytes).ok());
            request = request.sized(bytes.ok_or_else(|| Cause::entry(BYTES, size))?);
        }
        if let Some(column) = self.time {
            request = request.at(self.row.get(column).and_then(microseconds).unwrap_or(0));
        }
        Ok(request)
    }
}

impl Row {
    fn lacks(&self, column: &dyn fmt::Display) -> Cause {
        Cause::NoColumn { wanted: column.to_string(), header: self.shown() }
    }
}

impl Decode for Table {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause> {
        let has_row = std::mem::take(&mut self.is_pending) || self.row.read(&mut self.reader, input)?;
        if has_row { self.request().map(Some) } else { Ok(None) }
    }
}

impl Columns {
    /// Whether the first row seems to name columns.
    fn seem_named_by(&self, row: &Row) -> bool {
        let given = [&self.key, &self.size, &self.time];
        given.iter().any(|column| matches!(column, Some(Column::Name(_))))
            || row.fields().any(|field| is_known(&plain(field)))
    }
}

/// Why a description of columns could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadColumns {
    given: String,
}

impl fmt::Display for BadColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const EXPECTED: &str =
            "key=, size= or time= a name or number from 1, separator=, header=yes|no, keys=text|numbers";
        write!(f, "'{}' does not describe a column: {EXPECTED}", self.given)
    }
}

impl std::error::Error for BadColumns {}

impl FromStr for Columns {
    type Err = BadColumns;

    fn from_str(text: &str) -> Result<Self, BadColumns> {
        let mut columns = Columns::default();
        for given in text.split(',').filter(|given| !given.is_empty()) {
            let bad = || BadColumns { given: given.to_owned() };
            let (what, value) = given.split_once('=').ok_or_else(bad)?;
            if value.is_empty() {
                return Err(bad());
            }
            let column = || match value.parse() {
                Ok(0) => Err(bad()),
                Ok(number) => Ok(Some(Column::Number(number))),
                Err(_) => Ok(Some(Column::Name(value.to_owned()))),
            };
            match what.trim_end_matches("-col") {
                "key" | "obj-id" => columns.key = column()?,
                "size" | "obj-size" => columns.size = column()?,
                "time" => columns.time = column()?,
                "separator" | "delimiter" => columns.separator = Some(separator(value).ok_or_else(bad)?),
                "header" | "has-header" => columns.has_header = Some(yes(value).ok_or_else(bad)?),
                "keys" if value == "text" => columns.has_text_keys = true,
                "keys" if value == "numbers" => columns.has_text_keys = false,
                _ => return Err(bad()),
            }
        }
        Ok(columns)
    }
}

fn yes(value: &str) -> Option<bool> {
    match value {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    }
}

/// One byte, or the name of one that cannot be written in a list with commas.
fn separator(value: &str) -> Option<u8> {
    match value.as_bytes() {
        b"comma" => Some(b','),
        b"tab" | b"\\t" => Some(b'\t'),
        b"space" => Some(b' '),
        &[byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && byte != b'"' => Some(byte),
        _ => None,
    }
}
