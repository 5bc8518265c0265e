//! The way of a miss: lead or follow, fill, publish.

use std::error::Error;
use std::fmt;
use std::io;

use arcwell_arc::{Admit, Asked, Keep};
use arcwell_base::BlockKey;

use super::flight::{Claim, Lead};
use super::pin::Room;
use super::{Cache, Pin};

/// How blocks come in: somebody waits for them, and they may stay.
pub(super) const ON_DEMAND: Admit = Admit { asked: Asked::Demand, keep: Keep::Cached };

/// The longest block, in or beside the cache.
const LEN_MAX: usize = 1 << 30;

/// Why [`Cache::get_or_fetch`] has no block. Nothing was cached.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError<E> {
    /// The fetch's own error.
    Fetch(E),
    /// More was asked for than a block may have.
    TooLong {
        /// Bytes that were asked for.
        len: usize,
        /// Bytes that a block may have.
        max: usize,
    },
    /// The fetch claims to have filled more than there was.
    Overfilled {
        /// Bytes that it claims.
        filled: usize,
        /// Bytes of its buffer.
        len: usize,
    },
}

impl<E: fmt::Display> fmt::Display for FetchError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Fetch(error) => write!(f, "fetch a block: {error}"),
            FetchError::TooLong { len, max } => {
                write!(f, "fetch a block: {len} bytes were asked for, expected at most {max}")
            }
            FetchError::Overfilled { filled, len } => {
                write!(f, "fetch a block: the fetch says it filled {filled} bytes of a buffer of {len}")
            }
        }
    }
}

impl<E: Error + 'static> Error for FetchError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            FetchError::Fetch(error) => Some(error),
            _ => None,
        }
    }
}

/// For `?` in functions that do I/O: the fetch's error as it was, or `InvalidInput`.
impl From<FetchError<io::Error>> for io::Error {
    fn from(error: FetchError<io::Error>) -> io::Error {
        match error {
            FetchError::Fetch(error) => error,
            misuse => io::Error::new(io::ErrorKind::InvalidInput, misuse),
        }
    }
}

impl Cache {
    /// What [`Cache::get_or_fetch`] does about a block that it did not find.
    pub(super) fn fetch_missing<E>(
        &self,
        key: BlockKey,
        len: usize,
        fetch: &mut dyn FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Pin, FetchError<E>> {
        if len > LEN_MAX {
            return Err(FetchError::TooLong { len, max: LEN_MAX });
        }
        loop {
            let found = match self.shared.flights.claim(key) {
                Claim::Lead(lead) => self.lead(lead, key, len, fetch)?,
                Claim::Follow(flight) => flight.wait().inspect(|_| self.shared.tally.joined.add(1)),
            };
            if let Some(pin) = found {
                return Ok(pin);
            }
        }
    }

    /// Fetches and publishes; `None` when the block was written or removed meanwhile.
    fn lead<E>(
        &self,
        lead: Lead<'_>,
        key: BlockKey,
        len: usize,
        fetch: &mut dyn FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Option<Pin>, FetchError<E>> {
        let tally = &self.shared.tally;
        // Another flight may have landed since it was looked for: peeked at, as the miss is counted.
        if let Some(pin) = self.shared.engine.peek(key) {
            return Ok(lead.land(|| pin.into()));
        }
        let mut room = match self.shared.engine.admit(key, self.kind, len, ON_DEMAND) {
            Ok(anon) => Room::Cached(anon),
            Err(_full) => Room::aside(len),
        };
        tally.fetches.add(1);
        let filled = fetch(&mut room).map_err(|error| {
            tally.failed.add(1);
            FetchError::Fetch(error)
        })?;
        if filled > len {
            tally.failed.add(1);
            return Err(FetchError::Overfilled { filled, len });
        }
        room.truncate(filled);
        let landed = lead.land(|| room.publish());
        match &landed {
            None => tally.overtaken.add(1),
            Some(pin) if !pin.is_cached() => tally.aside.add(1),
            Some(_) => {}
        }
        Ok(landed)
    }
}
