//! Ours: `arcwell-arc` without what the pool does around it.

use arcwell_arc::{Admit, Asked, Cache, Config, Keep, ListKind, Pin};
use arcwell_base::{BlockKey, Kind, ObjectId};

use crate::Result;
use crate::cache::peer::{Peer, Resident};
use crate::cache::work::{Load, VALUE, Work};

/// The kinds of lists, by their names in the reports.
pub const LISTS: &[(&str, ListKind)] =
    &[("single", ListKind::Single), ("multilist", ListKind::Multilist), ("pages", ListKind::Pages)];

/// Blocks of one object.
const OBJECT: u32 = 4096;

/// What the limit counts of a block beyond its bytes, at most: our limit is one of memory.
const BEYOND: u64 = 512;

/// Our cache.
#[derive(Debug)]
pub struct Arcwell {
    cache: Cache,
    work: Work,
    keys: u32,
    /// Blocks that it shall hold, where that is to be as many as others hold.
    goal: Option<u64>,
}

impl Arcwell {
    /// An empty one with lists of a kind.
    ///
    /// # Errors
    /// When there is no such kind.
    pub fn new(lists: &str, load: &Load) -> Result<Self> {
        let known = LISTS.iter().find(|(name, _)| *name == lists);
        let (_, lists) = *known.ok_or_else(|| format!("no lists are named {lists:?}"))?;
        let typical_block = load.typical() as u64;
        let size_max = match load.work {
            Work::A1 | Work::A2 | Work::D => load.capacity(),
            Work::B | Work::C => u64::from(load.entries) * (VALUE as u64 + BEYOND),
        };
        let goal = matches!(load.work, Work::B | Work::C).then_some(u64::from(load.entries));
        let cache = Cache::new(Config { lists, typical_block, ..Config::new(size_max) });
        Ok(Arcwell { cache, work: load.work, keys: load.keys, goal })
    }
}

fn key_of(key: u32) -> BlockKey {
    BlockKey::new(ObjectId(1 + u64::from(key / OBJECT)), u64::from(key % OBJECT))
}

/// Reads many blocks, in their order; how many were there.
fn read_batch(cache: &Cache, keys: &[u32], mut read: impl FnMut(&Pin)) -> u64 {
    let keys: smallvec::SmallVec<[BlockKey; 64]> = keys.iter().map(|key| key_of(*key)).collect();
    let mut found = 0;
    cache.lookup_many(&keys, Kind::Data, Asked::Demand, |_, pin| {
        if let Some(pin) = pin {
            read(&pin);
            found += 1;
        }
    });
    found
}

impl Peer for Arcwell {
    fn copy(&self, key: u32, out: &mut [u8]) -> bool {
        let found = self.cache.lookup(key_of(key), Kind::Data, Asked::Demand);
        found.is_some_and(|pin| {
            pin.copy_to(0, out);
            true
        })
    }

    fn touch(&self, key: u32) -> bool {
        self.cache.lookup(key_of(key), Kind::Data, Asked::Demand).is_some()
    }

    fn insert(&self, key: u32, value: &[u8]) {
        let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
        if let Ok(mut block) = self.cache.admit(key_of(key), Kind::Data, value.len(), how) {
            block.copy_from_slice(value);
            drop(block.publish());
        }
    }

    fn resident(&self) -> Resident {
        self.cache.refresh_gauges();
        let entries = self.cache.stats().blocks.value();
        let bytes = match self.work {
            Work::D => {
                (0..self.keys).filter_map(|key| Some(self.cache.peek(key_of(key))?.len() as u64)).sum()
            }
            Work::A1 | Work::A2 | Work::B | Work::C => entries * VALUE as u64,
        };
        Resident { entries, bytes }
    }

    fn copy_many(&self, keys: &[u32], out: &mut [u8]) -> u64 {
        read_batch(&self.cache, keys, |pin| {
            pin.copy_to(0, out);
            std::hint::black_box(&mut *out);
        })
    }

    /// Moves the limit so that there are as many blocks as others hold, and not one in a thousand more:
    /// how much the ghosts take of it depends on what is asked for.
    fn settle(&self) {
        let Some(goal) = self.goal else { return };
        self.cache.refresh_gauges();
        let (blocks, limit) = (self.cache.stats().blocks.value().max(1), self.cache.tunables().size_max());
        let aim = goal - goal / 1000;
        if blocks > goal || blocks < aim - goal / 500 {
            let fitting = u128::from(limit) * u128::from(aim) / u128::from(blocks);
            let most = goal * (VALUE as u64 + 2 * BEYOND);
            self.cache.set_size_max((fitting as u64).clamp(goal * VALUE as u64, most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::work::Size;

    #[test]
    fn keys_of_ours_differ() {
        assert_eq!(key_of(0), BlockKey::new(ObjectId(1), 0));
        assert_eq!(key_of(2 * OBJECT + 5), BlockKey::new(ObjectId(3), 5));
    }

    #[test]
    fn ours_comes_to_hold_as_many_as_others_and_no_more() {
        let load = Load::new(Work::B, Size { entries: 1000, keys: 8000, ops: 64 });
        let ours = Arcwell::new("single", &load).unwrap();
        for _ in 0..4 {
            (0..load.keys).for_each(|key| ours.insert(key, load.value(key)));
            ours.settle();
        }
        let Resident { entries, bytes } = ours.resident();
        assert!((990..=1000).contains(&entries), "{entries}");
        assert_eq!(bytes, entries * VALUE as u64);
    }

    #[test]
    fn unknown_lists_are_refused() {
        let load = Load::new(Work::B, Size { entries: 64, keys: 64, ops: 64 });
        assert_eq!(Arcwell::new("none", &load).unwrap_err().to_string(), "no lists are named \"none\"");
    }
}
