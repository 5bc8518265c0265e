//! The cache as one dataset asks it: the one door, so that a recording misses nothing.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use arcwell_arc::{Admit, Anon, Asked, Cache, Full, Keep, Pin};
use arcwell_base::{BlockKey, Kind};

use crate::flash::Flash;
use crate::property::CacheMode;
use crate::recorder::{Act, Recorder};
use crate::znode::Znode;

/// The shared cache, with what records one dataset's requests.
pub(crate) struct Blocks {
    cache: Arc<Cache>,
    flash: Arc<Flash>,
    /// What of it level 2 may have.
    secondarycache: CacheMode,
    recorder: Recorder,
}

impl Blocks {
    pub(crate) fn new(
        cache: Arc<Cache>,
        flash: Arc<Flash>,
        secondarycache: CacheMode,
        recorder: Recorder,
    ) -> Self {
        Blocks { cache, flash, secondarycache, recorder }
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Says which file it is that will be asked for.
    pub(crate) fn name(&self, node: &Znode) {
        if self.recorder.is_on() {
            self.recorder.name(node);
        }
    }

    /// See [`Cache::lookup`].
    pub(crate) fn lookup(&self, key: BlockKey, kind: Kind, asked: Asked) -> Option<Pin> {
        let found = self.cache.lookup(key, kind, asked);
        if self.recorder.is_on() {
            let is_guess = asked == Asked::Prefetch;
            match &found {
                Some(pin) => self.recorder.note(key, pin.len(), Act::Hit { kind, is_guess }),
                None => self.recorder.note(key, 0, Act::Miss { kind, is_guess }),
            }
        }
        found
    }

    /// See [`Cache::peek`]. No access: not recorded.
    pub(crate) fn peek(&self, key: BlockKey) -> Option<Pin> {
        self.cache.peek(key)
    }

    /// See [`Cache::contains`]. No access: not recorded.
    pub(crate) fn contains(&self, key: BlockKey) -> bool {
        self.cache.contains(key)
    }

    /// See [`Cache::use_guess`]. The lookup that missed was recorded.
    pub(crate) fn use_guess(&self, pin: &Pin) {
        self.cache.use_guess(pin);
    }

    /// See [`Cache::admit`]. Recorded when it is published.
    ///
    /// # Errors
    /// [`Full`].
    pub(crate) fn admit(
        &self,
        key: BlockKey,
        kind: Kind,
        len: usize,
        how: Admit,
    ) -> Result<Filling<'_>, Full> {
        if self.recorder.is_on() {
            self.recorder.note_charge(self.cache.charged());
        }
        let mut anon = self.cache.admit(key, kind, len, how)?;
        // Metadata belongs to objects of this run alone, and is asked of the origin when memory has lost it.
        anon.may_feed(kind == Kind::Data && self.secondarycache.covers(kind));
        let act =
            Act::Admit { kind, is_guess: how.asked == Asked::Prefetch, stays: how.keep == Keep::Cached };
        Ok(Filling { anon, act, recorder: &self.recorder })
    }

    /// See [`Cache::remove`]. Level 2 forgets the block as well.
    pub(crate) fn remove(&self, key: BlockKey) -> bool {
        if self.recorder.is_on() {
            self.recorder.note(key, 0, Act::Remove);
        }
        let was_there = self.cache.remove(key);
        self.flash.forget(key);
        was_there
    }

    /// Publishes a block that is no longer what it was: level 2 forgets the old one.
    pub(crate) fn replace(&self, filling: Filling<'_>) {
        let key = filling.anon.key();
        drop(filling.publish());
        self.flash.forget(key);
    }
}

/// A block that is being filled. See [`Anon`].
pub(crate) struct Filling<'a> {
    anon: Anon,
    act: Act,
    recorder: &'a Recorder,
}

impl Filling<'_> {
    /// See [`Anon::was_frequent`].
    pub(crate) fn was_frequent(&mut self) {
        self.anon.was_frequent();
    }

    /// See [`Anon::publish`].
    pub(crate) fn publish(self) -> Pin {
        // Before it can be found: nobody's hit is recorded ahead of it.
        if self.recorder.is_on() {
            self.recorder.note(self.anon.key(), self.anon.len(), self.act);
        }
        self.anon.publish()
    }
}

impl Deref for Filling<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.anon
    }
}

impl DerefMut for Filling<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.anon
    }
}
