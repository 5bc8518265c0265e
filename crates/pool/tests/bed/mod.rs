//! A pool over a directory of its own, for tests: the origin is counted, and breaks when it is told
//! to; the clock moves when it is told to.

#![allow(dead_code, reason = "every test program uses its own part of the bed")]
#![allow(unreachable_pub, missing_docs, reason = "a module of test programs")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arcwell_arc::{Config, ListKind, Policy};
use arcwell_backend::layer::{Call, Layer, Layered};
use arcwell_backend::{Counted, DirOptions, DirOrigin, Faulty, MemoryIdentities, Operation, OriginStats};
use arcwell_base::clock::ManualClock;
use arcwell_base::identity::IdentityStore;
use arcwell_base::origin::{Caller, Stat};
use arcwell_base::table::Kstats;
use arcwell_base::vdev::Vdev;
use arcwell_base::{Clock, Result};
use arcwell_pool::{
    CacheMode, Coherence, Dataset, Looked, OpenFile, OpenHow, Pool, PoolConfig, Properties, WriteHow,
};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use tempfile::TempDir;

/// Long enough for any machine; only a failing test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than timestamps stay young.
pub const OF_AGE: Duration = Duration::from_millis(45);

/// What a bed is to be like.
#[derive(Clone)]
pub struct Plan {
    pub properties: Properties,
    pub cache: u64,
    pub lists: ListKind,
    pub policy: Policy,
    pub descriptors_max: usize,
    pub identities: Arc<dyn IdentityStore>,
    pub clock: Arc<ManualClock>,
    pub devices: Vec<Arc<dyn Vdev>>,
}

impl Plan {
    /// 8 MiB of cache, records of 4 KiB, nothing read ahead.
    pub fn new(coherence: Coherence) -> Plan {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Duration::from_secs(1000));
        Plan {
            properties: Properties {
                coherence,
                recordsize: 4096,
                prefetch: CacheMode::None,
                ..Properties::default()
            },
            cache: 8 << 20,
            lists: ListKind::Pages,
            policy: Policy::Adaptive,
            descriptors_max: 256,
            identities: Arc::new(MemoryIdentities::default()),
            clock,
            devices: Vec::new(),
        }
    }

    pub fn policy(mut self, policy: Policy) -> Plan {
        self.policy = policy;
        self
    }

    /// With a cache device more.
    pub fn device(mut self, device: Arc<dyn Vdev>) -> Plan {
        self.devices.push(device);
        self
    }

    pub fn recordsize(mut self, bytes: u32) -> Plan {
        self.properties.recordsize = bytes;
        self
    }

    pub fn cache(mut self, bytes: u64) -> Plan {
        self.cache = bytes;
        self
    }

    pub fn lists(mut self, lists: ListKind) -> Plan {
        self.lists = lists;
        self
    }

    pub fn primarycache(mut self, mode: CacheMode) -> Plan {
        self.properties.primarycache = mode;
        self
    }

    pub fn prefetch(mut self, mode: CacheMode) -> Plan {
        self.properties.prefetch = mode;
        self
    }

    pub fn identities(mut self, identities: Arc<dyn IdentityStore>) -> Plan {
        self.identities = identities;
        self
    }

    pub fn bed(self) -> Bed {
        self.over(Arc::new(tempfile::tempdir().unwrap()))
    }

    /// Over a directory in memory, where there is one: for trees of many files.
    pub fn roomy_bed(self) -> Bed {
        let home = TempDir::new_in("/dev/shm").or_else(|_| tempfile::tempdir());
        self.over(Arc::new(home.unwrap()))
    }

    pub fn over(self, home: Arc<TempDir>) -> Bed {
        let options = DirOptions { descriptors_max: self.descriptors_max };
        let origin = DirOrigin::open(home.path(), options).unwrap();
        let origin = Arc::new(Layered::around(Arc::new(origin), Whole::default()));
        let counts = Arc::new(OriginStats::default());
        let counted = Arc::new(Counted::new(origin, Arc::clone(&counts)));
        let faulty = Arc::new(Faulty::new(counted));
        let arc =
            Config { lists: self.lists, policy: self.policy, typical_block: 4096, ..Config::new(self.cache) };
        let clock: Arc<dyn Clock> = self.clock.clone();
        let pool = Pool::new(PoolConfig { id: 1, arc, identities: self.identities, clock });
        // What is in a segment that is still being filled is not found yet.
        pool.set_tunable("l2arc.segment_size", "128K").unwrap();
        for device in self.devices {
            pool.add_cache_device(device, false).unwrap();
        }
        let dataset = pool.add_dataset("bed", faulty.clone(), self.properties).unwrap();
        Bed { home, pool, dataset, clock: self.clock, faulty, counts, held: Mutex::default() }
    }
}

/// Makes reads and changes of the origin whole to each other. A file system under it need not: ext4 shows
/// halves of a page that is being written. With this, a torn record is the pool's own doing.
#[derive(Debug, Default)]
struct Whole(RwLock<()>);

impl Layer for Whole {
    fn around<T>(&self, call: Call, make: impl FnOnce() -> Result<(T, u64)>) -> Result<(T, u64)> {
        match call.operation {
            Operation::Read => {
                let _beside_other_reads = self.0.read();
                make()
            }
            Operation::Write | Operation::SetAttr => {
                let _alone = self.0.write();
                make()
            }
            _ => make(),
        }
    }
}

/// A pool with one dataset.
pub struct Bed {
    pub home: Arc<TempDir>,
    pub pool: Arc<Pool>,
    pub dataset: Arc<Dataset>,
    pub clock: Arc<ManualClock>,
    pub faulty: Arc<Faulty>,
    pub counts: Arc<OriginStats>,
    /// References that look-ups gave.
    held: Mutex<Vec<u64>>,
}

/// On whose behalf tests create.
pub fn caller() -> Caller {
    let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid: me.0, gid: me.1, umask: 0o022, pid: 0 }
}

impl Bed {
    /// Where the origin has a file.
    pub fn origin(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    pub fn root(&self) -> u64 {
        self.dataset.root_ino()
    }

    /// A name as a front end looks it up: in the cache, else in full.
    pub fn look(&self, parent: u64, name: &str) -> arcwell_base::Result<Option<Stat>> {
        let name = OsStr::new(name);
        let looked = match self.dataset.cached_lookup(parent, name) {
            Some(looked) => looked?,
            None => self.dataset.lookup(parent, name)?,
        };
        Ok(match looked {
            Looked::Found(entry) => {
                self.hold(entry.stat.id.ino);
                Some(entry.stat)
            }
            Looked::Absent { .. } => None,
        })
    }

    /// Remembers to give a reference back.
    pub fn hold(&self, ino: u64) {
        self.held.lock().push(ino);
    }

    /// A path, walked name by name.
    pub fn find(&self, path: &str) -> arcwell_base::Result<Option<Stat>> {
        let mut at = self.dataset.stat(self.root())?.stat;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match self.look(at.id.ino, name)? {
                Some(stat) => at = stat,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    pub fn ino(&self, path: &str) -> u64 {
        self.find(path).unwrap().unwrap_or_else(|| panic!("{path} is there")).id.ino
    }

    /// Attributes as a front end asks for them.
    pub fn stat(&self, ino: u64) -> arcwell_base::Result<Stat> {
        let cached = self.dataset.cached_stat(ino);
        cached.unwrap_or_else(|| self.dataset.stat(ino)).map(|attributes| attributes.stat)
    }

    /// Opens as a front end does.
    pub fn open_ino(&self, ino: u64) -> arcwell_base::Result<Arc<OpenFile>> {
        let how = OpenHow { write: true, truncate: false };
        self.dataset.open(ino, how)
    }

    pub fn open(&self, path: &str) -> Arc<OpenFile> {
        self.open_ino(self.ino(path)).unwrap()
    }

    pub fn open_to_read(&self, path: &str) -> Arc<OpenFile> {
        let (ino, how) = (self.ino(path), OpenHow::default());
        let cached = self.dataset.cached_open(ino, how);
        cached.unwrap_or_else(|| self.dataset.open(ino, how)).unwrap()
    }

    /// Creates as a front end does, or opens what is there.
    pub fn create(&self, parent: u64, name: &str) -> arcwell_base::Result<Arc<OpenFile>> {
        match self.dataset.create(parent, OsStr::new(name), 0o644, false, caller()) {
            // It is there: the kernel looks it up and opens it.
            Err(error) if error.errno() == Errno::STALE => match self.look(parent, name)? {
                Some(stat) => self.open_ino(stat.id.ino),
                None => Err(error),
            },
            created => {
                let (entry, file) = created?;
                self.hold(entry.stat.id.ino);
                Ok(file)
            }
        }
    }

    /// A whole file, read anew from the open on.
    pub fn contents(&self, path: &str) -> Vec<u8> {
        let file = self.open_to_read(path);
        all_of(&file)
    }

    /// What a directory lists, sorted.
    pub fn names(&self, ino: u64) -> arcwell_base::Result<Vec<OsString>> {
        let dir = self.dataset.open_dir(ino)?;
        let mut names = Vec::new();
        let mut offset = 0;
        loop {
            let entries = match dir.cached_entries(offset) {
                Some(entries) => entries?,
                None => dir.entries(offset)?,
            };
            let mut seen = 0;
            // Few at a time, as a front end with a small reply does.
            for item in entries.iter().take(3) {
                names.push(item.name.to_owned());
                offset = item.next;
                seen += 1;
            }
            if seen == 0 {
                break;
            }
        }
        names.retain(|name| name != "." && name != "..");
        names.sort();
        Ok(names)
    }

    /// A counter of the cache or the pool.
    pub fn counter(&self, name: &str) -> u64 {
        let samples = self.pool.samples();
        samples.iter().find(|sample| sample.row.name == name).unwrap_or_else(|| panic!("{name}")).value
    }

    /// A counter of the origin.
    pub fn asked(&self, name: &str) -> u64 {
        let samples = self.counts.samples();
        samples.iter().find(|sample| sample.row.name == name).unwrap_or_else(|| panic!("{name}")).value
    }

    /// Lets the clock pass what is believed unasked.
    pub fn pass_time(&self) {
        self.clock.advance(Duration::from_millis(1001));
    }

    /// Gives back every reference that was taken through the bed.
    pub fn forget_all(&self) {
        for ino in self.held.lock().drain(..) {
            self.dataset.forget(ino, 1);
        }
    }

    /// The end of every test: all is given back, and what is left is right.
    pub fn finish(self) {
        self.forget_all();
        // Nothing else moves while it is recounted.
        self.pool.stop();
        self.pool.cache().validate().unwrap();
        assert_eq!(self.dataset.znodes(), 1, "all znodes but the root are given back");
        assert_eq!(self.counter("znode.open"), 0);
        assert_eq!(self.counter("znode.bytes"), 0);
    }
}

/// All of an open file.
pub fn all_of(file: &OpenFile) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let read = file.read(all.len() as u64, 1 << 20).unwrap();
        if read.is_empty() {
            return all;
        }
        all.extend_from_slice(&read.to_vec());
    }
}

pub fn write_at(file: &OpenFile, offset: u64, data: &[u8]) {
    let written = file.write(offset, data, WriteHow::default()).unwrap();
    assert_eq!(written, data.len() as u64);
}

/// A file on the origin whose every record of `size` is filled with a letter of its own.
pub fn lettered(path: &Path, records: usize, size: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..records).flat_map(|n| vec![b'a' + (n % 26) as u8; size]).collect();
    std::fs::write(path, &bytes).unwrap();
    bytes
}

/// Waits until timestamps made up to now are no longer young.
pub fn come_of_age() {
    std::thread::sleep(OF_AGE);
}

/// Asserts that bytes are the same, without printing all of them.
#[track_caller]
pub fn same(got: &[u8], expected: &[u8]) {
    let differs = got.iter().zip(expected).position(|(got, expected)| got != expected);
    assert!(
        got.len() == expected.len() && differs.is_none(),
        "{} bytes where {} were expected; first difference at {differs:?}",
        got.len(),
        expected.len(),
    );
}

/// Tries until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
