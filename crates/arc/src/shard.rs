//! A shard: a part of the table of blocks, under one lock. Everything that happens to a header
//! happens here.
//!
//! Buffers are never freed under the lock: headers that go are handed out and dropped by the caller.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arcwell_base::{BlockKey, Kind};
use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};

use crate::buffer::Buffer;
use crate::header::{Header, State};
use crate::list::{Listed, Place};
use crate::pin::Pin;
use crate::shared::Shared;
use crate::slab::{NONE, Slab, give_back};

/// Headers by number, and their numbers by key.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) index: HashTable<u32>,
    pub(crate) headers: Slab<Header>,
}

impl Table {
    pub(crate) fn find(&self, key: BlockKey, hash: u64) -> Option<u32> {
        self.index.find(hash, |&slot| self.headers[slot].key == key).copied()
    }

    /// The header of a block that was seen on the list of a state and kind, if it still is there.
    /// Between the sight and now its slot may have been used again, or even its memory given back.
    pub(crate) fn sighted(&self, seen: Listed, on: (State, Kind)) -> Option<&Header> {
        let header = self.headers.at(seen.place.slot)?;
        (header.node == seen.node && (header.state, header.kind) == on).then_some(header)
    }

    fn insert(&mut self, header: Header, hash: u64) -> u32 {
        let slot = self.headers.insert(header);
        self.index.insert_unique(hash, slot, |&slot| self.headers[slot].key.hash());
        slot
    }

    fn unindex(&mut self, slot: u32, hash: u64) {
        let entry = self.index.find_entry(hash, |&found| found == slot);
        entry.expect("A1: a block with a state is in the table").remove();
        give_back(&mut self.index, |&slot| self.headers[slot].key.hash());
    }
}

/// What a pin is taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Someone reads the block.
    Demand,
    /// Someone expects that the block will be read.
    Prefetch,
    /// Someone looks, and the block's standing shall not change.
    Peek,
}

/// What a lookup found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) pin: Pin,
    /// Where it stood.
    pub(crate) state: State,
    /// Its charge.
    pub(crate) bytes: u64,
    /// Whether this was the first use of a block that prefetch had read.
    pub(crate) is_first_use: bool,
}

/// A block that is about to enter the table.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) key: BlockKey,
    pub(crate) kind: Kind,
    pub(crate) goal: State,
    pub(crate) is_guess: bool,
    pub(crate) len: u32,
    pub(crate) buffer: Arc<Buffer>,
}

/// See the module's doc. Aligned to two cache lines, so that threads on neighbouring shards do not
/// fight over one.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    number: u32,
    pub(crate) shared: Arc<Shared>,
    pub(crate) table: Mutex<Table>,
}

impl Shard {
    pub(crate) fn new(number: u32, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Shard { number, shared, table: Mutex::default() })
    }

    /// Pins a block and says how it was found.
    pub(crate) fn pin(self: &Arc<Self>, key: BlockKey, hash: u64, purpose: Purpose) -> Option<Found> {
        let mut table = self.table.lock();
        let slot = table.find(key, hash)?;
        let header = &mut table.headers[slot];
        let (state, is_first_use) = (header.state, header.is_guess);
        header.pins += 1;
        if purpose != Purpose::Peek {
            self.unlist(header, hash);
        }
        if purpose == Purpose::Demand {
            self.touch(header);
        }
        Some(Found { pin: self.handle(header, slot), state, bytes: self.bytes(header), is_first_use })
    }

    /// What a demand hit does to a block's standing.
    fn touch(&self, header: &mut Header) {
        header.tick = self.shared.now();
        if header.is_guess {
            // The first use of a guess is the block's first use.
            self.settle_guess(header);
            self.shared.stats.prefetch_used.add(1);
        } else if header.state == State::Mru && self.shared.partition.promotes_hits() {
            self.promote(header);
        }
    }

    /// From here on a block is no guess any more, if it was one.
    fn settle_guess(&self, header: &mut Header) {
        if header.is_mru_guess() {
            self.shared.partition.leave_guess(header.kind, self.bytes(header));
        }
        header.is_guess = false;
    }

    fn promote(&self, header: &mut Header) {
        self.shared.partition.shift(State::Mru, State::Mfu, header.kind, self.bytes(header));
        header.state = State::Mfu;
    }

    /// Moves a block that was seen on the list of mru to the head of mfu, if it still is there, nobody
    /// uses it, somebody asked for it and its charge fits. `false` if it stays.
    pub(crate) fn promote_sighted(
        &self,
        mut table: MutexGuard<'_, Table>,
        seen: Listed,
        kind: Kind,
        fits: impl Fn(u64) -> bool,
    ) -> bool {
        let may_rise = |header: &&Header| header.pins == 0 && !header.is_guess && fits(self.bytes(header));
        if table.sighted(seen, (State::Mru, kind)).filter(may_rise).is_none() {
            return false;
        }
        let slot = seen.place.slot;
        let header = &mut table.headers[slot];
        let hash = header.key.hash();
        self.unlist(header, hash);
        self.promote(header);
        self.enlist(header, slot, hash);
        true
    }

    /// The first use of a pinned block, by someone who waited for it. Returns its charge if it was a guess.
    pub(crate) fn use_guess(&self, slot: u32) -> Option<u64> {
        let mut table = self.table.lock();
        let header = &mut table.headers[slot];
        header.is_guess.then(|| {
            self.touch(header);
            self.bytes(header)
        })
    }

    /// Takes another pin for someone who has one.
    pub(crate) fn repin(&self, slot: u32) {
        self.table.lock().headers[slot].pins += 1;
    }

    /// Gives a pin back; the last one decides what becomes of the block.
    pub(crate) fn release(&self, slot: u32, hash: u64) {
        let mut table = self.table.lock();
        let header = &mut table.headers[slot];
        header.pins = header.pins.checked_sub(1).expect("A3: a pin is given back once");
        if header.pins > 0 {
            return;
        }
        let is_spent = header.state == State::Uncached && !header.is_guess;
        if header.state == State::Anon {
            self.free(&mut table, slot);
        } else if is_spent {
            self.unlist(header, hash);
            table.unindex(slot, hash);
            self.free(&mut table, slot);
        } else if self.shared.is_over.load(Ordering::Relaxed) {
            self.release_over_limit(table, slot, hash);
        } else if !header.is_listed() {
            self.enlist(header, slot, hash);
        }
    }

    /// While the cache is over its target because all was pinned, what is let go goes at once.
    #[cold]
    fn release_over_limit(&self, mut table: MutexGuard<'_, Table>, slot: u32, hash: u64) {
        let shared = &self.shared;
        if shared.size() > shared.target() {
            self.evict_slot(&mut table, slot, hash);
            drop(table);
            shared.trim_ghosts();
        } else {
            shared.is_over.store(false, Ordering::Relaxed);
            let header = &mut table.headers[slot];
            if !header.is_listed() {
                self.enlist(header, slot, hash);
            }
        }
    }

    /// Puts a filled block into the table, pinned, in place of any other with its key. What was
    /// reserved for it becomes its state's.
    pub(crate) fn publish(self: &Arc<Self>, arrival: Arrival) -> Pin {
        let Arrival { key, kind, goal, mut is_guess, len, buffer } = arrival;
        let partition = &self.shared.partition;
        let (hash, mut state) = (key.hash(), goal);
        let mut table = self.table.lock();
        let mut replaced = None;
        if let Some(slot) = table.find(key, hash) {
            let header = &table.headers[slot];
            // New bytes are no new access: the block keeps what it has earned.
            if state == State::Mru && header.state == State::Mfu {
                state = State::Mfu;
            }
            is_guess &= header.is_guess;
            replaced = self.detach(&mut table, slot, hash);
        }
        // A5: nothing is resident and a ghost. The ghost of a demand load is gone by now; that of a
        // prefetch, or of an eviction between admission and now, is not.
        partition.ghosts.remove(hash);
        let bytes = self.shared.overhead.of_block(len as usize);
        partition.enter(state, kind, bytes);
        partition.unreserve(goal, kind, bytes);
        self.shared.blocks.fetch_add(1, Ordering::Relaxed);
        self.shared.stats.inserts.add(1);
        let (buffer, tick) = (Some(buffer), self.shared.now());
        let header = Header { key, buffer, len, pins: 1, node: NONE, tick, state, kind, is_guess };
        if header.is_mru_guess() {
            partition.enter_guess(kind, bytes);
        }
        let slot = table.insert(header, hash);
        let pin = self.handle(&table.headers[slot], slot);
        drop(table);
        drop(replaced);
        pin
    }

    /// Forgets a block and its ghost; `true` when there was a block.
    pub(crate) fn remove(&self, key: BlockKey, hash: u64) -> bool {
        let mut table = self.table.lock();
        self.shared.partition.ghosts.remove(hash);
        let Some(slot) = table.find(key, hash) else { return false };
        let removed = self.detach(&mut table, slot, hash);
        drop(table);
        drop(removed);
        true
    }

    /// Evicts a block that was seen on the list of a state and kind, if it is still there and
    /// nobody uses it. Returns the bytes that are free now.
    pub(crate) fn evict(&self, mut table: MutexGuard<'_, Table>, seen: Listed, from: (State, Kind)) -> u64 {
        let slot = seen.place.slot;
        let Some(header) = table.sighted(seen, from) else { return 0 };
        if header.pins > 0 {
            self.shared.stats.evict_skipped.add(1);
            return 0;
        }
        let hash = header.key.hash();
        let header = self.evict_slot(&mut table, slot, hash);
        drop(table);
        self.bytes(&header)
    }

    fn evict_slot(&self, table: &mut Table, slot: u32, hash: u64) -> Header {
        debug_assert_eq!(table.headers[slot].pins, 0, "A3: a pinned block is not evicted");
        self.unlist(&mut table.headers[slot], hash);
        table.unindex(slot, hash);
        // Under the lock: else the block could come back before its ghost appears (A5).
        self.shared.note_eviction(&table.headers[slot], hash);
        self.free(table, slot)
    }

    /// Takes a block out of the table. Without pins it is freed, else it lives on as anon until the
    /// last one is given back.
    fn detach(&self, table: &mut Table, slot: u32, hash: u64) -> Option<Header> {
        table.unindex(slot, hash);
        let header = &mut table.headers[slot];
        self.unlist(header, hash);
        if header.pins == 0 {
            return Some(self.free(table, slot));
        }
        self.settle_guess(header);
        self.shared.partition.shift(header.state, State::Anon, header.kind, self.bytes(header));
        header.state = State::Anon;
        None
    }

    fn free(&self, table: &mut Table, slot: u32) -> Header {
        let header = table.headers.remove(slot);
        if header.is_mru_guess() {
            self.shared.partition.leave_guess(header.kind, self.bytes(&header));
        }
        self.shared.partition.leave(header.state, header.kind, self.bytes(&header));
        self.shared.blocks.fetch_sub(1, Ordering::Relaxed);
        header
    }

    fn enlist(&self, header: &mut Header, slot: u32, hash: u64) {
        let list = self.shared.partition.list(header.state, header.kind);
        header.node = list.insert(hash, Place { shard: self.number, slot }, self.bytes(header));
    }

    fn unlist(&self, header: &mut Header, hash: u64) {
        if header.is_listed() {
            let list = self.shared.partition.list(header.state, header.kind);
            list.remove(hash, std::mem::replace(&mut header.node, NONE), self.bytes(header));
        }
    }

    fn bytes(&self, header: &Header) -> u64 {
        self.shared.overhead.of_block(header.len as usize)
    }

    fn handle(self: &Arc<Self>, header: &Header, slot: u32) -> Pin {
        let buffer = header.buffer.clone().expect("A1: a block in the table has a buffer");
        Pin { shard: Arc::clone(self), buffer, key: header.key, slot, kind: header.kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{End, Sighting};
    use crate::{Admit, Asked, Cache, Config, Keep};
    use arcwell_base::ObjectId;

    /// An eviction may look at a header long after it saw the block on a list. Once, the shard had
    /// become empty meanwhile, had given its memory back, and the eviction indexed into nothing.
    #[test]
    fn a_sight_of_what_is_gone_evicts_nothing() {
        let cache = Cache::new(Config::new(8 << 20));
        let keys = (0..).map(|index| BlockKey::new(ObjectId(1), index));
        let shard = &cache.shards[0];
        let keys: Vec<BlockKey> =
            keys.filter(|key| Arc::ptr_eq(cache.shard(key.hash()), shard)).take(300).collect();
        for &key in &keys {
            let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
            cache.admit(key, Kind::Data, 100, how).unwrap().publish();
        }
        let mut seen = Sighting::new();
        shard.shared.partition.list(State::Mru, Kind::Data).look(0, End::Tail, 300, &mut seen);
        assert_eq!(seen.len(), 300);
        assert!(keys.iter().all(|&key| cache.remove(key)));
        for listed in seen {
            assert_eq!(shard.evict(shard.table.lock(), listed, (State::Mru, Kind::Data)), 0);
        }
        cache.validate().unwrap();
    }
}
