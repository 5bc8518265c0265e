//! A window over the unpacked bytes of a trace: lines and fixed records are borrowed from it, so that
//! millions of them cost no allocation, and none can be longer than the window.

use std::io::{self, Read};

use super::{Cause, Packing, Place};

/// Bytes of the window, and so the longest line or record there may be.
pub(super) const WINDOW: usize = 64 << 10;

/// The bytes of a trace, unpacked.
pub(super) struct Input<'a> {
    source: Box<dyn Read + 'a>,
    packing: Packing,
    window: Box<[u8]>,
    /// The bytes that are in the window and not yet taken.
    start: usize,
    end: usize,
    has_ended: bool,
    /// Bytes that were taken before `start`.
    taken: u64,
    place: Place,
}

impl<'a> Input<'a> {
    /// The window over what `source` holds, unpacked.
    pub(super) fn open(source: impl Read + 'a) -> Result<Self, Cause> {
        let unread = |source| Cause::Bytes { packing: Packing::Plain, source };
        let (source, packing) = Packing::undo(source).map_err(unread)?;
        let window = vec![0; WINDOW].into_boxed_slice();
        let place = Place::Byte(0);
        Ok(Input { source, packing, window, start: 0, end: 0, has_ended: false, taken: 0, place })
    }

    /// Where the last line or record began.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// For decoders that count lines themselves.
    pub(super) fn set_place(&mut self, place: Place) {
        self.place = place;
    }

    /// The next bytes, not taken: at least `wanted` of them, at most a window, unless the input ends.
    pub(super) fn peek(&mut self, wanted: usize) -> Result<&[u8], Cause> {
        while self.end - self.start < wanted.min(WINDOW) && !self.has_ended {
            self.fill()?;
        }
        Ok(&self.window[self.start..self.end])
    }

    /// Takes the first `count` of the bytes that [`Input::peek`] showed.
    pub(super) fn take(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.taken += count as u64;
    }

    /// The next record of `SIZE` bytes; none at the end.
    pub(super) fn record<const SIZE: usize>(&mut self) -> Result<Option<&[u8; SIZE]>, Cause> {
        self.place = Place::Byte(self.taken);
        let found = self.peek(SIZE)?.len();
        if found < SIZE {
            return if found == 0 { Ok(None) } else { Err(Cause::Cut { wanted: SIZE, found }) };
        }
        self.take(SIZE);
        Ok(self.window[..self.start].last_chunk())
    }

    /// The next line, without its end; none at the end of the input.
    pub(super) fn line(&mut self) -> Result<Option<&[u8]>, Cause> {
        self.place = match self.place {
            Place::Line(number) => Place::Line(number + 1),
            Place::Byte(_) => Place::Line(1),
        };
        let mut searched = 0;
        let length = loop {
            let there = &self.window[self.start..self.end];
            if let Some(place) = there[searched..].iter().position(|&byte| byte == b'\n') {
                break searched + place;
            }
            searched = there.len();
            if searched == WINDOW {
                return Err(Cause::Long { limit: WINDOW });
            } else if !self.has_ended {
                self.fill()?;
            } else if searched == 0 {
                return Ok(None);
            } else {
                break searched;
            }
        };
        let begin = self.start;
        self.take(length + 1);
        let line = &self.window[begin..begin + length];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Reads more behind what is there, which is first moved to the front.
    fn fill(&mut self) -> Result<(), Cause> {
        if self.start > 0 {
            self.window.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match self.source.read(&mut self.window[self.end..]) {
            Ok(0) => self.has_ended = true,
            Ok(count) => self.end += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Cause::Bytes { packing: self.packing, source }),
        }
        Ok(())
    }
}
