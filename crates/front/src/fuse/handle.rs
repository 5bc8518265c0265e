//! Numbers for open files and directories, as the kernel wants them.
//!
//! A number holds a shard, a slot in it and the slot's generation; a number that was given back is
//! recognised as such. Looking one up takes a shared lock of one shard and a reference count: tens of
//! nanoseconds, no allocation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

const SHARD_BITS: u32 = 4;
const SHARDS: usize = 1 << SHARD_BITS;
/// Low half of a number: slot and shard. High half: generation.
const PLACE_BITS: u32 = 32;

struct Slot<T> {
    generation: u32,
    value: Option<Arc<T>>,
}

struct Shard<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// Open things by number.
pub(crate) struct Table<T> {
    shards: [RwLock<Shard<T>>; SHARDS],
    next: AtomicUsize,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        let shards = std::array::from_fn(|_| RwLock::new(Shard { slots: Vec::new(), free: Vec::new() }));
        Table { shards, next: AtomicUsize::new(0) }
    }

    /// A number for `value`.
    pub(crate) fn insert(&self, value: Arc<T>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let mut shard = self.shards[number].write();
        let slot = match shard.free.pop() {
            Some(slot) => slot as usize,
            None => {
                shard.slots.push(Slot { generation: 0, value: None });
                shard.slots.len() - 1
            }
        };
        let entry = &mut shard.slots[slot];
        entry.value = Some(value);
        let place = (slot as u64) << SHARD_BITS | number as u64;
        u64::from(entry.generation) << PLACE_BITS | place
    }

    /// What `number` stands for.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<T>> {
        let (shard, slot, generation) = place(number);
        let shard = self.shards[shard].read();
        let entry = shard.slots.get(slot)?;
        if entry.generation == generation { entry.value.clone() } else { None }
    }

    /// Takes the number back. The value is returned so that it is dropped outside the lock.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        let (shard, slot, generation) = place(number);
        let mut shard = self.shards[shard].write();
        let entry = shard.slots.get_mut(slot)?;
        if entry.generation != generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = generation.wrapping_add(1);
        shard.free.push(slot as u32);
        Some(value)
    }
}

fn place(number: u64) -> (usize, usize, u32) {
    let low = number as u32;
    ((low as usize) % SHARDS, (low >> SHARD_BITS) as usize, (number >> PLACE_BITS) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_finds_its_value_until_it_is_given_back() {
        let table = Table::new();
        let numbers: Vec<u64> = (0..100).map(|value| table.insert(Arc::new(value))).collect();
        for (value, number) in numbers.iter().enumerate() {
            assert_eq!(table.find(*number).as_deref(), Some(&value));
        }
        assert_eq!(table.remove(numbers[7]).as_deref(), Some(&7));
        assert!(table.find(numbers[7]).is_none());
        assert!(table.remove(numbers[7]).is_none());
    }

    #[test]
    fn a_reused_slot_does_not_answer_to_its_old_number() {
        let table = Table::new();
        let old: Vec<u64> = (0..SHARDS).map(|value| table.insert(Arc::new(value))).collect();
        for number in &old {
            table.remove(*number);
        }
        let new: Vec<u64> = (0..SHARDS).map(|value| table.insert(Arc::new(value))).collect();
        for (old, new) in old.iter().zip(&new) {
            assert_ne!(old, new);
            assert!(table.find(*old).is_none());
            assert!(table.find(*new).is_some());
        }
    }

    #[test]
    fn a_made_up_number_is_refused() {
        let table = Table::<u8>::new();
        assert!(table.find(u64::MAX).is_none());
        assert!(table.remove(12345).is_none());
    }
}
