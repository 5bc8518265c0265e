//! The index as a whole: what it keeps, what it loses, what it takes.

use std::collections::HashMap;

use arcwell_base::ObjectId;
use proptest::prelude::*;

use super::*;

pub(super) fn key(number: u64) -> BlockKey {
    BlockKey::new(ObjectId(number / 1000 + 1), number % 1000)
}

pub(super) fn entry(number: u64) -> Entry {
    Entry {
        checksum: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        device: (number % 8) as u8,
        offset: number * 4096 % DEVICE_BYTES_MAX,
        len: 4096,
        is_metadata: number.is_multiple_of(5),
        is_frequent: number.is_multiple_of(3),
        was_read: false,
    }
}

/// The entry as it comes back.
fn kept(entry: Entry) -> Entry {
    Entry { checksum: Packed::kept(entry.checksum), ..entry }
}

/// Puts blocks in.
pub(super) fn fill(index: &Index, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        index.put(key(number), entry(number));
    }
}

/// Removes blocks.
pub(super) fn clear(index: &Index, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        index.remove(key(number));
    }
}

/// Removes all blocks.
pub(super) fn clear_all(index: &Index) -> u64 {
    (0..DEVICES).map(|device| index.remove_device(device)).sum()
}

fn validate(index: &Index) {
    index.shards.iter().for_each(|shard| shard.lock().validate());
}

#[derive(Debug, Clone)]
enum Step {
    Put(u64),
    Remove(u64),
    RemoveAt(u64, bool),
    Read(u64),
    RemoveDevice(u8),
    RemoveRange(u8, u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..5000u64;
    prop_oneof![
        20 => number().prop_map(Step::Put),
        5 => number().prop_map(Step::Remove),
        5 => (number(), any::<bool>()).prop_map(|(number, there)| Step::RemoveAt(number, there)),
        5 => number().prop_map(Step::Read),
        1 => (0..8u8).prop_map(Step::RemoveDevice),
        1 => (0..8u8, number(), 0..1000u64).prop_map(|(device, from, len)| Step::RemoveRange(device, from, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_index_does_what_a_map_of_tags_does(steps in prop::collection::vec(step(), 1..300)) {
        let index = Index::new();
        let mut model: HashMap<u64, Entry> = HashMap::new();
        // Shard and tag: the upper 36 bits of the hash.
        let name = |number| key(number).hash() >> 28;
        for step in steps {
            match step {
                Step::Put(number) => {
                    let entry = entry(number);
                    prop_assert_eq!(index.put(key(number), entry), model.insert(name(number), kept(entry)));
                    prop_assert!(Index::agrees(&index.get(key(number)).unwrap(), entry.checksum));
                }
                Step::Remove(number) => {
                    prop_assert_eq!(index.remove(key(number)), model.remove(&name(number)));
                }
                Step::RemoveAt(number, is_there) => {
                    let entry = entry(number);
                    let offset = if is_there { entry.offset } else { entry.offset + 64 };
                    let expected = if is_there { model.remove(&name(number)) } else { None };
                    prop_assert_eq!(index.remove_at(key(number), entry.device, offset), expected);
                }
                Step::Read(number) => {
                    index.mark_read(key(number));
                    model.entry(name(number)).and_modify(|entry| entry.was_read = true);
                }
                Step::RemoveDevice(device) => {
                    let before = model.len();
                    model.retain(|_, entry| entry.device != device);
                    prop_assert_eq!(index.remove_device(device), (before - model.len()) as u64);
                }
                Step::RemoveRange(device, from, len) => {
                    let (before, range) = (model.len(), from * 4096..(from + len) * 4096);
                    model.retain(|_, entry| entry.device != device || !range.contains(&entry.offset));
                    prop_assert_eq!(index.remove_range(device, range), (before - model.len()) as u64);
                }
            }
        }
        prop_assert_eq!(index.len(), model.len() as u64);
        for number in 0..5000 {
            prop_assert_eq!(index.get(key(number)), model.get(&name(number)).copied());
            prop_assert_eq!(index.contains(key(number)), model.contains_key(&name(number)));
        }
        validate(&index);
    }
}

/// Two keys with one tag: the later one has the entry, and the earlier one's bytes do not agree.
#[test]
fn a_key_that_shares_its_tag_takes_the_others_place() {
    let index = Index::new();
    // Found by trying: pairs that agree in 36 bits are seldom, so look for one among two million.
    let mut seen: HashMap<u64, u64> = HashMap::new();
    let pair = (0..2_000_000u64)
        .find_map(|number| seen.insert(key(number).hash() >> 28, number).map(|before| (before, number)));
    let (one, other) = pair.expect("about thirty pairs are expected");
    assert_eq!(index.put(key(one), entry(one)), None);
    assert_eq!(index.put(key(other), entry(other)), Some(kept(entry(one))));
    assert_eq!((index.len(), index.get(key(one))), (1, Some(kept(entry(other)))));
    let bytes = [1; 4096];
    let (sum, others) =
        (crate::checksum::checksum(key(one), &bytes), crate::checksum::checksum(key(other), &bytes));
    let found = Entry { checksum: others, ..entry(other) };
    assert!(Index::agrees(&found, others) && !Index::agrees(&found, sum));
    assert_eq!(index.remove_at(key(one), entry(one).device, entry(one).offset), None);
    assert!(index.contains(key(other)));
}

#[test]
fn threads_that_put_and_remove_leave_what_each_left() {
    let index = Index::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = &index;
            scope.spawn(move || {
                let mine = || (0..80_000).filter(move |number| number % 4 == thread);
                fill(index, mine());
                clear(index, mine().filter(|number| number % 3 == 0));
            });
        }
    });
    validate(&index);
    let left = (0..80_000).filter(|number| index.contains(key(*number))).count() as u64;
    assert_eq!((left, index.len()), (80_000 - 80_000u64.div_ceil(3), 80_000 - 80_000u64.div_ceil(3)));
}

#[test]
fn what_is_gone_takes_no_memory() {
    let index = Index::new();
    let empty = index.bytes();
    assert!(empty < 512 << 10, "an empty index takes {empty} bytes");
    fill(&index, 0..300_000);
    let full = index.bytes();
    assert!(full - empty > 300_000 * 16);
    let len = index.len();
    assert_eq!((clear_all(&index), index.len()), (len, 0));
    assert!(index.bytes() - empty < 512 << 10, "{} bytes are left of {full}", index.bytes());
    validate(&index);
}
