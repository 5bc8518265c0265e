//! From requests to bytes: what `arcwell trace convert` does.

use std::collections::{HashMap, TryReserveError};
use std::fmt;
use std::io::{self, BufWriter, Write};

use arcwell_base::record::{Encoder, Event, Header};
use arcwell_base::{BlockKey, Kind, ObjectId};

use super::decode::CONVERTED;
use super::{Act, Error, Format, MAX_ACCESSES, Request};

/// The formats that [`write()`] knows.
pub const WRITTEN: [Format; 6] =
    [Format::Lbn, Format::U32, Format::BeI64, Format::Csv, Format::OracleGeneral, Format::Arcwell];

/// What became of the entries that were to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// How many were written.
    pub entries: u64,
    /// How many were left out, as they are not requests and the format has nothing else.
    pub left_out: u64,
}

/// Why a trace could not be written.
#[derive(Debug)]
pub enum WriteError {
    /// Nobody writes this format; [`WRITTEN`] are those that are.
    Format(Format),
    /// The entries themselves could not be had.
    Read(Error),
    /// A key does not fit the format.
    Key {
        /// The format.
        format: Format,
        /// The key.
        key: u64,
        /// Which entry has it, from 0.
        entry: u64,
    },
    /// More than [`MAX_ACCESSES`] entries, in a format that needs all of them in memory.
    TooMany,
    /// There is no memory for all entries, in a format that needs that.
    Memory(TryReserveError),
    /// What was written to failed.
    Output(io::Error),
}

/// Writes `requests`, commonly [`Requests`](super::Requests), to `out` in `format`, not packed, and
/// flushes. Entries are written as they come, but for `oracleGeneral`, which says of each request when
/// the next one to its block comes: it holds all of them, 24 bytes each, and a
/// table of their blocks.
///
/// Times, sizes and keys stay what they are, as far as the format has them: `oracleGeneral` has whole
/// seconds, fewer than 2^32 of them. `arcwell` also has kinds, and acts other than reading, which are
/// left out of all others; read back its keys are other numbers, equal where they were equal. It is
/// marked as converted, as it says of every request that it was a hit.
///
/// # Errors
///
/// See [`WriteError`]. What was written until then is part of a trace, and should be thrown away.
pub fn write(
    format: Format,
    out: impl Write,
    requests: impl IntoIterator<Item = Result<Request, Error>>,
) -> Result<Written, WriteError> {
    let mut encoder: Box<dyn Encode> = match format {
        Format::Lbn => Box::new(Plain(|key, out| writeln!(out, "{key}"))),
        Format::BeI64 => Box::new(Plain(|key, out| out.write_all(&key.to_be_bytes()))),
        Format::U32 => Box::new(U32),
        Format::Csv => Box::new(Csv),
        Format::OracleGeneral => Box::new(OracleGeneral(Vec::new())),
        Format::Arcwell => Box::new(Recording::new()),
        _ => return Err(WriteError::Format(format)),
    };
    let mut out = BufWriter::with_capacity(64 << 10, out);
    let mut written = Written::default();
    encoder.begin(&mut out)?;
    for request in requests {
        let request = request.map_err(WriteError::Read)?;
        if request.act != Act::Read && format != Format::Arcwell {
            written.left_out += 1;
            continue;
        }
        encoder.entry(written.entries, &request, &mut out)?;
        written.entries += 1;
    }
    encoder.end(&mut out)?;
    out.flush().map_err(WriteError::Output)?;
    Ok(written)
}

/// One format's way from entries to bytes.
trait Encode {
    fn begin(&mut self, _out: &mut dyn Write) -> Result<(), WriteError> {
        Ok(())
    }

    /// Writes entry number `place`, from 0.
    fn entry(&mut self, place: u64, request: &Request, out: &mut dyn Write) -> Result<(), WriteError>;

    fn end(&mut self, _out: &mut dyn Write) -> Result<(), WriteError> {
        Ok(())
    }
}

/// Formats that have every key and nothing else.
struct Plain(fn(u64, &mut dyn Write) -> io::Result<()>);

impl Encode for Plain {
    fn entry(&mut self, _place: u64, request: &Request, out: &mut dyn Write) -> Result<(), WriteError> {
        self.0(request.key, out).map_err(WriteError::Output)
    }
}

struct U32;

impl Encode for U32 {
    fn entry(&mut self, entry: u64, request: &Request, out: &mut dyn Write) -> Result<(), WriteError> {
        let key = request.key;
        let small = u32::try_from(key).map_err(|_| WriteError::Key { format: Format::U32, key, entry })?;
        out.write_all(&small.to_le_bytes()).map_err(WriteError::Output)
    }
}

struct Csv;

impl Encode for Csv {
    fn begin(&mut self, out: &mut dyn Write) -> Result<(), WriteError> {
        writeln!(out, "time,key,size").map_err(WriteError::Output)
    }

    fn entry(&mut self, _place: u64, request: &Request, out: &mut dyn Write) -> Result<(), WriteError> {
        let Request { time, key, size, .. } = request;
        let (seconds, micros) = (time / 1_000_000, time % 1_000_000);
        match micros {
            0 => writeln!(out, "{seconds},{key},{size}"),
            _ => writeln!(out, "{seconds}.{micros:06},{key},{size}"),
        }
        .map_err(WriteError::Output)
    }
}

/// All requests, as what was not read yet decides what is written first.
struct OracleGeneral(Vec<Held>);

struct Held {
    key: u64,
    seconds: u32,
    size: u32,
    /// The place of the next request for the same key, from 1; -1 where there is none.
    next: i64,
}

impl Encode for OracleGeneral {
    fn entry(&mut self, place: u64, request: &Request, _out: &mut dyn Write) -> Result<(), WriteError> {
        if place >= MAX_ACCESSES as u64 {
            return Err(WriteError::TooMany);
        }
        let &Request { time, key, size, .. } = request;
        let seconds = u32::try_from(time / 1_000_000).unwrap_or(u32::MAX);
        self.0.try_reserve(1).map_err(WriteError::Memory)?;
        self.0.push(Held { key, seconds, size, next: -1 });
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> Result<(), WriteError> {
        let mut next = HashMap::new();
        for (place, held) in self.0.iter_mut().enumerate().rev() {
            held.next = next.insert(held.key, place as i64 + 1).unwrap_or(-1);
        }
        for Held { key, seconds, size, next } in &self.0 {
            let mut record = [0; 24];
            record[..4].copy_from_slice(&seconds.to_le_bytes());
            record[4..12].copy_from_slice(&key.to_le_bytes());
            record[12..16].copy_from_slice(&size.to_le_bytes());
            record[16..].copy_from_slice(&next.to_le_bytes());
            out.write_all(&record).map_err(WriteError::Output)?;
        }
        Ok(())
    }
}

struct Recording {
    encoder: Encoder,
    /// What is not written yet: at first, the header.
    bytes: Vec<u8>,
}

impl Recording {
    fn new() -> Self {
        let mut bytes = Vec::new();
        let header = Header { record_size: 0, began: 0, has_names: false };
        let mut encoder = Encoder::new(&header, &mut bytes);
        encoder.encode(0, &Event::Setting { name: CONVERTED.to_owned(), value: 1 }, &mut bytes);
        Recording { encoder, bytes }
    }

    fn flush(&mut self, out: &mut dyn Write) -> Result<(), WriteError> {
        out.write_all(&self.bytes).map_err(WriteError::Output)?;
        self.bytes.clear();
        Ok(())
    }
}

/// The block that stands for a key: keys that are near lie in one object, and no object is zero.
fn block(key: u64, kind: Kind) -> BlockKey {
    let metadata = if kind == Kind::Metadata { 1 << 63 } else { 0 };
    BlockKey::new(ObjectId((key >> 32) + 1), key & u64::from(u32::MAX) | metadata)
}

impl Encode for Recording {
    fn begin(&mut self, out: &mut dyn Write) -> Result<(), WriteError> {
        self.flush(out)
    }

    fn entry(&mut self, _place: u64, request: &Request, out: &mut dyn Write) -> Result<(), WriteError> {
        let &Request { time, size: len, kind, act, .. } = request;
        let key = block(request.key, kind);
        let event = match act {
            Act::Read => Event::Lookup { key, kind, is_guess: false, hit: Some(len) },
            Act::Probe => Event::Lookup { key, kind, is_guess: true, hit: Some(len) },
            Act::Admit { is_guess, stays } => Event::Admit { key, kind, len, is_guess, stays },
            Act::Remove => Event::Remove { key },
        };
        self.encoder.encode(time, &event, &mut self.bytes);
        self.flush(out)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Format(format) => {
                let known = WRITTEN.map(Format::name).join(", ");
                write!(f, "traces are not written as {format}, only as {known}")
            }
            WriteError::Read(_) => write!(f, "the trace cannot be converted"),
            WriteError::Key { format, key, entry } => {
                write!(f, "entry {entry}: key {key} does not fit {format}")
            }
            WriteError::TooMany => write!(f, "more than {MAX_ACCESSES} entries"),
            WriteError::Memory(_) => write!(f, "no memory for all entries"),
            WriteError::Output(_) => write!(f, "the converted trace cannot be written"),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Read(source) => Some(source),
            WriteError::Memory(source) => Some(source),
            WriteError::Output(source) => Some(source),
            _ => None,
        }
    }
}
