//! Lanes: a small number for each thread, so that what threads count or note often lies apart.
//!
//! The first threads have a lane of their own for as long as they run: only they write there, and need
//! no atomic operation for it but plain stores. When there are more threads than lanes, the rest share
//! the last one.

use std::cell::Cell;

use crate::atomic::{AtomicU64, Ordering};

/// How many lanes there are.
pub const LANES: usize = 128;

/// The lane that any number of threads share.
pub const SHARED: usize = LANES - 1;

const WORDS: usize = LANES / 64;

/// A bit for each lane that some thread has.
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

const UNKNOWN: usize = usize::MAX;

thread_local! {
    static LANE: Cell<usize> = const { Cell::new(UNKNOWN) };
    static TENURE: Tenure = Tenure::begin();
}

/// The lane of this thread: alone on it unless it is [`SHARED`].
#[inline]
pub fn lane() -> usize {
    let lane = LANE.get();
    if lane == UNKNOWN { begin() } else { lane }
}

#[cold]
fn begin() -> usize {
    // A thread that is ending has no tenure any more.
    let lane = TENURE.try_with(|tenure| tenure.0).unwrap_or(SHARED);
    LANE.set(lane);
    lane
}

/// Holds a lane until the thread ends.
struct Tenure(usize);

impl Tenure {
    fn begin() -> Tenure {
        for (number, word) in TAKEN.iter().enumerate() {
            // The last lane is never given to one thread alone.
            let reserved = if number == WORDS - 1 { 1 << 63 } else { 0 };
            // Acquire: what the lane's last holder wrote there is seen.
            let taken = word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
                let free = !(taken | reserved);
                (free != 0).then(|| taken | (free & free.wrapping_neg()))
            });
            if let Ok(before) = taken {
                return Tenure(number * 64 + (!(before | reserved)).trailing_zeros() as usize);
            }
        }
        Tenure(SHARED)
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        LANE.set(SHARED);
        if self.0 != SHARED {
            TAKEN[self.0 / 64].fetch_and(!(1 << (self.0 % 64)), Ordering::Release);
        }
    }
}

/// Adds to a number that lies in the lane `of` the calling thread.
#[inline]
pub fn add(number: &AtomicU64, n: u64, of: usize) {
    if of == SHARED {
        number.fetch_add(n, Ordering::Relaxed);
    } else {
        number.store(number.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn threads_that_run_at_once_have_lanes_of_their_own_as_long_as_there_are_some() {
        let (all_in, lanes) = (Barrier::new(200), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..200 {
                scope.spawn(|| {
                    let own = lane();
                    lanes.lock().unwrap().push(own);
                    all_in.wait();
                    assert_eq!(own, lane());
                });
            }
        });
        let lanes = lanes.into_inner().unwrap();
        let own: Vec<usize> = lanes.iter().copied().filter(|&lane| lane != SHARED).collect();
        assert_eq!(own.iter().collect::<HashSet<_>>().len(), own.len(), "two threads had one lane");
        assert!(own.len() < LANES && lanes.contains(&SHARED));
        // They are given back.
        std::thread::spawn(|| assert_ne!(lane(), SHARED)).join().unwrap();
    }

    #[test]
    fn nothing_that_threads_add_one_after_the_other_is_lost() {
        let cells: Vec<AtomicU64> = (0..LANES).map(|_| AtomicU64::new(0)).collect();
        for _ in 0..10 {
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| (0..1000).for_each(|_| add(&cells[lane()], 1, lane())));
                }
            });
        }
        assert_eq!(cells.iter().map(|cell| cell.load(Ordering::Relaxed)).sum::<u64>(), 80_000);
    }
}
