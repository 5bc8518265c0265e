//! Locks that have a name, so that a build can count who waits for which.
//!
//! [`Mutex`] is that of parking_lot. Built with the feature `lockstat`, every acquisition is counted
//! by the lock's name and the place in the source that asked for it; [`lockstat`] prints the counts. Built
//! with `linestat`, [`crate::atomic::linestat`] is told of it, too. Built without them, name and counting are
//! gone: not one byte or instruction is left of them.

use std::fmt;
use std::ops::{Deref, DerefMut};

#[cfg(feature = "linestat")]
use crate::atomic::linestat::Unlocks;

pub mod lockstat;

/// A lock with a name. All locks that guard the same sort of thing share one name.
pub struct Mutex<T: ?Sized> {
    #[cfg(feature = "lockstat")]
    name: &'static str,
    lock: parking_lot::Mutex<T>,
}

#[cfg(not(any(feature = "lockstat", feature = "linestat")))]
const _: () = {
    assert!(size_of::<Mutex<u64>>() == size_of::<parking_lot::Mutex<u64>>());
    assert!(size_of::<MutexGuard<'_, u64>>() == size_of::<parking_lot::MutexGuard<'_, u64>>());
};

impl<T> Mutex<T> {
    /// A lock around `value`, called `name` in the table of counts.
    pub const fn new(name: &'static str, value: T) -> Mutex<T> {
        #[cfg(not(feature = "lockstat"))]
        let _ = name;
        Mutex {
            #[cfg(feature = "lockstat")]
            name,
            lock: parking_lot::Mutex::new(value),
        }
    }

    /// What was locked up, without the lock.
    pub fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T: Default> Mutex<T> {
    /// A lock around a default value: what `Default` would be, had a name a default.
    pub fn named(name: &'static str) -> Mutex<T> {
        Mutex::new(name, T::default())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the lock is free and takes it.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(feature = "lockstat")]
        let (guard, hold) = lockstat::count::lock(self.name, &self.lock);
        #[cfg(not(feature = "lockstat"))]
        let guard = self.lock.lock();
        MutexGuard {
            guard,
            #[cfg(feature = "lockstat")]
            _hold: hold,
            #[cfg(feature = "linestat")]
            _unlocks: Unlocks::noted(&self.lock),
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(feature = "lockstat")]
        let (guard, hold) = lockstat::count::try_lock(self.name, &self.lock)?;
        #[cfg(not(feature = "lockstat"))]
        let guard = self.lock.try_lock()?;
        Some(MutexGuard {
            guard,
            #[cfg(feature = "lockstat")]
            _hold: hold,
            #[cfg(feature = "linestat")]
            _unlocks: Unlocks::noted(&self.lock),
        })
    }

    /// What is locked up, for somebody whom nobody else can be in the way of. Counts nothing.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

/// A lock that is held, until this is dropped.
#[must_use = "a lock is held only as long as its guard lives"]
pub struct MutexGuard<'a, T: ?Sized> {
    // Before what counts that it was held: fields are dropped in this order.
    guard: parking_lot::MutexGuard<'a, T>,
    #[cfg(feature = "lockstat")]
    _hold: lockstat::count::Hold,
    #[cfg(feature = "linestat")]
    _unlocks: Unlocks,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_is_not_taken_again() {
        let mut lock: Mutex<Vec<u32>> = Mutex::named("test: held");
        let mut guard = lock.lock();
        guard.push(7);
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert_eq!(*lock.try_lock().expect("it was let go"), [7]);
        lock.get_mut().push(8);
        assert_eq!(lock.into_inner(), [7, 8]);
    }
}
