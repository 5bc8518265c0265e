//! Whose lines a hit writes to: what [`arcwell_base::atomic::linestat`] noted, told apart by who else goes there.
//!
//! With `arc.lists=pages` a hit and the drop of its pin write to the header of their block, by two
//! read-modify-writes and now and then a store of the time, and to lines of the thread's lane, by plain stores.
//! Nothing else is written, and so threads that hit different blocks never wait for each other. What a thread
//! does once (taking a lane, making its ring of notes: [`prepare`]) is no part of that; nor are the last pins of
//! blocks that may not stay, that were removed, or that eviction wanted to have while they were pinned. A
//! thread beyond the 127th shares its lane with others, and then its lines are not its own.

use arcwell_base::BlockKey;
use arcwell_base::atomic::linestat::{self, LINE};

use crate::cache::Cache;

/// Whether this build counts.
pub const IS_COUNTING: bool = linestat::IS_COUNTING;

/// What was written to memory that threads share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// To the headers of the blocks that it was about.
    pub header: Writes,
    /// To lines that only this thread writes to.
    pub own: Writes,
    /// To any other line.
    pub other: Writes,
}

/// Writes to lines of one sort.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Writes {
    /// Read-modify-writes: for each, a processor takes the line from all others and waits for it.
    pub rmws: u64,
    /// Plain stores.
    pub stores: u64,
}

/// Does what a thread does once in its life, and once for each cache.
pub fn prepare(cache: &Cache) {
    cache.shared.noted.prepare();
}

/// Does some work about blocks of a cache, and counts what this thread wrote meanwhile; nothing, without the
/// feature `linestat`. The blocks have to stay in the cache: for one that is not there, no header is its own.
pub fn watch<R>(cache: &Cache, keys: &[BlockKey], work: impl FnOnce() -> R) -> (R, Traffic) {
    let (result, log) = linestat::watch(work);
    let line_of = |key: &BlockKey| {
        let number = cache.number_of(*key)?;
        Some((&raw const *cache.shared.headers.at(number).0).addr() / LINE)
    };
    let headers: Vec<usize> = keys.iter().filter_map(line_of).collect();
    let mut traffic = Traffic::default();
    for write in log.writes {
        let writes = match write.line {
            line if headers.contains(&line) => &mut traffic.header,
            line if cache.shared.noted.is_own(line) => &mut traffic.own,
            _ => &mut traffic.other,
        };
        *(if write.is_rmw { &mut writes.rmws } else { &mut writes.stores }) += 1;
    }
    // Of these nothing is known: never to the good.
    traffic.other.rmws += log.lost;
    (result, traffic)
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, more: Traffic) {
        for (sum, more) in
            [(&mut self.header, more.header), (&mut self.own, more.own), (&mut self.other, more.other)]
        {
            sum.rmws += more.rmws;
            sum.stores += more.stores;
        }
    }
}
