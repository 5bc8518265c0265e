//! Who took which lock, how often, and how long it waited: what the feature `lockstat` counts.
//!
//! Every thread counts in a table of its own, which others touch only to read it, so that counting
//! makes no two threads wait that would not have waited without it; and it counts when the lock has been
//! let go, so that no lock is held for longer than without it. A thread that ends leaves its counts
//! behind. Without the feature the table is always empty.

/// Whether this build counts.
pub const IS_COUNTING: bool = cfg!(feature = "lockstat");

/// What happened to the locks of one name at one place in the source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// The name that the locks were made with.
    pub lock: &'static str,
    /// Who asked, as `file:line`.
    pub caller: String,
    /// The caller who had taken the innermost of the locks that were held at the time, the last time
    /// that any was.
    pub under: Option<String>,
    /// How often the lock was taken.
    pub acquired: u64,
    /// How often of these it was not free at once.
    pub contended: u64,
    /// How long those waited, in ns.
    pub waited_ns: u64,
    /// How often it was not taken because it was not free and the caller would not wait.
    pub failed_tries: u64,
    /// How often it was measured how long the lock was held: at one acquisition in 61, less those that
    /// had to wait, and those that were so long that the holder cannot have been running.
    pub held_samples: u64,
    /// The sum of these measurements in ns, without what it costs to read the clock.
    pub held_ns: u64,
    /// Marks that the locks left by their addresses: see [`Row::instances`].
    pub marks: Marks,
}

/// As many marks as tell a thousand locks apart.
pub type Marks = [u64; 4];

impl Row {
    /// About how many locks of this name were taken here: by how many of 256 marks, to which their
    /// addresses were spread, are not set (linear counting: Whang and others, TODS 1990). Within a few
    /// per cent up to some hundred; never above 1,500.
    pub fn instances(&self) -> f64 {
        let all = f64::from(u64::BITS * self.marks.len() as u32);
        let unset: u32 = self.marks.iter().map(|word| word.count_zeros()).sum();
        all * (all / f64::from(unset).max(0.75)).ln()
    }

    /// How long the lock was held, in ns on the mean; `None` where that was never measured.
    pub fn mean_hold_ns(&self) -> Option<f64> {
        (self.held_samples > 0).then(|| self.held_ns as f64 / self.held_samples as f64)
    }
}

/// The counts of all threads since the last [`reset`], in the order of lock and caller.
pub fn table() -> Vec<Row> {
    #[cfg(feature = "lockstat")]
    return count::table();
    #[cfg(not(feature = "lockstat"))]
    Vec::new()
}

/// Starts counting anew. Threads that take locks meanwhile may count on either side of it.
pub fn reset() {
    #[cfg(feature = "lockstat")]
    count::reset();
}

#[cfg(feature = "lockstat")]
pub(super) mod count {
    //! The counting itself.

    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::panic::Location;
    use std::sync::{Arc, OnceLock};
    use std::time::{Duration, Instant};

    use parking_lot::{Mutex, MutexGuard};

    use super::{Marks, Row};

    /// One acquisition in so many is timed: reading the clock costs more than most locks are held. A
    /// prime, as a loop that takes two or four locks in turn would always have the same one timed.
    const SAMPLE_EVERY: u32 = 61;

    /// A holder who kept a lock for longer was interrupted while he held it.
    const HOLD_MAX: Duration = Duration::from_micros(50);

    /// The locks of a name, and a place in the source: both live as long as the program.
    #[derive(Clone, Copy, Debug)]
    struct Site {
        lock: &'static str,
        caller: &'static Location<'static>,
    }

    impl Site {
        /// By address, which is quick: one place may have two addresses, whose rows are added up when
        /// the table is read.
        fn is(&self, other: &Site) -> bool {
            std::ptr::eq(self.caller, other.caller) && std::ptr::eq(self.lock, other.lock)
        }
    }

    /// What a thread counted of a site, and the site of what it held at the time.
    #[derive(Debug)]
    struct Entry {
        site: Site,
        under: Option<Site>,
        row: Row,
    }

    /// A thread's counts: as many as the program has places that lock.
    type Tally = Vec<Entry>;

    struct Threads {
        running: Vec<Arc<Mutex<Tally>>>,
        ended: Tally,
    }

    static THREADS: Mutex<Threads> = Mutex::new(Threads { running: Vec::new(), ended: Vec::new() });

    struct Own(Arc<Mutex<Tally>>);

    thread_local! {
        /// The innermost lock that this thread holds.
        static HELD: Cell<Option<Site>> = const { Cell::new(None) };

        static OWN: Own = {
            let tally = Arc::default();
            THREADS.lock().running.push(Arc::clone(&tally));
            Own(tally)
        };
    }

    impl Drop for Own {
        fn drop(&mut self) {
            let mut threads = THREADS.lock();
            threads.running.retain(|tally| !Arc::ptr_eq(tally, &self.0));
            for Entry { site, under, row } in self.0.lock().drain(..) {
                let sum = entry_of(&mut threads.ended, site);
                sum.under = under.or(sum.under);
                add(&mut sum.row, &row);
            }
        }
    }

    /// A lock that is held. It is counted when this is dropped, after the lock was let go.
    #[derive(Debug)]
    pub(crate) struct Hold {
        site: Site,
        /// What else was held when it was taken.
        outer: Option<Site>,
        address: usize,
        waited: Option<Duration>,
        /// Since when, if this acquisition is a sample.
        since: Option<Instant>,
    }

    impl Hold {
        #[inline]
        fn new(site: Site, address: usize, waited: Option<Duration>) -> Hold {
            let since = (waited.is_none() && is_sample()).then(Instant::now);
            Hold { site, outer: HELD.replace(Some(site)), address, waited, since }
        }
    }

    impl Drop for Hold {
        fn drop(&mut self) {
            HELD.set(self.outer);
            let held = self.since.map(|since| since.elapsed()).filter(|held| *held <= HOLD_MAX);
            count(self.site, |Entry { under, row, .. }| {
                *under = self.outer.or(*under);
                row.acquired += 1;
                if let Some(waited) = self.waited {
                    row.contended += 1;
                    row.waited_ns += waited.as_nanos() as u64;
                }
                if let Some(held) = held {
                    row.held_samples += 1;
                    row.held_ns += held.saturating_sub(clock_cost()).as_nanos() as u64;
                }
                mark(&mut row.marks, self.address);
            });
        }
    }

    #[inline]
    #[track_caller]
    pub(crate) fn lock<'a, T: ?Sized>(name: &'static str, lock: &'a Mutex<T>) -> (MutexGuard<'a, T>, Hold) {
        let site = Site { lock: name, caller: Location::caller() };
        let address = std::ptr::from_ref(lock).addr();
        match lock.try_lock() {
            Some(guard) => (guard, Hold::new(site, address, None)),
            None => {
                let start = Instant::now();
                let guard = lock.lock();
                (guard, Hold::new(site, address, Some(start.elapsed())))
            }
        }
    }

    #[inline]
    #[track_caller]
    pub(crate) fn try_lock<'a, T: ?Sized>(
        name: &'static str,
        lock: &'a Mutex<T>,
    ) -> Option<(MutexGuard<'a, T>, Hold)> {
        let site = Site { lock: name, caller: Location::caller() };
        let Some(guard) = lock.try_lock() else {
            count(site, |entry| entry.row.failed_tries += 1);
            return None;
        };
        let address = std::ptr::from_ref(lock).addr();
        Some((guard, Hold::new(site, address, None)))
    }

    fn is_sample() -> bool {
        thread_local! {
            static TURN: Cell<u32> = const { Cell::new(0) };
        }
        let turn = TURN.get() + 1;
        TURN.set(turn % SAMPLE_EVERY);
        turn == SAMPLE_EVERY
    }

    /// Sets one of the marks, whichever the address spreads to (the finalizer of MurmurHash3: addresses
    /// that lie at equal distances must not spread better than by chance).
    fn mark(marks: &mut Marks, address: usize) {
        let mut bits = address as u64;
        bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        let bit = bits >> 56;
        marks[(bit / 64) as usize] |= 1 << (bit % 64);
    }

    fn count(site: Site, change: impl Fn(&mut Entry)) {
        let counted = OWN.try_with(|own| change(entry_of(&mut own.0.lock(), site)));
        // A thread that is about to be gone has no table any more.
        counted.unwrap_or_else(|_| change(entry_of(&mut THREADS.lock().ended, site)));
    }

    fn entry_of(tally: &mut Tally, site: Site) -> &mut Entry {
        let place = tally.iter().position(|known| known.site.is(&site)).unwrap_or_else(|| {
            tally.push(Entry { site, under: None, row: Row::default() });
            tally.len() - 1
        });
        &mut tally[place]
    }

    fn add(sum: &mut Row, row: &Row) {
        sum.acquired += row.acquired;
        sum.contended += row.contended;
        sum.waited_ns += row.waited_ns;
        sum.failed_tries += row.failed_tries;
        sum.held_samples += row.held_samples;
        sum.held_ns += row.held_ns;
        sum.marks.iter_mut().zip(row.marks).for_each(|(sum, marks)| *sum |= marks);
    }

    pub(super) fn table() -> Vec<Row> {
        let threads = THREADS.lock();
        let mut rows: BTreeMap<(&'static str, &'static str, u32), Row> = BTreeMap::new();
        let mut take = |tally: &Tally| {
            for Entry { site, under, row } in tally {
                let sum = rows.entry((site.lock, site.caller.file(), site.caller.line())).or_default();
                sum.under = under.map(|under| place(under.caller)).or(sum.under.take());
                add(sum, row);
            }
        };
        take(&threads.ended);
        threads.running.iter().for_each(|tally| take(&tally.lock()));
        let named = |((lock, file, line), row)| Row { lock, caller: format!("{file}:{line}"), ..row };
        rows.into_iter().map(named).filter(|row| row.acquired + row.failed_tries > 0).collect()
    }

    fn place(caller: &Location<'_>) -> String {
        format!("{}:{}", caller.file(), caller.line())
    }

    pub(super) fn reset() {
        let mut threads = THREADS.lock();
        threads.ended.clear();
        threads.running.iter().for_each(|tally| tally.lock().clear());
    }

    /// What two readings of the clock have between them when nothing is between them.
    fn clock_cost() -> Duration {
        static COST: OnceLock<Duration> = OnceLock::new();
        let cost = || (0..1000).map(|_| Instant::now().elapsed()).min().unwrap_or_default();
        *COST.get_or_init(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Mutex;

    fn rows(lock: &str) -> Vec<Row> {
        table().into_iter().filter(|row| row.lock == lock).collect()
    }

    #[test]
    fn a_build_counts_if_and_only_if_it_was_asked_to() {
        let lock = Mutex::new("test: asked", 0);
        *lock.lock() += 1;
        assert_eq!(rows("test: asked").len(), usize::from(IS_COUNTING));
    }

    #[cfg(feature = "lockstat")]
    #[test]
    fn callers_of_one_lock_are_told_apart() {
        let lock = Mutex::new("test: callers", 0);
        for _ in 0..128 {
            *lock.lock() += 1;
        }
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        let rows = rows("test: callers");
        let counts: Vec<_> =
            rows.iter().map(|row| (row.acquired, row.failed_tries, row.held_samples > 0)).collect();
        assert_eq!(counts, [(128, 0, true), (1, 0, false), (0, 1, false)]);
        assert!(rows.iter().all(|row| row.caller.starts_with(file!()) && row.contended == 0), "{rows:?}");
    }

    #[cfg(feature = "lockstat")]
    #[test]
    fn a_lock_that_is_taken_under_another_says_so() {
        let (outer, inner) = (Mutex::new("test: outer", 0), Mutex::new("test: inner", 0));
        let held = outer.lock();
        *inner.lock() += 1;
        drop(held);
        let (outer, inner) = (rows("test: outer"), rows("test: inner"));
        assert_eq!((&outer[0].under, &inner[0].under), (&None, &Some(outer[0].caller.clone())));
    }

    #[cfg(feature = "lockstat")]
    #[test]
    fn locks_of_one_name_are_told_apart_by_number() {
        for (name, count, range) in
            [("test: one", 1, 0.9..1.1), ("test: 64", 64, 50.0..78.0), ("test: 400", 400, 300.0..500.0)]
        {
            let locks: Vec<Mutex<u64>> = (0..count).map(|_| Mutex::named(name)).collect();
            for _ in 0..3 {
                locks.iter().for_each(|lock| *lock.lock() += 1);
            }
            let instances = rows(name)[0].instances();
            assert!(range.contains(&instances), "{name}: {instances}");
        }
    }

    #[cfg(feature = "lockstat")]
    #[test]
    fn who_had_to_wait_is_counted_even_after_his_end() {
        let lock = Mutex::new("test: waits", 0);
        let contended = || rows("test: waits").iter().map(|row| row.contended).sum::<u64>();
        // Only the lock knows when somebody waits for it, so he is given a little longer each time.
        let mut turns = (1..200).map(std::time::Duration::from_millis);
        while contended() == 0 {
            let turn = turns.next().expect("nobody ever had to wait");
            let held = lock.lock();
            std::thread::scope(|scope| {
                scope.spawn(|| *lock.lock() += 1);
                std::thread::sleep(turn);
                drop(held);
            });
        }
        let (rows, turns_taken) = (rows("test: waits"), *lock.lock());
        assert_eq!(rows.iter().map(|row| row.acquired).sum::<u64>(), 2 * turns_taken);
        assert_eq!(contended(), 1);
        assert!(rows.iter().map(|row| row.waited_ns).sum::<u64>() > 0);
    }
}
