//! The format: what is written comes back, and nothing else is taken for it.

use proptest::prelude::*;

use super::*;

const HEADER: Header = Header { record_size: 131_072, began: 1_700_000_000, has_names: false };

fn encoded(header: &Header, records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(header, &mut bytes);
    for record in records {
        encoder.encode(record.at, &record.event, &mut bytes);
    }
    bytes
}

/// Everything up to the end or the first damage, fed in pieces of `piece` bytes.
fn decoded(bytes: &[u8], piece: usize) -> (Vec<Record>, Option<Damaged>) {
    let mut decoder = Decoder::default();
    let mut records = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        loop {
            match decoder.next() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(damaged) => return (records, Some(damaged)),
            }
        }
    }
    (records, decoder.finish().err())
}

fn hit(object: u64, index: u64, len: u32) -> Event {
    let key = BlockKey::new(ObjectId(object), index);
    Event::Lookup { key, kind: Kind::Data, is_guess: false, hit: Some(len) }
}

fn keys() -> impl Strategy<Value = BlockKey> {
    let objects = prop_oneof![0u64..4, 250u64..520, any::<u64>()];
    let indexes = prop_oneof![0u64..100, any::<u64>()];
    (objects, indexes).prop_map(|(object, index)| BlockKey::new(ObjectId(object), index))
}

fn events(has_names: bool) -> impl Strategy<Value = Event> {
    let kind = || prop_oneof![Just(Kind::Data), Just(Kind::Metadata)];
    let len = || prop_oneof![Just(4096u32), any::<u32>()];
    let name = prop::collection::vec(any::<u8>(), 0..=NAME_MAX);
    let name = (name, any::<u64>()).prop_map(move |(plain, hash)| match has_names {
        true => Name::Plain(plain),
        false => Name::Hashed(hash),
    });
    prop_oneof![
        4 => (keys(), kind(), any::<bool>(), prop::option::of(len()))
            .prop_map(|(key, kind, is_guess, hit)| Event::Lookup { key, kind, is_guess, hit }),
        2 => (keys(), kind(), len(), any::<bool>(), any::<bool>())
            .prop_map(|(key, kind, len, is_guess, stays)| Event::Admit { key, kind, len, is_guess, stays }),
        1 => (keys(), kind(), len(), any::<bool>())
            .prop_map(|(key, kind, len, is_frequent)| Event::Resident { key, kind, len, is_frequent }),
        1 => keys().prop_map(|key| Event::Remove { key }),
        1 => any::<u64>().prop_map(|bytes| Event::Charge { bytes }),
        1 => any::<u64>().prop_map(|count| Event::Lost { count }),
        1 => ("[a-z._]{0,30}", any::<u64>()).prop_map(|(name, value)| Event::Setting { name, value }),
        1 => (any::<u64>(), any::<u64>(), name).prop_map(|(object, parent, name)| Event::Object {
            object: ObjectId(object),
            parent: ObjectId(parent),
            name,
        }),
    ]
}

fn recordings() -> impl Strategy<Value = (Header, Vec<Record>)> {
    (any::<bool>(), any::<u32>(), any::<u64>()).prop_flat_map(|(has_names, record_size, began)| {
        let steps = prop::collection::vec((0u64..1 << 40, events(has_names)), 0..60);
        steps.prop_map(move |steps| {
            let mut at = 0;
            let records = steps.into_iter().map(|(step, event)| {
                at += step;
                Record { at, event }
            });
            (Header { record_size, began, has_names }, records.collect())
        })
    })
}

proptest! {
    #[test]
    fn what_is_written_comes_back((header, records) in recordings(), piece in 1usize..200) {
        let bytes = encoded(&header, &records);
        prop_assert_eq!(decoded(&bytes, piece), (records, None));
        let mut decoder = Decoder::default();
        decoder.feed(&bytes);
        prop_assert!(decoder.next().is_ok());
        prop_assert_eq!(decoder.header(), Some(&header));
    }

    #[test]
    fn a_part_gives_the_whole_events_in_it_and_says_so((header, records) in recordings(), at: prop::sample::Index) {
        let bytes = encoded(&header, &records);
        let cut = at.index(bytes.len());
        let (some, damaged) = decoded(&bytes[..cut], 64);
        prop_assert_eq!(&some[..], &records[..some.len()]);
        let whole = encoded(&header, &some).len();
        prop_assert_eq!(damaged.is_none(), whole == cut);
    }

    #[test]
    fn garbage_is_an_error_not_a_panic(garbage: Vec<u8>, piece in 1usize..64, has_names: bool) {
        let _ = decoded(&garbage, piece);
        let mut bytes = encoded(&Header { has_names, ..HEADER }, &[]);
        bytes.extend_from_slice(&garbage);
        let (records, _) = decoded(&bytes, piece);
        prop_assert!(records.len() <= garbage.len() / 2);
    }

    #[test]
    fn numbers_and_differences_survive(a: u64, b: u64) {
        prop_assert_eq!(wire::apply(b, wire::difference(a, b)), a);
    }
}

#[test]
fn an_ordinary_hit_takes_few_bytes() {
    let size = |events: &[Event]| {
        let records = |n: usize| -> Vec<Record> {
            events[..n].iter().zip(0..).map(|(e, i)| Record { at: i * 50, event: e.clone() }).collect()
        };
        encoded(&HEADER, &records(events.len())).len() - encoded(&HEADER, &records(events.len() - 1)).len()
    };
    assert_eq!(size(&[hit(900, 4, 131_072), hit(900, 5, 131_072)]), 3);
    assert_eq!(size(&[hit(900, 4, 131_072), hit(7, 1, 500), hit(900, 5000, 131_072)]), 5);
}

#[test]
fn damage_is_told_with_its_place_and_stays() {
    let mut bytes = encoded(&HEADER, &[Record { at: 1, event: hit(1, 2, 3) }]);
    let end = bytes.len() as u64;
    bytes.extend_from_slice(&[15, 0]);
    let (records, damaged) = decoded(&bytes, bytes.len());
    assert_eq!(records.len(), 1);
    assert_eq!(damaged, Some(Damaged { offset: end, expected: "an event's code" }));
    assert!(damaged.unwrap().to_string().contains(&format!("byte {end}")));
    let mut decoder = Decoder::default();
    decoder.feed(&bytes);
    assert!(decoder.next().is_ok());
    assert_eq!(decoder.next(), decoder.next());
    assert_eq!(decoder.offset(), end);
}

#[test]
fn other_files_are_refused_at_once() {
    assert_eq!(decoded(b"PK", 2).1.unwrap().expected, "the first bytes of a recording");
    let mut newer = encoded(&HEADER, &[]);
    newer[MAGIC.len()] = VERSION + 1;
    assert_eq!(decoded(&newer, 64).1.unwrap().expected, "version 1 of the format");
}

#[test]
fn lengths_have_limits() {
    let mut long_name = encoded(&HEADER, &[]);
    long_name.extend_from_slice(&[wire::SETTING, 0, 0x80, 0x02]);
    assert_eq!(decoded(&long_name, 64).1.unwrap().expected, "a name of at most 255 bytes");
    let mut long_number = encoded(&HEADER, &[]);
    long_number.extend_from_slice(&[wire::CHARGE, 0]);
    long_number.extend_from_slice(&[0xff; 10]);
    assert_eq!(decoded(&long_number, 64).1.unwrap().expected, "a number under 2^64");
    let name = Name::Plain(vec![b'x'; 300]);
    let object = Event::Object { object: ObjectId(1), parent: ObjectId(0), name };
    let bytes = encoded(&Header { has_names: true, ..HEADER }, &[Record { at: 0, event: object }]);
    let (records, damaged) = decoded(&bytes, 64);
    assert!(matches!(&records[0].event, Event::Object { name: Name::Plain(n), .. } if n.len() == NAME_MAX));
    assert_eq!(damaged, None);
}
