//! Single flight: however many ask for a block, the origin is read once.
//!
//! Who finds no flight for a block leads one; others follow and wait for its outcome. A flight that
//! began before a change of the file that has ended since is not followed: its bytes may be old, and
//! whoever asks now must see the change.

use std::sync::Arc;
use std::time::Duration;

use arcwell_base::{BlockKey, Cause, Error, Result};
use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use crate::slice::Piece;

const SHARDS: usize = 32;

/// How a flight ended.
#[derive(Clone)]
pub(crate) enum Outcome {
    /// The block.
    Landed(Piece),
    /// The origin's error, for everybody.
    Failed(Errno),
    /// The file changed while it was read: ask again.
    Changed,
}

pub(crate) struct Flight {
    /// The file's sequence when it began.
    sequence: u64,
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
}

impl Flight {
    /// Waits for the outcome.
    ///
    /// # Errors
    /// `TimedOut` when it does not come: the leader is stuck in the origin.
    pub(crate) fn wait(&self, at_most: Duration) -> Result<Outcome> {
        let mut outcome = self.outcome.lock();
        if outcome.is_none() {
            self.ended.wait_while_for(&mut outcome, |outcome| outcome.is_none(), at_most);
        }
        outcome.clone().ok_or_else(|| Error::new("wait for a block", Cause::TimedOut(at_most)))
    }
}

/// What to do about a block that is not in the cache.
pub(crate) enum Claim {
    /// Read it; others may be waiting.
    Lead(Lead),
    /// Somebody reads it: wait.
    Follow(Arc<Flight>),
    /// Somebody reads it, but from before a change: read it alone, and do not keep it.
    Alone,
}

/// The duty to end a flight. Dropped without an outcome, it ends as an error.
pub(crate) struct Lead {
    key: BlockKey,
    flight: Arc<Flight>,
    flights: Flights,
}

impl Lead {
    pub(crate) fn key(&self) -> BlockKey {
        self.key
    }

    pub(crate) fn end(self, outcome: Outcome) {
        self.settle(outcome);
    }

    fn settle(&self, outcome: Outcome) {
        let mut shard = self.flights.shard(self.key).lock();
        if shard.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            shard.remove(&self.key);
        }
        drop(shard);
        let mut slot = self.flight.outcome.lock();
        if slot.is_none() {
            *slot = Some(outcome);
        }
        drop(slot);
        self.flight.ended.notify_all();
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.settle(Outcome::Failed(Errno::IO));
    }
}

type Shard = Mutex<HashMap<BlockKey, Arc<Flight>>>;

/// The flights under way.
#[derive(Clone)]
pub(crate) struct Flights(Arc<[Shard]>);

impl Default for Flights {
    fn default() -> Self {
        Flights((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Flights {
    fn shard(&self, key: BlockKey) -> &Shard {
        &self.0[(key.hash() >> 40) as usize % SHARDS]
    }

    /// Claims a block that was not found, for a file whose sequence is `sequence`.
    pub(crate) fn claim(&self, key: BlockKey, sequence: u64) -> Claim {
        let mut shard = self.shard(key).lock();
        if let Some(flight) = shard.get(&key) {
            let is_current = flight.sequence == sequence && sequence.is_multiple_of(2);
            return if is_current { Claim::Follow(Arc::clone(flight)) } else { Claim::Alone };
        }
        if !sequence.is_multiple_of(2) {
            return Claim::Alone;
        }
        let flight = Arc::new(Flight { sequence, outcome: Mutex::new(None), ended: Condvar::new() });
        shard.insert(key, Arc::clone(&flight));
        Claim::Lead(Lead { key, flight, flights: self.clone() })
    }

    #[cfg(test)]
    pub(crate) fn is_under_way(&self, key: BlockKey) -> bool {
        self.shard(key).lock().contains_key(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arcwell_base::ObjectId;

    const KEY: BlockKey = BlockKey::new(ObjectId(1), 2);

    fn lead(flights: &Flights) -> Lead {
        match flights.claim(KEY, 0) {
            Claim::Lead(lead) => lead,
            _ => panic!("nobody else leads"),
        }
    }

    #[test]
    fn the_second_follows_and_gets_the_firsts_outcome() {
        let flights = Flights::default();
        let lead = lead(&flights);
        let Claim::Follow(flight) = flights.claim(KEY, 0) else { panic!("a flight is under way") };
        lead.end(Outcome::Failed(Errno::NXIO));
        let outcome = flight.wait(Duration::from_secs(5)).unwrap();
        assert!(matches!(outcome, Outcome::Failed(Errno::NXIO)));
        assert!(!flights.is_under_way(KEY));
    }

    #[test]
    fn a_flight_from_before_a_change_is_not_followed() {
        let flights = Flights::default();
        let _lead = lead(&flights);
        assert!(matches!(flights.claim(KEY, 2), Claim::Alone));
        assert!(matches!(flights.claim(KEY, 1), Claim::Alone));
    }

    #[test]
    fn a_leader_that_gives_up_leaves_nobody_waiting() {
        let flights = Flights::default();
        let lead = lead(&flights);
        let Claim::Follow(flight) = flights.claim(KEY, 0) else { panic!("a flight is under way") };
        drop(lead);
        assert!(matches!(flight.wait(Duration::from_secs(5)), Ok(Outcome::Failed(_))));
    }

    #[test]
    fn waiting_has_a_limit() {
        let flights = Flights::default();
        let _lead = lead(&flights);
        let Claim::Follow(flight) = flights.claim(KEY, 0) else { panic!("a flight is under way") };
        assert!(flight.wait(Duration::from_millis(5)).is_err());
    }
}
