//! Who keeps the engine's memory: owners, and after the last of them whoever still holds a block.
//!
//! A [`Pin`](super::Pin) is taken on every hit, and so must not count itself anywhere but in its block's
//! header. The engine's memory therefore lives for as long as there are owners (the cache, and blocks that
//! are being filled). When the last one goes, it marks every block that is still held as an orphan and
//! counts them; from then on whoever gives the last pin of an orphan back counts it off, and the last of
//! these frees the memory. A pin that has an errand to run when it is given back counts itself for that
//! time: it has to look at the engine after it let go of the block.

use std::ops::Deref;
use std::ptr::NonNull;

use crate::header::Word;
use crate::shared::Shared;
use crate::sync::Ordering;

/// A share in the engine.
pub(crate) struct Owner(NonNull<Shared>);

// SAFETY: `Shared` is `Send` and `Sync` itself, and owners count themselves by atomic operations.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Owner {
    /// The first owner.
    pub(crate) fn new(shared: Shared) -> Owner {
        fn is_shareable<T: Send + Sync>(of: T) -> T {
            of
        }
        // One for the owners together, and one owner.
        shared.keepers.store(1, Ordering::Relaxed);
        shared.owners.store(1, Ordering::Relaxed);
        Owner(NonNull::from(Box::leak(Box::new(is_shareable(shared)))))
    }

    #[inline]
    pub(super) fn address(&self) -> NonNull<Shared> {
        self.0
    }
}

impl Deref for Owner {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        // SAFETY: the memory is freed after the last owner is gone.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Owner {
    fn clone(&self) -> Owner {
        self.owners.fetch_add(1, Ordering::Relaxed);
        Owner(self.0)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.owners.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        for number in self.headers.numbers() {
            // Counted before it is marked: who sees the mark may count it off at once.
            self.keepers.fetch_add(1, Ordering::Relaxed);
            let header = self.headers.at(number);
            let marked =
                header.update(|word| (word.pins() > 0).then(|| word.with(Word::ORPHAN | Word::ERRAND)));
            if marked.is_none() {
                self.keepers.fetch_sub(1, Ordering::Relaxed);
            }
        }
        // SAFETY: that of the owners together is ours to take back.
        unsafe { let_go(self.0) };
    }
}

/// Takes back what was counted in `keepers`, and frees the engine if that was the last.
///
/// # Safety
/// The caller, or what he acts for, was counted, and looks at the engine no more.
pub(super) unsafe fn let_go(shared: NonNull<Shared>) {
    // SAFETY: as long as one is counted, the memory is there.
    if alive(unsafe { shared.as_ref() }).keepers.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: it came from a box, and nobody is left who could look at it.
        free(unsafe { Box::from_raw(shared.as_ptr()) });
    }
}

#[cfg(not(feature = "model"))]
fn free(shared: Box<Shared>) {
    drop(shared);
}

/// The engine, of which is known that it was not freed: in a model, this is looked at.
#[cfg(not(feature = "model"))]
#[inline]
pub(super) fn alive(shared: &Shared) -> &Shared {
    shared
}

#[cfg(feature = "model")]
pub(super) use crate::models::engines::alive;
#[cfg(feature = "model")]
use crate::models::engines::free;
