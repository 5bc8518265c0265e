//! Level 2, as the pool drives it: a thread for each cache device, and what reads and changes ask of it.
//!
//! A device's thread first makes known again what the device held before, step by step, and then feeds it for
//! as long as it is there. Reads ask level 2 when memory does not have a block, on the thread that would
//! otherwise wait for the origin ([`Dataset::fill_from_flash`]); whatever goes wrong there is a miss.
//!
//! # What is never served
//!
//! A copy on flash is true for as long as its key is. Whoever changes a block therefore takes it out of memory
//! first and then out of level 2, within the change: what the feed copied from memory before that is refused
//! there. For the next run, object ids are what binds copies to files: so before identities are
//! saved, every device writes down what was forgotten up to then, and a device that cannot is no longer
//! trusted ([`Flash::settle`]). A device that was away meanwhile is not trusted either, and begins empty.
//!
//! Locks: the devices' list, never held while a device works or a thread is joined.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use arcwell_arc::{Admit, Asked, Cache};
use arcwell_base::identity::IdentityStore;
use arcwell_base::table::{Kstats, Sample};
use arcwell_base::vdev::Vdev;
use arcwell_base::{BlockKey, Cause, Clock, Error, Kind, Result};
use arcwell_l2arc::{Add, DeviceId, DeviceReport, Label, Level2, Rebuild, Want};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::blocks::Filling;
use crate::dataset::Dataset;
use crate::flight::{Lead, Outcome};
use crate::read::{Outcomes, block_len};
use crate::signal::Signal;
use crate::znode::{ObjectIdentity, Znode};

/// Segments whose tables are read before the thread looks whether it is to stop.
const REBUILD_STEP: usize = 64;

/// Time between two steps of the feed while blocks are evicted that it should have had.
const HASTE: Duration = Duration::from_millis(50);

/// How long a device may be at work before the others' checkpoint goes on without it.
const SETTLE_MAX: Duration = Duration::from_secs(5);
const SETTLE_PAUSE: Duration = Duration::from_millis(2);

/// See the module's doc.
pub(crate) struct Flash {
    level2: Arc<Level2>,
    cache: Arc<Cache>,
    store: Arc<dyn IdentityStore>,
    feeders: Mutex<Vec<Feeder>>,
    /// The devices that the store was last told to trust.
    trusted: Mutex<Vec<u128>>,
}

/// The thread of a device.
struct Feeder {
    device: DeviceId,
    signal: Arc<Signal>,
    thread: JoinHandle<()>,
}

impl Feeder {
    fn stop(self) {
        self.signal.stop();
        // A panic was reported by the panic hook already.
        let _ = self.thread.join();
    }
}

impl Flash {
    /// No device yet.
    pub(crate) fn new(
        pool: u128,
        cache: Arc<Cache>,
        store: Arc<dyn IdentityStore>,
        clock: Arc<dyn Clock>,
    ) -> Flash {
        let trusted = store.trusted_devices().unwrap_or_else(|error| {
            tracing::warn!(%error, "cache devices begin empty");
            Vec::new()
        });
        let level2 = Arc::new(Level2::new(pool, clock));
        Flash { level2, cache, store, feeders: Mutex::default(), trusted: Mutex::new(trusted) }
    }

    pub(crate) fn level2(&self) -> &Level2 {
        &self.level2
    }

    /// Adds a device and starts its thread.
    ///
    /// # Errors
    /// The device's, or that it is not ours to write to.
    pub(crate) fn add(&self, vdev: Arc<dyn Vdev>, force: bool) -> Result<DeviceId> {
        let has_missed = match Level2::label(&*vdev)? {
            Label::Ours { device, .. } => !self.trusted.lock().contains(&device.0),
            _ => true,
        };
        let device = self.level2.add(vdev, Add { force, has_missed })?;
        let signal = Arc::new(Signal::default());
        let (level2, cache, told) = (Arc::clone(&self.level2), Arc::clone(&self.cache), Arc::clone(&signal));
        let name = format!("arcwell-feed-{}", self.feeders.lock().len());
        let thread = Builder::new().name(name).spawn(move || tend(&level2, &cache, device, &told));
        match thread {
            Ok(thread) => {
                self.feeders.lock().push(Feeder { device, signal, thread });
                Ok(device)
            }
            Err(error) => {
                let _ = self.level2.remove(device);
                Err(Error::new("start a thread", error))
            }
        }
    }

    /// Takes a device out. What it holds is worth something only until the next change.
    ///
    /// # Errors
    /// It is not here, or its own: it is out all the same.
    pub(crate) fn remove(&self, device: DeviceId) -> Result<()> {
        let feeder = {
            let mut feeders = self.feeders.lock();
            let place = feeders.iter().position(|feeder| feeder.device == device);
            place.map(|place| feeders.swap_remove(place))
        };
        if let Some(feeder) = feeder {
            feeder.stop();
        }
        self.level2.remove(device)
    }

    /// What is to be said of the devices.
    pub(crate) fn devices(&self) -> Vec<DeviceReport> {
        self.level2.devices()
    }

    /// Statistics as of now.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.level2.refresh_gauges();
        self.level2.stats().samples()
    }

    /// Takes a block out that was changed or is gone. After memory has done so.
    pub(crate) fn forget(&self, key: BlockKey) {
        self.level2.forget(key);
    }

    /// Has all devices write down what was forgotten, and sees to it that those which cannot are not believed in the
    /// next run.
    ///
    /// # Errors
    /// The store's: then nothing may be saved that a device might have missed.
    pub(crate) fn settle(&self) -> Result<()> {
        let mut settled = Vec::new();
        for report in self.level2.devices() {
            match self.settled(report.id) {
                Ok(id) => settled.push(id),
                Err(error) => {
                    tracing::warn!(%error, device = %report.name, "a cache device will begin empty the next time");
                }
            }
        }
        settled.sort_unstable();
        let mut trusted = self.trusted.lock();
        if *trusted != settled {
            self.store.trust_devices(&settled)?;
            *trusted = settled;
        }
        Ok(())
    }

    /// The same of one device, which may be at work: it is waited for, but not for ever.
    fn settled(&self, device: DeviceId) -> Result<u128> {
        let end = Instant::now() + SETTLE_MAX;
        loop {
            match self.level2.settle(device) {
                Err(error) if matches!(error.cause(), Cause::Busy) && Instant::now() < end => {
                    std::thread::sleep(SETTLE_PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    /// Ends the threads, after feeding what memory holds for at most so long.
    pub(crate) fn stop(&self, save_for: Duration) {
        let feeders = std::mem::take(&mut *self.feeders.lock());
        feeders.iter().for_each(|feeder| feeder.signal.stop());
        let end = Instant::now() + save_for;
        for feeder in feeders {
            let device = feeder.device;
            feeder.stop();
            let bytes = self.level2.save(device, &self.cache, &|| Instant::now() >= end);
            tracing::info!(bytes, ?device, "what lay in memory is on flash");
            if let Err(error) = self.level2.flush(device) {
                tracing::warn!(%error, ?device, "what was fed last may be lost");
            }
        }
    }
}

/// What a device's thread does.
fn tend(level2: &Level2, cache: &Cache, device: DeviceId, signal: &Signal) {
    while let Rebuild::Going { .. } = level2.rebuild(device, REBUILD_STEP) {
        if signal.wait(Duration::ZERO) {
            return;
        }
    }
    let mut next = Duration::ZERO;
    let mut lost = cache.evicted_unfed();
    while !signal.wait(next) {
        next = level2.feed(device, cache, &|_, _| true).next;
        // What is evicted unfed went between two steps: then they come sooner, as far as the device may be written.
        let lost_now = cache.evicted_unfed();
        if lost_now != lost {
            next = next.min(HASTE);
        }
        lost = lost_now;
    }
}

impl Dataset {
    /// Reads from flash what is there of some blocks that we lead, keeps them, and ends their flights. The others are
    /// returned, in the same order.
    pub(crate) fn fill_from_flash(
        &self,
        node: &Znode,
        identity: &ObjectIdentity,
        sequence: u64,
        leads: SmallVec<[Lead; 4]>,
        asked: Asked,
        outcomes: &mut Outcomes,
    ) -> SmallVec<[Lead; 4]> {
        let level2 = self.shared.flash.level2();
        // Behind a young version a change may hide.
        if identity.is_young || !leads.iter().any(|lead| level2.contains(lead.key())) {
            return leads;
        }
        let mut tried: SmallVec<[(Lead, Option<Filling<'_>>); 4]> =
            leads.into_iter().map(|lead| self.ready_for_flash(lead, identity, asked)).collect();
        let mut wants: SmallVec<[Want<'_>; 4]> = tried
            .iter_mut()
            .filter_map(|(lead, filling)| Some(Want::new(lead.key(), filling.as_mut()?)))
            .collect();
        level2.read(&mut wants);
        let found: SmallVec<[_; 4]> = wants.iter().map(|want| want.found).collect();
        drop(wants);
        let (mut found, mut rest) = (found.into_iter(), SmallVec::new());
        for (lead, filling) in tried {
            let block = filling.and_then(|filling| Some((filling, found.next().flatten()?)));
            let Some((mut filling, known)) = block else {
                rest.push(lead);
                continue;
            };
            if known.is_frequent && asked == Asked::Demand {
                filling.was_frequent();
            }
            let piece = self.land(node, identity, filling, sequence);
            if let crate::slice::Piece::Pinned(pin) = &piece {
                pin.set_on_flash(true);
            }
            outcomes.push((lead.key().index, Outcome::Landed(piece.clone())));
            lead.end(Outcome::Landed(piece));
        }
        rest
    }

    /// A buffer for a block that may be on flash, if it is worth to ask.
    fn ready_for_flash(
        &self,
        lead: Lead,
        identity: &ObjectIdentity,
        asked: Asked,
    ) -> (Lead, Option<Filling<'_>>) {
        let key = lead.key();
        let is_there = self.shared.flash.level2().contains(key) && self.blocks.peek(key).is_none();
        let how = Admit { asked, keep: self.keep(Kind::Data) };
        let filling =
            is_there.then(|| self.blocks.admit(key, Kind::Data, block_len(key.index, identity), how).ok());
        (lead, filling.flatten())
    }
}
