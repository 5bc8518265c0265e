//! Anything that can happen, in any order, against a map: never a wrong byte, never a version that was forgotten.
//!
//! The pool's part is played here: it knows what was forgotten since the last flush that succeeded, and does not want it
//! back after a crash.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arcwell_base::atomic::Ordering::Relaxed;
use proptest::prelude::*;

use super::bed::{Bed, Lists, MRU_DATA, MemDevice, PAGE, bytes_of, key};
use crate::DeviceId;
use crate::rebuild::Rebuild;

const MIB: u64 = 1 << 20;
const KEYS: u64 = 60;

#[derive(Debug, Clone)]
enum Act {
    /// Feeds these blocks, in the version that each has now, to a device.
    Feed(usize, u64, u64),
    /// Overwrites blocks: the next version counts, and the last is forgotten.
    Overwrite(u64, u64),
    Read(u64, u64),
    /// Flushes both devices.
    Flush,
    /// A few steps of the rebuild, and one of the feed, which is what a worker does.
    Rebuild(usize, usize),
    /// Loses what was not flushed, but for the pages that these bits say.
    Crash(u64),
    /// Flushes and begins anew.
    Restart,
    /// Turns the bits of a page of a segment.
    Corrupt(usize, u64),
    /// Whether reads, writes, flushes of a device fail from here on.
    Fail(usize, u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..2usize, 0..KEYS, 1..30u64).prop_map(|(device, from, count)| Act::Feed(device, from, count)),
        6 => (0..KEYS, 1..8u64).prop_map(|(from, count)| Act::Overwrite(from, count)),
        4 => (0..KEYS, 1..30u64).prop_map(|(from, count)| Act::Read(from, count)),
        3 => Just(Act::Flush),
        4 => (0..2usize, 1..20usize).prop_map(|(device, steps)| Act::Rebuild(device, steps)),
        2 => any::<u64>().prop_map(Act::Crash),
        1 => Just(Act::Restart),
        2 => (0..2usize, any::<u64>()).prop_map(|(device, page)| Act::Corrupt(device, page)),
        1 => (0..2usize, 0..8u8).prop_map(|(device, what)| Act::Fail(device, what)),
    ]
}

/// Level 2 with the part of the pool that it needs, and what it must not give out.
struct World {
    devices: [Arc<MemDevice>; 2],
    bed: Bed,
    ids: [DeviceId; 2],
    versions: HashMap<u64, u64>,
    /// Forgotten since the last flush of all devices that succeeded: in doubt after a crash.
    unsure: HashSet<u64>,
    /// The same as it was when the present run began: what its rebuilds do not want.
    unwanted: HashSet<u64>,
    /// Whether the pool tells what it does not want.
    tells: bool,
}

fn len_of(index: u64) -> usize {
    [8192, 4096, 700, 12_288, 5000][index as usize % 5]
}

impl World {
    fn new(tells: bool) -> World {
        let (devices, bed) = ([MemDevice::new(2 * MIB), MemDevice::new(MIB + 5 * (64 << 10))], Bed::new());
        let ids = devices.each_ref().map(|device| bed.add(device));
        let (versions, unsure, unwanted) = Default::default();
        World { devices, bed, ids, versions, unsure, unwanted, tells }
    }

    fn version(&self, index: u64) -> u64 {
        self.versions.get(&index).copied().unwrap_or(0)
    }

    fn step(&mut self, act: Act) -> Result<(), TestCaseError> {
        match act {
            Act::Feed(device, from, count) => {
                let mut lists = Lists::new();
                for index in from..from + count {
                    let bytes = bytes_of(key(index), self.version(index), len_of(index));
                    lists.push(MRU_DATA, key(index), bytes);
                }
                self.bed.feed_all(self.ids[device], &mut lists);
            }
            Act::Overwrite(from, count) => {
                for index in from..from + count {
                    *self.versions.entry(index).or_default() += 1;
                    self.unsure.insert(index);
                    self.bed.level2.forget(key(index));
                }
            }
            Act::Read(from, count) => self.read(from..from + count)?,
            Act::Flush => self.flush(),
            Act::Rebuild(device, steps) => {
                for _ in 0..steps {
                    self.rebuild(device);
                }
            }
            Act::Crash(keeps) => self.restart(keeps),
            Act::Restart => {
                self.flush();
                self.restart(u64::MAX);
            }
            Act::Corrupt(device, page) => {
                let at = MIB + page % 80 * PAGE as u64;
                let bytes = self.devices[device].peek(at, PAGE);
                // Doing it twice does not undo it.
                self.devices[device]
                    .poke(at, &bytes.iter().map(|byte| byte.wrapping_add(1)).collect::<Vec<_>>());
            }
            Act::Fail(device, what) => {
                let device = &self.devices[device];
                // Rarely all at once: most rows of errors should end.
                device.fails_reads.store(what == 1, Relaxed);
                device.fails_writes.store(what == 2, Relaxed);
                device.fails_flushes.store(what == 3, Relaxed);
            }
        }
        self.bed.check();
        Ok(())
    }

    /// A page keeps what was written with odds of one half.
    fn restart(&mut self, keeps: u64) {
        for device in &self.devices {
            let keeps = |page: u64| keeps == u64::MAX || keeps.rotate_left((page % 61) as u32) & 1 == 1;
            device.crash(keeps);
            device.fails_reads.store(false, Relaxed);
            device.fails_writes.store(false, Relaxed);
            device.fails_flushes.store(false, Relaxed);
        }
        self.bed = Bed::new();
        self.ids = self.devices.each_ref().map(|device| self.bed.add(device));
        self.unwanted = self.unsure.clone();
    }

    fn flush(&mut self) {
        // What a rebuild that is under way does not want is forgotten with it: all of it first.
        let mut is_done = true;
        for device in 0..2 {
            while self.rebuild(device) != Rebuild::Done {}
            is_done &= self.bed.level2.flush(self.ids[device]).is_ok();
        }
        if is_done {
            self.unsure.clear();
        }
    }

    fn rebuild(&self, device: usize) -> Rebuild {
        let wanted = |key: &arcwell_base::BlockKey| !self.tells || !self.unwanted.contains(&key.index);
        self.bed.level2.rebuild_wanted(self.ids[device], 2, &wanted)
    }

    fn read(&self, keys: std::ops::Range<u64>) -> Result<(), TestCaseError> {
        for index in keys {
            if let Some(got) = self.bed.get(key(index), len_of(index)) {
                let expected = bytes_of(key(index), self.version(index), len_of(index));
                prop_assert!(
                    got[..] == expected[..],
                    "block {index} is not of version {}",
                    self.version(index)
                );
            }
        }
        Ok(())
    }
}

fn run(acts: Vec<Act>, tells: bool) -> Result<(), TestCaseError> {
    let mut world = World::new(tells);
    for act in acts {
        world.step(act)?;
    }
    world.read(0..KEYS + 30)?;
    world.step(Act::Restart)?;
    for device in 0..2 {
        while world.rebuild(device) != Rebuild::Done {}
    }
    world.read(0..KEYS + 30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn never_a_wrong_byte_and_never_a_forgotten_version(acts in prop::collection::vec(act(), 1..60)) {
        run(acts, true)?;
    }
}

/// The control: without the pool's word a crash brings back what was not durably forgotten.
#[test]
fn what_is_forgotten_and_not_flushed_comes_back_if_the_pool_does_not_say() {
    let acts =
        || vec![Act::Feed(0, 0, 20), Act::Flush, Act::Overwrite(0, 5), Act::Crash(0), Act::Rebuild(0, 40)];
    run(acts(), true).unwrap();
    assert!(run(acts(), false).is_err());
    // And flushed it does not.
    let acts = vec![Act::Feed(0, 0, 20), Act::Flush, Act::Overwrite(0, 5), Act::Flush, Act::Crash(0)];
    run(acts, false).unwrap();
}
