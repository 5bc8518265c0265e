//! Events to bytes.

use super::wire::{self, Parts, Recent, Short, difference, put_number};
use super::{Event, Header, MAGIC, NAME_MAX, Name, VERSION};
use crate::key::Kind;

/// Writes a recording, event by event, behind whatever is in the buffers it is handed.
#[derive(Debug)]
pub struct Encoder {
    recent: Recent,
    last: u64,
}

impl Encoder {
    /// Begins a recording.
    pub fn new(header: &Header, out: &mut Vec<u8>) -> Encoder {
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        out.push(if header.has_names { wire::PLAIN_NAMES } else { 0 });
        put_number(out, header.record_size.into());
        put_number(out, header.began);
        Encoder { recent: Recent::default(), last: 0 }
    }

    /// Writes an event of `at` µs after the beginning. Times that go back are taken as standing still;
    /// names that are too long are cut.
    pub fn encode(&mut self, at: u64, event: &Event, out: &mut Vec<u8>) {
        let since = at.saturating_sub(self.last);
        self.last = self.last.max(at);
        if let Some(parts) = wire::parts(event) {
            return self.block(since, parts, out);
        }
        let mut begin = |code| {
            out.push(code);
            put_number(out, since);
        };
        match event {
            Event::Charge { bytes } => {
                begin(wire::CHARGE);
                put_number(out, *bytes);
            }
            Event::Lost { count } => {
                begin(wire::LOST);
                put_number(out, *count);
            }
            Event::Setting { name, value } => {
                begin(wire::SETTING);
                put_bytes(out, &name.as_bytes()[..name.floor_char_boundary(NAME_MAX)]);
                put_number(out, *value);
            }
            Event::Object { object, parent, name } => {
                begin(wire::OBJECT);
                put_number(out, object.0);
                put_number(out, parent.0);
                match name {
                    Name::Hashed(hash) => out.extend_from_slice(&hash.to_le_bytes()),
                    Name::Plain(name) => put_bytes(out, &name[..name.len().min(NAME_MAX)]),
                }
            }
            // All others have a block.
            Event::Lookup { .. } | Event::Admit { .. } | Event::Remove { .. } | Event::Resident { .. } => {}
        }
    }

    fn block(&mut self, since: u64, (code, key, kind, len): Parts, out: &mut Vec<u8>) {
        let slot = self.recent.slot(key.object);
        let number = Recent::number(key.object);
        let by = if key.object == self.recent.object {
            0
        } else if self.recent.object_in(number) == key.object {
            wire::BY_SLOT
        } else {
            wire::BY_DIFFERENCE
        };
        let new_len = len.filter(|len| *len != slot.lengths[kind.index()]);
        let kind_bit = if kind == Kind::Metadata { wire::METADATA } else { 0 };
        let same_length = if len.is_some() && new_len.is_none() { wire::SAME_LENGTH } else { 0 };
        let mut short = Short::new();
        short.byte(code | kind_bit | by | same_length);
        short.number(since);
        match by {
            wire::BY_SLOT => short.byte(number),
            wire::BY_DIFFERENCE => short.number(difference(key.object.0, self.recent.object.0)),
            _ => {}
        }
        match kind {
            Kind::Data => short.number(difference(key.index, slot.next_index)),
            Kind::Metadata => short.word(key.index),
        }
        if let Some(len) = new_len {
            short.number(len.into());
        }
        out.extend_from_slice(short.bytes());
        self.recent.note(key, kind, len);
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
