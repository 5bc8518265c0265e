//! Bytes to events, as they come in.

use std::fmt;

use super::wire::{self, Recent, apply};
use super::{Event, Header, MAGIC, NAME_MAX, Name, Record, VERSION};
use crate::key::{BlockKey, Kind, ObjectId};

/// Bytes that no recording has at this place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged {
    /// Where the header or the event begins that makes no sense, in bytes from the start.
    pub offset: u64,
    /// What should have been there.
    pub expected: &'static str,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a recording that can be read: at byte {} was expected {}", self.offset, self.expected)
    }
}

impl std::error::Error for Damaged {}

/// Reads a recording from pieces of any length. It holds no more than what it was handed and could not
/// use yet, which [`Decoder::next`] keeps under the length of one event.
///
/// ```
/// # use arcwell_base::record::{Decoder, Encoder, Event, Header};
/// let mut bytes = Vec::new();
/// let header = Header { record_size: 4096, began: 0, has_names: false };
/// Encoder::new(&header, &mut bytes).encode(7, &Event::Charge { bytes: 1 }, &mut bytes);
/// let mut decoder = Decoder::default();
/// for piece in bytes.chunks(3) {
///     decoder.feed(piece);
///     while let Some(record) = decoder.next()? {
///         assert_eq!((record.at, record.event), (7, Event::Charge { bytes: 1 }));
///     }
/// }
/// decoder.finish()?;
/// # Ok::<(), arcwell_base::record::Damaged>(())
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// What of `bytes` was used up.
    used: usize,
    /// Bytes that are no longer in `bytes`.
    behind: u64,
    header: Option<Header>,
    recent: Recent,
    at: u64,
}

impl Decoder {
    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.used);
        self.behind += std::mem::take(&mut self.used) as u64;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next event; `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`Damaged`]. The decoder stays where it is: the same error comes again.
    #[expect(clippy::should_implement_trait, reason = "`None` is not the end")]
    pub fn next(&mut self) -> Result<Option<Record>, Damaged> {
        let offset = self.offset();
        let damaged = |stop| match stop {
            Stop::Short => None,
            Stop::Wrong(expected) => Some(Damaged { offset, expected }),
        };
        if self.header.is_none() {
            let mut from = Reader(&self.bytes[self.used..]);
            match from.header() {
                Ok(header) => self.header = Some(header),
                Err(stop) => return damaged(stop).map_or(Ok(None), Err),
            }
            self.used = self.bytes.len() - from.0.len();
            return self.next();
        }
        let mut from = Reader(&self.bytes[self.used..]);
        match self.event(&mut from) {
            Ok(record) => {
                self.used = self.bytes.len() - from.0.len();
                self.at = record.at;
                if let Some((_, key, kind, len)) = wire::parts(&record.event) {
                    self.recent.note(key, kind, len);
                }
                Ok(Some(record))
            }
            Err(stop) => damaged(stop).map_or(Ok(None), Err),
        }
    }

    /// The header, once enough was read.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Bytes of whole events, and of the header, that were read: a recording that is cut here is whole.
    pub fn offset(&self) -> u64 {
        self.behind + self.used as u64
    }

    /// Says that there are no more bytes.
    ///
    /// # Errors
    /// [`Damaged`] when the header or an event is not whole.
    pub fn finish(&self) -> Result<(), Damaged> {
        let expected = match self.header {
            None => "a whole header",
            Some(_) if self.used < self.bytes.len() => "a whole event: the recording was cut off",
            Some(_) => return Ok(()),
        };
        Err(Damaged { offset: self.offset(), expected })
    }

    fn event(&self, from: &mut Reader<'_>) -> Result<Record, Stop> {
        let first = from.byte()?;
        let at = self.at.checked_add(from.number()?).ok_or(Stop::Wrong("a time under 2^64 µs"))?;
        let code = first & 15;
        let is_plain = code >= wire::CHARGE;
        if is_plain && first != code {
            return Err(Stop::Wrong("an event's code"));
        }
        let event = match code {
            wire::CHARGE => Event::Charge { bytes: from.number()? },
            wire::LOST => Event::Lost { count: from.number()? },
            wire::SETTING => {
                let name = String::from_utf8(from.name()?);
                let name = name.map_err(|_| Stop::Wrong("a name in UTF-8"))?;
                Event::Setting { name, value: from.number()? }
            }
            wire::OBJECT => {
                let (object, parent) = (ObjectId(from.number()?), ObjectId(from.number()?));
                let has_names = self.header.is_some_and(|header| header.has_names);
                let name = if has_names { Name::Plain(from.name()?) } else { Name::Hashed(from.word()?) };
                Event::Object { object, parent, name }
            }
            0..wire::CHARGE => self.block(first, from)?,
            _ => return Err(Stop::Wrong("an event's code")),
        };
        Ok(Record { at, event })
    }

    fn block(&self, first: u8, from: &mut Reader<'_>) -> Result<Event, Stop> {
        let code = first & 15;
        let last = self.recent.object;
        let object = match first & wire::OBJECT_BITS {
            0 => last,
            wire::BY_SLOT => self.recent.object_in(from.byte()?),
            wire::BY_DIFFERENCE => ObjectId(apply(last.0, from.number()?)),
            _ => return Err(Stop::Wrong("a way to tell an object")),
        };
        let slot = self.recent.slot(object);
        let (kind, index) = match first & wire::METADATA {
            0 => (Kind::Data, apply(slot.next_index, from.number()?)),
            _ => (Kind::Metadata, from.word()?),
        };
        let is_same = first & wire::SAME_LENGTH != 0;
        let len = match (wire::has_length(code), is_same) {
            (true, true) => Some(slot.lengths[kind.index()]),
            (true, false) => Some(from.narrow()?),
            (false, false) => None,
            (false, true) => return Err(Stop::Wrong("an event that has a length")),
        };
        Ok(wire::assembled((code, BlockKey { object, index }, kind, len)))
    }
}

/// Why there is no event.
enum Stop {
    /// More bytes are needed.
    Short,
    /// This should have been there.
    Wrong(&'static str),
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn header(&mut self) -> Result<Header, Stop> {
        let given = &self.0[..self.0.len().min(MAGIC.len())];
        if *given != MAGIC[..given.len()] {
            return Err(Stop::Wrong("the first bytes of a recording"));
        }
        self.array::<{ MAGIC.len() }>()?;
        if self.byte()? != VERSION {
            return Err(Stop::Wrong("version 1 of the format"));
        }
        let flags = self.byte()?;
        if flags & !wire::PLAIN_NAMES != 0 {
            return Err(Stop::Wrong("flags that are known"));
        }
        let has_names = flags & wire::PLAIN_NAMES != 0;
        Ok(Header { record_size: self.narrow()?, began: self.number()?, has_names })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Stop::Short)?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn word(&mut self) -> Result<u64, Stop> {
        self.array().map(u64::from_le_bytes)
    }

    fn number(&mut self) -> Result<u64, Stop> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 1 << 7 == 0 {
                return Ok(number);
            }
        }
        Err(Stop::Wrong("a number under 2^64"))
    }

    fn narrow(&mut self) -> Result<u32, Stop> {
        u32::try_from(self.number()?).map_err(|_| Stop::Wrong("a number under 2^32"))
    }

    fn name(&mut self) -> Result<Vec<u8>, Stop> {
        let length = self.number()?;
        if length > NAME_MAX as u64 {
            return Err(Stop::Wrong("a name of at most 255 bytes"));
        }
        let (name, rest) = self.0.split_at_checked(length as usize).ok_or(Stop::Short)?;
        self.0 = rest;
        Ok(name.to_owned())
    }
}
