//! Single flight: however many ask for a block, it is fetched once.
//!
//! Who finds no flight for a key leads one; others follow. A flight ends *landed*, with the block, or
//! *lost*: the fetch failed, its leader panicked, or the block was written or removed meanwhile, so
//! that what was fetched may be old. Who followed a lost flight starts over. Errors are not passed on:
//! another caller's time limit or permission is not one's own.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use arcwell_base::{BlockKey, lock};
use parking_lot::{Condvar, Mutex};

use super::Pin;

const SHARDS: usize = 64;

/// How a flight ended.
#[derive(Clone)]
enum Outcome {
    Landed(Pin),
    Lost,
}

/// A fetch that is under way.
pub(super) struct Flight {
    leader: ThreadId,
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
}

impl Flight {
    /// Waits for the end; `None` when the flight was lost.
    ///
    /// # Panics
    /// When this thread leads the flight: it would wait for itself.
    pub(super) fn wait(&self) -> Option<Pin> {
        assert!(self.leader != thread::current().id(), "a fetch asked for the very block that it fetches");
        let mut outcome = self.outcome.lock();
        self.ended.wait_while(&mut outcome, |outcome| outcome.is_none());
        match outcome.as_ref() {
            Some(Outcome::Landed(pin)) => Some(pin.clone()),
            Some(Outcome::Lost) | None => None,
        }
    }

    /// The first end counts.
    fn end(&self, how: Outcome) {
        self.outcome.lock().get_or_insert(how);
        self.ended.notify_all();
    }
}

/// What to do about a block that was not found.
pub(super) enum Claim<'a> {
    /// Fetch it; others may be waiting.
    Lead(Lead<'a>),
    /// Somebody fetches it: wait.
    Follow(Arc<Flight>),
}

/// The duty to end a flight (L2). Dropped without having landed, it is lost.
pub(super) struct Lead<'a> {
    flights: &'a Flights,
    key: BlockKey,
    flight: Arc<Flight>,
}

impl Lead<'_> {
    /// Publishes what was fetched, unless the block was written or removed since (L1). Then `None`.
    pub(super) fn land(self, publish: impl FnOnce() -> Pin) -> Option<Pin> {
        let mut shard = self.flights.shard(self.key).lock();
        if !self.is_current(&shard) {
            return None;
        }
        let pin = publish();
        shard.remove(&self.key);
        drop(shard);
        self.flight.end(Outcome::Landed(pin.clone()));
        Some(pin)
    }

    fn is_current(&self, shard: &HashMap<BlockKey, Arc<Flight>>) -> bool {
        shard.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight))
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut shard = self.flights.shard(self.key).lock();
        if self.is_current(&shard) {
            shard.remove(&self.key);
        }
        drop(shard);
        self.flight.end(Outcome::Lost);
    }
}

type Shard = lock::Mutex<HashMap<BlockKey, Arc<Flight>>>;

/// The flights under way: at most one a thread.
pub(super) struct Flights(Box<[Shard]>);

impl Default for Flights {
    fn default() -> Self {
        Flights((0..SHARDS).map(|_| Shard::named("library.flights")).collect())
    }
}

impl Flights {
    fn shard(&self, key: BlockKey) -> &Shard {
        &self.0[(key.hash() >> 40) as usize % SHARDS]
    }

    pub(super) fn claim(&self, key: BlockKey) -> Claim<'_> {
        let mut shard = self.shard(key).lock();
        if let Some(flight) = shard.get(&key) {
            return Claim::Follow(Arc::clone(flight));
        }
        let (leader, outcome, ended) = (thread::current().id(), Mutex::new(None), Condvar::new());
        let flight = Arc::new(Flight { leader, outcome, ended });
        shard.insert(key, Arc::clone(&flight));
        Claim::Lead(Lead { flights: self, key, flight })
    }

    /// Changes a block: the flight of its key, which may bring what was true before, is lost (L1).
    pub(super) fn overtake<T>(&self, key: BlockKey, change: impl FnOnce() -> T) -> T {
        let mut shard = self.shard(key).lock();
        let changed = change();
        let overtaken = shard.remove(&key);
        drop(shard);
        if let Some(flight) = overtaken {
            flight.end(Outcome::Lost);
        }
        changed
    }
}
