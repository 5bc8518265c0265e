//! The others, each as its own documentation uses it: default hasher, default parts, values weighed in
//! bytes. Where a cache hands out clones, a value is an `Arc<[u8]>`; foyer hands out counted entries of
//! its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::peer::{Peer, Resident};
use crate::cache::work::Load;

/// Copies the beginning of a value.
fn copy_out(value: &[u8], out: &mut [u8]) -> bool {
    out.copy_from_slice(&value[..out.len()]);
    true
}

/// quick_cache.
pub struct Quick(quick_cache::sync::Cache<u64, Arc<[u8]>, Bytes>);

/// Weighs values by their bytes.
#[derive(Clone, Debug)]
struct Bytes;

impl quick_cache::Weighter<u64, Arc<[u8]>> for Bytes {
    fn weight(&self, _key: &u64, value: &Arc<[u8]>) -> u64 {
        value.len() as u64
    }
}

impl Quick {
    /// An empty one.
    pub fn new(load: &Load) -> Self {
        Quick(quick_cache::sync::Cache::with_weighter(load.expected(), load.capacity(), Bytes))
    }
}

impl Peer for Quick {
    fn copy(&self, key: u32, out: &mut [u8]) -> bool {
        self.0.get(&u64::from(key)).is_some_and(|value| copy_out(&value, out))
    }

    fn touch(&self, key: u32) -> bool {
        self.0.get(&u64::from(key)).is_some()
    }

    fn insert(&self, key: u32, value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }

    fn resident(&self) -> Resident {
        Resident { entries: self.0.len() as u64, bytes: self.0.weight() }
    }
}

/// moka.
pub struct Moka(moka::sync::Cache<u64, Arc<[u8]>>);

impl Moka {
    /// An empty one.
    pub fn new(load: &Load) -> Self {
        let weigher = |_: &u64, value: &Arc<[u8]>| value.len() as u32;
        Moka(moka::sync::Cache::builder().max_capacity(load.capacity()).weigher(weigher).build())
    }
}

impl Peer for Moka {
    fn copy(&self, key: u32, out: &mut [u8]) -> bool {
        self.0.get(&u64::from(key)).is_some_and(|value| copy_out(&value, out))
    }

    fn touch(&self, key: u32) -> bool {
        self.0.get(&u64::from(key)).is_some()
    }

    fn insert(&self, key: u32, value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }

    fn resident(&self) -> Resident {
        self.0.run_pending_tasks();
        Resident { entries: self.0.entry_count(), bytes: self.0.weighted_size() }
    }
}

/// foyer's cache in memory.
pub struct Foyer(foyer_memory::Cache<u64, Vec<u8>>);

impl Foyer {
    /// An empty one with a rule of eviction.
    pub fn new(rule: foyer_memory::EvictionConfig, load: &Load) -> Self {
        let builder = foyer_memory::CacheBuilder::new(load.capacity() as usize);
        Foyer(
            builder.with_eviction_config(rule).with_weighter(|_: &u64, value: &Vec<u8>| value.len()).build(),
        )
    }
}

impl Peer for Foyer {
    fn copy(&self, key: u32, out: &mut [u8]) -> bool {
        self.0.get(&u64::from(key)).is_some_and(|entry| copy_out(entry.value(), out))
    }

    fn touch(&self, key: u32) -> bool {
        self.0.get(&u64::from(key)).is_some()
    }

    fn insert(&self, key: u32, value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }

    fn resident(&self) -> Resident {
        Resident { entries: self.0.entries() as u64, bytes: self.0.usage() as u64 }
    }
}

/// A mutex around `lru`, which by itself knows no weights.
pub struct Lru {
    list: Mutex<Weighed>,
    capacity: u64,
}

struct Weighed {
    list: lru::LruCache<u64, Arc<[u8]>>,
    bytes: u64,
}

impl Lru {
    /// An empty one.
    pub fn new(load: &Load) -> Self {
        let list = Mutex::new(Weighed { list: lru::LruCache::unbounded(), bytes: 0 });
        Lru { list, capacity: load.capacity() }
    }

    fn lock(&self) -> MutexGuard<'_, Weighed> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: u32) -> Option<Arc<[u8]>> {
        self.lock().list.get(&u64::from(key)).cloned()
    }
}

impl Peer for Lru {
    fn copy(&self, key: u32, out: &mut [u8]) -> bool {
        self.get(key).is_some_and(|value| copy_out(&value, out))
    }

    fn touch(&self, key: u32) -> bool {
        self.get(key).is_some()
    }

    fn insert(&self, key: u32, value: &[u8]) {
        let value: Arc<[u8]> = value.into();
        let mut locked = self.lock();
        locked.bytes += value.len() as u64;
        if let Some((_, before)) = locked.list.push(key.into(), value) {
            locked.bytes -= before.len() as u64;
        }
        while locked.bytes > self.capacity {
            let Some((_, oldest)) = locked.list.pop_lru() else { break };
            locked.bytes -= oldest.len() as u64;
        }
    }

    fn resident(&self) -> Resident {
        let locked = self.lock();
        Resident { entries: locked.list.len() as u64, bytes: locked.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::work::{Size, Work};

    #[test]
    fn a_cache_of_any_kind_gives_what_was_put_in_and_keeps_its_bytes() {
        let size = Size { entries: 2048, keys: 4096, ops: 64 };
        for work in [Work::B, Work::D] {
            let load = Load::new(work, size);
            let foyer = |rule: foyer_memory::EvictionConfig| Box::new(Foyer::new(rule, &load));
            let peers: [Box<dyn Peer>; 7] = [
                Box::new(Quick::new(&load)),
                Box::new(Moka::new(&load)),
                foyer(foyer_memory::LruConfig::default().into()),
                foyer(foyer_memory::S3FifoConfig::default().into()),
                foyer(foyer_memory::SieveConfig.into()),
                foyer(foyer_memory::LfuConfig::default().into()),
                Box::new(Lru::new(&load)),
            ];
            for (number, peer) in peers.iter().enumerate() {
                let mut found = 0;
                for key in (0..load.keys).chain((0..load.keys).rev()) {
                    let mut out = vec![0; load.value(key).len()];
                    if peer.copy(key, &mut out) {
                        assert_eq!(out, load.value(key), "{number}");
                        found += 1;
                    } else {
                        peer.insert(key, load.value(key));
                    }
                }
                let resident = peer.resident();
                assert!(resident.bytes <= load.capacity(), "{number}: {resident:?}");
                assert!(resident.bytes > load.capacity() / 2 && found > 0, "{number}: {resident:?}, {found}");
                assert!(!peer.touch(load.keys), "{number}");
            }
        }
    }
}
