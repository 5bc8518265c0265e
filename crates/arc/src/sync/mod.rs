//! What the engine's rooms share memory by: atomics, locks, lanes. The one place where a model checker
//! puts its own in their stead, and from where a build that counts which lines are written to hears of all.
//!
//! With the feature `model` the crate is built on those of shuttle, which runs a program again and again
//! under schedules of its choice: see `models`, the programs that it runs. Such a build serves for nothing else.
//! The arena, the ghosts and the sublists stay as they are: what they do is done under one lock, and nothing
//! under it is shared otherwise, so that to a schedule it is one step. They and the sums take [`plain`] atomics.

pub(crate) use arcwell_base::atomic as plain;

#[cfg(feature = "model")]
mod model;
#[cfg(feature = "model")]
pub(crate) use self::model::{AtomicU32, AtomicU64, Mutex, Ordering, fence, lane, wait_a_moment};

#[cfg(not(feature = "model"))]
pub(crate) use self::real::{AtomicU32, AtomicU64, Mutex, Ordering, fence, lane, wait_a_moment};

#[cfg(not(feature = "model"))]
mod real {
    pub(crate) use arcwell_base::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use arcwell_base::lane;
    pub(crate) use arcwell_base::lock::Mutex;

    /// Waits a little for another thread, the longer the more often it was in vain.
    pub(crate) fn wait_a_moment(tries: u32) {
        /// A thread that has to wait for longer waits for one that does not run.
        const SPINS: u32 = 64;
        if tries < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

/// How large something is, and how large in a model: there it is made anew some thousand times a second, and
/// its bounds are to be met.
pub(crate) const fn sized(real: usize, in_model: usize) -> usize {
    if cfg!(feature = "model") { in_model } else { real }
}

/// What a model breaks on purpose, to see that it would find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// A block is claimed though it is held.
    ClaimIgnoresPins,
    /// A pin is taken under another word than that under which the key was read.
    PinUnderAnotherWord,
    /// Who gives a pin back and has an errand does not keep the engine for it.
    ErrandWithoutKeep,
    /// Who is done with an errand takes it from an orphan too.
    ErrandOffOrphan,
    /// A ghost appears after its block has left the table.
    GhostOutsideBucket,
    /// A look that has found nothing is believed at once.
    FindWithoutCheck,
    /// A walk believes that the page in which it stands is still the same one.
    WalkUnchecked,
    /// A page goes back into the chain without a look whether it has become empty.
    PutBackUnchecked,
}

/// Whether the model that runs has broken something. Never, where there is none.
#[cfg(not(feature = "model"))]
#[inline(always)]
pub(crate) const fn is_broken(_fault: Fault) -> bool {
    false
}

#[cfg(all(test, feature = "model"))]
pub(crate) use self::model::break_on_purpose;
#[cfg(feature = "model")]
pub(crate) use self::model::is_broken;
