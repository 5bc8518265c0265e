//! A place to test in: an origin in a scratch directory, and a mount of it.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arcwell_backend::{Counted, DirOptions, DirOrigin, MemoryIdentities, OriginStats};
use arcwell_base::clock::SystemClock;
use arcwell_front::fuse::{MountOptions, Mounted, Unmounted};
use arcwell_pool::{Coherence, Dataset, Pool, PoolConfig, Properties};
use tempfile::TempDir;

/// An origin and its mount.
pub(crate) struct Place {
    pub(crate) pool: Arc<Pool>,
    pub(crate) dataset: Arc<Dataset>,
    /// What the origin was asked for.
    pub(crate) counts: Arc<OriginStats>,
    mounted: Option<Mounted>,
    mountpoint: TempDir,
    origin: TempDir,
}

impl Place {
    /// A mount of an empty origin that only we change, or `None` where mounts cannot be made.
    pub(crate) fn new() -> Option<Place> {
        Self::with(Coherence::Exclusive, |_| {})
    }

    pub(crate) fn with(coherence: Coherence, change: impl FnOnce(&mut MountOptions)) -> Option<Place> {
        if !can_mount() {
            return None;
        }
        let (origin, mountpoint) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (pool, dataset, counts) = counted(origin.path(), coherence);
        let mut options = MountOptions::new(mountpoint.path());
        options.allow_other = true;
        change(&mut options);
        let mounted = Some(Mounted::new(Arc::clone(&dataset), &options).unwrap());
        Some(Place { pool, dataset, counts, mounted, mountpoint, origin })
    }

    /// A path as programs see it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.mountpoint.path().join(name)
    }

    /// The same file in the origin.
    pub(crate) fn origin(&self, name: &str) -> PathBuf {
        self.origin.path().join(name)
    }

    pub(crate) fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().unwrap()
    }

    /// Unmounts, as at the end of a daemon.
    pub(crate) fn end(&mut self) -> Unmounted {
        self.mounted.take().unwrap().unmount_and_join().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            let outcome = mounted.unmount_and_join();
            if !std::thread::panicking() {
                assert_eq!(outcome.unwrap(), Unmounted::Clean);
            }
        }
        self.pool.stop();
    }
}

/// A dataset over a directory, in a pool of its own.
pub(crate) fn dataset(origin: &Path, coherence: Coherence) -> (Arc<Pool>, Arc<Dataset>) {
    let (pool, dataset, _) = counted(origin, coherence);
    (pool, dataset)
}

fn counted(origin: &Path, coherence: Coherence) -> (Arc<Pool>, Arc<Dataset>, Arc<OriginStats>) {
    let pool = Pool::new(PoolConfig {
        id: 1,
        arc: arcwell_pool::CacheConfig::new(64 << 20),
        identities: Arc::new(MemoryIdentities::default()),
        clock: Arc::new(SystemClock::default()),
    });
    let origin = DirOrigin::open(origin, DirOptions::default()).unwrap();
    let properties = Properties { coherence, ..Properties::default() };
    let counts = Arc::new(OriginStats::default());
    let origin = Counted::new(Arc::new(origin), Arc::clone(&counts));
    let dataset = pool.add_dataset("test", Arc::new(origin), properties).unwrap();
    (pool, dataset, counts)
}

/// Whether this machine lets us mount. Says so when not; where everything has to be tested, that is
/// a failure.
pub(crate) fn can_mount() -> bool {
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    let Err(error) = device else { return true };
    assert!(std::env::var("CI").as_deref() != Ok("true"), "no FUSE in CI: {error}");
    println!("SKIPPED: /dev/fuse cannot be opened: {error}");
    false
}

/// Does the same in a plain directory and in a mounted one, and expects the same of both.
pub(crate) fn same<T: PartialEq + Debug>(script: impl Fn(&Path) -> T) {
    let Some(place) = Place::new() else { return };
    let plain = tempfile::tempdir().unwrap();
    let expected = script(plain.path());
    let seen = script(&place.path(""));
    assert_eq!(seen, expected);
}

/// What went wrong, in a form that can be compared.
pub(crate) fn outcome<T>(result: std::io::Result<T>) -> Result<T, Option<i32>> {
    result.map_err(|error| error.raw_os_error())
}
