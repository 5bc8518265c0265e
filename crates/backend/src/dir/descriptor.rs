//! The bounded table of open descriptors.
//!
//! Every descriptor is found by the file that it is of and by what it can do ([`Want`]). When the
//! table is full, one that was not asked for since the hand last passed makes room (second chance,
//! which is LRU without a list to reorder: a find only sets a mark). A descriptor that is in use
//! when it is evicted is closed when its last user lets go.
//!
//! Files that lost their last name cannot be reopened by path. Whoever needs them longer takes a
//! hold: what is cached of the file then leaves the bounded part until the last hold is dropped.
//!
//! A descriptor that reads and writes takes the place of one that only reads. On overlay file systems
//! that is more than thrift: there, what was opened before the first write goes on reading the old
//! file.
//!
//! One mutex, never held across a system call: descriptors that leave the table are closed by the
//! caller's thread after it has let go of the lock.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc as Shared;

use arcwell_base::origin::{FileId, FileType, Hold};
use hashbrown::HashMap;
use parking_lot::Mutex;

/// What a descriptor must be able to do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Want {
    /// Stand for the file: `O_PATH` is enough.
    Path,
    /// Be read from.
    Read,
    /// Be written to.
    Write,
}

/// What a descriptor can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// `O_PATH`.
    Path,
    /// `O_RDONLY`.
    Read,
    /// `O_RDWR`.
    ReadWrite,
    /// `O_WRONLY`: reading was refused.
    WriteOnly,
}

impl Reach {
    fn slot(self) -> Want {
        match self {
            Reach::Path => Want::Path,
            Reach::Read => Want::Read,
            Reach::ReadWrite | Reach::WriteOnly => Want::Write,
        }
    }
}

/// An open descriptor, and what is known of its file for as long as it is open.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(super) fd: OwnedFd,
    pub(super) id: FileId,
    pub(super) kind: FileType,
    pub(super) reach: Reach,
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The table. See the module's doc.
#[derive(Debug)]
pub(super) struct Table {
    inside: Mutex<Inside>,
    slots_max: usize,
}

#[derive(Debug, Default)]
struct Inside {
    index: HashMap<(FileId, Want), usize>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    hand: usize,
    held: HashMap<FileId, Held>,
}

#[derive(Debug)]
struct Slot {
    descriptor: Shared<Descriptor>,
    used: bool,
}

#[derive(Debug, Default)]
struct Held {
    holders: usize,
    descriptors: Vec<Shared<Descriptor>>,
}

impl Table {
    /// A table that keeps at most `slots_max` descriptors, beside those that are held or in use.
    pub(super) fn new(slots_max: usize) -> Table {
        Table { inside: Mutex::new(Inside::default()), slots_max: slots_max.max(1) }
    }

    /// A descriptor of the file that can do what is wanted.
    pub(super) fn find(&self, id: FileId, want: Want) -> Option<Shared<Descriptor>> {
        let mut inside = self.inside.lock();
        let slots: &[Want] = match want {
            Want::Path => &[Want::Path, Want::Read, Want::Write],
            Want::Read => &[Want::Read, Want::Write],
            Want::Write => &[Want::Write],
        };
        slots.iter().find_map(|&slot| {
            let found = inside.at(id, slot)?;
            (want != Want::Read || found.reach != Reach::WriteOnly).then_some(found)
        })
    }

    /// Keeps a descriptor. When another thread was faster, its descriptor is the answer.
    pub(super) fn keep(&self, descriptor: Descriptor) -> Shared<Descriptor> {
        let slot = descriptor.reach.slot();
        let mut evicted = None;
        let mut inside = self.inside.lock();
        let better = (slot == Want::Read).then(|| inside.at(descriptor.id, Want::Write)).flatten();
        let better = better.filter(|found| found.reach == Reach::ReadWrite);
        if let Some(found) = better.or_else(|| inside.at(descriptor.id, slot)) {
            drop(inside);
            return found;
        }
        let descriptor = Shared::new(descriptor);
        let replaced = inside.retire_reader(&descriptor);
        if let Some(held) = inside.held.get_mut(&descriptor.id) {
            held.descriptors.push(descriptor.clone());
            drop(inside);
            drop(replaced);
            return descriptor;
        }
        if inside.index.len() >= self.slots_max {
            evicted = inside.evict();
        }
        let place = match inside.free.pop() {
            Some(place) => place,
            None => {
                inside.slots.push(None);
                inside.slots.len() - 1
            }
        };
        inside.slots[place] = Some(Slot { descriptor: descriptor.clone(), used: false });
        inside.index.insert((descriptor.id, slot), place);
        drop(inside);
        drop((evicted, replaced));
        descriptor
    }

    /// Lets go of a file's descriptors; those that are held stay.
    pub(super) fn forget(&self, id: FileId) {
        let dropped = self.inside.lock().take(id);
        drop(dropped);
    }

    /// Keeps the descriptors of a file until the hold is dropped: `descriptor`, and whatever else of
    /// the file is cached.
    pub(super) fn hold(self: &Shared<Table>, descriptor: Shared<Descriptor>) -> Box<dyn Hold> {
        let id = descriptor.id;
        let mut inside = self.inside.lock();
        let cached = inside.take(id);
        let held = inside.held.entry(id).or_default();
        held.holders += 1;
        for candidate in cached.into_iter().chain([descriptor]) {
            if held.descriptors.iter().all(|kept| kept.reach.slot() != candidate.reach.slot()) {
                held.descriptors.push(candidate);
            }
        }
        drop(inside);
        Box::new(Holder { table: self.clone(), id })
    }

    fn release(&self, id: FileId) {
        let mut dropped = None;
        let mut inside = self.inside.lock();
        if let Some(held) = inside.held.get_mut(&id) {
            held.holders -= 1;
            if held.holders == 0 {
                dropped = inside.held.remove(&id);
            }
        }
        drop(inside);
        drop(dropped);
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let inside = self.inside.lock();
        assert_eq!(inside.index.len() + inside.free.len(), inside.slots.len());
        for (&(id, want), &place) in &inside.index {
            let slot = inside.slots[place].as_ref().expect("an indexed slot is full");
            assert_eq!((slot.descriptor.id, slot.descriptor.reach.slot()), (id, want));
        }
        inside.index.len()
    }
}

impl Inside {
    fn at(&mut self, id: FileId, slot: Want) -> Option<Shared<Descriptor>> {
        if let Some(held) = self.held.get(&id) {
            return held.descriptors.iter().find(|kept| kept.reach.slot() == slot).cloned();
        }
        let place = *self.index.get(&(id, slot))?;
        let found = self.slots[place].as_mut()?;
        found.used = true;
        Some(found.descriptor.clone())
    }

    /// Takes out what a new descriptor makes superfluous.
    fn retire_reader(&mut self, new: &Descriptor) -> Option<Shared<Descriptor>> {
        if new.reach != Reach::ReadWrite {
            return None;
        }
        if let Some(held) = self.held.get_mut(&new.id) {
            let reader = held.descriptors.iter().position(|kept| kept.reach == Reach::Read)?;
            return Some(held.descriptors.swap_remove(reader));
        }
        self.remove((new.id, Want::Read))
    }

    fn evict(&mut self) -> Option<Shared<Descriptor>> {
        // Two rounds at most: the first one clears every mark.
        for _ in 0..2 * self.slots.len() {
            let place = self.hand;
            self.hand = (place + 1) % self.slots.len();
            match &mut self.slots[place] {
                Some(slot) if slot.used => slot.used = false,
                Some(slot) => {
                    let key = (slot.descriptor.id, slot.descriptor.reach.slot());
                    return self.remove(key);
                }
                None => {}
            }
        }
        None
    }

    fn remove(&mut self, key: (FileId, Want)) -> Option<Shared<Descriptor>> {
        let place = self.index.remove(&key)?;
        self.free.push(place);
        self.slots[place].take().map(|slot| slot.descriptor)
    }

    fn take(&mut self, id: FileId) -> Vec<Shared<Descriptor>> {
        [Want::Path, Want::Read, Want::Write].iter().filter_map(|&slot| self.remove((id, slot))).collect()
    }
}

struct Holder {
    table: Shared<Table>,
    id: FileId,
}

impl Hold for Holder {}

impl Drop for Holder {
    fn drop(&mut self) {
        self.table.release(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(ino: u64, reach: Reach) -> Descriptor {
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        Descriptor { fd, id: FileId { ino, generation: 0 }, kind: FileType::Regular, reach }
    }

    fn id(ino: u64) -> FileId {
        FileId { ino, generation: 0 }
    }

    #[test]
    fn what_was_used_survives_what_was_not() {
        let table = Table::new(4);
        for ino in 0..4 {
            table.keep(descriptor(ino, Reach::Path));
        }
        assert!(table.find(id(1), Want::Path).is_some());
        for ino in 10..13 {
            table.keep(descriptor(ino, Reach::Path));
        }
        assert_eq!(table.count(), 4);
        assert!(table.find(id(1), Want::Path).is_some());
        assert!(table.find(id(0), Want::Path).is_none());
    }

    #[test]
    fn a_descriptor_serves_whatever_it_can() {
        let table = Table::new(8);
        table.keep(descriptor(1, Reach::ReadWrite));
        table.keep(descriptor(2, Reach::WriteOnly));
        table.keep(descriptor(3, Reach::Path));
        assert!(table.find(id(1), Want::Read).is_some());
        assert!(table.find(id(2), Want::Read).is_none());
        assert!(table.find(id(2), Want::Path).is_some());
        assert!(table.find(id(3), Want::Read).is_none());
    }

    #[test]
    fn a_writer_takes_the_place_of_a_reader() {
        let table = Shared::new(Table::new(8));
        let reader = table.keep(descriptor(1, Reach::Read));
        let writer = table.keep(descriptor(1, Reach::ReadWrite));
        assert_eq!(table.count(), 1);
        assert!(Shared::ptr_eq(&table.find(id(1), Want::Read).unwrap(), &writer));
        let late = table.keep(descriptor(1, Reach::Read));
        assert!(Shared::ptr_eq(&late, &writer), "a reader that comes late is not kept");
        let _hold = table.hold(table.keep(descriptor(2, Reach::Read)));
        table.keep(descriptor(2, Reach::ReadWrite));
        assert_eq!(table.find(id(2), Want::Read).unwrap().reach, Reach::ReadWrite);
        assert_eq!(reader.reach, Reach::Read, "and whoever reads goes on reading");
    }

    #[test]
    fn what_is_held_stays_and_goes_with_the_last_holder() {
        let table = Shared::new(Table::new(2));
        let path = table.keep(descriptor(1, Reach::Path));
        table.keep(descriptor(1, Reach::ReadWrite));
        let first = table.hold(path.clone());
        let second = table.hold(path);
        for ino in 10..20 {
            table.keep(descriptor(ino, Reach::Path));
        }
        table.forget(id(1));
        drop(first);
        assert!(table.find(id(1), Want::Write).is_some());
        drop(second);
        assert!(table.find(id(1), Want::Path).is_none());
        assert_eq!(table.count(), 2);
    }
}
