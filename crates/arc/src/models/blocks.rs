//! Models of blocks: pinned, replaced, removed, evicted, while the cache lives and after.

use arcwell_base::{BlockKey, Kind, ObjectId};
use shuttle::sync::Arc;
use shuttle::thread;

use super::engines;
use super::run::check;
use crate::sync::Fault;
use crate::{Admit, Asked, Cache, Config, Keep, ListKind, Overhead, Pin, Policy};

const LEN: usize = 64;
const HOW: Admit = Admit { asked: Asked::Demand, keep: Keep::Cached };
const GUESS: Admit = Admit { asked: Asked::Prefetch, keep: Keep::Cached };
const PASSING: Admit = Admit { asked: Asked::Prefetch, keep: Keep::Uncached };

/// A cache with room for `blocks` blocks.
fn cache(lists: ListKind, blocks: u64) -> Arc<Cache> {
    let size_max = blocks * LEN as u64;
    let overhead = Overhead::Ignored;
    let policy = Policy::Arc;
    Arc::new(Cache::new(Config { lists, overhead, policy, size_min: 0, ..Config::new(size_max) }))
}

fn key(index: u64) -> BlockKey {
    BlockKey::new(ObjectId(1), index)
}

/// Fills a block with its key and version, the schedule in between.
fn write(cache: &Cache, index: u64, version: u8, how: Admit) -> Option<Pin> {
    let mut anon = cache.admit(key(index), Kind::Data, LEN, how).ok()?;
    let byte = index as u8 * 16 + version;
    anon[..LEN / 2].fill(byte);
    thread::yield_now();
    anon[LEN / 2..].fill(byte);
    Some(anon.publish())
}

/// The version that a block has, through and through.
fn version(pin: &Pin, index: u64) -> u8 {
    let first = pin[0];
    thread::yield_now();
    assert!(pin.iter().all(|&byte| byte == first), "torn: {:?}", &**pin);
    assert_eq!((first / 16, pin.key()), (index as u8, key(index)), "foreign");
    first % 16
}

fn look(cache: &Cache, index: u64) -> Option<Pin> {
    let pin = cache.lookup(key(index), Kind::Data, Asked::Demand)?;
    version(&pin, index);
    Some(pin)
}

/// Runs threads to their end.
fn together(cache: &Arc<Cache>, programs: &[fn(&Cache)]) {
    let threads: Vec<_> = programs
        .iter()
        .map(|program| {
            let (program, cache) = (*program, cache.clone());
            thread::spawn(move || program(&cache))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Nothing is in use any more: recounts, and closes the cache.
fn close(cache: Arc<Cache>) {
    cache.validate().unwrap();
    cache.shrink(u64::MAX);
    cache.validate().unwrap();
    drop(cache);
    assert_eq!(engines::bury(), 1, "the engine is freed once");
}

/// Blocks are held while others need their room and their keys are removed.
fn held(lists: ListKind) {
    let cache = cache(lists, 3);
    drop((write(&cache, 1, 0, HOW), write(&cache, 2, 0, GUESS)));
    together(
        &cache,
        &[
            |cache| {
                drop(look(cache, 2));
                drop((look(cache, 1), cache.peek(key(2)).map(|pin| version(&pin.clone(), 2))));
            },
            |cache| drop((write(cache, 3, 0, HOW), write(cache, 4, 0, PASSING))),
            |cache| {
                cache.remove(key(1));
                drop(write(cache, 5, 0, GUESS));
            },
        ],
    );
    close(cache);
}

/// One key is published by two, while it is evicted, looked up, and admitted again.
fn replaced(lists: ListKind) {
    let cache = cache(lists, 3);
    together(
        &cache,
        &[
            |cache| _ = write(cache, 1, 1, HOW).map(|pin| version(&pin, 1)),
            |cache| _ = write(cache, 1, 2, GUESS).map(|pin| version(&pin, 1)),
            |cache| {
                cache.shrink(2 * LEN as u64);
                drop(look(cache, 1));
                cache.shrink(2 * LEN as u64);
            },
            |cache| drop((look(cache, 1), look(cache, 1))),
        ],
    );
    close(cache);
}

/// One writes versions one after the other; who reads never meets an older one again.
fn frozen(lists: ListKind) {
    let cache = cache(lists, 3);
    together(
        &cache,
        &[
            |cache| (1..4).for_each(|version| drop(write(cache, 1, version, HOW))),
            |cache| {
                let seen = (0..3).filter_map(|_| cache.peek(key(1)).map(|pin| version(&pin, 1)));
                assert!(seen.collect::<Vec<_>>().is_sorted());
            },
            |cache| {
                let seen = (0..2).filter_map(|_| look(cache, 1).map(|pin| version(&pin, 1)));
                assert!(seen.collect::<Vec<_>>().is_sorted());
                drop(write(cache, 2, 1, HOW));
            },
        ],
    );
    close(cache);
}

/// A block is evicted, its header used again, and it is admitted again, while it is looked up.
fn reused(lists: ListKind) {
    let cache = cache(lists, 2);
    drop(write(&cache, 1, 1, HOW));
    together(
        &cache,
        &[
            |cache| {
                (2..5).for_each(|index| drop(write(cache, index, 0, HOW)));
                drop(write(cache, 1, 2, HOW));
            },
            |cache| (0..3).for_each(|_| _ = cache.peek(key(1)).map(|pin| version(&pin, 1))),
        ],
    );
    close(cache);
}

/// A block is published by one while another evicts it: it is in memory or a ghost.
fn readmitted(lists: ListKind) {
    let cache = cache(lists, 2);
    drop(write(&cache, 1, 1, HOW));
    // From here on in mfu, whose ghosts stay longer.
    drop(look(&cache, 1));
    together(&cache, &[|cache| drop(write(cache, 2, 0, HOW)), |cache| drop(write(cache, 1, 2, HOW))]);
    close(cache);
}

/// A guess is asked for the first time while it is evicted: it is a guess no more, or was one to the end.
fn guessed(lists: ListKind) {
    let cache = cache(lists, 2);
    drop(write(&cache, 1, 1, GUESS));
    together(
        &cache,
        &[|cache| _ = cache.shrink(u64::MAX), |cache| drop(cache.lookup(key(1), Kind::Data, Asked::Demand))],
    );
    close(cache);
}

/// The last pin that has an errand goes while another is taken and the cache is closed.
fn orphaned(lists: ListKind) {
    let cache = cache(lists, 3);
    drop(write(&cache, 1, 0, HOW));
    let other = cache.clone();
    let threads = [
        thread::spawn(move || {
            let pin = cache.peek(key(1));
            cache.shrink(u64::MAX);
            cache.set_size_max(8 * LEN as u64);
            drop(cache);
            drop(pin);
        }),
        thread::spawn(move || {
            let pin = other.peek(key(1));
            drop(other);
            thread::yield_now();
            drop(pin);
        }),
    ];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(engines::bury(), 1, "the engine is freed once");
}

/// The cache is closed while blocks are held, cloned, let go of, and one is yet to be published.
fn closed(lists: ListKind) {
    let cache = cache(lists, 3);
    drop(write(&cache, 1, 0, HOW));
    drop(write(&cache, 2, 0, HOW));
    let programs: [fn(Arc<Cache>); 3] = [
        |cache| {
            let pin = look(&cache, 1);
            drop(cache);
            drop((pin.clone(), pin.map(|pin| version(&pin, 1))));
        },
        |cache| {
            let pin = look(&cache, 1);
            cache.shrink(u64::MAX);
            drop(cache);
            drop(pin);
        },
        |cache| {
            cache.remove(key(2));
            let anon = cache.admit(key(2), Kind::Data, LEN, PASSING);
            drop(cache);
            drop(anon.map(|anon| anon.publish()));
        },
    ];
    let threads = programs.map(|program| {
        let cache = cache.clone();
        thread::spawn(move || program(cache))
    });
    drop(cache);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(engines::bury(), 1, "the engine is freed once, and after everything else");
}

#[test]
fn a_held_block_stays_while_others_are_evicted_and_removed() {
    check(|| held(ListKind::Single), &[Fault::ClaimIgnoresPins]);
    check(|| held(ListKind::Multilist), &[]);
}

#[test]
fn a_held_block_stays_in_its_page() {
    check(|| held(ListKind::Pages), &[Fault::ClaimIgnoresPins]);
}

#[test]
fn a_guess_is_counted_out_once() {
    check(|| guessed(ListKind::Single), &[]);
    check(|| guessed(ListKind::Pages), &[]);
}

#[test]
fn publishers_of_one_key_and_eviction_leave_one_block_or_one_ghost() {
    check(|| replaced(ListKind::Single), &[]);
    check(|| replaced(ListKind::Pages), &[]);
    check(|| readmitted(ListKind::Single), &[Fault::GhostOutsideBucket]);
    check(|| readmitted(ListKind::Pages), &[]);
}

#[test]
fn what_is_read_was_written_as_a_whole_and_is_never_older() {
    check(|| frozen(ListKind::Single), &[]);
    check(|| frozen(ListKind::Pages), &[]);
    check(|| reused(ListKind::Single), &[Fault::PinUnderAnotherWord]);
    check(|| reused(ListKind::Pages), &[Fault::PinUnderAnotherWord]);
}

#[test]
fn the_engine_outlives_whoever_holds_a_block() {
    check(|| closed(ListKind::Single), &[]);
    check(|| closed(ListKind::Pages), &[]);
    check(|| orphaned(ListKind::Single), &[Fault::ErrandWithoutKeep]);
    check(|| orphaned(ListKind::Pages), &[Fault::ErrandWithoutKeep, Fault::ErrandOffOrphan]);
}
