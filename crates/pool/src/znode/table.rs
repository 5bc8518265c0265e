//! All znodes of a dataset, by inode number.
//!
//! Sharded; a shard's lock is held for single look-ups and never across calls. Counts of references
//! change under it, so that a znode cannot be dropped from the table and given out at once.

use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::Znode;

const SHARDS: usize = 64;

/// Inode numbers are well spread by one multiplication; SipHash would cost more than the rest.
#[derive(Default)]
pub(crate) struct InoHasher(u64);

impl std::hash::Hasher for InoHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("inode numbers are hashed as u64");
    }

    fn write_u64(&mut self, ino: u64) {
        let wide = u128::from(ino ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.0 = (wide as u64) ^ ((wide >> 64) as u64);
    }
}

type Shard = HashMap<u64, Arc<Znode>, BuildHasherDefault<InoHasher>>;

/// The znodes of one dataset.
pub(crate) struct ZnodeTable {
    shards: Box<[Mutex<Shard>]>,
    count: AtomicU64,
    clock_hand: AtomicUsize,
}

impl ZnodeTable {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        ZnodeTable { shards, count: AtomicU64::new(0), clock_hand: AtomicUsize::new(0) }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn shard(&self, ino: u64) -> &Mutex<Shard> {
        &self.shards[(ino ^ ino >> 8) as usize % SHARDS]
    }

    pub(crate) fn find(&self, ino: u64) -> Option<Arc<Znode>> {
        self.shard(ino).lock().get(&ino).cloned()
    }

    /// The same, held as if it were open: it stays until it is given back by [`ZnodeTable::release`].
    pub(crate) fn find_and_hold(&self, ino: u64) -> Option<Arc<Znode>> {
        let shard = self.shard(ino).lock();
        let node = shard.get(&ino)?;
        node.opens.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(node))
    }

    /// The znode of `ino` with `lookups` more references; made by `make` when there is none, or when
    /// the one that is there is of another generation: then the number has a new owner, and the
    /// kernel's references to the old one go over to it, as the kernel counts by number alone.
    pub(crate) fn find_or_insert(
        &self,
        ino: u64,
        generation: u64,
        lookups: u64,
        make: impl FnOnce() -> Znode,
    ) -> (Arc<Znode>, Inserted) {
        let mut shard = self.shard(ino).lock();
        let before = shard.get(&ino);
        if let Some(node) = before
            && node.id.generation == generation
        {
            node.lookups.fetch_add(lookups, Ordering::Relaxed);
            return (Arc::clone(node), Inserted::No);
        }
        let carried = before.map_or(0, |node| node.lookups.swap(0, Ordering::Relaxed));
        let node = Arc::new(make());
        node.lookups.store(carried + lookups, Ordering::Relaxed);
        let old = shard.insert(ino, Arc::clone(&node));
        drop(shard);
        match old {
            Some(old) => (node, Inserted::Replaced(old)),
            None => {
                self.count.fetch_add(1, Ordering::Relaxed);
                (node, Inserted::New)
            }
        }
    }

    /// Takes back `count` references; the znode, if it is not held any more and left the table.
    pub(crate) fn forget(&self, ino: u64, count: u64) -> Option<Arc<Znode>> {
        let mut shard = self.shard(ino).lock();
        let node = shard.get(&ino)?;
        let before = node.lookups.load(Ordering::Relaxed);
        node.lookups.store(before.saturating_sub(count), Ordering::Relaxed);
        self.remove_unheld(&mut shard, ino)
    }

    /// Removes the znode if nobody holds it; called after an open file let go.
    pub(crate) fn release(&self, ino: u64) -> Option<Arc<Znode>> {
        let mut shard = self.shard(ino).lock();
        self.remove_unheld(&mut shard, ino)
    }

    fn remove_unheld(&self, shard: &mut Shard, ino: u64) -> Option<Arc<Znode>> {
        let node = shard.get(&ino)?;
        if node.is_held() {
            return None;
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        shard.remove(&ino)
    }

    /// Calls `each` for every znode, shard by shard, outside the shard's lock.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&Arc<Znode>)) {
        for shard in &self.shards {
            let nodes: Vec<_> = shard.lock().values().cloned().collect();
            nodes.iter().for_each(&mut each);
        }
    }

    /// Up to `count` znodes that only the kernel's references keep, going round the table.
    pub(crate) fn prunable(&self, count: usize) -> Vec<Arc<Znode>> {
        let mut found = Vec::new();
        for _ in 0..SHARDS {
            let hand = self.clock_hand.fetch_add(1, Ordering::Relaxed);
            let shard = self.shards[hand % SHARDS].lock();
            let idle = shard.values().filter(|node| node.opens.load(Ordering::Relaxed) == 0);
            found.extend(idle.take(count - found.len()).cloned());
            if found.len() >= count {
                break;
            }
        }
        found
    }
}

/// What became of a look-up for insertion.
pub(crate) enum Inserted {
    /// It was there.
    No,
    /// It is new.
    New,
    /// It took the place of this one, which had the same number before.
    Replaced(Arc<Znode>),
}

#[cfg(test)]
mod tests {
    use super::super::tests::identity;
    use super::*;
    use arcwell_base::origin::{FileId, FileType};

    fn node(ino: u64, generation: u64) -> Znode {
        Znode::new(FileId { ino, generation }, FileType::Regular, identity(ino), None)
    }

    #[test]
    fn a_znode_goes_with_its_last_reference() {
        let table = ZnodeTable::new();
        table.find_or_insert(7, 1, 1, || node(7, 1));
        table.find_or_insert(7, 1, 2, || unreachable!("it is there"));
        assert!(table.forget(7, 2).is_none());
        assert!(table.forget(7, 1).is_some());
        assert!(table.find(7).is_none());
        assert_eq!(table.count(), 0);
    }

    #[test]
    fn a_new_owner_of_a_number_takes_the_kernels_references_over() {
        let table = ZnodeTable::new();
        table.find_or_insert(7, 1, 3, || node(7, 1));
        let (new, inserted) = table.find_or_insert(7, 2, 1, || node(7, 2));
        assert!(matches!(inserted, Inserted::Replaced(old) if old.id.generation == 1));
        assert_eq!(new.lookups.load(Ordering::Relaxed), 4);
        assert!(table.forget(7, 4).is_some());
    }

    #[test]
    fn an_open_file_stays() {
        let table = ZnodeTable::new();
        let (node, _) = table.find_or_insert(7, 1, 1, || node(7, 1));
        node.opens.store(1, Ordering::Relaxed);
        assert!(table.forget(7, 1).is_none());
        node.opens.store(0, Ordering::Relaxed);
        assert!(table.release(7).is_some());
    }
}
