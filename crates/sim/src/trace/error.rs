//! What can be wrong with a trace, and where in it.

use std::collections::TryReserveError;
use std::fmt;
use std::io;

use arcwell_base::record::Damaged;

use super::{Format, Packing};

/// Why a trace could not be read: its name, how far the reading came, and what is wrong there.
#[derive(Debug)]
pub struct Error {
    /// The trace's file, as the caller named it.
    pub trace: Box<str>,
    /// How many of its entries were good.
    pub good: u64,
    /// Where the bad one stands.
    pub place: Place,
    /// What is wrong with it.
    pub cause: Cause,
}

/// A place in the unpacked bytes of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A line of text, from 1.
    Line(u64),
    /// A byte, from 0.
    Byte(u64),
}

/// What is wrong with a trace.
#[derive(Debug)]
pub enum Cause {
    /// Its bytes could not be had: the file cannot be read, or is damaged or cut short in its packing.
    Bytes {
        /// How the file is packed.
        packing: Packing,
        /// What the file or the unpacking said.
        source: io::Error,
    },
    /// It ends within an entry.
    Cut {
        /// How many bytes an entry has.
        wanted: usize,
        /// How many are there.
        found: usize,
    },
    /// A line is longer than any format has.
    Long {
        /// The longest line allowed, in bytes.
        limit: usize,
    },
    /// An entry is not what its format says.
    Entry {
        /// What it should be.
        expected: &'static str,
        /// How it begins, in a form that can be printed.
        found: String,
    },
    /// A column that was asked for, or is needed, is not there.
    NoColumn {
        /// The column.
        wanted: String,
        /// What the first line says.
        header: String,
    },
    /// Neither the file's name nor its first bytes tell its format.
    Unclear {
        /// What it may be, as far as it can be told; else empty.
        candidates: Vec<Format>,
    },
    /// A recording cannot be decoded.
    Recording(Damaged),
    /// More distinct blocks or accesses than numbers of four bytes.
    TooMany,
    /// There is no memory for it.
    Memory(TryReserveError),
}

impl Cause {
    /// An entry that is not what was `expected`, shown by its first bytes.
    pub(super) fn entry(expected: &'static str, found: &[u8]) -> Cause {
        Cause::Entry { expected, found: excerpt(found) }
    }
}

/// The beginning of a piece of input, escaped, so that it can stand in a message.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 48;
    let more = if bytes.len() > SHOWN { "..." } else { "" };
    format!("{}{more}", bytes[..bytes.len().min(SHOWN)].escape_ascii())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { trace, good, place, cause } = self;
        write!(f, "{trace}: ")?;
        match cause {
            Cause::Unclear { .. } => write!(f, "{cause}"),
            _ => write!(f, "{place}, after {good} good entries: {cause}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(number) => write!(f, "line {number}"),
            Place::Byte(offset) => write!(f, "byte {offset}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Bytes { packing: Packing::Plain, .. } => write!(f, "cannot be read"),
            Cause::Bytes { packing, .. } => write!(f, "cannot be unpacked as {packing}"),
            Cause::Cut { wanted, found } => {
                write!(f, "ends within an entry: {found} of {wanted} bytes")
            }
            Cause::Long { limit } => write!(f, "a line is longer than {limit} bytes"),
            Cause::Entry { expected, found } => write!(f, "expected {expected}, found \"{found}\""),
            Cause::NoColumn { wanted, header } => {
                write!(f, "no column for {wanted} in \"{header}\"; name it with --columns")
            }
            Cause::Unclear { candidates } => {
                write!(f, "its format is not clear from name and first bytes; give --format")?;
                for (place, format) in candidates.iter().enumerate() {
                    write!(f, "{} {format}", if place == 0 { ", perhaps" } else { " or" })?;
                }
                Ok(())
            }
            Cause::Recording(_) => write!(f, "its events cannot be decoded"),
            Cause::TooMany => write!(f, "more than {} blocks or accesses", super::MAX_ACCESSES),
            Cause::Memory(_) => write!(f, "no memory for more"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Bytes { source, .. } => Some(source),
            Cause::Recording(source) => Some(source),
            Cause::Memory(source) => Some(source),
            _ => None,
        }
    }
}
