//! Recordings of a running mount, which tell calls to the cache; here they become entries.
//!
//! A look-up by demand is a request, one by read-ahead a probe. One that missed was told without a size:
//! it takes that of the next event of its key that has one, commonly the admission of what was then
//! fetched, and waits for it. What answers a request is not an entry of its own, as every policy admits
//! on a miss, unless it says that the block may not stay, which the request does not. All other
//! admissions stay entries: written, read ahead, or there when the recording began.

use std::collections::{BTreeMap, HashMap, VecDeque};

use arcwell_base::record::{Decoder, Event};
use arcwell_base::{BlockKey, Kind};

use super::super::input::Input;
use super::super::{Act, Cause, Place, Request};
use super::Decode;

/// Entries that may wait behind one whose size is not known yet. Many more than are under way at once;
/// what is still unanswered then was not kept.
const MAX_WAITING: usize = 1 << 16;

/// Names of settings that are remembered: several times what the cache has.
const MAX_SETTINGS: usize = 1024;

/// Bytes of a metadata block that was looked for and never seen.
const UNSEEN_METADATA: u32 = 512;

/// The setting that a recording has which was converted from another format.
pub(in crate::trace) const CONVERTED: &str = "trace.converted";

/// What a recording tells besides its entries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recorded {
    /// Bytes of a record of a new file of the dataset.
    pub record_size: u32,
    /// How many of the requests the daemon itself answered from the cache.
    pub hits: u64,
    /// How many events are missing: a replay is then only near to what happened.
    pub lost: u64,
    /// The most memory that was charged to the cache for what is held elsewhere, in bytes.
    pub charged: u64,
    /// The cache's tunables as they were at first.
    pub settings: BTreeMap<String, u64>,
}

impl Recorded {
    /// Whether it was made by converting another trace: then `hits` says nothing.
    pub fn is_converted(&self) -> bool {
        self.settings.contains_key(CONVERTED)
    }
}

/// Decodes a recording.
#[derive(Default)]
pub(super) struct Recording {
    decoder: Decoder,
    recorded: Recorded,
    /// Entries that were read and not given yet, the oldest first.
    waiting: VecDeque<Waiting>,
    /// How many were given: the place of the first that waits, counted from the beginning.
    given: u64,
    /// The place of the last entry of a key that waits for its size.
    unsized_last: HashMap<BlockKey, u64>,
    has_ended: bool,
}

struct Waiting {
    request: Request,
    /// Its block, while its size is not known.
    unknown: Option<Unknown>,
}

struct Unknown {
    key: BlockKey,
    /// The place of an earlier entry of the same key that waits too, or did.
    earlier: Option<u64>,
}

impl Recording {
    /// Takes the next event, if there is one; else notes the end.
    fn event(&mut self, input: &mut Input<'_>) -> Result<(), Cause> {
        loop {
            input.set_place(Place::Byte(self.decoder.offset()));
            let record = self.decoder.next().map_err(Cause::Recording)?;
            if let Some(record) = record {
                self.note(record.at, record.event);
                return Ok(());
            }
            let bytes = input.peek(1)?;
            if bytes.is_empty() {
                self.has_ended = true;
                return self.decoder.finish().map_err(Cause::Recording);
            }
            self.decoder.feed(bytes);
            let count = bytes.len();
            input.take(count);
        }
    }

    fn note(&mut self, time: u64, event: Event) {
        let entry = |key: BlockKey, kind, size, act| {
            Request { time, key: key.hash(), size: 1, kind, act }.sized(size)
        };
        match event {
            Event::Lookup { key, kind, is_guess, hit } => {
                let act = if is_guess { Act::Probe } else { Act::Read };
                match hit {
                    Some(len) => {
                        self.settle(key, len);
                        self.recorded.hits += u64::from(!is_guess);
                        self.push(entry(key, kind, len, act), None);
                    }
                    None => self.push(entry(key, kind, self.usual_size(kind), act), Some(key)),
                }
            }
            Event::Admit { key, kind, len, is_guess, stays } => {
                let is_answer = self.settle(key, len);
                if !is_answer || !stays {
                    self.push(entry(key, kind, len, Act::Admit { is_guess, stays }), None);
                }
            }
            Event::Resident { key, kind, len, .. } => {
                self.settle(key, len);
                let act = Act::Admit { is_guess: false, stays: true };
                self.push(entry(key, kind, len, act), None);
            }
            Event::Remove { key } => {
                // Keys of metadata are told by their highest bit.
                let kind = if key.index >> 63 == 0 { Kind::Data } else { Kind::Metadata };
                self.push(entry(key, kind, 1, Act::Remove), None);
            }
            Event::Charge { bytes } => self.recorded.charged = self.recorded.charged.max(bytes),
            Event::Lost { count } => self.recorded.lost = self.recorded.lost.saturating_add(count),
            Event::Setting { name, value } => {
                if self.recorded.settings.len() < MAX_SETTINGS {
                    self.recorded.settings.entry(name).or_insert(value);
                }
            }
            Event::Object { .. } => {}
        }
    }

    fn usual_size(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Data => self.decoder.header().map_or(1, |header| header.record_size),
            Kind::Metadata => UNSEEN_METADATA,
        }
    }

    fn push(&mut self, request: Request, unknown: Option<BlockKey>) {
        let place = self.given + self.waiting.len() as u64;
        let unknown = unknown.map(|key| Unknown { key, earlier: self.unsized_last.insert(key, place) });
        self.waiting.push_back(Waiting { request, unknown });
    }

    /// Gives all that wait for the size of `key` that size. Whether a request was among them.
    fn settle(&mut self, key: BlockKey, len: u32) -> bool {
        let mut has_request = false;
        let mut next = self.unsized_last.remove(&key);
        while let Some(place) = next.and_then(|place| place.checked_sub(self.given)) {
            let Some(waiting) = self.waiting.get_mut(place as usize) else { break };
            waiting.request = waiting.request.sized(len);
            has_request |= waiting.request.act == Act::Read;
            next = waiting.unknown.take().and_then(|unknown| unknown.earlier);
        }
        has_request
    }

    /// The oldest entry, once its size is known or no longer waited for.
    fn pop(&mut self) -> Option<Request> {
        let is_due = self.has_ended || self.waiting.len() >= MAX_WAITING;
        let first = self.waiting.pop_front_if(|first| is_due || first.unknown.is_none())?;
        if let Some(Unknown { key, .. }) = first.unknown
            && self.unsized_last.get(&key) == Some(&self.given)
        {
            self.unsized_last.remove(&key);
        }
        self.given += 1;
        Some(first.request)
    }
}

impl Decode for Recording {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause> {
        loop {
            if let Some(request) = self.pop() {
                return Ok(Some(request));
            }
            if self.has_ended {
                return Ok(None);
            }
            self.event(input)?;
        }
    }

    fn recorded(&self) -> Option<Recorded> {
        let record_size = self.decoder.header().map_or(0, |header| header.record_size);
        Some(Recorded { record_size, ..self.recorded.clone() })
    }
}

#[cfg(test)]
mod tests {
    use arcwell_base::ObjectId;
    use arcwell_base::record::{Encoder, Header};

    use super::super::super::{Format, Options, Requests};
    use super::*;

    const RECORD_SIZE: u32 = 4096;

    fn key(index: u64) -> BlockKey {
        BlockKey::new(ObjectId(7), index)
    }

    fn lookup(index: u64, is_guess: bool, hit: Option<u32>) -> Event {
        Event::Lookup { key: key(index), kind: Kind::Data, is_guess, hit }
    }

    fn admit(index: u64, len: u32, is_guess: bool, stays: bool) -> Event {
        Event::Admit { key: key(index), kind: Kind::Data, len, is_guess, stays }
    }

    fn entry(index: u64, size: u32, act: Act) -> Request {
        Request { time: 0, key: key(index).hash(), size, kind: Kind::Data, act }
    }

    /// The entries of a recording of `events`, without their times, and what else it tells.
    fn decoded(events: &[Event]) -> (Vec<Request>, Recorded) {
        let mut bytes = Vec::new();
        let header = Header { record_size: RECORD_SIZE, began: 0, has_names: false };
        let mut encoder = Encoder::new(&header, &mut bytes);
        for (at, event) in (0..).zip(events) {
            encoder.encode(at, event, &mut bytes);
        }
        let mut requests = Requests::open("x", &bytes[..], &Options::default()).expect("it opens");
        assert_eq!(requests.format(), Format::Arcwell);
        let entries: Vec<_> = requests.by_ref().map(|request| request.expect("an entry")).collect();
        assert!(entries.is_sorted_by_key(|entry| entry.time), "entries come in the order of their times");
        let recorded = requests.recorded().expect("a recording");
        (entries.into_iter().map(|entry| entry.at(0)).collect(), recorded)
    }

    #[test]
    fn a_miss_takes_the_size_of_its_answer_which_is_no_entry() {
        let events = [
            lookup(1, false, None),
            lookup(2, false, Some(20)),
            admit(1, 10, false, true),
            lookup(1, false, Some(10)),
        ];
        let (entries, recorded) = decoded(&events);
        let expected = [entry(1, 10, Act::Read), entry(2, 20, Act::Read), entry(1, 10, Act::Read)];
        assert_eq!(entries, expected);
        assert_eq!((recorded.hits, recorded.record_size), (2, RECORD_SIZE));
    }

    #[test]
    fn all_who_missed_together_take_the_size_of_the_one_answer() {
        let events = [lookup(1, false, None), lookup(1, false, None), admit(1, 10, false, true)];
        assert_eq!(decoded(&events).0, [entry(1, 10, Act::Read), entry(1, 10, Act::Read)]);
    }

    #[test]
    fn an_admission_that_answers_no_request_stays_an_entry() {
        let (written, guessed) =
            (Act::Admit { is_guess: false, stays: true }, Act::Admit { is_guess: true, stays: true });
        let events = [
            admit(1, 10, false, true),
            lookup(2, true, None),
            admit(2, 20, true, true),
            lookup(3, false, None),
            admit(3, 30, false, true),
            admit(3, 31, false, true),
        ];
        let expected = [
            entry(1, 10, written),
            entry(2, 20, Act::Probe),
            entry(2, 20, guessed),
            entry(3, 30, Act::Read),
            entry(3, 31, written),
        ];
        assert_eq!(decoded(&events).0, expected);
    }

    #[test]
    fn an_answer_that_may_not_stay_says_so() {
        let events = [lookup(1, false, None), admit(1, 10, false, false)];
        let fleeting = Act::Admit { is_guess: false, stays: false };
        assert_eq!(decoded(&events).0, [entry(1, 10, Act::Read), entry(1, 10, fleeting)]);
    }

    #[test]
    fn what_is_never_answered_has_the_size_of_a_record() {
        let events = [lookup(1, false, None), Event::Remove { key: key(1) }];
        assert_eq!(decoded(&events).0, [entry(1, RECORD_SIZE, Act::Read), entry(1, 1, Act::Remove)]);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut events = vec![lookup(1, false, None)];
        events.extend((0..MAX_WAITING as u64 + 10).map(|index| lookup(index + 2, false, Some(5))));
        events.push(admit(1, 10, false, true));
        let (entries, _) = decoded(&events);
        assert_eq!(entries.len(), events.len());
        assert_eq!(entries.first(), Some(&entry(1, RECORD_SIZE, Act::Read)));
        let late = Act::Admit { is_guess: false, stays: true };
        assert_eq!(entries.last(), Some(&entry(1, 10, late)), "too late to be taken for the answer");
    }

    #[test]
    fn what_is_told_besides_is_kept() {
        let setting = |value| Event::Setting { name: "arc.size_max".to_owned(), value };
        let resident = Event::Resident { key: key(1), kind: Kind::Data, len: 9, is_frequent: true };
        let events = [
            setting(64),
            resident,
            Event::Charge { bytes: 300 },
            Event::Charge { bytes: 100 },
            Event::Lost { count: 3 },
            setting(128),
        ];
        let (entries, recorded) = decoded(&events);
        assert_eq!(entries, [entry(1, 9, Act::Admit { is_guess: false, stays: true })]);
        assert_eq!((recorded.charged, recorded.lost, recorded.hits), (300, 3, 0));
        assert_eq!(recorded.settings.get("arc.size_max"), Some(&64), "as it was at first");
        assert!(!recorded.is_converted());
    }
}
