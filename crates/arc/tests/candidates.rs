//! What a second level sees: candidates by walks that disturb nobody and are disturbed by nobody, marks that end
//! with their block, blocks that come back to mfu, and what was evicted unfed. On every kind of lists.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use arcwell_arc::{
    Admit, Asked, Cache, Candidate, Config, Cursor, End, Keep, ListKind, Overhead, Pin, Policy, State, Walked,
};
use arcwell_base::table::Tunables;
use arcwell_base::{BlockKey, Kind, ObjectId};

const DEMAND: Admit = Admit { asked: Asked::Demand, keep: Keep::Cached };
const GUESS: Admit = Admit { asked: Asked::Prefetch, keep: Keep::Cached };
const PASSING_GUESS: Admit = Admit { asked: Asked::Prefetch, keep: Keep::Uncached };
const LEN: usize = 512;

fn key(index: u64) -> BlockKey {
    BlockKey::new(ObjectId(5), index)
}

fn cache(lists: ListKind, policy: Policy, blocks: u64) -> Cache {
    let overhead = Overhead::Ignored;
    let size_max = blocks * LEN as u64;
    // So few pages that none are put together.
    let (sublists, page_size, typical_block) = (Some(4), Some(64), LEN as u64);
    let config =
        Config { lists, policy, overhead, sublists, page_size, typical_block, ..Config::new(size_max) };
    Cache::new(Config { size_min: 0, ..config })
}

fn on_all(blocks: u64, test: impl Fn(&Cache, ListKind)) {
    for (lists, policy) in ListKind::ALL.iter().flat_map(|&l| [(l, Policy::Arc), (l, Policy::Adaptive)]) {
        let cache = cache(lists, policy, blocks);
        test(&cache, lists);
        cache.validate().unwrap();
    }
}

/// A block is full of its key's hash.
fn check(pin: &Pin) {
    let word = pin.key().hash().to_le_bytes();
    assert!(pin.chunks_exact(8).all(|part| part == word), "foreign bytes in {pin:?}");
    assert_eq!(pin.len(), LEN);
}

fn put(cache: &Cache, index: u64, how: Admit, may_feed: bool, is_frequent: bool) -> Option<Pin> {
    let mut anon = cache.admit(key(index), Kind::Data, LEN, how).ok()?;
    let word = key(index).hash().to_le_bytes();
    anon.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&word));
    anon.may_feed(may_feed);
    if is_frequent {
        anon.was_frequent();
    }
    Some(anon.publish())
}

fn fill(cache: &Cache, index: u64) {
    drop(put(cache, index, DEMAND, true, false));
}

fn hit(cache: &Cache, index: u64) -> bool {
    cache.lookup(key(index), Kind::Data, Asked::Demand).is_some()
}

fn look(cache: &Cache, on: (State, End), cursor: &mut Cursor, limit: usize) -> (Vec<u64>, Walked) {
    let mut met = Vec::new();
    let walked = cache.candidates(on.0, Kind::Data, on.1, cursor, limit, &mut |candidate: Candidate| {
        check(&candidate.pin);
        met.push(candidate.pin.key().index);
    });
    assert!(walked.looked <= limit && met.len() <= walked.looked);
    (met, walked)
}

/// A whole walk, with something done between two looks.
fn walk(cache: &Cache, on: (State, End), limit: usize, mut between: impl FnMut(&[u64])) -> Vec<u64> {
    let (mut cursor, mut all) = (Cursor::new(), Vec::new());
    for _ in 0..100_000 {
        let (met, walked) = look(cache, on, &mut cursor, limit);
        between(&met);
        all.extend(met);
        if walked.is_end {
            return all;
        }
    }
    panic!("a walk without an end");
}

fn state_of(cache: &Cache, index: u64) -> Option<State> {
    let is_on = |state: &State| cache.walk(*state, Kind::Data, End::Tail, usize::MAX).contains(&key(index));
    [State::Mru, State::Mfu, State::Uncached].into_iter().find(is_on)
}

#[test]
fn a_walk_by_any_limit_meets_each_block_once_and_in_order() {
    on_all(700, |cache, lists| {
        (0..500).for_each(|index| fill(cache, index));
        for (from, limit) in
            [End::Tail, End::Head].iter().flat_map(|&from| [1, 3, 7, 64, 65, 1000].map(|limit| (from, limit)))
        {
            let mut met = walk(cache, (State::Mru, from), limit, |_| {});
            if lists == ListKind::Multilist {
                met.sort_unstable();
            } else if from == End::Head {
                met.reverse();
            }
            assert_eq!(met, (0..500).collect::<Vec<_>>(), "{lists:?} {from:?} by {limit}");
        }
        assert!(walk(cache, (State::Mfu, End::Tail), 10, |_| {}).is_empty());
    });
}

#[test]
fn a_walk_counts_nothing_and_moves_nothing() {
    on_all(700, |cache, _| {
        (0..300).for_each(|index| fill(cache, index));
        (0..100).for_each(|index| assert!(hit(cache, index)));
        let rows =
            || [State::Mru, State::Mfu].map(|state| cache.walk(state, Kind::Data, End::Tail, usize::MAX));
        let counts = || {
            cache.refresh_gauges();
            let stats = cache.stats();
            let all = [&stats.hits, &stats.misses, &stats.mutex_miss, &stats.evict_skipped, &stats.inserts];
            all.map(|row| row.value())
        };
        let before = (rows(), counts());
        for state in [State::Mru, State::Mfu] {
            let met = walk(cache, (state, End::Tail), 9, |_| {});
            assert_eq!(met.len(), rows()[usize::from(state == State::Mfu)].len());
        }
        assert_eq!((rows(), counts()), before);
    });
}

#[test]
fn what_stays_is_met_once_whatever_the_others_do_meanwhile() {
    for from in [End::Tail, End::Head] {
        on_all(2000, |cache, lists| {
            (0..600).for_each(|index| fill(cache, index));
            let mut step = 0;
            let met = walk(cache, (State::Mru, from), 5, |_| {
                // Odd ones leave: some to mfu, some for good. Others come.
                let odd = |by: u64| (step * by + by) % 300 * 2 + 1;
                hit(cache, odd(7));
                cache.remove(key(odd(11)));
                fill(cache, 1000 + step);
                step += 1;
            });
            let mut even: Vec<u64> = met.into_iter().filter(|index| index % 2 == 0 && *index < 600).collect();
            even.sort_unstable();
            assert_eq!(even, (0..600).step_by(2).collect::<Vec<_>>(), "{lists:?} {from:?}");
        });
    }
}

#[test]
fn a_walk_ends_though_blocks_move_to_the_head_for_ever() {
    on_all(700, |cache, lists| {
        // What is used always moves.
        assert!(cache.tunables().store("arc.move_threshold", 0));
        for index in 0..300 {
            drop(put(cache, index, DEMAND, true, true));
        }
        let mut met = 0;
        walk(cache, (State::Mfu, End::Tail), 1, |now| {
            now.iter().for_each(|&index| assert!(hit(cache, index)));
            // Notes are settled, so that what was used moves.
            cache.refresh_gauges();
            met += now.len();
        });
        // Those that came into the page that was the head when the walk began are met once more.
        assert!((300..=300 + 64).contains(&met), "{lists:?}: {met}");
        let last = cache.walk(State::Mfu, Kind::Data, End::Head, 1);
        assert_ne!(last, [key(0)], "{lists:?}: they did move");
    });
}

#[test]
fn a_cursor_begins_anew_when_it_is_told_or_turned_to_another_list() {
    on_all(700, |cache, lists| {
        (0..100).for_each(|index| fill(cache, index));
        (50..100).for_each(|index| assert!(hit(cache, index)));
        cache.refresh_gauges();
        let first = |cursor: &mut Cursor, state, from| look(cache, (state, from), cursor, 10).0;
        let mut cursor = Cursor::new();
        let tail = first(&mut cursor, State::Mru, End::Tail);
        assert_ne!(first(&mut cursor.clone(), State::Mru, End::Tail), tail);
        assert_ne!(first(&mut cursor, State::Mru, End::Head), tail);
        assert_eq!(first(&mut cursor, State::Mru, End::Tail), tail);
        if cache.walk(State::Mfu, Kind::Data, End::Tail, 1).is_empty() {
            // The rule of the policy does not move what was hit.
            return;
        }
        let mfu = first(&mut cursor, State::Mfu, End::Tail);
        assert!(mfu.iter().all(|&index| index >= 50) && mfu.len() == 10, "{lists:?} {mfu:?}");
        cursor.reset();
        assert_eq!(first(&mut cursor, State::Mfu, End::Tail), mfu);
        // Of another, smaller cache it is nonsense, but not more than that.
        let other = self::cache(lists, Policy::Arc, 8);
        (0..4).for_each(|index| fill(&other, index));
        let (met, _) = look(&other, (State::Mfu, End::Tail), &mut cursor, 10);
        assert!(met.is_empty());
    });
}

#[test]
fn guesses_are_told_and_what_passes_through_is_no_candidate() {
    on_all(700, |cache, _| {
        drop(put(cache, 1, DEMAND, true, false));
        drop(put(cache, 2, GUESS, true, false));
        drop(put(cache, 3, GUESS, false, false));
        drop(put(cache, 4, PASSING_GUESS, true, false));
        let anon = cache.admit(key(5), Kind::Data, LEN, DEMAND).unwrap();
        cache.peek(key(1)).unwrap().set_on_flash(true);
        let mut met = HashMap::new();
        for state in [State::Anon, State::Mru, State::Mfu, State::Uncached] {
            let walked = cache.candidates(state, Kind::Data, End::Tail, &mut Cursor::new(), 99, &mut |one| {
                let marks = (one.is_guess, one.is_on_flash, one.pin.may_be_fed());
                met.insert(one.pin.key().index, marks);
            });
            assert!(walked.is_end);
        }
        let expected = [(1, (false, true, true)), (2, (true, false, true)), (3, (true, false, false))];
        assert_eq!(met, HashMap::from(expected));
        assert!(
            cache.candidates(State::Mru, Kind::Metadata, End::Tail, &mut Cursor::new(), 9, &mut |_| {
                panic!("there is no metadata");
            }) == Walked { looked: 0, is_end: true }
        );
        drop(anon);
    });
}

#[test]
fn marks_are_of_one_block_and_end_with_it() {
    on_all(8, |cache, lists| {
        let pin = put(cache, 0, DEMAND, true, false).unwrap();
        assert_eq!((pin.is_on_flash(), pin.may_be_fed()), (false, true));
        pin.set_on_flash(true);
        assert_eq!((pin.is_on_flash(), pin.may_be_fed()), (true, true));
        assert!(cache.peek(key(0)).unwrap().is_on_flash(), "until then it stays, whoever looks");
        pin.set_on_flash(false);
        assert!(!cache.peek(key(0)).unwrap().is_on_flash() && pin.may_be_fed());
        // New bytes are another block; who holds the old one holds that.
        pin.set_on_flash(true);
        let new = put(cache, 0, DEMAND, false, false).unwrap();
        assert_eq!((new.is_on_flash(), new.may_be_fed()), (false, false));
        assert_eq!((pin.is_on_flash(), pin.may_be_fed()), (true, true));
        drop((pin, new));
        for index in 1..200 {
            let pin = put(cache, index, DEMAND, index % 3 == 0, false).unwrap();
            assert_eq!((pin.is_on_flash(), pin.may_be_fed()), (false, index % 3 == 0), "{lists:?}");
            pin.set_on_flash(true);
        }
    });
}

#[test]
fn what_level_2_had_in_mfu_comes_back_to_mfu() {
    on_all(700, |cache, lists| {
        let shares = || {
            cache.refresh_gauges();
            let stats = cache.stats();
            [stats.meta.value(), stats.pd.value(), stats.pm.value(), stats.rule.value()]
        };
        let before = shares();
        for index in 0..100 {
            let mut anon = cache.admit(key(index), Kind::Data, LEN, DEMAND).unwrap();
            match index % 4 {
                0 => anon.was_frequent(),
                1 => {
                    // Twice is once, and shortening counts out what was counted in.
                    anon.was_frequent();
                    anon.truncate(LEN / 2).unwrap();
                    anon.was_frequent();
                }
                2 => {
                    anon.was_frequent();
                    drop(anon);
                    cache.validate().unwrap();
                    continue;
                }
                _ => {}
            }
            drop(anon.publish());
            let expected = if index % 4 < 2 { State::Mfu } else { State::Mru };
            assert_eq!(state_of(cache, index), Some(expected), "{lists:?}: {index}");
            cache.validate().unwrap();
        }
        assert_eq!(shares(), before, "it teaches nothing");
        assert_eq!(cache.stats().mfu_data.value(), 25 * (LEN + LEN / 2) as u64);
        assert_eq!(cache.stats().mru_data.value(), 25 * LEN as u64);
        // A guess stays one, and what is not to stay does not.
        drop(put(cache, 200, GUESS, true, true));
        drop(put(cache, 201, PASSING_GUESS, true, true));
        assert_eq!([200, 201].map(|index| state_of(cache, index)), [Some(State::Mru), Some(State::Uncached)]);
    });
}

#[test]
fn what_was_evicted_unfed_is_counted_and_nothing_else() {
    on_all(64, |cache, lists| {
        let counts = || {
            cache.refresh_gauges();
            let stats = cache.stats();
            [stats.evicted_unfed.value(), stats.evicted_unfed_bytes.value(), stats.evicted.value()]
        };
        for index in 0..60 {
            let pin = put(cache, index, DEMAND, index % 2 == 0, false).unwrap();
            pin.set_on_flash(index % 3 == 0);
        }
        drop(put(cache, 60, PASSING_GUESS, true, false));
        let _held = put(cache, 61, DEMAND, true, false);
        // Removed and written over is not evicted.
        assert!(cache.remove(key(2)));
        fill(cache, 4);
        assert_eq!((counts(), cache.is_warm()), ([0; 3], false), "{lists:?}");
        cache.shrink(u64::MAX);
        // Even and not divided by three, without the one that was removed; and never what is held.
        let unfed = (0..60).filter(|index| index % 2 == 0 && index % 3 != 0 && *index != 2).count() as u64;
        assert_eq!(counts(), [unfed, unfed * LEN as u64, 60], "{lists:?}");
        assert!(cache.is_warm());
    });
}

#[test]
fn only_eviction_of_what_was_to_stay_makes_a_cache_warm() {
    on_all(100, |cache, _| {
        (0..90).for_each(|index| drop(put(cache, index, PASSING_GUESS, true, false)));
        cache.refresh_gauges();
        assert!(cache.stats().evicted.value() > 0 && !cache.is_warm());
        (100..300).for_each(|index| fill(cache, index));
        assert!(cache.is_warm());
    });
}

/// Admits, hits, removes and evicts.
fn churn(cache: &Cache, thread: u64) {
    for round in 0..6_000 {
        let dice = BlockKey::new(ObjectId(thread), round).hash();
        let index = (dice >> 32) % 600;
        match dice % 32 {
            0 => _ = cache.remove(key(index)),
            1 => cache.set_size_max((dice >> 16) % 3 * (40 << 10) + (80 << 10)),
            2 => cache.refresh_gauges(),
            3..6 => drop(put(cache, index, GUESS, true, false)),
            6..9 => drop(put(cache, index, DEMAND, true, true)),
            _ if hit(cache, index) => {}
            _ => fill(cache, index),
        }
    }
}

/// Walks until it is told to stop; how many blocks were handed out.
fn walk_on(cache: &Cache, state: State, stop: &AtomicBool) -> u64 {
    let (mut cursor, mut from, mut met, mut walks) = (Cursor::new(), End::Tail, 0, 0);
    while !stop.load(Ordering::Relaxed) || walks < 2 {
        let mut held = Vec::new();
        let walked = cache.candidates(state, Kind::Data, from, &mut cursor, 17, &mut |one| {
            check(&one.pin);
            one.pin.set_on_flash(one.pin.key().index % 2 == 0);
            held.push(one.pin);
        });
        met += held.len() as u64;
        // Looked at again, after others had time to do harm.
        held.drain(..).for_each(|pin| check(&pin));
        if walked.is_end {
            from = if from == End::Tail { End::Head } else { End::Tail };
            walks += 1;
        }
    }
    met
}

fn walk_beside_churn(lists: ListKind) {
    let cache = cache(lists, Policy::Adaptive, 300);
    let stop = AtomicBool::new(false);
    let met: u64 = std::thread::scope(|scope| {
        let (all, end) = (&cache, &stop);
        let walks = [State::Mru, State::Mfu].map(|state| scope.spawn(move || walk_on(all, state, end)));
        let churns = [1, 2, 3].map(|thread| scope.spawn(move || churn(all, thread)));
        churns.into_iter().for_each(|thread| thread.join().unwrap());
        end.store(true, Ordering::Relaxed);
        walks.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    cache.validate().unwrap();
    cache.refresh_gauges();
    let stats = cache.stats();
    assert!(met > 0 && stats.hits.value() > 0 && stats.evicted.value() > 0);
    assert!(stats.evicted_unfed.value() < stats.evicted.value(), "some were marked in time");
}

#[test]
fn walks_beside_threads_that_change_everything_on_single_lists() {
    walk_beside_churn(ListKind::Single);
}

#[test]
fn walks_beside_threads_that_change_everything_on_multilists() {
    walk_beside_churn(ListKind::Multilist);
}

#[test]
fn walks_beside_threads_that_change_everything_on_pages() {
    walk_beside_churn(ListKind::Pages);
}
