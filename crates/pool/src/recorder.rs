//! Recording: what a dataset asks of the cache, noted call by call for whoever wants to replay it.
//!
//! Callers of the cache put events of a fixed size into buffers, one for every few threads, and go on.
//! A [`Recording`] takes them from there, brings them into order, and makes bytes of them. If it comes
//! too late, events are dropped and counted; nobody who reads data ever waits for it. While nobody
//! records, all of this costs a load an access.
//!
//! The order is that of a clock of our own, which every change of the cache moves on, and every look of
//! the taker; requests, the most frequent events, only read it. What was asked between two changes is
//! so told in the order of each thread but not between threads, and with the time of the change before.
//! The clock is read under the lock of the buffer that the event goes into. So when a taker has moved it
//! and then emptied every buffer, it has all events up to there, and keeps back those that are younger.

use std::cell::Cell;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arcwell_arc::{Cache, End, State};
use arcwell_base::record::{Encoder, Event, Header, NAME_MAX, Name};
use arcwell_base::table::Tunables;
use arcwell_base::{BlockKey, Clock, Error, Kind, ObjectId, Result};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::dataset::Dataset;
use crate::tunable::PoolStats;
use crate::znode::Znode;

/// Buffers; threads are dealt out over them in turn.
const BUFFERS: usize = 16;
/// Events that a buffer takes: with 24 bytes each, all together 12 MiB while somebody records.
const BUFFER_MAX: usize = 32_768;
/// Files whose names may wait to be taken; more are not named.
const NAMED_MAX: usize = 65_536;
/// Objects that are known to be named already. Of more, names come again.
const NAMED_SEEN: usize = 4096;
/// Directories between a named file and the root, at most.
const DEPTH_MAX: usize = 4096;
/// Blocks that were there before the recording, written at one go.
const RESIDENTS_AT_ONCE: usize = 16_384;

/// What was done with a block.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    Hit {
        kind: Kind,
        is_guess: bool,
    },
    Miss {
        kind: Kind,
        is_guess: bool,
    },
    Admit {
        kind: Kind,
        is_guess: bool,
        stays: bool,
    },
    Remove,
    /// Memory held elsewhere: the bytes stand in the place of the object.
    Charge,
    /// No act: what follows happened at the time that stands in the place of the object.
    Time,
}

#[derive(Clone, Copy)]
struct Noted {
    key: BlockKey,
    len: u32,
    act: Act,
}

const _: () = assert!(size_of::<Noted>() == 24, "a small event is soon written");

#[derive(Default)]
struct Buffer {
    noted: Vec<Noted>,
    /// The last time that stands in it.
    at: u64,
}

/// The end where events come in: one for each dataset.
pub(crate) struct Recorder {
    is_on: AtomicBool,
    /// Whether there is a [`Recording`]. Apart from `is_on`, which is off already while one ends.
    is_taken: AtomicBool,
    buffers: Box<[CachePadded<Mutex<Buffer>>]>,
    /// Nanoseconds of the pool's clock when the cache last changed. Read at each request, so apart from
    /// what is written.
    time: CachePadded<AtomicU64>,
    lost: AtomicU64,
    /// The charge that was noted last.
    charged: AtomicU64,
    named: Mutex<Vec<Named>>,
    /// Objects that were named last, by their numbers.
    seen: Box<[AtomicU64]>,
    clock: Arc<dyn Clock>,
    stats: Arc<PoolStats>,
}

struct Named {
    object: ObjectId,
    parent: ObjectId,
    name: Box<OsStr>,
}

impl Recorder {
    pub(crate) fn new(clock: Arc<dyn Clock>, stats: Arc<PoolStats>) -> Self {
        Recorder {
            is_on: AtomicBool::new(false),
            is_taken: AtomicBool::new(false),
            buffers: (0..BUFFERS).map(|_| CachePadded::default()).collect(),
            time: CachePadded::default(),
            lost: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            named: Mutex::default(),
            seen: (0..NAMED_SEEN).map(|_| AtomicU64::new(0)).collect(),
            clock,
            stats,
        }
    }

    /// Whether anybody wants to know.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Notes an event, while [`Recorder::is_on`].
    #[inline(never)]
    pub(crate) fn note(&self, key: BlockKey, len: usize, act: Act) {
        let mut buffer = self.buffers[own_buffer()].lock();
        if buffer.noted.len() >= BUFFER_MAX {
            drop(buffer);
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.stats.trace_lost.add(1);
            return;
        }
        let at = match act {
            Act::Hit { .. } | Act::Miss { .. } => self.time.load(Ordering::Relaxed),
            _ => self.tick(),
        };
        if at != buffer.at {
            buffer.at = at;
            let key = BlockKey::new(ObjectId(at), 0);
            buffer.noted.push(Noted { key, len: 0, act: Act::Time });
        }
        // No block is longer than that (A8 of the cache).
        buffer.noted.push(Noted { key, len: len as u32, act });
    }

    /// Notes what is charged to the cache, where it matters: before room is made in it.
    pub(crate) fn note_charge(&self, bytes: u64) {
        if self.charged.swap(bytes, Ordering::Relaxed) != bytes {
            self.note(BlockKey::new(ObjectId(bytes), 0), 0, Act::Charge);
        }
    }

    /// Moves the clock on. What only reads it gets a time of its own between two changes.
    fn tick(&self) -> u64 {
        let now = self.clock.now();
        let now = now.as_secs() * 1_000_000_000 + u64::from(now.subsec_nanos());
        let at = |before: u64| now.max(before + 1);
        let moved =
            self.time.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| Some(at(before) + 1));
        moved.map_or(now, at)
    }

    /// Notes which file an object is, and its directories, while [`Recorder::is_on`].
    pub(crate) fn name(&self, node: &Znode) {
        let (mut object, mut link) = (node.identity().object, node.first_link());
        for _ in 0..DEPTH_MAX {
            let seen = &self.seen[object.0 as usize % NAMED_SEEN];
            if seen.swap(object.0, Ordering::Relaxed) == object.0 {
                return;
            }
            let (parent, name) = match &link {
                Some(link) => (link.parent.identity().object, link.name.clone()),
                None => (ObjectId(0), OsStr::new("").into()),
            };
            let mut named = self.named.lock();
            if named.len() < NAMED_MAX {
                named.push(Named { object, parent, name });
            }
            drop(named);
            let Some(above) = link else { return };
            (object, link) = (parent, above.parent.first_link());
        }
    }

    fn clear(&self) {
        self.buffers.iter().for_each(|buffer| *buffer.lock() = Buffer::default());
        *self.named.lock() = Vec::new();
        self.seen.iter().for_each(|seen| seen.store(0, Ordering::Relaxed));
        self.lost.store(0, Ordering::Relaxed);
        self.charged.store(0, Ordering::Relaxed);
    }
}

fn own_buffer() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static BUFFER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    BUFFER.with(|buffer| {
        if buffer.get() == usize::MAX {
            buffer.set(NEXT.fetch_add(1, Ordering::Relaxed) % BUFFERS);
        }
        buffer.get()
    })
}

/// A recording under way: the end where bytes come out, in the format of [`arcwell_base::record`].
/// Dropping it ends it.
pub struct Recording {
    dataset: Arc<Dataset>,
    encoder: Encoder,
    /// The header, until it is taken.
    head: Vec<u8>,
    began: u64,
    /// What was there before: the last comes first.
    residents: Vec<(BlockKey, State)>,
    /// Events with their times that are too young.
    noted: Vec<(u64, Noted)>,
    spare: Vec<Noted>,
    /// µs of the last event.
    last: u64,
    settings: Vec<u64>,
    /// Hides names; `None` when they are wanted.
    mask: Option<RandomState>,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("dataset", &self.dataset).finish_non_exhaustive()
    }
}

impl Dataset {
    /// Begins to record what is asked of the cache. Names of files are hashed under a key that nobody
    /// learns, unless `has_names`.
    ///
    /// # Errors
    /// When a recording of this dataset is under way.
    pub fn record(self: &Arc<Self>, has_names: bool) -> Result<Recording> {
        let recorder = self.blocks.recorder();
        if recorder.is_taken.swap(true, Ordering::Acquire) {
            let what = format!("a recording of dataset '{}' is under way: one at a time", self.name());
            return Err(Error::invalid("record", what));
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let record_size = self.properties.recordsize;
        let header = Header { record_size, began: since_1970.as_secs(), has_names };
        let mut head = Vec::new();
        let encoder = Encoder::new(&header, &mut head);
        let began = recorder.tick();
        recorder.is_on.store(true, Ordering::Release);
        recorder.note_charge(self.shared.cache.charged());
        self.znodes.open_nodes().iter().for_each(|node| recorder.name(node));
        Ok(Recording {
            dataset: Arc::clone(self),
            encoder,
            head,
            began,
            residents: residents(&self.shared.cache),
            noted: Vec::new(),
            spare: Vec::new(),
            last: 0,
            settings: Vec::new(),
            mask: (!has_names).then(RandomState::new),
        })
    }
}

/// The blocks that are in the cache and that nobody uses: the oldest last.
fn residents(cache: &Cache) -> Vec<(BlockKey, State)> {
    let mut all = Vec::new();
    for state in [State::Mfu, State::Mru] {
        for kind in Kind::ALL {
            let keys = cache.walk(state, kind, End::Head, usize::MAX);
            all.extend(keys.into_iter().map(|key| (key, state)));
        }
    }
    all
}

impl Recording {
    /// Appends what happened since the last call, up to now. `true` when there is more that can be
    /// taken at once. To be called often: what waits has a limit.
    pub fn take(&mut self, out: &mut Vec<u8>) -> bool {
        out.append(&mut self.head);
        self.take_settings(out);
        if !self.residents.is_empty() {
            self.take_residents(out);
            return true;
        }
        let dataset = Arc::clone(&self.dataset);
        let recorder = dataset.blocks.recorder();
        let horizon = recorder.tick();
        for buffer in &recorder.buffers {
            let mut buffer = buffer.lock();
            std::mem::swap(&mut buffer.noted, &mut self.spare);
            let mut at = std::mem::take(&mut buffer.at);
            drop(buffer);
            for noted in self.spare.drain(..) {
                match noted.act {
                    Act::Time => at = noted.key.object.0,
                    _ => self.noted.push((at, noted)),
                }
            }
        }
        // After the events: no event is taken before the name of its file.
        let named = std::mem::take(&mut *recorder.named.lock());
        named.into_iter().for_each(|named| self.put_name(named, out));
        self.noted.sort_by_key(|(at, _)| *at);
        let ripe = self.noted.partition_point(|(at, _)| *at <= horizon);
        let mut noted = std::mem::take(&mut self.noted);
        noted.drain(..ripe).for_each(|(at, noted)| self.put(at, &noted, out));
        self.noted = noted;
        let lost = recorder.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.encoder.encode(self.last, &Event::Lost { count: lost }, out);
        }
        false
    }

    /// Tunables that are not what they were.
    fn take_settings(&mut self, out: &mut Vec<u8>) {
        let cache = &self.dataset.shared.cache;
        let settings = cache.tunables().settings();
        self.settings.resize(settings.len(), u64::MAX);
        for (setting, known) in settings.iter().zip(&mut self.settings) {
            if std::mem::replace(known, setting.value) != setting.value {
                let event = Event::Setting { name: setting.row.name.to_owned(), value: setting.value };
                self.encoder.encode(self.last, &event, out);
            }
        }
    }

    fn take_residents(&mut self, out: &mut Vec<u8>) {
        let cache = Arc::clone(&self.dataset.shared.cache);
        let rest = self.residents.len().saturating_sub(RESIDENTS_AT_ONCE);
        for (key, state) in self.residents.split_off(rest).into_iter().rev() {
            let Some(pin) = cache.peek(key) else { continue };
            let (kind, len) = (pin.kind(), pin.len() as u32);
            let event = Event::Resident { key, kind, len, is_frequent: state == State::Mfu };
            self.encoder.encode(self.last, &event, out);
        }
    }

    fn put(&mut self, at: u64, noted: &Noted, out: &mut Vec<u8>) {
        let Noted { key, len, act } = *noted;
        // Whoever was still busy with the recording before this one may have noted something older.
        self.last = at.saturating_sub(self.began) / 1000;
        let event = match act {
            Act::Hit { kind, is_guess } => Event::Lookup { key, kind, is_guess, hit: Some(len) },
            Act::Miss { kind, is_guess } => Event::Lookup { key, kind, is_guess, hit: None },
            Act::Admit { kind, is_guess, stays } => Event::Admit { key, kind, len, is_guess, stays },
            Act::Remove => Event::Remove { key },
            Act::Charge => Event::Charge { bytes: key.object.0 },
            Act::Time => return,
        };
        self.encoder.encode(self.last, &event, out);
    }

    fn put_name(&mut self, Named { object, parent, name }: Named, out: &mut Vec<u8>) {
        let bytes = name.as_bytes();
        let name = match &self.mask {
            Some(mask) => Name::Hashed(mask.hash_one(bytes)),
            None => Name::Plain(bytes[..bytes.len().min(NAME_MAX)].to_owned()),
        };
        self.encoder.encode(self.last, &Event::Object { object, parent, name }, out);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let recorder = self.dataset.blocks.recorder();
        recorder.is_on.store(false, Ordering::Relaxed);
        recorder.clear();
        recorder.is_taken.store(false, Ordering::Release);
    }
}
