//! Reading ahead: what the streams guess is read by workers in the background.
//!
//! A guess never costs those who know what they want: its jobs run when nothing else is queued, the
//! bytes under way are limited to a share of the cache, and beyond that guesses are left out and
//! counted.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arcwell_arc::Asked;
use arcwell_base::{BlockKey, Kind};
use smallvec::SmallVec;

use crate::dataset::Dataset;
use crate::file::OpenFile;
use crate::flight::{Claim, Lead};
use crate::read::block_len;
use crate::stream::{Ahead, Distances, Found};
use crate::workers::Class;
use crate::znode::{ObjectIdentity, Znode};

impl Dataset {
    /// Notes a read of `blocks`, and starts to read ahead where a stream is seen.
    pub(crate) fn read_ahead(
        &self,
        file: &OpenFile,
        identity: &ObjectIdentity,
        blocks: Range<u64>,
        found: Found,
    ) {
        let record_size = u64::from(identity.record_size);
        let in_file = identity.version.size.div_ceil(record_size);
        let properties = &self.properties;
        let is_wanted = properties.prefetch.covers(Kind::Data) && properties.primarycache.covers(Kind::Data);
        if in_file <= blocks.end - blocks.start || !is_wanted {
            return;
        }
        if found == Found::Late {
            self.shared.stats.prefetch_late.add(1);
        }
        // What may not be under way at once is left out: a stream that ran so far would leave holes.
        let max = properties.readahead_max.min(self.guesses_max());
        let caps = Distances {
            initial: self.shared.tunables.distance_initial() / record_size,
            max: max / record_size,
        };
        // Whoever holds the lock notes a read of the same file: missing one does no harm.
        let ahead = match file.node.streams.try_lock() {
            Some(mut streams) => streams.get_or_insert_default().read(blocks, found, caps),
            None => None,
        };
        if let Some(mut ahead) = ahead.filter(|ahead| ahead.first < in_file) {
            ahead.count = ahead.count.min((in_file - 1 - ahead.first) / ahead.stride + 1);
            self.guess(file, identity, ahead);
        }
    }

    /// Hands a guess to the workers, in pieces of one origin read each, so that they run side by side.
    fn guess(&self, file: &OpenFile, identity: &ObjectIdentity, ahead: Ahead) {
        let record_size = u64::from(identity.record_size);
        let allowed = self.guesses_max();
        let per_job = (self.shared.tunables.join_max().min(allowed / 4) / record_size).max(1);
        let stats = &self.shared.stats;
        let mut done = 0;
        while done < ahead.count {
            let count = per_job.min(ahead.count - done);
            let bytes = count * record_size;
            if self.guessed_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > allowed {
                self.guessed_bytes.fetch_sub(bytes, Ordering::Relaxed);
                stats.prefetch_dropped.add(1);
                return;
            }
            stats.prefetch_issued.add(1);
            let piece = Ahead { first: ahead.first + done * ahead.stride, count, stride: ahead.stride };
            // Held as if open until it is done: after a forget a second znode of the same file could
            // change what this one lands.
            self.opened(&file.node);
            let (dataset, node) = (Arc::clone(&file.dataset), Arc::clone(&file.node));
            let (owner, held) = (Arc::clone(&file.dataset), Arc::clone(&file.node));
            let object = identity.object;
            let job = move || {
                dataset.prefetch(&node, object, piece);
                Ok(())
            };
            self.workers().run(Class::Background, job, move |result| {
                owner.guessed_bytes.fetch_sub(bytes, Ordering::Relaxed);
                owner.closed(&held);
                if result.is_err() {
                    owner.shared.stats.prefetch_dropped.add(1);
                }
            });
            done += count;
        }
    }

    /// Bytes that may be on their way on a guess.
    fn guesses_max(&self) -> u64 {
        self.shared.cache.tunables().size_max() / 100 * self.shared.tunables.flight_percent()
    }

    fn prefetch(&self, node: &Znode, object: arcwell_base::ObjectId, ahead: Ahead) {
        let sequence = node.sequence();
        let identity = node.identity();
        if identity.object != object || identity.is_young {
            return;
        }
        let mut run: SmallVec<[Lead; 4]> = SmallVec::new();
        for step in 0..ahead.count {
            let index = ahead.first + step * ahead.stride;
            let key = BlockKey::new(object, index);
            let len = block_len(index, &identity) as u64;
            let is_adjacent = run.last().is_none_or(|lead| lead.key().index + 1 == index);
            if !is_adjacent {
                self.land_guess(node, &identity, sequence, std::mem::take(&mut run));
            }
            let is_there = len == 0 || self.blocks.lookup(key, Kind::Data, Asked::Prefetch).is_some();
            if is_there {
                continue;
            }
            if let Claim::Lead(lead) = self.flights.claim(key, sequence) {
                run.push(lead);
            }
        }
        self.land_guess(node, &identity, sequence, run);
    }

    fn land_guess(&self, node: &Znode, identity: &ObjectIdentity, sequence: u64, run: SmallVec<[Lead; 4]>) {
        if !run.is_empty() {
            self.shared.stats.prefetch_blocks.add(run.len() as u64);
            self.fill(node, identity, sequence, run, Asked::Prefetch);
        }
    }
}
