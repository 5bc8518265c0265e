//! Any sequence of calls, against a map that says what is stored under each key.
//!
//! What the cache shows is what is stored, whatever it chose to keep; pins keep what they had; what it
//! counts are the calls.

use std::collections::HashMap;

use arcwell::{BlockKey, Cache, Pin};
use proptest::prelude::*;

use super::{MIB, cache};

#[derive(Clone, Debug)]
enum Step {
    Get {
        key: u64,
        hold: bool,
    },
    Pin {
        key: u64,
    },
    ReadMany {
        first: u64,
        count: u64,
    },
    /// Store other bytes, then tell the cache by an insert.
    Insert {
        key: u64,
        len: usize,
        hold: bool,
    },
    /// Store other bytes, then tell the cache by a removal.
    Remove {
        key: u64,
        len: usize,
    },
    LetGo {
        nth: usize,
    },
    Resize {
        bytes: u64,
    },
    Shrink {
        bytes: u64,
    },
}

const KEYS: u64 = 200;

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS;
    let len = || prop_oneof![8 => 0..20_000usize, 1 => 400_000..700_000usize];
    let hold = || prop::bool::weighted(0.3);
    prop_oneof![
        40 => (key(), hold()).prop_map(|(key, hold)| Step::Get { key, hold }),
        10 => key().prop_map(|key| Step::Pin { key }),
        5 => (key(), 0..40u64).prop_map(|(first, count)| Step::ReadMany { first, count }),
        15 => (key(), len(), hold()).prop_map(|(key, len, hold)| Step::Insert { key, len, hold }),
        5 => (key(), len()).prop_map(|(key, len)| Step::Remove { key, len }),
        15 => any::<usize>().prop_map(|nth| Step::LetGo { nth }),
        1 => (MIB..3 * MIB).prop_map(|bytes| Step::Resize { bytes }),
        1 => (0..MIB).prop_map(|bytes| Step::Shrink { bytes }),
    ]
}

/// What is stored under a key: bytes that tell key and version.
type Stored = (u64, usize);

fn bytes(key: BlockKey, (version, len): Stored) -> Vec<u8> {
    let word = key.hash() ^ version.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = word.to_le_bytes().repeat(len / 8 + 1);
    bytes.truncate(len);
    bytes
}

struct Model {
    cache: Cache,
    stored: HashMap<BlockKey, Stored>,
    held: Vec<(Pin, BlockKey, Stored)>,
    versions: u64,
    lookups: u64,
}

impl Model {
    fn key(key: u64) -> BlockKey {
        (1 + key % 3, key).into()
    }

    fn stored(&self, key: BlockKey) -> Stored {
        self.stored.get(&key).copied().unwrap_or((0, 4000))
    }

    fn store(&mut self, key: BlockKey, len: usize) -> Stored {
        self.versions += 1;
        self.stored.insert(key, (self.versions, len));
        (self.versions, len)
    }

    fn hold(&mut self, pin: Pin, key: BlockKey, hold: bool) {
        let stored = self.stored(key);
        assert!(*pin == *bytes(key, stored), "{key:?} is not version {}", stored.0);
        if hold {
            self.held.push((pin, key, stored));
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Get { key, hold } => {
                let key = Model::key(key);
                let stored = bytes(key, self.stored(key));
                let fetch = |buffer: &mut [u8]| {
                    buffer[..stored.len()].copy_from_slice(&stored);
                    Ok::<_, std::convert::Infallible>(stored.len())
                };
                let pin = self.cache.get_or_fetch(key, stored.len() + 100, fetch).unwrap();
                self.lookups += 1;
                self.hold(pin, key, hold);
            }
            Step::Pin { key } => {
                let key = Model::key(key);
                self.lookups += 1;
                let is_there = self.cache.contains(key);
                let pin = self.cache.pin(key);
                assert_eq!(pin.is_some(), is_there);
                pin.into_iter().for_each(|pin| self.hold(pin, key, false));
            }
            Step::ReadMany { first, count } => {
                let keys: Vec<BlockKey> = (first..first + count).map(Model::key).collect();
                self.lookups += count;
                let mut next = 0;
                self.cache.read_many(&keys, |place, found| {
                    assert_eq!(place, next);
                    next += 1;
                    assert_eq!(found.is_some(), self.cache.contains(keys[place]));
                    assert!(found.is_none_or(|found| *found == bytes(keys[place], self.stored(keys[place]))));
                });
                assert_eq!(next, keys.len());
            }
            Step::Insert { key, len, hold } => {
                let key = Model::key(key);
                let stored = self.store(key, len);
                match self.cache.insert(key, &bytes(key, stored)) {
                    Ok(pin) => self.hold(pin, key, hold),
                    Err(_full) => assert!(!self.cache.contains(key)),
                }
            }
            Step::Remove { key, len } => {
                let key = Model::key(key);
                self.store(key, len);
                assert_eq!(self.cache.contains(key), self.cache.remove(key));
                assert!(!self.cache.contains(key));
            }
            Step::LetGo { nth } if !self.held.is_empty() => {
                drop(self.held.swap_remove(nth % self.held.len()));
            }
            Step::LetGo { .. } => {}
            Step::Resize { bytes } => self.cache.resize(bytes).unwrap(),
            Step::Shrink { bytes } => drop(self.cache.shrink(bytes)),
        }
    }

    fn check(&self) {
        for (pin, key, stored) in &self.held {
            assert!(**pin == *bytes(*key, *stored), "the pin of {key:?} changed");
        }
        let stats = self.cache.stats();
        assert_eq!(stats.hits + stats.misses, self.lookups);
        assert_eq!((stats.failed, stats.joined, stats.overtaken), (0, 0, 0));
        assert!(stats.fetches <= stats.misses && stats.aside <= stats.fetches);
        if self.held.is_empty() {
            assert!(stats.size <= stats.target && stats.anon == 0, "{stats}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_cache_shows_what_is_stored(steps in prop::collection::vec(step(), 1..600)) {
        let (stored, held) = (HashMap::new(), Vec::new());
        let mut model = Model { cache: cache(MIB), stored, held, versions: 0, lookups: 0 };
        for step in steps {
            model.take(step);
        }
        model.check();
        model.held.clear();
        // What was over the limit while it was in use goes when room is made next.
        model.cache.shrink(0);
        model.check();
    }
}

/// The check above would see a cache that shows something else.
#[test]
#[should_panic(expected = "is not version")]
fn a_store_that_changes_behind_the_caches_back_is_noticed() {
    let (stored, held) = (HashMap::new(), Vec::new());
    let mut model = Model { cache: cache(MIB), stored, held, versions: 0, lookups: 0 };
    model.take(Step::Get { key: 1, hold: false });
    model.store(Model::key(1), 100);
    model.take(Step::Get { key: 1, hold: false });
}
