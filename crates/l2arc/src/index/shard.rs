//! One shard of the index: entries in the order of their tags.

use super::entry::Packed;

/// See the module's doc.
#[derive(Debug, Default)]
pub(super) struct Shard {
    row: Vec<Packed>,
}

impl Shard {
    fn find(&self, tag: u32) -> Result<usize, usize> {
        self.row.binary_search_by_key(&tag, |entry| entry.tag())
    }

    pub(super) fn len(&self) -> u64 {
        self.row.len() as u64
    }

    pub(super) fn get(&self, tag: u32) -> Option<Packed> {
        self.find(tag).ok().map(|place| self.row[place])
    }

    pub(super) fn put(&mut self, entry: Packed) -> Option<Packed> {
        match self.find(entry.tag()) {
            Ok(place) => Some(std::mem::replace(&mut self.row[place], entry)),
            Err(place) => {
                self.row.insert(place, entry);
                None
            }
        }
    }

    pub(super) fn remove_if(&mut self, tag: u32, is_it: impl Fn(Packed) -> bool) -> Option<Packed> {
        let place = self.find(tag).ok().filter(|place| is_it(self.row[*place]))?;
        Some(self.row.remove(place))
    }

    pub(super) fn mark_read(&mut self, tag: u32) {
        if let Ok(place) = self.find(tag) {
            self.row[place] = self.row[place].read();
        }
    }

    pub(super) fn retain(&mut self, stays: impl Fn(Packed) -> bool) -> u64 {
        let before = self.row.len();
        self.row.retain(|entry| stays(*entry));
        (before - self.row.len()) as u64
    }
}
