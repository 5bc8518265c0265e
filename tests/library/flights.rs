//! Who fetches: one for all, again after a failure, and never something that was overtaken.
//!
//! Threads are brought together by what the cache counts, never by time. Beside the cache stands
//! `Naive`, which does without flights: where the checks can fail, it fails them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use arcwell::{BlockKey, Cache, FetchError, Pin};

use super::{MIB, PAGE, cache, fill_up, page};

const THREADS: u64 = 16;

/// A fetch's own error: which call of it this was.
#[derive(Debug, PartialEq)]
struct Call(u64);

type Fetched = Result<Pin, FetchError<Call>>;
type Fetch<'a> = &'a mut dyn FnMut(&mut [u8]) -> Result<usize, Call>;

trait Get: Sync {
    fn cache(&self) -> &Cache;
    fn get(&self, key: BlockKey, fetch: Fetch<'_>) -> Fetched;
}

impl Get for Cache {
    fn cache(&self) -> &Cache {
        self
    }

    fn get(&self, key: BlockKey, fetch: Fetch<'_>) -> Fetched {
        self.get_or_fetch(key, PAGE, fetch)
    }
}

/// What one would write without `get_or_fetch`.
struct Naive(Cache);

impl Get for Naive {
    fn cache(&self) -> &Cache {
        &self.0
    }

    fn get(&self, key: BlockKey, fetch: Fetch<'_>) -> Fetched {
        if let Some(pin) = self.0.pin(key) {
            return Ok(pin);
        }
        let mut bytes = vec![0; PAGE];
        fetch(&mut bytes).map_err(FetchError::Fetch)?;
        Ok(self.0.insert(key, &bytes).unwrap())
    }
}

/// Waits until `THREADS` lookups have missed: from then on nobody can be told that the block is there.
fn until_all_missed(cache: &Cache) {
    while cache.stats().misses < THREADS {
        thread::yield_now();
    }
}

/// All threads miss one key before the first fetch ends. `end` says how call number n ends. Returns
/// the number of calls, and what each thread got; `None` for a panic.
fn all_at_once(from: &dyn Get, end: fn(u64) -> Result<usize, Call>) -> (u64, Vec<Option<Fetched>>) {
    let (key, calls) = (BlockKey::from((1, 1)), AtomicU64::new(0));
    let get = || {
        from.get(key, &mut |buffer| {
            until_all_missed(from.cache());
            buffer.copy_from_slice(&page(key, 1));
            end(calls.fetch_add(1, Ordering::Relaxed))
        })
    };
    let got = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(get)).collect();
        threads.into_iter().map(|thread| thread.join().ok()).collect()
    });
    (calls.into_inner(), got)
}

fn succeeded(got: &[Option<Fetched>]) -> u64 {
    let right = |one: &&Option<Fetched>| matches!(one, Some(Ok(pin)) if **pin == *page((1, 1).into(), 1));
    got.iter().filter(right).count() as u64
}

#[test]
fn all_who_ask_at_once_wait_for_one_fetch() {
    let cache = cache(MIB);
    let (calls, got) = all_at_once(&cache, |_| Ok(PAGE));
    assert_eq!((calls, succeeded(&got)), (1, THREADS));
    let stats = cache.stats();
    assert_eq!((stats.fetches, stats.inserts, stats.misses), (1, 1, THREADS));
    assert!(stats.joined < THREADS);

    let (calls, got) = all_at_once(&Naive(super::cache(MIB)), |_| Ok(PAGE));
    assert_eq!((calls, succeeded(&got)), (THREADS, THREADS), "the check sees what it is there for");
}

#[test]
fn an_error_is_told_to_its_caller_alone_and_not_remembered() {
    let cache = cache(MIB);
    let (calls, got) = all_at_once(&cache, |call| Err(Call(call)));
    assert_eq!(calls, THREADS, "each fetches for itself");
    let mut errors: Vec<u64> = got
        .into_iter()
        .map(|one| match one {
            Some(Err(FetchError::Fetch(Call(call)))) => call,
            other => panic!("{other:?}"),
        })
        .collect();
    errors.sort_unstable();
    assert_eq!(errors, (0..THREADS).collect::<Vec<_>>());
    assert!(!cache.contains((1, 1)) && cache.stats().failed == THREADS && cache.stats().anon == 0);
    assert!(cache.get((1, 1).into(), &mut |_| Ok(PAGE)).is_ok());
}

#[test]
fn after_a_failed_fetch_one_of_those_who_waited_fetches_for_the_rest() {
    let (calls, got) = all_at_once(&cache(MIB), |call| if call < 2 { Err(Call(call)) } else { Ok(PAGE) });
    assert_eq!((calls, succeeded(&got)), (3, THREADS - 2));
}

#[test]
fn a_panic_is_its_callers_and_leaves_nobody_waiting() {
    let cache = cache(MIB);
    let (calls, got) =
        all_at_once(&cache, |call| if call == 0 { panic!("as the test wants") } else { Ok(PAGE) });
    assert_eq!((calls, succeeded(&got)), (2, THREADS - 1));
    assert_eq!(got.iter().filter(|one| one.is_none()).count(), 1);
    assert_eq!(cache.stats().anon, 0, "the half-filled block is given back");
}

#[test]
fn those_who_wait_share_also_what_is_read_beside_a_full_cache() {
    let cache = cache(MIB);
    let _held = fill_up(&cache);
    let missed = cache.stats().misses;
    let (key, calls) = (BlockKey::from((1, 1)), AtomicU64::new(0));
    let get = || {
        let pin = cache.get(key, &mut |buffer| {
            while cache.stats().misses < missed + 2 {
                thread::yield_now();
            }
            buffer.copy_from_slice(&page(key, 1));
            calls.fetch_add(1, Ordering::Relaxed);
            Ok(PAGE)
        });
        assert_eq!(*pin.unwrap(), *page(key, 1));
    };
    thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(get))));
    // Who came after the end had nothing to join.
    let stats = cache.stats();
    assert_eq!(calls.into_inner() + stats.joined, 2);
}

/// A fetch that has read the old bytes when somebody changes the block. Returns what it then got.
fn overtaken(from: &dyn Get, change: &dyn Fn(&Cache, BlockKey)) -> Pin {
    let (key, mut stored) = (BlockKey::from((1, 1)), 1);
    let fetch: Fetch<'_> = &mut |buffer| {
        buffer.copy_from_slice(&page(key, stored));
        if stored == 1 {
            stored = 2;
            change(from.cache(), key);
        }
        Ok(PAGE)
    };
    from.get(key, fetch).unwrap()
}

#[test]
fn a_fetch_that_was_overtaken_by_an_insert_gives_and_leaves_the_new_bytes() {
    let insert = |cache: &Cache, key| _ = cache.insert(key, &page(key, 2));
    let (cache, new) = (cache(MIB), page((1, 1).into(), 2));
    assert_eq!(*overtaken(&cache, &insert), *new);
    assert_eq!(*cache.pin((1, 1)).unwrap(), *new);
    let stats = cache.stats();
    assert_eq!((stats.fetches, stats.overtaken, stats.inserts), (1, 1, 1));

    let naive = Naive(super::cache(MIB));
    overtaken(&naive, &insert);
    assert_ne!(*naive.0.pin((1, 1)).unwrap(), *new, "the check sees what it is there for");
}

#[test]
fn a_fetch_that_was_overtaken_by_a_removal_is_done_again() {
    let remove = |cache: &Cache, key| _ = cache.remove(key);
    let (cache, new) = (cache(MIB), page((1, 1).into(), 2));
    assert_eq!(*overtaken(&cache, &remove), *new);
    assert_eq!(*cache.pin((1, 1)).unwrap(), *new);
    assert_eq!((cache.stats().fetches, cache.stats().overtaken), (2, 1));
}

#[test]
fn an_insert_without_room_overtakes_as_well() {
    let insert = |cache: &Cache, key| assert!(cache.insert(key, &vec![2; 600_000]).is_err());
    let cache = cache(MIB);
    assert_eq!(*overtaken(&cache, &insert), *page((1, 1).into(), 2));
}

#[test]
fn a_fetch_may_use_the_cache_but_not_ask_for_itself() {
    let cache = cache(MIB);
    let [inner, outer] = [BlockKey::from((1, 1)), BlockKey::from((1, 2))];
    let nested = cache.get(outer, &mut |buffer| {
        let other = cache.get(inner, &mut |_| Ok(PAGE)).unwrap();
        buffer.copy_from_slice(&other);
        Ok(PAGE)
    });
    assert!(nested.is_ok() && cache.contains(inner));

    let itself = (1, 3).into();
    let circle = || {
        cache
            .get(itself, &mut |_| cache.get(itself, &mut |_| Ok(0)).map(|pin| pin.len()).map_err(|_| Call(0)))
    };
    assert!(catch_unwind(AssertUnwindSafe(circle)).is_err());
    assert!(cache.get(itself, &mut |_| Ok(PAGE)).is_ok(), "and then it can be fetched");
}

/// Writers keep a page's version in `stored`; readers note it before they ask, and must get that one
/// or a later one.
#[test]
fn nobody_ever_finds_a_version_from_before_the_last_write() {
    const PAGES: u64 = 300;
    let cache = cache(MIB);
    let stored: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(1)).collect();
    let latches: Vec<std::sync::Mutex<()>> = (0..PAGES).map(|_| std::sync::Mutex::new(())).collect();
    let work = |thread: u64| {
        for turn in 0..20_000 {
            let index = BlockKey::from((thread, turn)).hash() % PAGES;
            let (key, version) = (BlockKey::from((5, index)), &stored[index as usize]);
            if turn % 7 == 0 {
                let _latch = latches[index as usize].lock().unwrap();
                let next = version.fetch_add(1, Ordering::SeqCst) + 1;
                match turn % 2 {
                    0 => _ = cache.insert(key, &next.to_le_bytes()),
                    _ => _ = cache.remove(key),
                }
                continue;
            }
            let known = match latches[index as usize].try_lock() {
                Ok(_none_is_writing) => version.load(Ordering::SeqCst),
                Err(_) => 0,
            };
            let fetch = |buffer: &mut [u8]| {
                buffer[..8].copy_from_slice(&version.load(Ordering::SeqCst).to_le_bytes());
                thread::yield_now();
                Ok::<_, Call>(8)
            };
            let pin = cache.get_or_fetch(key, PAGE, fetch).unwrap();
            let found = u64::from_le_bytes(pin[..].try_into().unwrap());
            assert!(found >= known, "page {index}: version {found} after {known}");
        }
    };
    thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    let stats = cache.stats();
    assert!(stats.hits > 0 && stats.fetches > PAGES, "{stats}");
}
