//! What both ends of the format share: numbers, codes, and what is remembered of the last events.

use super::Event;
use crate::key::{BlockKey, Kind, ObjectId};

pub(super) const MISS: u8 = 2;
pub(super) const ADMIT: u8 = 4;
pub(super) const REMOVE: u8 = 8;
pub(super) const RESIDENT: u8 = 9;
pub(super) const CHARGE: u8 = 11;
pub(super) const LOST: u8 = 12;
pub(super) const SETTING: u8 = 13;
pub(super) const OBJECT: u8 = 14;

pub(super) const METADATA: u8 = 1 << 4;
pub(super) const BY_SLOT: u8 = 1 << 5;
pub(super) const BY_DIFFERENCE: u8 = 2 << 5;
pub(super) const OBJECT_BITS: u8 = 3 << 5;
pub(super) const SAME_LENGTH: u8 = 1 << 7;

/// Bit 0 of the header's flags.
pub(super) const PLAIN_NAMES: u8 = 1;

const SLOTS: usize = 256;

/// What is remembered of the last events with blocks.
#[derive(Debug)]
pub(super) struct Recent {
    pub(super) object: ObjectId,
    slots: Box<[Slot; SLOTS]>,
}

/// The object that used a slot last.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Slot {
    pub(super) object: u64,
    /// One after the index of its last event with data.
    pub(super) next_index: u64,
    /// The lengths of its last events, by [`Kind::index`].
    pub(super) lengths: [u32; 2],
}

impl Default for Recent {
    fn default() -> Self {
        Recent { object: ObjectId(0), slots: Box::new([Slot::default(); SLOTS]) }
    }
}

impl Recent {
    pub(super) fn number(object: ObjectId) -> u8 {
        object.0 as u8
    }

    /// The object in slot `number`.
    pub(super) fn object_in(&self, number: u8) -> ObjectId {
        ObjectId(self.slots[usize::from(number)].object)
    }

    /// What is remembered of `object`: nothing, when another has its slot.
    pub(super) fn slot(&self, object: ObjectId) -> Slot {
        let slot = self.slots[usize::from(Recent::number(object))];
        if slot.object == object.0 { slot } else { Slot { object: object.0, ..Slot::default() } }
    }

    /// Remembers an event with a block.
    pub(super) fn note(&mut self, key: BlockKey, kind: Kind, len: Option<u32>) {
        let mut slot = self.slot(key.object);
        if kind == Kind::Data {
            slot.next_index = key.index.wrapping_add(1);
        }
        if let Some(len) = len {
            slot.lengths[kind.index()] = len;
        }
        self.slots[usize::from(Recent::number(key.object))] = slot;
        self.object = key.object;
    }
}

/// The parts of an event with a block: code, key, kind, length.
pub(super) type Parts = (u8, BlockKey, Kind, Option<u32>);

/// Takes an event with a block apart; `None` for the others.
pub(super) fn parts(event: &Event) -> Option<Parts> {
    Some(match *event {
        Event::Lookup { key, kind, is_guess, hit } => {
            let code = if hit.is_some() { 0 } else { MISS };
            (code + u8::from(is_guess), key, kind, hit)
        }
        Event::Admit { key, kind, len, is_guess, stays } => {
            (ADMIT + u8::from(is_guess) + 2 * u8::from(!stays), key, kind, Some(len))
        }
        // Only the form of the index depends on the kind here.
        Event::Remove { key } if key.index >> 63 == 0 => (REMOVE, key, Kind::Data, None),
        Event::Remove { key } => (REMOVE, key, Kind::Metadata, None),
        Event::Resident { key, kind, len, is_frequent } => {
            (RESIDENT + u8::from(is_frequent), key, kind, Some(len))
        }
        _ => return None,
    })
}

/// Puts an event with a block together again. `len` is there when [`has_length`] says so.
pub(super) fn assembled((code, key, kind, len): Parts) -> Event {
    let (is_guess, hit) = (code & 1 != 0, len);
    let len = len.unwrap_or_default();
    match code {
        0..ADMIT => Event::Lookup { key, kind, is_guess, hit },
        ADMIT..REMOVE => Event::Admit { key, kind, len, is_guess, stays: code & 2 == 0 },
        REMOVE => Event::Remove { key },
        _ => Event::Resident { key, kind, len, is_frequent: code != RESIDENT },
    }
}

/// Whether an event with a block has a length.
pub(super) fn has_length(code: u8) -> bool {
    !matches!(code, REMOVE) && !(MISS..ADMIT).contains(&code)
}

/// A few bytes that are being put together, to be appended at one go: events are many.
pub(super) struct Short {
    bytes: [u8; Short::MAX],
    len: usize,
}

impl Short {
    /// The code, the time, the object, the index and the length of an event with a block.
    const MAX: usize = 1 + 3 * 10 + 5;

    pub(super) fn new() -> Self {
        Short { bytes: [0; Short::MAX], len: 0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    pub(super) fn word(&mut self, word: u64) {
        self.bytes[self.len..self.len + 8].copy_from_slice(&word.to_le_bytes());
        self.len += 8;
    }

    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 1 << 7 {
            self.byte(number as u8 | 1 << 7);
            number >>= 7;
        }
        self.byte(number as u8);
    }
}

pub(super) fn put_number(out: &mut Vec<u8>, number: u64) {
    let mut short = Short::new();
    short.number(number);
    out.extend_from_slice(short.bytes());
}

/// What has to be added to `base` to get `number`, small in either direction.
pub(super) fn difference(number: u64, base: u64) -> u64 {
    let signed = number.wrapping_sub(base) as i64;
    (signed << 1 ^ signed >> 63) as u64
}

/// The inverse of [`difference`].
pub(super) fn apply(base: u64, difference: u64) -> u64 {
    base.wrapping_add(difference >> 1 ^ (difference & 1).wrapping_neg())
}
