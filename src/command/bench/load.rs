//! The load of the published tables: threads that read blocks of 8 KiB at random, each from an object
//! of its own, on as many CPUs as they are allowed.

use std::hint::black_box;
use std::io;
use std::num::NonZeroU32;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use arcwell::key::{BlockKey, Kind, ObjectId};
use arcwell::{ByteSize, CacheConfig, Error, MachineMemory, size::parse_duration};
use arcwell_arc::linestat::{self, Traffic};
use arcwell_arc::{Admit, Asked, Cache, Keep};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::lists::{self, KINDS, Lists};
use crate::Failure;

/// Bytes of a block.
pub(super) const BLOCK: usize = 8 << 10;

/// Reads between two looks at whether it is time to stop.
const STRIDE: u64 = 16;

/// What a bench is asked to do.
#[derive(Debug, clap::Args)]
pub(super) struct Load {
    /// Threads, each with an object of its own
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,

    /// How long each measurement takes
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = seconds, conflicts_with = "ops")]
    seconds: Duration,

    /// How many reads each measurement takes, instead of how long
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    ops: Option<u64>,

    /// Bytes that are read from, in all objects together; each kind of lists has its own
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    size: ByteSize,

    /// Kinds of lists, with commas between; without it, all
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = lists::named)]
    lists: Vec<&'static Lists>,
}

fn seconds(text: &str) -> Result<Duration, Failure> {
    let time = parse_duration(text)?;
    if !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&time) {
        return Err(format!("'{text}' is not between a millisecond and an hour").into());
    }
    Ok(time)
}

impl Load {
    /// The kinds that were asked for, each once, in the order of the table.
    pub(super) fn lists(&self) -> Vec<&'static Lists> {
        let is_asked =
            |row: &&Lists| self.lists.is_empty() || self.lists.iter().any(|asked| asked.name == row.name);
        KINDS.iter().filter(is_asked).collect()
    }

    pub(super) fn threads(&self) -> u32 {
        self.threads
    }

    /// Blocks of each object.
    fn blocks(&self) -> Result<NonZeroU32, Error> {
        let blocks = self.size.0 / BLOCK as u64 / u64::from(self.threads);
        u32::try_from(blocks).ok().and_then(NonZeroU32::new).ok_or_else(|| {
            let what = format!("{} is not from 1 to 2^32 blocks of 8 KiB a thread", self.size);
            Error::invalid("--size", what)
        })
    }

    /// Full caches, one for each kind of lists.
    ///
    /// # Errors
    /// When the size makes no sense, or there is not memory enough for all of them and `others` more.
    pub(super) fn caches(&self, others: u64) -> Result<Vec<Bed>, Failure> {
        let (blocks, lists) = (self.blocks()?, self.lists());
        let needed = self.capacity().saturating_mul(lists.len() as u64 + others);
        let memory = MachineMemory::read()?;
        let free = memory
            .group
            .map_or(memory.available, |group| group.limit.saturating_sub(group.used).min(memory.available));
        if needed > free {
            let what = format!("needs {} of memory, of which {} are free", ByteSize(needed), ByteSize(free));
            return Err(Error::invalid("--size", what).into());
        }
        lists.into_iter().map(|lists| Bed::new(lists, self.capacity(), self.threads, blocks)).collect()
    }

    /// Memory to be copied from without a cache.
    pub(super) fn floor(&self) -> Result<Floor, Failure> {
        let blocks = self.blocks()?;
        let bytes = blocks.get() as usize * self.threads as usize * BLOCK;
        Ok(Floor { bytes: vec![1; bytes], blocks })
    }

    /// The size of a cache that surely holds all, with what is remembered of it.
    fn capacity(&self) -> u64 {
        self.size.0.saturating_add(self.size.0 / 4).saturating_add(16 << 20)
    }

    /// Lets every thread do its part on these CPUs and waits for all of them.
    ///
    /// # Errors
    /// When a thread cannot be started, or the CPUs are not ours.
    pub(super) fn run(&self, work: &impl Work, cpus: &[usize]) -> io::Result<Run> {
        let pace = match self.ops {
            Some(ops) => Pace::Reads(ops.div_ceil(u64::from(self.threads))),
            None => Pace::Until(self.seconds),
        };
        run(work, cpus, self.threads, pace)
    }
}

/// What a thread does again and again.
pub(super) trait Work: Sync {
    /// One read into the thread's buffer; whether the block was in memory.
    fn read(&self, thread: u32, random: &mut Random, buffer: &mut [u8; BLOCK]) -> bool;
}

/// A full cache.
#[derive(Debug)]
pub(super) struct Bed {
    pub(super) lists: &'static Lists,
    cache: Cache,
    blocks: NonZeroU32,
}

fn key(thread: u32, index: u32) -> BlockKey {
    BlockKey::new(ObjectId(u64::from(thread) + 1), u64::from(index))
}

const ON_DEMAND: Admit = Admit { asked: Asked::Demand, keep: Keep::Cached };

impl Bed {
    fn new(lists: &'static Lists, capacity: u64, threads: u32, blocks: NonZeroU32) -> Result<Bed, Failure> {
        let config =
            CacheConfig { lists: lists.kind, typical_block: BLOCK as u64, ..CacheConfig::new(capacity) };
        let cache = Cache::new(config);
        let keys = || (0..threads).flat_map(|thread| (0..blocks.get()).map(move |index| key(thread, index)));
        for key in keys() {
            let mut block = cache.admit(key, Kind::Data, BLOCK, ON_DEMAND)?;
            block.fill(1);
            block.publish();
        }
        // The second use of a block may move it for good: that is not to be measured.
        if let Some(key) = keys().find(|key| cache.lookup(*key, Kind::Data, Asked::Demand).is_none()) {
            return Err(format!("the cache of {} does not hold {key:?}", ByteSize(capacity)).into());
        }
        Ok(Bed { lists, cache, blocks })
    }
}

/// Reads that all hit.
pub(super) struct Hits<'a>(pub(super) &'a Bed);

impl Hits<'_> {
    fn hit(&self, key: BlockKey, buffer: &mut [u8; BLOCK]) -> bool {
        let Some(pin) = self.0.cache.lookup(key, Kind::Data, Asked::Demand) else { return false };
        buffer.copy_from_slice(&pin);
        true
    }

    /// A read, and what it wrote to memory that threads share.
    pub(super) fn watched(
        &self,
        thread: u32,
        random: &mut Random,
        buffer: &mut [u8; BLOCK],
    ) -> (bool, Traffic) {
        let key = key(thread, random.below(self.0.blocks));
        linestat::prepare(&self.0.cache);
        linestat::watch(&self.0.cache, &[key], || self.hit(key, buffer))
    }
}

impl Work for Hits<'_> {
    fn read(&self, thread: u32, random: &mut Random, buffer: &mut [u8; BLOCK]) -> bool {
        self.hit(key(thread, random.below(self.0.blocks)), buffer)
    }
}

/// Reads from objects twice as large as what the cache was filled with, which fill it anew.
pub(super) struct Misses<'a>(pub(super) &'a Bed);

impl Work for Misses<'_> {
    fn read(&self, thread: u32, random: &mut Random, buffer: &mut [u8; BLOCK]) -> bool {
        let key = key(thread, random.below(self.0.blocks.saturating_mul(TWICE)));
        let found = self.0.cache.lookup(key, Kind::Data, Asked::Demand);
        if let Some(pin) = &found {
            buffer.copy_from_slice(pin);
        } else if let Ok(mut block) = self.0.cache.admit(key, Kind::Data, BLOCK, ON_DEMAND) {
            block.copy_from_slice(buffer);
            block.publish();
        }
        found.is_some()
    }
}

const TWICE: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// Memory at known addresses: what a hit would cost if it cost nothing to find it.
pub(super) struct Floor {
    bytes: Vec<u8>,
    blocks: NonZeroU32,
}

impl Work for Floor {
    fn read(&self, thread: u32, random: &mut Random, buffer: &mut [u8; BLOCK]) -> bool {
        let number = thread as usize * self.blocks.get() as usize + random.below(self.blocks) as usize;
        buffer.copy_from_slice(&self.bytes[number * BLOCK..][..BLOCK]);
        true
    }
}

/// Random numbers of one thread (Marsaglia's xorshift64*).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u32) -> Random {
        Random(u64::from(seed).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(super) fn below(&mut self, end: NonZeroU32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        ((high * u64::from(end.get())) >> 32) as u32
    }
}

/// How much a thread does.
#[derive(Clone, Copy)]
enum Pace {
    Until(Duration),
    Reads(u64),
}

/// What all threads did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) ops: u64,
    pub(super) hits: u64,
    /// CPU time of all threads.
    pub(super) cpu: Duration,
    /// From the start to the end of the last one.
    pub(super) wall: Duration,
}

impl Run {
    pub(super) fn ops_per_s(&self) -> f64 {
        self.ops as f64 / self.wall.as_secs_f64()
    }

    /// CPU time of a read, ns.
    pub(super) fn cpu_ns(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.ops as f64
    }

    /// How many CPUs the threads had on the mean.
    pub(super) fn cpus_had(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64()
    }
}

fn run(work: &impl Work, cpus: &[usize], threads: u32, pace: Pace) -> io::Result<Run> {
    let (stop, gate) = (AtomicBool::new(false), RwLock::new(()));
    let one = |thread: u32| {
        // Each to one of them: where others use the machine too, it would else put all onto one.
        let bound = Bound::to(&[cpus[thread as usize % cpus.len()]]);
        drop(gate.read());
        let start = cpu_time();
        let (ops, hits) = reads(work, thread, pace, &stop);
        bound.map(|_| (ops, hits, cpu_time().saturating_sub(start)))
    };
    let mut all = Run::default();
    thread::scope(|scope| {
        let closed = gate.write();
        let spawn = |thread| {
            thread::Builder::new()
                .name(format!("arcwell-bench-{thread}"))
                .spawn_scoped(scope, move || one(thread))
        };
        let started: io::Result<Vec<ScopedJoinHandle<'_, _>>> = (0..threads).map(spawn).collect();
        // Those that were started must end, even if not all were.
        stop.store(started.is_err(), Ordering::Relaxed);
        let start = Instant::now();
        drop(closed);
        let started = started?;
        if let Pace::Until(time) = pace {
            thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
        }
        for thread in started {
            let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let (ops, hits, cpu) = done?;
            all =
                Run { ops: all.ops + ops, hits: all.hits + hits, cpu: all.cpu + cpu, wall: start.elapsed() };
        }
        Ok(all)
    })
}

/// One thread's reads: how many, and how many of them hit.
fn reads(work: &impl Work, thread: u32, pace: Pace, stop: &AtomicBool) -> (u64, u64) {
    let (mut random, mut buffer) = (Random::new(thread), [0; BLOCK]);
    let (mut ops, mut hits) = (0, 0);
    let most = match pace {
        Pace::Reads(most) => most,
        Pace::Until(_) => u64::MAX,
    };
    while ops < most && !stop.load(Ordering::Relaxed) {
        for _ in 0..STRIDE.min(most - ops) {
            hits += u64::from(work.read(thread, &mut random, &mut buffer));
            black_box(&buffer);
            ops += 1;
        }
    }
    (ops, hits)
}

/// What this thread has used of a CPU so far.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// This thread's CPUs are bound, and those of threads that it starts; until dropped.
pub(super) struct Bound(CpuSet);

impl Bound {
    pub(super) fn to(cpus: &[usize]) -> io::Result<Bound> {
        let before = sched_getaffinity(None)?;
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        sched_setaffinity(None, &set)?;
        Ok(Bound(before))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // It was ours before, and if it no longer is, what we have is as good.
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// The CPUs that this process may use.
pub(super) fn cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}
