//! What the pool takes: znodes count within the cache's limit and are given back, depth and breadth
//! cost no stack and no descriptors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd;
use std::sync::Arc;

use arcwell_base::origin::FileType;
use arcwell_pool::{Coherence, Dataset, Holder, Looked, PruneCandidate};
use bed::{Bed, Plan};
use rustix::fs::{Mode, OFlags};

/// What a kernel does when it is asked to let go.
struct LettingGo(std::sync::Weak<Dataset>);

impl Holder for LettingGo {
    fn invalidate_node(&self, _: u64) {}

    fn invalidate_name(&self, _: u64, _: &OsStr) {}

    fn prune(&self, nodes: &[PruneCandidate]) {
        let Some(dataset) = self.0.upgrade() else { return };
        nodes.iter().for_each(|node| dataset.forget(node.ino, 1));
    }
}

fn limit_holds(bed: &Bed, limit: u64) {
    let size = bed.counter("arc.size");
    assert!(size <= limit + limit / 100, "{size} bytes of {limit}");
}

#[test]
fn many_files_stay_within_the_limit() {
    const DIRS: usize = 200;
    const EACH: usize = 1000;
    const LIMIT: u64 = 128 << 20;
    let bed = Plan::new(Coherence::Exclusive).cache(LIMIT).roomy_bed();
    let base = bed.counter("arc.other_size");
    for dir in 0..DIRS {
        let path = bed.origin(&format!("d{dir}"));
        fs::create_dir(&path).unwrap();
        let dir = fs::File::open(&path).unwrap();
        for file in 0..EACH {
            let flags = OFlags::CREATE | OFlags::WRONLY;
            rustix::fs::openat(dir.as_fd(), format!("f{file}"), flags, Mode::RUSR).unwrap();
        }
    }
    let mut inos = Vec::with_capacity(DIRS * EACH);
    for dir in 0..DIRS {
        let dir = bed.look(bed.root(), &format!("d{dir}")).unwrap().unwrap().id.ino;
        for file in 0..EACH {
            match bed.dataset.lookup(dir, OsStr::new(&format!("f{file}"))).unwrap() {
                Looked::Found(entry) => inos.push(entry.stat.id.ino),
                Looked::Absent { .. } => panic!("it is there"),
            }
        }
        limit_holds(&bed, LIMIT);
    }
    assert_eq!(bed.dataset.znodes(), (1 + DIRS + DIRS * EACH) as u64);
    assert_eq!(bed.counter("arc.other_size") - base, bed.counter("znode.bytes"));
    inos.into_iter().for_each(|ino| bed.dataset.forget(ino, 1));
    bed.forget_all();
    assert_eq!(bed.dataset.znodes(), 1);
    assert_eq!(bed.counter("arc.other_size"), base);
    bed.finish();
}

/// More files than the cache could hold znodes of: whoever holds them is asked to let go.
#[test]
fn a_small_cache_asks_for_its_znodes_back() {
    const LIMIT: u64 = 4 << 20;
    const FILES: usize = 30_000;
    let bed = Plan::new(Coherence::Exclusive).cache(LIMIT).roomy_bed();
    bed.dataset.set_holder(Box::new(LettingGo(Arc::downgrade(&bed.dataset))));
    let dir = fs::File::open(bed.home.path()).unwrap();
    for file in 0..FILES {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        rustix::fs::openat(dir.as_fd(), format!("f{file}"), flags, Mode::RUSR).unwrap();
        let looked = bed.dataset.lookup(bed.root(), OsStr::new(&format!("f{file}"))).unwrap();
        assert!(matches!(looked, Looked::Found(_)));
        if file % 5000 == 4999 {
            bed::until("they are let go", || bed.counter("znode.bytes") <= LIMIT / 4);
            limit_holds(&bed, LIMIT);
        }
    }
    assert!(bed.counter("znode.prunes") > 0);
    bed.dataset.clear_holder();
    for file in 0..FILES {
        if let Ok(found) = fs::metadata(bed.origin(&format!("f{file}"))) {
            bed.dataset.forget(std::os::unix::fs::MetadataExt::ino(&found), 1);
        }
    }
    bed.finish();
}

#[test]
fn a_very_deep_tree_is_walked_and_let_go() {
    const DEPTH: usize = 3000;
    let mut plan = Plan::new(Coherence::Timeout);
    plan.descriptors_max = 64;
    let bed = plan.roomy_bed();
    let mut at = rustix::fs::open(bed.home.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..DEPTH {
        rustix::fs::mkdirat(&at, "deep", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "deep", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    rustix::fs::openat(&at, "f", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    let mut chain = vec![bed.root()];
    for _ in 0..DEPTH {
        chain.push(bed.look(chain[chain.len() - 1], "deep").unwrap().unwrap().id.ino);
    }
    let last = chain[DEPTH];
    assert_eq!(bed.names(last).unwrap(), ["f"]);
    // From the middle, whose descriptor is long gone; the path is longer than the kernel takes at once.
    assert_eq!(bed.names(chain[DEPTH / 2]).unwrap(), ["deep"]);
    bed.pass_time();
    assert!(bed.look(last, "f").unwrap().is_some());
    assert_eq!(bed.dataset.znodes(), DEPTH as u64 + 2);
    remove_deep(at, DEPTH);
    // Parents first: each stays for its children's sake, and goes with them.
    bed.finish();
}

/// The standard library's removal would need as many descriptors as the tree is deep.
fn remove_deep(mut at: rustix::fd::OwnedFd, depth: usize) {
    use rustix::fs::AtFlags;
    rustix::fs::unlinkat(&at, "f", AtFlags::empty()).unwrap();
    for _ in 0..depth {
        at = rustix::fs::openat(&at, "..", OFlags::DIRECTORY, Mode::empty()).unwrap();
        rustix::fs::unlinkat(&at, "deep", AtFlags::REMOVEDIR).unwrap();
    }
}

#[test]
fn a_broad_tree_is_walked_with_few_descriptors() {
    const BRANCHES: usize = 100;
    const LEAVES: usize = 200;
    let mut plan = Plan::new(Coherence::Exclusive).cache(64 << 20);
    plan.descriptors_max = 64;
    let bed = plan.roomy_bed();
    for branch in 0..BRANCHES {
        fs::create_dir(bed.origin(&format!("b{branch}"))).unwrap();
        for leaf in 0..LEAVES {
            fs::create_dir(bed.origin(&format!("b{branch}/l{leaf}"))).unwrap();
        }
    }
    let mut pending = vec![bed.root()];
    let mut walked = 0;
    while let Some(dir) = pending.pop() {
        walked += 1;
        for name in bed.names(dir).unwrap() {
            let stat = bed.look(dir, name.to_str().unwrap()).unwrap().unwrap();
            assert_eq!(stat.kind, FileType::Directory);
            pending.push(stat.id.ino);
        }
        if walked % 1000 == 0 {
            let open = fs::read_dir("/proc/self/fd").unwrap().count();
            assert!(open < 64 + 200, "{open} descriptors, of all tests together");
        }
    }
    assert_eq!(walked, 1 + BRANCHES + BRANCHES * LEAVES);
    bed.finish();
}

/// A directory that is let go while files in it are held, and is then found again, is one directory.
#[test]
fn a_parent_that_was_let_go_is_the_same_when_it_is_found_again() {
    let bed = Plan::new(Coherence::Exclusive).bed();
    fs::create_dir(bed.origin("d")).unwrap();
    fs::write(bed.origin("d/f"), "1").unwrap();
    fs::hard_link(bed.origin("d/f"), bed.origin("other")).unwrap();
    let (d, file) = (bed.ino("d"), bed.open("d/f"));
    bed.look(bed.root(), "other").unwrap();
    bed.forget_all();
    // Open still: so is its znode, and with it the directory's.
    assert_eq!(bed.ino("d"), d);
    bed.dataset.unlink(d, OsStr::new("f")).unwrap();
    bed.dataset.unlink(bed.root(), OsStr::new("other")).unwrap();
    assert_eq!(file.read(0, 10).unwrap().to_vec(), b"1");
    assert!(bed.look(d, "f").unwrap().is_none());
    drop(file);
    bed.finish();
}

#[test]
fn a_failed_create_holds_nothing() {
    use arcwell_backend::{Fault, Operation};
    let bed = Plan::new(Coherence::Timeout).bed();
    fs::write(bed.origin("f"), "1").unwrap();
    std::os::unix::fs::symlink("f", bed.origin("link")).unwrap();
    let create = |name: &str| bed.dataset.create(bed.root(), OsStr::new(name), 0o644, false, bed::caller());
    assert_eq!(create("f").unwrap_err().errno(), rustix::io::Errno::STALE);
    bed.faulty.set_for(&[Operation::Create], Fault::LoseAnswer(rustix::io::Errno::IO));
    assert!(create("g").is_err());
    bed.faulty.set(Fault::Pass);
    assert!(create("link").is_err());
    assert!(create("d/f").is_err());
    assert_eq!(bed.dataset.znodes(), 1);
    bed.finish();
}
