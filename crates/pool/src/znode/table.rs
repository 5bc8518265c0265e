//! All znodes of a dataset, by inode number.
//!
//! Sharded; a shard's lock is held for single look-ups and never across calls. Counts of references
//! change under it, so that a znode cannot be dropped from the table and given out at once. A file that
//! was only listed has no znode yet but a place in a [`Sheet`].

use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;

use super::Znode;
use super::sheet::{Place, Sheet};
use crate::dataset::PruneCandidate;

const SHARDS: usize = 64;

/// Files that were created together have numbers in a row, and are listed and forgotten together:
/// [`ROW`] of them lie side by side, so that one cache line serves several.
const ROW: u32 = 4;

/// Hashes inode numbers: rows are spread over the table, numbers of a row stay neighbours. The top seven
/// bits, by which the table tells neighbours apart without looking at them, depend on the whole number.
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
        const TAG_SHIFT: u32 = 57;
        let tag = ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> TAG_SHIFT;
        let place = spread(ino >> ROW) << ROW | ino & ((1 << ROW) - 1);
        self.0 = tag << TAG_SHIFT | place & ((1 << TAG_SHIFT) - 1);
    }
}

fn spread(row: u64) -> u64 {
    let wide = u128::from(row ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// What the table has of a file.
enum Slot {
    Known(Arc<Znode>),
    /// It was shown in a listing; nobody has asked for it since.
    Listed(Listed),
}

/// A place in one of the shard's sheets. Small: there may be millions.
#[derive(Clone, Copy)]
struct Listed {
    sheet: u32,
    place: Place,
    lookups: u32,
}

const _: () = assert!(size_of::<(u64, Slot)>() <= 24, "entries are many");

/// The sheets that entries of one shard are in. A sheet is counted here by a plain number under the
/// shard's lock: an atomic count of all its entries would be fought over by whoever lists and whoever
/// forgets.
#[derive(Default)]
struct Sheets {
    sheets: Vec<Option<(Arc<Sheet>, u32)>>,
    free: Vec<u32>,
    /// The one that was referred to last: listings come in rows.
    last: u32,
}

#[derive(Default)]
struct Shard {
    slots: HashMap<u64, Slot, BuildHasherDefault<InoHasher>>,
    sheets: Sheets,
}

/// The znodes of one dataset.
pub(crate) struct ZnodeTable {
    shards: Box<[Mutex<Shard>]>,
    clock_hand: AtomicUsize,
}

impl Sheets {
    /// The number of a sheet, which has one more entry now.
    fn refer(&mut self, sheet: &Arc<Sheet>) -> u32 {
        if let Some(Some((last, entries))) = self.sheets.get_mut(self.last as usize)
            && Arc::ptr_eq(last, sheet)
        {
            *entries += 1;
            return self.last;
        }
        let new = Some((Arc::clone(sheet), 1));
        self.last = match self.free.pop() {
            Some(free) => {
                self.sheets[free as usize] = new;
                free
            }
            None => {
                self.sheets.push(new);
                (self.sheets.len() - 1) as u32
            }
        };
        self.last
    }

    /// One entry of a sheet is gone; the sheet, when it was the last.
    fn release(&mut self, number: u32) -> Option<Arc<Sheet>> {
        let slot = self.sheets.get_mut(number as usize)?;
        let (_, entries) = slot.as_mut()?;
        *entries -= 1;
        if *entries > 0 {
            return None;
        }
        self.free.push(number);
        slot.take().map(|(sheet, _)| sheet)
    }

    fn sheet(&self, listed: &Listed) -> Option<&Arc<Sheet>> {
        self.sheets.get(listed.sheet as usize)?.as_ref().map(|(sheet, _)| sheet)
    }
}

impl Shard {
    /// The znode of a number; made of its sheet when nobody asked before.
    fn znode(&mut self, ino: u64) -> Option<&Arc<Znode>> {
        let slot = self.slots.get_mut(&ino)?;
        if let Slot::Listed(listed) = *slot {
            // A sheet that gave this place out has enough to make a znode of it.
            let node = Arc::new(self.sheets.sheet(&listed)?.znode(listed.place)?);
            node.lookups.store(u64::from(listed.lookups), Ordering::Relaxed);
            *slot = Slot::Known(node);
            self.sheets.release(listed.sheet);
        }
        match slot {
            Slot::Known(node) => Some(node),
            Slot::Listed(_) => None,
        }
    }

    fn remove_unheld(&mut self, ino: u64) -> Option<Arc<Znode>> {
        match self.slots.get(&ino)? {
            Slot::Known(node) if !node.is_held() => match self.slots.remove(&ino)? {
                Slot::Known(node) => Some(node),
                Slot::Listed(_) => None,
            },
            _ => None,
        }
    }

    fn candidate(&self, ino: u64, slot: &Slot) -> Option<PruneCandidate> {
        match slot {
            Slot::Known(node) if node.opens.load(Ordering::Relaxed) > 0 => None,
            Slot::Known(node) => {
                let link = node.first_link()?;
                Some(PruneCandidate { ino, parent: link.parent.id.ino, name: link.name.into() })
            }
            Slot::Listed(listed) => {
                let (parent, name) = self.sheets.sheet(listed)?.link(listed.place)?;
                Some(PruneCandidate { ino, parent, name: name.into() })
            }
        }
    }
}

impl ZnodeTable {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        ZnodeTable { shards, clock_hand: AtomicUsize::new(0) }
    }

    pub(crate) fn count(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().slots.len() as u64).sum()
    }

    /// Those that are open.
    pub(crate) fn open_nodes(&self) -> Vec<Arc<Znode>> {
        let open = |slot: &Slot| match slot {
            Slot::Known(node) if node.opens.load(Ordering::Relaxed) > 0 => Some(Arc::clone(node)),
            _ => None,
        };
        self.shards
            .iter()
            .flat_map(|shard| shard.lock().slots.values().filter_map(open).collect::<Vec<_>>())
            .collect()
    }

    fn shard(&self, ino: u64) -> &Mutex<Shard> {
        &self.shards[(ino >> ROW ^ ino >> (2 * ROW)) as usize % SHARDS]
    }

    pub(crate) fn find(&self, ino: u64) -> Option<Arc<Znode>> {
        self.shard(ino).lock().znode(ino).cloned()
    }

    /// The same, held as if it were open: it stays until it is given back by [`ZnodeTable::release`].
    pub(crate) fn find_and_hold(&self, ino: u64) -> Option<Arc<Znode>> {
        let mut shard = self.shard(ino).lock();
        let node = shard.znode(ino)?;
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
        let before = shard.znode(ino);
        if let Some(node) = before
            && node.id.generation == generation
        {
            node.lookups.fetch_add(lookups, Ordering::Relaxed);
            return (Arc::clone(node), Inserted::No);
        }
        let carried = before.map_or(0, |node| node.lookups.swap(0, Ordering::Relaxed));
        let node = Arc::new(make());
        node.lookups.store(carried + lookups, Ordering::Relaxed);
        let old = shard.slots.insert(ino, Slot::Known(Arc::clone(&node)));
        drop(shard);
        match old {
            Some(Slot::Known(old)) => (node, Inserted::Replaced(old)),
            Some(Slot::Listed(_)) | None => (node, Inserted::New),
        }
    }

    /// One more reference to a file that a sheet shows. `Known` when there is a znode of it, which may
    /// have other names; `None`, and no reference, when the number is another file's.
    pub(crate) fn refer(
        &self,
        ino: u64,
        generation: u64,
        sheet: &Arc<Sheet>,
        place: Place,
    ) -> Option<Referred> {
        let Shard { slots, sheets } = &mut *self.shard(ino).lock();
        match slots.entry(ino) {
            Entry::Vacant(vacant) => {
                vacant.insert(Slot::Listed(Listed { sheet: sheets.refer(sheet), place, lookups: 1 }));
                Some(Referred::Listed)
            }
            Entry::Occupied(mut slot) => match slot.get_mut() {
                Slot::Known(node) if node.id.generation == generation => {
                    node.lookups.fetch_add(1, Ordering::Relaxed);
                    Some(Referred::Known(Arc::clone(node)))
                }
                Slot::Listed(listed) => {
                    let shown = sheets.sheet(listed)?.dnode(listed.place)?;
                    if shown.stat.id.generation != generation {
                        return None;
                    }
                    listed.lookups = listed.lookups.checked_add(1)?;
                    Some(Referred::Listed)
                }
                Slot::Known(_) => None,
            },
        }
    }

    /// Takes back `count` references; the znode, if it is not held any more and left the table.
    pub(crate) fn forget(&self, ino: u64, count: u64) -> Option<Arc<Znode>> {
        let mut guard = self.shard(ino).lock();
        let shard = &mut *guard;
        match shard.slots.entry(ino) {
            Entry::Vacant(_) => None,
            Entry::Occupied(mut slot) => match slot.get_mut() {
                Slot::Listed(listed) => {
                    listed.lookups = u64::from(listed.lookups).saturating_sub(count) as u32;
                    if listed.lookups > 0 {
                        return None;
                    }
                    let sheet = shard.sheets.release(listed.sheet);
                    slot.remove();
                    // A sheet goes with its last entry: outside the lock.
                    drop(guard);
                    drop(sheet);
                    None
                }
                Slot::Known(node) => {
                    let before = node.lookups.load(Ordering::Relaxed);
                    node.lookups.store(before.saturating_sub(count), Ordering::Relaxed);
                    shard.remove_unheld(ino)
                }
            },
        }
    }

    /// Takes back all references but the root's; the znodes that left the table. What is open stays.
    pub(crate) fn forget_all(&self, root: u64) -> Vec<Arc<Znode>> {
        let mut gone = Vec::new();
        for shard in &self.shards {
            let Shard { slots, sheets } = &mut *shard.lock();
            let is_unheld = |ino: &u64, slot: &mut Slot| match slot {
                Slot::Listed(_) => true,
                Slot::Known(_) if *ino == root => false,
                Slot::Known(node) => {
                    node.lookups.store(0, Ordering::Relaxed);
                    !node.is_held()
                }
            };
            for (_, slot) in slots.extract_if(is_unheld) {
                match slot {
                    Slot::Known(node) => gone.push(node),
                    Slot::Listed(listed) => drop(sheets.release(listed.sheet)),
                }
            }
        }
        gone
    }

    /// Removes the znode if nobody holds it; called after an open file let go.
    pub(crate) fn release(&self, ino: u64) -> Option<Arc<Znode>> {
        self.shard(ino).lock().remove_unheld(ino)
    }

    /// Calls `each` for every znode, shard by shard, outside the shard's lock.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&Arc<Znode>)) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let numbers: Vec<u64> = shard.slots.keys().copied().collect();
            let nodes: Vec<_> = numbers.iter().filter_map(|ino| shard.znode(*ino).cloned()).collect();
            drop(shard);
            nodes.iter().for_each(&mut each);
        }
    }

    /// Up to `count` files that only the kernel's references keep, going round the table.
    pub(crate) fn prunable(&self, count: usize) -> Vec<PruneCandidate> {
        let mut found = Vec::new();
        for _ in 0..SHARDS {
            let hand = self.clock_hand.fetch_add(1, Ordering::Relaxed);
            let shard = self.shards[hand % SHARDS].lock();
            let idle = shard.slots.iter().filter_map(|(ino, slot)| shard.candidate(*ino, slot));
            found.extend(idle.take(count - found.len()));
            if found.len() >= count {
                break;
            }
        }
        found
    }
}

/// What there was of a file that a sheet shows.
pub(crate) enum Referred {
    /// A znode.
    Known(Arc<Znode>),
    /// Its place in a sheet.
    Listed,
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
    use super::super::tests::{account, identity};
    use super::*;
    use arcwell_base::origin::{FileId, FileType};

    fn node(ino: u64, generation: u64) -> Znode {
        Znode::new(FileId { ino, generation }, FileType::Regular, identity(ino), None, &account())
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
