//! Atomics that note each write to them. What they are not asked to do here, they cannot do: so that nothing
//! is written past the notes.

use std::sync::atomic;

use super::Ordering;
use super::linestat::note;

macro_rules! counted {
    ($name:ident of $value:ty, changed by $($change:ident),*) => {
        #[doc = concat!("The standard library's `", stringify!($name), "`, with its writes noted.")]
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(atomic::$name);

        impl $name {
            /// One that holds `value`.
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            /// What it holds.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// Sets it.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                note(self, false);
                self.0.store(value, order);
            }

            $(
                #[doc = concat!("As the standard library's `", stringify!($change), "`.")]
                #[inline]
                pub fn $change(&self, value: $value, order: Ordering) -> $value {
                    note(self, true);
                    self.0.$change(value, order)
                }
            )*

            /// Sets it if it holds `current`. Noted in any case: the line is taken from others either way.
            ///
            /// # Errors
            /// What it holds instead.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note(self, true);
                self.0.compare_exchange(current, new, success, failure)
            }

            /// The same. It does not fail for no reason, as the standard library's may: counts are the same on
            /// all machines.
            ///
            /// # Errors
            /// What it holds.
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Sets it to what `change` makes of it, until that is `None` or nobody was faster.
            ///
            /// # Errors
            /// What it held when `change` gave `None`.
            #[inline]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut now = self.load(failure);
                while let Some(new) = change(now) {
                    match self.compare_exchange_weak(now, new, success, failure) {
                        Ok(before) => return Ok(before),
                        Err(other) => now = other,
                    }
                }
                Err(now)
            }
        }
    };
}

counted!(AtomicBool of bool, changed by swap, fetch_and, fetch_or);
counted!(AtomicU32 of u32, changed by swap, fetch_and, fetch_or, fetch_add, fetch_sub, fetch_max, fetch_min);
counted!(AtomicU64 of u64, changed by swap, fetch_and, fetch_or, fetch_add, fetch_sub, fetch_max, fetch_min);
counted!(AtomicUsize of usize, changed by swap, fetch_and, fetch_or, fetch_add, fetch_sub, fetch_max, fetch_min);
