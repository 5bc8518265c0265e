//! From bytes to [`Request`]s, in any format.

mod binary;
mod csv;
mod number;
mod recorded;
mod text;

use std::io::Read;

use super::input::Input;
use super::{Act, Cause, Error, Format, Place, Request};

pub(super) use binary::vscsi_version;
pub(super) use csv::is_header;
pub use csv::{BadColumns, Column, Columns};
pub(super) use recorded::CONVERTED;
pub use recorded::Recorded;
pub use text::MAX_RUN;

/// How a trace is to be read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Its format; guessed from its name and first bytes where absent.
    pub format: Option<Format>,
    /// Which columns of a `csv` trace mean what; the first line says it where absent.
    pub columns: Columns,
    /// How many requests to read at most; all where absent.
    pub limit: Option<u64>,
}

/// The entries of a trace, decoded one after another from compressed or plain bytes.
///
/// Ends at the first error. Takes the same small memory for a trace of any length.
pub struct Requests<'a> {
    name: Box<str>,
    format: Format,
    input: Input<'a>,
    decoder: Box<dyn Decode + 'a>,
    good: u64,
    /// How many requests may still come.
    left: u64,
    has_ended: bool,
}

/// One format's way from bytes to entries.
trait Decode {
    /// The next entry; none at the end.
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause>;

    /// What was told besides entries, so far; none unless the format is a recording.
    fn recorded(&self) -> Option<Recorded> {
        None
    }
}

impl<'a> Requests<'a> {
    /// The entries of the trace called `name` (its file's name, for the format and for messages) that
    /// `input` holds, packed or not.
    ///
    /// # Errors
    ///
    /// When the first bytes cannot be read or unpacked, when the format is not given and not clear, or
    /// when a `csv` trace has no columns that can be understood.
    pub fn open(name: &str, input: impl Read + 'a, options: &Options) -> Result<Self, Error> {
        let at_start = |cause| Error { trace: name.into(), good: 0, place: Place::Byte(0), cause };
        let mut input = Input::open(input).map_err(at_start)?;
        let format = match options.format {
            Some(format) => format,
            None => input.peek(HEAD).and_then(|head| Format::guess(name, head)).map_err(at_start)?,
        };
        let decoder = decoder(format, &mut input, &options.columns);
        let decoder = decoder.map_err(|cause| Error { place: input.place(), ..at_start(cause) })?;
        let left = options.limit.unwrap_or(u64::MAX);
        Ok(Requests { name: name.into(), format, input, decoder, good: 0, left, has_ended: false })
    }

    /// The trace's file, as it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The format that the trace is decoded from.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What was told besides entries, as far as they were taken; none unless it is a recording.
    pub fn recorded(&self) -> Option<Recorded> {
        self.decoder.recorded()
    }

    /// An error at the entry that was decoded last.
    pub(super) fn error(&self, cause: Cause) -> Error {
        Error { trace: self.name.clone(), good: self.good, place: self.input.place(), cause }
    }
}

/// How many first bytes a format is guessed from.
const HEAD: usize = 4096;

fn decoder<'a>(
    format: Format,
    input: &mut Input<'_>,
    columns: &Columns,
) -> Result<Box<dyn Decode + 'a>, Cause> {
    Ok(match format {
        Format::Lis => Box::new(text::Runs::default()),
        Format::Lirs => Box::new(text::Lirs),
        Format::Lbn => Box::new(text::Numbers),
        Format::BeI32 => Box::new(binary::BeI32),
        Format::BeI64 => Box::new(binary::BeI64),
        Format::U32 => Box::new(binary::U32),
        Format::OracleGeneral => Box::new(binary::OracleGeneral),
        Format::Vscsi => binary::vscsi(input)?,
        Format::Csv => Box::new(csv::Table::open(input, columns)?),
        Format::Arcwell => Box::new(recorded::Recording::default()),
    })
}

impl Iterator for Requests<'_> {
    type Item = Result<Request, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended || self.left == 0 {
            return None;
        }
        match self.decoder.next(&mut self.input) {
            Ok(Some(request)) => {
                self.good += 1;
                self.left -= u64::from(request.act == Act::Read);
                Some(Ok(request))
            }
            Ok(None) => {
                self.has_ended = true;
                None
            }
            Err(cause) => {
                self.has_ended = true;
                Some(Err(self.error(cause)))
            }
        }
    }
}
