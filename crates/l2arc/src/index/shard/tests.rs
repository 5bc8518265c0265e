//! A shard against a plain map, with tags that crowd and tags that spread.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::index::entry::Entry;

fn entry(tag: u32, number: u64) -> Packed {
    let entry = Entry {
        checksum: number,
        device: (number % 3) as u8,
        offset: number * 64,
        len: 1,
        is_metadata: false,
        is_frequent: false,
        was_read: false,
    };
    Packed::pack(tag, entry).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Put(u32),
    Remove(u32),
    Get(u32),
    Retain(u8),
    /// Puts many that spread, from a seed.
    Many(u32, u16),
    /// Takes the first so many out.
    Fewer(u16),
}

/// Tags that crowd at both ends and in the middle, and some anywhere.
fn tag() -> impl Strategy<Value = u32> {
    const ALL: u32 = 1 << TAG_BITS;
    prop_oneof![0..40u32, ALL - 40..ALL, ALL / 2..ALL / 2 + 40, 0..ALL]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => tag().prop_map(Step::Put),
        6 => tag().prop_map(Step::Remove),
        2 => tag().prop_map(Step::Get),
        1 => any::<u8>().prop_map(Step::Retain),
        1 => (any::<u32>(), 0..600u16).prop_map(|(seed, count)| Step::Many(seed, count)),
        1 => (0..900u16).prop_map(Step::Fewer),
    ]
}

struct Pair {
    shard: Shard,
    model: BTreeMap<u32, Packed>,
    number: u64,
}

impl Pair {
    fn put(&mut self, tag: u32) {
        self.number += 1;
        let packed = entry(tag, self.number);
        assert_eq!(self.shard.put(packed), self.model.insert(tag, packed));
    }

    fn remove(&mut self, tag: u32) {
        assert_eq!(self.shard.remove_if(tag, |_| false), None);
        assert_eq!(self.shard.remove_if(tag, |_| true), self.model.remove(&tag));
    }

    fn act(&mut self, step: Step) {
        match step {
            Step::Put(tag) => self.put(tag),
            Step::Remove(tag) => self.remove(tag),
            Step::Get(tag) => assert_eq!(self.shard.get(tag), self.model.get(&tag).copied()),
            Step::Retain(which) => {
                let stays = |packed: Packed| packed.unpack().device != which % 4;
                let before = self.model.len();
                self.model.retain(|_, packed| stays(*packed));
                assert_eq!(self.shard.retain(stays), (before - self.model.len()) as u64);
            }
            Step::Many(seed, count) => {
                for number in 0..u32::from(count) {
                    self.put(seed.wrapping_add(number).wrapping_mul(0x9e37_79b1) >> (32 - TAG_BITS));
                }
            }
            Step::Fewer(count) => {
                let tags: Vec<u32> = self.model.keys().copied().take(count.into()).collect();
                tags.into_iter().for_each(|tag| self.remove(tag));
            }
        }
        self.shard.validate();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_shard_does_what_a_map_does(steps in prop::collection::vec(step(), 1..120)) {
        let shard = Shard::new(Arc::new(Arena::new()));
        let mut pair = Pair { shard, model: BTreeMap::new(), number: 0 };
        steps.into_iter().for_each(|step| pair.act(step));
        for (tag, packed) in &pair.model {
            assert_eq!(pair.shard.get(*tag), Some(*packed));
        }
    }
}

#[test]
fn a_shard_grows_with_what_comes_and_is_nothing_when_all_is_gone() {
    let arena = Arc::new(Arena::new());
    let mut shard = Shard::new(Arc::clone(&arena));
    let tag = |number: u32| number.wrapping_mul(0x9e37_79b1) >> (32 - TAG_BITS);
    assert_eq!(shard.slots(), 0);
    for number in 0..5000 {
        assert_eq!(shard.put(entry(tag(number), number.into())), None);
        let (len, slots) = (number as usize + 1, shard.slots());
        assert!(slots <= len * 6 / 5 + GRAIN, "{slots} slots for {len} entries");
    }
    shard.validate();
    for number in 0..5000 {
        assert!(shard.remove_if(tag(number), |_| true).is_some());
    }
    shard.validate();
    assert_eq!((shard.slots(), shard.len(), shard.get(0)), (0, 0, None));
}

/// The order that hurts linear probing most: every entry belongs to the same end.
#[test]
fn what_crowds_at_one_end_is_found() {
    for last in [0, (1 << TAG_BITS) - 2000] {
        let mut shard = Shard::new(Arc::new(Arena::new()));
        for number in (0..2000).rev() {
            shard.put(entry(last + number, number.into()));
        }
        shard.validate();
        assert!(
            (0..2000).all(|number| shard.get(last + number) == Some(entry(last + number, number.into())))
        );
        for number in (0..2000).step_by(3) {
            shard.remove_if(last + number, |_| true);
        }
        shard.validate();
    }
}
