//! Which object a file is: from one run to the next, and when a number gets a new owner.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arcwell_backend::StateDir;
use arcwell_base::ObjectId;
use arcwell_base::identity::{DatasetId, Identity, IdentityStore};
use arcwell_base::origin::{FileId, SetAttr};
use arcwell_pool::{CacheMode, Coherence};
use bed::{Bed, Plan, all_of, come_of_age, same, write_at};
use tempfile::TempDir;

/// A state directory, and the plan that opens it again.
struct Run {
    home: Arc<TempDir>,
    state: TempDir,
}

impl Run {
    fn new() -> Run {
        Run { home: Arc::new(tempfile::tempdir().unwrap()), state: tempfile::tempdir().unwrap() }
    }

    fn store(&self) -> Arc<StateDir> {
        Arc::new(StateDir::open(self.state.path(), "pool", None).unwrap())
    }

    fn bed(&self, coherence: Coherence, recordsize: u32) -> (Bed, Arc<StateDir>) {
        let store = self.store();
        let plan = Plan::new(coherence).recordsize(recordsize).identities(store.clone());
        (plan.over(self.home.clone()), store)
    }
}

fn kept(store: &StateDir, bed: &Bed, path: &str) -> Option<Identity> {
    let id = bed.find(path).unwrap().unwrap().id;
    store.load(bed.dataset.id(), id).unwrap()
}

#[test]
fn objects_and_record_sizes_survive() {
    let run = Run::new();
    for name in ["read", "written", "changed"] {
        fs::write(run.home.path().join(name), vec![b'.'; 50_000]).unwrap();
    }
    come_of_age();
    let (bed, store) = run.bed(Coherence::Timeout, 4096);
    for name in ["read", "changed"] {
        all_of(&bed.open(name));
    }
    write_at(&bed.open("written"), 0, &[b'#'; 8192]);
    // What is young when it ends is not remembered.
    come_of_age();
    bed.pool.stop();
    let before: Vec<_> =
        ["read", "written", "changed"].map(|name| kept(&store, &bed, name).expect(name)).into();
    bed.finish();
    drop(store);
    assert!(before.iter().all(|identity| identity.record_size == 4096));

    // While nobody looks, one file is changed in place.
    come_of_age();
    let foreign = fs::File::options().write(true).open(run.home.path().join("changed")).unwrap();
    foreign.write_all_at(b"####", 7000).unwrap();
    fs::write(run.home.path().join("new"), vec![b'.'; 50_000]).unwrap();
    come_of_age();

    let (bed, store) = run.bed(Coherence::Exclusive, 16_384);
    for name in ["read", "written", "changed", "new"] {
        let file = bed.open(name);
        same(&all_of(&file), &fs::read(bed.origin(name)).unwrap());
    }
    bed.pool.stop();
    let after: Vec<_> =
        ["read", "written", "changed", "new"].map(|name| kept(&store, &bed, name).expect(name)).into();
    assert_eq!(after[..2], before[..2], "the same objects with the record sizes that they had");
    assert_ne!(after[2].object, before[2].object, "a new object");
    assert_eq!((after[2].record_size, after[3].record_size), (16_384, 16_384));
    let objects: std::collections::HashSet<_> = after.iter().map(|identity| identity.object.0).collect();
    assert_eq!(objects.len(), 4);
    bed.finish();
}

#[test]
fn what_was_removed_is_not_remembered() {
    let run = Run::new();
    let (bed, store) = run.bed(Coherence::Exclusive, 4096);
    let file = bed.create(bed.root(), "f").unwrap();
    write_at(&file, 0, &[1; 9000]);
    drop(file);
    let id = bed.find("f").unwrap().unwrap().id;
    bed.dataset.unlink(bed.root(), OsStr::new("f")).unwrap();
    let dataset = bed.dataset.id();
    bed.finish();
    assert!(store.load(dataset, id).unwrap().is_none());
}

/// A file that became a new object by our own doing, and was then forgotten in every way but that its
/// first object was noted, must not turn back into it.
#[test]
fn an_object_that_was_left_does_not_come_back() {
    let bed = Plan::new(Coherence::Exclusive).recordsize(512).cache(8 << 20).bed();
    let file = bed.create(bed.root(), "f").unwrap();
    write_at(&file, 0, &[b'x'; 512]);
    let resize = |size| {
        bed.dataset.set_attr(file.ino(), &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
    };
    // More blocks than are dropped one by one.
    resize(64 << 20);
    same(&file.read(0, 512).unwrap().to_vec(), &[b'x'; 512]);
    resize(0);
    resize(512);
    drop(file);
    bed.forget_all();
    evict_metadata(&bed);
    same(&bed.contents("f"), &[0; 512]);
    bed.finish();
}

/// Looks at so many names that no other metadata is left.
fn evict_metadata(bed: &Bed) {
    for n in 0..20_000 {
        assert!(bed.look(bed.root(), &format!("absent{n}")).unwrap().is_none());
    }
}

#[test]
fn a_number_with_a_new_owner_is_another_file() {
    for coherence in [Coherence::Exclusive, Coherence::Timeout, Coherence::Notify] {
        for mode in [CacheMode::All, CacheMode::None] {
            let bed = Plan::new(coherence).primarycache(mode).bed();
            // File systems give a freed number out again soon.
            for round in 0..60u8 {
                let name = format!("f{}", round % 3);
                let file = bed.create(bed.root(), &name).unwrap();
                assert_eq!(file.size(), 0);
                write_at(&file, 0, &vec![round; 5000 + usize::from(round)]);
                same(&all_of(&file), &vec![round; 5000 + usize::from(round)]);
                drop(file);
                same(&bed.contents(&name), &vec![round; 5000 + usize::from(round)]);
                if round % 2 == 0 {
                    bed.forget_all();
                }
                bed.dataset.unlink(bed.root(), OsStr::new(&name)).unwrap();
            }
            bed.finish();
        }
    }
}

#[test]
fn ids_are_never_given_out_twice() {
    let run = Run::new();
    let mut seen = std::collections::HashSet::new();
    for n in 0..3 {
        let (bed, store) = run.bed(Coherence::Timeout, 4096);
        let name = format!("f{n}");
        write_at(&bed.create(bed.root(), &name).unwrap(), 0, b"1");
        come_of_age();
        bed.pool.stop();
        let Identity { object: ObjectId(object), .. } = kept(&store, &bed, &name).unwrap();
        assert!(seen.insert(object));
        bed.finish();
    }
}

/// A state directory that fails costs warmth, not data.
#[derive(Debug)]
struct Forgetful(arcwell_backend::MemoryIdentities);

impl IdentityStore for Forgetful {
    fn reserve_objects(&self, count: u64) -> arcwell_base::Result<std::ops::Range<u64>> {
        self.0.reserve_objects(count)
    }

    fn dataset(&self, origin: &std::path::Path) -> arcwell_base::Result<DatasetId> {
        self.0.dataset(origin)
    }

    fn load(&self, dataset: DatasetId, file: FileId) -> arcwell_base::Result<Option<Identity>> {
        self.0.load(dataset, file)
    }

    fn save(&self, _: DatasetId, _: &[(FileId, Identity)]) -> arcwell_base::Result<()> {
        Err(arcwell_base::Error::new("save identities", rustix::io::Errno::NOSPC))
    }

    fn forget(&self, _: DatasetId, _: &[FileId]) -> arcwell_base::Result<()> {
        Err(arcwell_base::Error::new("forget identities", rustix::io::Errno::NOSPC))
    }

    fn trusted_devices(&self) -> arcwell_base::Result<Vec<u128>> {
        self.0.trusted_devices()
    }

    fn trust_devices(&self, _: &[u128]) -> arcwell_base::Result<()> {
        Err(arcwell_base::Error::new("remember cache devices", rustix::io::Errno::NOSPC))
    }
}

#[test]
fn a_full_state_directory_costs_only_warmth() {
    let plan = Plan::new(Coherence::Timeout).identities(Arc::new(Forgetful(Default::default())));
    let bed = plan.bed();
    let file = bed.create(bed.root(), "f").unwrap();
    write_at(&file, 0, &[b'x'; 10_000]);
    drop(file);
    bed.pool.stop();
    assert!(bed.counter("pool.identities_pending") > 0, "kept for another try");
    same(&bed.contents("f"), &[b'x'; 10_000]);
    bed.finish();
}

#[test]
fn a_version_behind_which_a_change_may_hide_is_not_remembered() {
    let run = Run::new();
    let (bed, store) = run.bed(Coherence::Timeout, 4096);
    write_at(&bed.create(bed.root(), "f").unwrap(), 0, b"1");
    come_of_age();
    bed.pool.checkpoint();
    assert!(kept(&store, &bed, "f").is_some(), "it was old enough");
    // The checkpoint has to come while the version is young, on however busy a machine.
    bed::until("a version is young at the end", || {
        let before = kept(&store, &bed, "f").unwrap();
        write_at(&bed.open("f"), 0, b"2");
        bed.pool.checkpoint();
        kept(&store, &bed, "f") == Some(before)
    });
    bed.finish();
}
