//! One shard of the index: entries in the order of their tags, with free slots between them.
//!
//! The *home* of an entry is the slot that divides the shard as its tag divides all tags. Entries stand in the order of
//! their tags, and between an entry and its home no slot is empty (L4). So a search begins at the home: if that is
//! empty, there is nothing; else it goes the way that the tag there tells, and ends at an empty slot or where the
//! order has passed it. Unlike in linear probing an entry may lie on either side of its home: what comes in
//! moves its neighbours towards the nearest empty slot, left or right. That halves what is moved, and
//! a shard has no end at which it runs over, so that it may be as full as one likes.
//!
//! What goes out leaves a hole, which is filled by whoever it would cut off from home, from the right or from the left
//! and never from both. When more than nine in ten slots are taken the shard grows by a sixteenth, and
//! when fewer than three in four are it shrinks: then all entries are taken out and dealt out again.

use std::sync::Arc;

use super::arena::{Arena, GRAIN, Row};
use super::entry::{Packed, TAG_BITS};

/// See the module's doc.
#[derive(Debug)]
pub(super) struct Shard {
    row: Row,
    len: u32,
}

impl Shard {
    pub(super) fn new(arena: Arc<Arena>) -> Shard {
        Shard { row: Row::new(arena), len: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.len.into()
    }

    /// Bytes of memory that it takes beside what the arena counts and itself.
    pub(super) fn beside(&self) -> usize {
        self.row.beside()
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        home(tag, self.row.len())
    }

    /// Has the home of a tag fetched from memory.
    pub(super) fn prefetch(&self, tag: u32) {
        self.row.prefetch(self.home(tag));
    }

    /// The slot of the entry with a tag, or else where it belongs: the first slot behind those with smaller tags
    /// that it must follow.
    #[inline]
    fn find(&self, tag: u32) -> Result<usize, usize> {
        let home = self.home(tag);
        if home >= self.row.len() {
            return Err(0);
        }
        let first = self.row.get(home);
        if first.is_empty() {
            Err(home)
        } else if first.tag() == tag {
            Ok(home)
        } else if first.tag() < tag {
            self.find_right(home + 1, tag)
        } else {
            self.find_left(home, tag)
        }
    }

    fn find_right(&self, mut from: usize, tag: u32) -> Result<usize, usize> {
        while from < self.row.len() {
            let run = self.row.from(from);
            if let Some(steps) = run.iter().position(|entry| entry.is_empty() || entry.tag() >= tag) {
                let is_it = !run[steps].is_empty() && run[steps].tag() == tag;
                return if is_it { Ok(from + steps) } else { Err(from + steps) };
            }
            from += run.len();
        }
        Err(from)
    }

    /// Looks before `until`.
    fn find_left(&self, mut until: usize, tag: u32) -> Result<usize, usize> {
        while until > 0 {
            let run = self.row.up_to(until - 1);
            if let Some(place) = run.iter().rposition(|entry| entry.is_empty() || entry.tag() <= tag) {
                let slot = until - run.len() + place;
                let is_it = !run[place].is_empty() && run[place].tag() == tag;
                return if is_it { Ok(slot) } else { Err(slot + 1) };
            }
            until -= run.len();
        }
        Err(0)
    }

    #[inline]
    pub(super) fn get(&self, tag: u32) -> Option<Packed> {
        self.find(tag).ok().map(|slot| self.row.get(slot))
    }

    /// Puts an entry in, and returns the one with the same tag that it replaces. Without memory nothing is put.
    pub(super) fn put(&mut self, entry: Packed) -> Option<Packed> {
        let mut place = match self.find(entry.tag()) {
            Ok(slot) => {
                let before = self.row.get(slot);
                self.row.set(slot, entry);
                return Some(before);
            }
            Err(place) => place,
        };
        if self.len as usize >= fullest(self.row.len()) {
            let step = (self.row.len() / 16 / GRAIN).max(1) * GRAIN;
            self.resize(self.row.len() + step);
            if self.len as usize == self.row.len() {
                return None;
            }
            place = self.find(entry.tag()).unwrap_or_else(|place| place);
        }
        let slot = self.make_room(place);
        self.row.set(slot, entry);
        self.len += 1;
        None
    }

    /// Frees a slot for an entry that belongs before what is in slot `place`, behind what is before it. There is an empty
    /// slot.
    fn make_room(&mut self, place: usize) -> usize {
        let slots = self.row.len();
        if place < slots && self.row.get(place).is_empty() {
            return place;
        }
        let (mut right, mut left) = (place, place);
        while right < slots || left > 0 {
            let (on_right, on_left) = (self.empty_from(&mut right), self.empty_before(&mut left));
            match (on_right, on_left) {
                (Some(to), Some(from)) if place - from < to - place => {
                    return self.shift_left(from, place - 1);
                }
                (Some(to), _) => return self.shift_right(place, to),
                (None, Some(from)) => return self.shift_left(from, place - 1),
                (None, None) => {}
            }
        }
        unreachable!("L4: a shard of {slots} slots with {} entries has no empty one", self.len)
    }

    /// Looks for an empty slot in the next few, and goes on by those.
    fn empty_from(&self, from: &mut usize) -> Option<usize> {
        if *from >= self.row.len() {
            return None;
        }
        let run = self.row.from(*from);
        let run = &run[..run.len().min(AT_ONCE)];
        let found = run.iter().position(|entry| entry.is_empty()).map(|steps| *from + steps);
        *from += run.len();
        found
    }

    /// Looks for an empty slot in the few before.
    fn empty_before(&self, until: &mut usize) -> Option<usize> {
        if *until == 0 {
            return None;
        }
        let run = self.row.up_to(*until - 1);
        let run = &run[run.len() - run.len().min(AT_ONCE)..];
        *until -= run.len();
        run.iter().rposition(|entry| entry.is_empty()).map(|steps| *until + steps)
    }

    /// Moves what is in slots `from..to` by one to the right, into the empty slot `to`. Returns `from`.
    fn shift_right(&mut self, from: usize, mut to: usize) -> usize {
        while to > from {
            let (begin, run) = self.row.chunk_of(to);
            let first = begin.max(from);
            run.copy_within(first - begin..to - begin, first + 1 - begin);
            to = first;
            if first > from {
                self.row.set(first, self.row.get(first - 1));
                to = first - 1;
            }
        }
        from
    }

    /// Moves what is in slots `from + 1..=to` by one to the left, into the empty slot `from`. Returns `to`.
    fn shift_left(&mut self, mut from: usize, to: usize) -> usize {
        while from < to {
            let (begin, run) = self.row.chunk_of(from);
            let last = (begin + run.len() - 1).min(to);
            run.copy_within(from + 1 - begin..last + 1 - begin, from - begin);
            from = last;
            if last < to {
                self.row.set(last, self.row.get(last + 1));
                from = last + 1;
            }
        }
        to
    }

    /// Takes out the entry with a tag, if there is one and it is the one that is meant.
    pub(super) fn remove_if(&mut self, tag: u32, is_it: impl Fn(Packed) -> bool) -> Option<Packed> {
        let slot = self.find(tag).ok()?;
        let entry = self.row.get(slot);
        if !is_it(entry) {
            return None;
        }
        self.close(slot);
        self.len -= 1;
        self.fit();
        Some(entry)
    }

    /// Empties a slot. Who would be cut off from home moves into it.
    fn close(&mut self, mut hole: usize) {
        let slots = self.row.len();
        let home = |shard: &Shard, entry: Packed| shard.home(entry.tag());
        let began = hole;
        while hole + 1 < slots {
            let next = self.row.get(hole + 1);
            if next.is_empty() || home(self, next) > hole {
                break;
            }
            self.row.set(hole, next);
            hole += 1;
        }
        // When one came from the right, nobody on the left has a home this far.
        let left_until = if hole == began { 0 } else { hole };
        while hole > left_until {
            let next = self.row.get(hole - 1);
            if next.is_empty() || home(self, next) < hole {
                break;
            }
            self.row.set(hole, next);
            hole -= 1;
        }
        self.row.set(hole, Packed::default());
    }

    /// Notes that the block with a tag was read.
    pub(super) fn mark_read(&mut self, tag: u32) {
        if let Ok(slot) = self.find(tag) {
            self.row.set(slot, self.row.get(slot).read());
        }
    }

    /// Keeps the entries that may stay, and says how many went.
    pub(super) fn retain(&mut self, stays: impl Fn(Packed) -> bool) -> u64 {
        let before = self.len;
        let goes = |entry: &Packed| !entry.is_empty() && !stays(*entry);
        if self.row.chunks().any(|run| run.iter().any(goes)) {
            let entries = self.gather(stays);
            self.spread(&entries);
            self.fit();
        }
        (before - self.len).into()
    }

    /// Shrinks if there is much room.
    fn fit(&mut self) {
        let (len, slots) = (self.len as usize, self.row.len());
        if len == 0 {
            self.row.resize(0);
            return;
        }
        let wanted = (len * 17 / 16 * 10 / 9 + 1).next_multiple_of(GRAIN);
        if len * 4 < slots * 3 && wanted < slots {
            self.resize(wanted);
        }
    }

    /// Gives the shard so many slots, if there is memory for them.
    fn resize(&mut self, slots: usize) {
        let entries = self.gather(|_| true);
        self.row.resize(slots);
        self.spread(&entries);
    }

    /// The entries that may stay, in order.
    fn gather(&self, stays: impl Fn(Packed) -> bool) -> Vec<Packed> {
        let mut entries = vec![Packed::default(); self.row.len()];
        let mut len = 0;
        // Every one is written, and those that stay are counted: which slots are empty cannot be foreseen, and
        // a branch for each costs more than the rest.
        for entry in self.row.chunks().flatten() {
            entries[len] = *entry;
            len += usize::from(!entry.is_empty() && stays(*entry));
        }
        entries.truncate(len);
        entries
    }

    /// Deals these entries out, whatever was there before: from the right, each as near to its home as those
    /// behind it leave room and those before it need none.
    fn spread(&mut self, entries: &[Packed]) {
        let slots = self.row.len();
        let (mut left, mut free, mut end) = (entries.len(), slots, slots);
        while end > 0 {
            let (begin, run) = self.row.chunk_of(end - 1);
            run.fill(Packed::default());
            while left > 0 {
                let entry = entries[left - 1];
                let slot = home(entry.tag(), slots).min(free - 1).max(left - 1);
                if slot < begin {
                    break;
                }
                run[slot - begin] = entry;
                (left, free) = (left - 1, slot);
            }
            end = begin;
        }
        self.len = entries.len() as u32;
    }
}

/// Slots that are looked at on one side before the other one's turn comes.
const AT_ONCE: usize = 8;

/// The home of a tag among so many slots.
#[inline]
fn home(tag: u32, slots: usize) -> usize {
    ((u64::from(tag) * slots as u64) >> TAG_BITS) as usize
}

/// So many entries a shard holds before it grows.
fn fullest(slots: usize) -> usize {
    slots - slots / 10
}

#[cfg(test)]
impl Shard {
    /// Walks all slots and recounts.
    pub(super) fn validate(&self) {
        let entries: Vec<Packed> = (0..self.row.len()).map(|slot| self.row.get(slot)).collect();
        let there: Vec<(usize, u32)> = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| !entry.is_empty())
            .map(|(slot, entry)| (slot, entry.tag()))
            .collect();
        assert_eq!(there.len(), self.len as usize);
        assert!(there.is_sorted_by(|a, b| a.1 < b.1), "L3, L4: {there:?}");
        for (slot, tag) in there {
            let home = self.home(tag);
            let between = home.min(slot)..home.max(slot) + 1;
            assert!(
                entries[between].iter().all(|entry| !entry.is_empty()),
                "L4: {tag:x} in {slot}, home {home}"
            );
        }
        let (len, slots) = (self.len as usize, self.row.len());
        assert!(len <= slots && (len > 0 || slots == 0));
        assert!(slots <= len * 4 / 3 + 2 * GRAIN, "{slots} slots for {len} entries");
    }

    pub(super) fn slots(&self) -> usize {
        self.row.len()
    }
}

#[cfg(test)]
mod tests;
