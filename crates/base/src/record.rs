//! Recordings: what a dataset asked of the cache, call for call, as a compact stream of bytes.
//!
//! A recording holds all that changes the state of a cache, so that a replay through the same code
//! takes the same course: look-ups with their outcome, what was put in and taken out, memory that was
//! charged, settings. [`Encoder`] and [`Decoder`] work on bytes in memory and do no I/O. On disk a
//! recording is commonly compressed as a whole; that is not part of the format.
//!
//! # What the events say
//!
//! - A [`Lookup`](Event::Lookup) is one request that the daemon counted, by demand or by prefetch. The
//!   length of a block that was missed is that of the next [`Admit`](Event::Admit) of its key. Without
//!   one before the next look-up of the key, the block was not kept.
//! - An `Admit` after a miss of its key is the fill that answers it. Any other puts a block in unasked:
//!   written, looked at again, or a guess. A block that is there is replaced. A guess that answers a miss
//!   by demand was used as soon as it was there: a reader had waited for it.
//! - The recording begins with a [`Setting`](Event::Setting) for each of the cache's tunables, and a
//!   [`Resident`](Event::Resident) for each block that is there already, the oldest first. Ghosts and
//!   shares of a cache that was in use are not recorded: an exact replay needs one recorded from empty.
//! - An [`Object`](Event::Object) comes for each file and directory that is open at the start or opened
//!   later, and for the directories above it, before what is then asked of it. It may come again, and
//!   says from there on which file the object is. Other objects have none.
//! - Changes of the cache stand in the order in which they were made, but for calls at the same moment.
//!   Requests stand between the changes between which they were made, those of one thread in order. They
//!   have the time of the change before, or of the last look at the buffers: some ms too early.
//!
//! # Bytes
//!
//! A header: [`MAGIC`], version (1 byte), flags (1 byte; bit 0: names are plain), then two numbers: the
//! dataset's record size in bytes, and when it began in seconds since 1970. Then events to the end.
//!
//! Numbers are LEB128: seven bits a byte, the lowest first, bit 7 set while more follow. Differences
//! wrap around and are zigzag-coded. An event is one byte, the time since the last event in µs, and
//!
//! | low 4 bits | event | what follows |
//! |---|---|---|
//! | 0, 1 | hit by demand, by prefetch | block, length |
//! | 2, 3 | miss by demand, by prefetch | block |
//! | 4–7 | admission; +1 by prefetch, +2 may not stay | block, length |
//! | 8 | removal | block |
//! | 9, 10 | resident in mru, in mfu | block, length |
//! | 11 | charge | bytes |
//! | 12 | lost | count |
//! | 13 | setting | length of the name, name, value |
//! | 14 | object | object, parent, name: 8 bytes if hashed, else length and bytes |
//!
//! For events with a block, bit 4 says metadata and bits 5–6 how the object is told: 0, it is that of
//! the last such event; 1, one byte names a slot; 2, the difference to the object of the last such event
//! follows. There are 256 slots; an object has the one of its number modulo 256 from its first event
//! until another takes it. For data the index is told as the difference to the one after the slot's last
//! index, for metadata as 8 bytes, little-endian. Bit 7 says that the length is that of the last such
//! event of the slot and kind; otherwise it follows. Everything starts as 0.
//!
//! A recording that ends within an event was cut off. One that ends after an event is whole.

use crate::key::{BlockKey, Kind, ObjectId};

mod decode;
mod encode;
mod wire;

#[cfg(test)]
mod tests;

pub use decode::{Damaged, Decoder};
pub use encode::Encoder;

/// The first bytes of a recording.
pub const MAGIC: [u8; 8] = *b"ARCWTRC\n";
/// The version that is written, and the only one that is read.
pub const VERSION: u8 = 1;
/// Bytes of a name at most, of a file or of a setting: the kernel allows no longer ones either.
pub const NAME_MAX: usize = 255;

/// What stands at the head of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Bytes a record of a new file of the dataset.
    pub record_size: u32,
    /// When it began, seconds since 1970.
    pub began: u64,
    /// Whether names are plain; hashed otherwise.
    pub has_names: bool,
}

/// A name of a file: one component of its path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Name {
    /// A hash under a key that nobody has: equal names of one recording have equal hashes.
    Hashed(u64),
    /// The name, not longer than [`NAME_MAX`].
    Plain(Vec<u8>),
}

/// What happened. See the module's doc.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Somebody looked for a block.
    Lookup {
        /// Which block.
        key: BlockKey,
        /// What it holds.
        kind: Kind,
        /// Whether read-ahead looked, and not a reader.
        is_guess: bool,
        /// The length in bytes when it was there.
        hit: Option<u32>,
    },
    /// A block was put into the cache.
    Admit {
        /// Which block.
        key: BlockKey,
        /// What it holds.
        kind: Kind,
        /// Its length in bytes.
        len: u32,
        /// Whether read-ahead put it there, and nobody asked for it yet.
        is_guess: bool,
        /// Whether it may stay after its use.
        stays: bool,
    },
    /// A block was dropped, if it was there: it is no longer true.
    Remove {
        /// Which block.
        key: BlockKey,
    },
    /// A block was there when the recording began.
    Resident {
        /// Which block.
        key: BlockKey,
        /// What it holds.
        kind: Kind,
        /// Its length in bytes.
        len: u32,
        /// Whether it was seen more than once: it stood in mfu.
        is_frequent: bool,
    },
    /// Memory held elsewhere on the cache's behalf changed.
    Charge {
        /// All of it, now.
        bytes: u64,
    },
    /// Events could not be recorded.
    Lost {
        /// How many, since the last event of this sort.
        count: u64,
    },
    /// A tunable of the cache, at the start and whenever it changes.
    Setting {
        /// Full name, such as `arc.size_max`; not longer than [`NAME_MAX`].
        name: String,
        /// The value, as the table holds it.
        value: u64,
    },
    /// Which file an object is.
    Object {
        /// The object.
        object: ObjectId,
        /// The object of its directory; zero for the root.
        parent: ObjectId,
        /// Its name there.
        name: Name,
    },
}

/// An event with its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// µs since the recording began.
    pub at: u64,
    /// What happened.
    pub event: Event,
}
