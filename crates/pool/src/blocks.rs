//! The cache as one dataset asks it: the one door, so that a recording misses nothing.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use arcwell_arc::{Admit, Anon, Asked, Cache, Full, Keep, Pin};
use arcwell_base::{BlockKey, Kind};

use crate::recorder::{Act, Recorder};
use crate::znode::Znode;

/// The shared cache, with what records one dataset's requests.
pub(crate) struct Blocks {
    cache: Arc<Cache>,
    recorder: Recorder,
}

impl Blocks {
    pub(crate) fn new(cache: Arc<Cache>, recorder: Recorder) -> Self {
        Blocks { cache, recorder }
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
        let anon = self.cache.admit(key, kind, len, how)?;
        let act =
            Act::Admit { kind, is_guess: how.asked == Asked::Prefetch, stays: how.keep == Keep::Cached };
        Ok(Filling { anon, act, recorder: &self.recorder })
    }

    /// See [`Cache::remove`].
    pub(crate) fn remove(&self, key: BlockKey) -> bool {
        if self.recorder.is_on() {
            self.recorder.note(key, 0, Act::Remove);
        }
        self.cache.remove(key)
    }
}

/// A block that is being filled. See [`Anon`].
pub(crate) struct Filling<'a> {
    anon: Anon,
    act: Act,
    recorder: &'a Recorder,
}

impl Filling<'_> {
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
