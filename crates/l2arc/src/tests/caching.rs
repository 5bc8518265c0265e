//! Fed by a cache: both levels together.

use arcwell_arc::{Admit, Asked, Cache, Config, Keep, Policy};
use arcwell_base::Kind;

use super::bed::{Bed, MemDevice, bytes_of, key};
use crate::{DeviceId, Found};

const LEN: usize = 8192;
const MIB: u64 = 1 << 20;

fn admit(cache: &Cache, index: u64, asked: Asked, may_feed: bool) {
    let how = Admit { asked, keep: Keep::Cached };
    let mut anon = cache.admit(key(index), Kind::Data, LEN, how).unwrap();
    anon.copy_from_slice(&bytes_of(key(index), 0, LEN));
    anon.may_feed(may_feed);
    anon.publish();
}

fn feed_all(bed: &Bed, id: DeviceId, cache: &Cache) {
    loop {
        let fed = bed.level2.feed(id, cache, &|_, _| true);
        bed.clock.advance(fed.next);
        if fed.wrote == 0 {
            return bed.level2.flush(id).unwrap();
        }
    }
}

#[test]
fn what_the_cache_lets_go_of_is_on_flash() {
    let (bed, device) = (Bed::new(), MemDevice::new(64 * MIB));
    // So small a cache has less memory than an index takes at least.
    bed.set("l2arc.meta_percent", 100);
    let (id, cache) = (bed.open(&device), Cache::new(Config { policy: Policy::Arc, ..Config::new(8 * MIB) }));
    for index in 0..4000 {
        admit(&cache, index, Asked::Demand, true);
        if index % 50 == 0 {
            bed.level2.feed(id, &cache, &|_, _| true);
            bed.clock.advance(std::time::Duration::from_secs(1));
        }
    }
    feed_all(&bed, id, &cache);
    let in_neither = (0..4000).filter(|index| {
        let bytes = bed.get(key(*index), LEN);
        assert!(bytes.as_ref().is_none_or(|bytes| bytes[..] == bytes_of(key(*index), 0, LEN)[..]));
        bytes.is_none() && !cache.contains(key(*index))
    });
    let in_neither = in_neither.count();
    cache.refresh_gauges();
    let unfed = cache.stats().evicted_unfed.value();
    assert_eq!(in_neither, 0, "{} fed, {unfed} evicted unfed", bed.stats().fed_blocks.value());
    assert_eq!(cache.stats().evicted_unfed.value(), 0);
    cache.validate().unwrap();
    bed.check();
}

#[test]
fn a_block_is_fed_once_and_only_if_it_may_be() {
    let (bed, device) = (Bed::new(), MemDevice::new(16 * MIB));
    let (id, cache) = (bed.open(&device), Cache::new(Config::new(8 * MIB)));
    (0..10).for_each(|index| admit(&cache, index, Asked::Demand, index % 2 == 0));
    admit(&cache, 20, Asked::Prefetch, true);
    // Some are used again, and so frequent.
    (0..4).for_each(|index| _ = cache.lookup(key(index), Kind::Data, Asked::Demand).unwrap());
    (0..4).for_each(|index| _ = cache.lookup(key(index), Kind::Data, Asked::Demand).unwrap());
    feed_all(&bed, id, &cache);
    feed_all(&bed, id, &cache);
    assert_eq!(bed.there(0..30, LEN), [0, 2, 4, 6, 8]);
    assert_eq!(bed.stats().fed_blocks.value(), 5);
    assert!(cache.peek(key(0)).unwrap().is_on_flash() && !cache.peek(key(1)).unwrap().is_on_flash());
    // Replaced and forgotten, it is another block, which is fed anew.
    admit(&cache, 4, Asked::Demand, true);
    bed.level2.forget(key(4));
    assert_eq!(bed.get(key(4), LEN), None);
    feed_all(&bed, id, &cache);
    assert_eq!((bed.there(4..5, LEN).len(), bed.stats().fed_blocks.value()), (1, 6));
    bed.check();
}

#[test]
fn what_was_frequent_is_known_to_have_been() {
    let (bed, device) = (Bed::new(), MemDevice::new(16 * MIB));
    let (id, cache) = (bed.open(&device), Cache::new(Config::new(8 * MIB)));
    (0..200).for_each(|index| admit(&cache, index, Asked::Demand, true));
    for _ in 0..3 {
        (0..50).for_each(|index| _ = cache.lookup(key(index), Kind::Data, Asked::Demand).unwrap());
    }
    // What hits have noted is looked at.
    cache.refresh_gauges();
    feed_all(&bed, id, &cache);
    let mut bytes = vec![0; LEN];
    let mut is_frequent = |index| {
        let mut wants = [crate::Want::new(key(index), &mut bytes)];
        bed.level2.read(&mut wants);
        wants[0].found == Some(Found { is_frequent: true })
    };
    let frequent: Vec<u64> = (0..200).filter(|index| is_frequent(*index)).collect();
    let by_state: Vec<u64> = cache
        .walk(arcwell_arc::State::Mfu, Kind::Data, arcwell_arc::End::Tail, 1000)
        .into_iter()
        .map(|key| key.index)
        .collect();
    assert_eq!(frequent.len(), by_state.len());
    assert!(by_state.iter().all(|index| frequent.contains(index)));
}
