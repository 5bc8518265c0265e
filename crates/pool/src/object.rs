//! Object ids, and what has to be remembered of files until the next checkpoint.
//!
//! Ids are taken from the identity store in batches, so that handing one out costs an addition.
//! Identities of files that have blocks are collected here and written together; a crash in between
//! costs only warmth, since a file whose version is not the remembered one becomes a new object.

use std::ops::Range;

use arcwell_base::identity::{DatasetId, Identity, IdentityStore};
use arcwell_base::origin::FileId;
use arcwell_base::{ObjectId, Result};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use crate::dataset::is_younger;

/// Ids taken from the store at a time.
const BATCH: u64 = 65_536;
/// Identities that may wait; beyond it new ones are not remembered until the next checkpoint.
const PENDING_MAX: usize = 200_000;

pub(crate) struct Objects {
    store: Arc<dyn IdentityStore>,
    free: Mutex<Range<u64>>,
    pending: Mutex<HashMap<(DatasetId, FileId), Option<Pending>>>,
}

/// An identity that waits, and how old its version must be to be believed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pending {
    identity: Identity,
    of_age: Duration,
}

impl Pending {
    /// Whether a further change could hide behind the same timestamps.
    fn is_young(&self) -> bool {
        is_younger(&self.identity.version, self.of_age)
    }
}

impl Objects {
    pub(crate) fn new(store: Arc<dyn IdentityStore>) -> Self {
        Objects { store, free: Mutex::new(0..0), pending: Mutex::default() }
    }

    /// An id that was never given out.
    pub(crate) fn next(&self) -> Result<ObjectId> {
        let mut free = self.free.lock();
        if free.is_empty() {
            *free = self.store.reserve_objects(BATCH)?;
        }
        let id = free.start;
        free.start += 1;
        Ok(ObjectId(id))
    }

    /// What is remembered of a file, pending or kept.
    pub(crate) fn recall(&self, dataset: DatasetId, file: FileId) -> Result<Option<Identity>> {
        if let Some(pending) = self.pending.lock().get(&(dataset, file)) {
            return Ok(pending.map(|pending| pending.identity));
        }
        self.store.load(dataset, file)
    }

    pub(crate) fn remember(&self, dataset: DatasetId, file: FileId, identity: Identity, of_age: Duration) {
        let mut pending = self.pending.lock();
        if pending.len() < PENDING_MAX || pending.contains_key(&(dataset, file)) {
            pending.insert((dataset, file), Some(Pending { identity, of_age }));
        }
    }

    /// A file that is gone.
    pub(crate) fn forget(&self, dataset: DatasetId, file: FileId) {
        let mut pending = self.pending.lock();
        if pending.len() < PENDING_MAX || pending.contains_key(&(dataset, file)) {
            pending.insert((dataset, file), None);
        }
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.lock().len()
    }

    /// Writes what is pending, but for versions that are young: these stay pending, and are forgotten when nobody
    /// comes again. On failure all stays pending. What must be durable before is done by `settle`, after it is fixed
    /// what will be written.
    pub(crate) fn checkpoint(&self, is_last: bool, settle: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut pending = self.pending.lock().clone();
        if is_last {
            pending.values_mut().for_each(|row| *row = row.filter(|row| !row.is_young()));
        } else {
            pending.retain(|_, row| row.is_none_or(|row| !row.is_young()));
        }
        settle()?;
        let mut datasets: Vec<DatasetId> = pending.keys().map(|(dataset, _)| *dataset).collect();
        datasets.sort_unstable();
        datasets.dedup();
        for dataset in datasets {
            let of_dataset = pending.iter().filter(|((owner, _), _)| *owner == dataset);
            let (mut kept, mut gone) = (Vec::new(), Vec::new());
            for ((_, file), identity) in of_dataset {
                match identity {
                    Some(pending) => kept.push((*file, pending.identity)),
                    None => gone.push(*file),
                }
            }
            self.store.save(dataset, &kept)?;
            self.store.forget(dataset, &gone)?;
        }
        // What changed meanwhile stays for the next time.
        self.pending.lock().retain(|key, identity| pending.get(key) != Some(identity));
        Ok(())
    }
}
