//! Foreign changes: somebody writes to the origin without us. What must be seen, when, and that old
//! and new are never mixed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arcwell_arc::ListKind;
use arcwell_base::origin::RenameMode;
use arcwell_pool::{CacheMode, Coherence, Holder, OpenHow, PruneCandidate};
use bed::{Plan, all_of, come_of_age, lettered, same, until, write_at};

const BOTH: [Coherence; 2] = [Coherence::Timeout, Coherence::Notify];

#[test]
fn a_file_that_was_written_this_moment_can_be_read() {
    for coherence in BOTH {
        let bed = Plan::new(coherence).bed();
        for round in 0..40u8 {
            let path = bed.origin("new");
            fs::write(&path, vec![round; 20_000]).unwrap();
            same(&bed.contents("new"), &[round; 20_000]);
        }
        bed.finish();
    }
}

#[test]
fn a_foreign_write_is_seen_after_the_timeout_and_at_open() {
    let bed = Plan::new(Coherence::Timeout).bed();
    lettered(&bed.origin("f"), 4, 4096);
    come_of_age();
    let file = bed.open("f");
    let old = all_of(&file);
    fs::write(bed.origin("f"), b"shorter").unwrap();
    same(&all_of(&file), &old);
    bed.pass_time();
    same(&all_of(&file), b"shorter");
    come_of_age();
    fs::write(bed.origin("f"), b"changed once more").unwrap();
    assert_eq!(bed.contents("f"), b"changed once more", "seen at open");
    assert_eq!(bed.find("f").unwrap().unwrap().size, 17);
    drop(file);
    bed.finish();
}

#[test]
fn an_overwrite_of_the_same_size_is_seen() {
    let bed = Plan::new(Coherence::Timeout).bed();
    lettered(&bed.origin("f"), 4, 4096);
    come_of_age();
    let file = bed.open("f");
    all_of(&file);
    let foreign = fs::File::options().write(true).open(bed.origin("f")).unwrap();
    foreign.write_all_at(b"####", 5000).unwrap();
    come_of_age();
    bed.pass_time();
    assert_eq!(file.read(5000, 4).unwrap().to_vec(), b"####");
    drop(file);
    bed.finish();
}

#[test]
fn foreign_names_are_seen_after_the_timeout() {
    let bed = Plan::new(Coherence::Timeout).bed();
    fs::write(bed.origin("old"), "1").unwrap();
    come_of_age();
    let root = bed.root();
    assert!(bed.look(root, "new").unwrap().is_none());
    assert!(bed.look(root, "old").unwrap().is_some());
    assert_eq!(bed.names(root).unwrap(), ["old"]);
    fs::rename(bed.origin("old"), bed.origin("new")).unwrap();
    bed.pass_time();
    assert!(bed.look(root, "old").unwrap().is_none());
    assert!(bed.look(root, "new").unwrap().is_some());
    assert_eq!(bed.names(root).unwrap(), ["new"]);
    bed.finish();
}

#[test]
fn a_file_that_others_renamed_is_found_by_its_new_name() {
    let mut plan = Plan::new(Coherence::Timeout);
    plan.descriptors_max = 1;
    let bed = plan.bed();
    fs::create_dir(bed.origin("d")).unwrap();
    for name in ["old", "x", "y", "z"] {
        fs::write(bed.origin(name), name).unwrap();
    }
    come_of_age();
    assert_eq!(bed.contents("old"), b"old");
    fs::rename(bed.origin("old"), bed.origin("d/new")).unwrap();
    bed.pass_time();
    let file = bed.open("d/new");
    for name in ["x", "y", "z"] {
        assert_eq!(bed.contents(name), name.as_bytes());
    }
    bed.pass_time();
    assert_eq!(all_of(&file), b"old");
    write_at(&file, 0, b"OLD");
    // Its descriptor was pushed out again by others.
    for name in ["x", "y", "z"] {
        assert_eq!(bed.contents(name), name.as_bytes());
    }
    bed.dataset.unlink(bed.ino("d"), OsStr::new("new")).unwrap();
    for name in ["x", "y", "z"] {
        assert_eq!(bed.contents(name), name.as_bytes());
    }
    assert_eq!(file.read(0, 3).unwrap().to_vec(), b"OLD", "kept while it is open");
    drop(file);
    bed.finish();
}

#[test]
fn notices_reach_contents_names_and_listings() {
    let bed = Plan::new(Coherence::Notify).bed();
    fs::create_dir(bed.origin("d")).unwrap();
    lettered(&bed.origin("d/f"), 3, 4096);
    come_of_age();
    let (d, file) = (bed.ino("d"), bed.open("d/f"));
    assert!(bed.look(d, "later").unwrap().is_none());
    all_of(&file);
    fs::write(bed.origin("d/f"), b"foreign").unwrap();
    until("contents", || all_of(&file) == b"foreign");
    fs::write(bed.origin("d/later"), b"1").unwrap();
    until("a new name", || bed.look(d, "later").unwrap().is_some());
    until("a new listing", || bed.names(d).unwrap().len() == 2);
    fs::remove_file(bed.origin("d/later")).unwrap();
    until("an absence", || bed.look(d, "later").unwrap().is_none());
    drop(file);
    bed.finish();
}

/// The notice of a file must reach it though its directory was found changed a moment before, or its
/// name is no longer in the cache.
#[test]
fn notices_reach_files_whose_names_are_not_cached() {
    for mode in [CacheMode::All, CacheMode::None] {
        let bed = Plan::new(Coherence::Notify).primarycache(mode).bed();
        fs::create_dir(bed.origin("d")).unwrap();
        for n in 0..20 {
            fs::write(bed.origin(&format!("d/f{n}")), vec![b'.'; 5000]).unwrap();
        }
        come_of_age();
        let files: Vec<_> = (0..20).map(|n| bed.open(&format!("d/f{n}"))).collect();
        files.iter().for_each(|file| same(&all_of(file), &[b'.'; 5000]));
        for n in 0..20 {
            // In one burst with changes of the directory.
            fs::write(bed.origin(&format!("d/new{n}")), "").unwrap();
            fs::write(bed.origin(&format!("d/f{n}")), vec![b'#'; 6000 + n]).unwrap();
            fs::remove_file(bed.origin(&format!("d/new{n}"))).unwrap();
        }
        for (n, file) in files.iter().enumerate() {
            until("the file's own change", || all_of(file) == vec![b'#'; 6000 + n]);
        }
        drop(files);
        bed.finish();
    }
}

/// What a kernel was told to forget.
#[derive(Default)]
struct Told(Mutex<HashSet<OsString>>);

struct Listening(Arc<Told>);

impl Holder for Listening {
    fn invalidate_node(&self, _: u64) {}

    fn invalidate_name(&self, _: u64, name: &OsStr) {
        self.0.0.lock().unwrap().insert(name.to_owned());
    }

    fn prune(&self, _: &[PruneCandidate]) {}
}

/// The kernel knows names longer than we do: it is told of each that changed, though the directory
/// was found changed by the event before, and then looked as expected.
#[test]
fn the_holder_is_told_of_names_that_change_in_one_burst() {
    let bed = Plan::new(Coherence::Notify).bed();
    let told = Arc::new(Told::default());
    bed.dataset.set_holder(Box::new(Listening(Arc::clone(&told))));
    fs::create_dir(bed.origin("d")).unwrap();
    fs::write(bed.origin("d/kept"), "0").unwrap();
    fs::write(bed.origin("d/doomed"), "0").unwrap();
    let d = bed.ino("d");
    for round in 0..40 {
        for name in ["kept", "doomed"] {
            bed.look(d, name).unwrap().unwrap();
        }
        told.0.lock().unwrap().clear();
        fs::write(bed.origin("d/new"), round.to_string()).unwrap();
        fs::rename(bed.origin("d/new"), bed.origin("d/kept")).unwrap();
        fs::remove_file(bed.origin("d/doomed")).unwrap();
        until("the names are taken back", || {
            let told = told.0.lock().unwrap();
            ["kept", "doomed"].iter().all(|name| told.contains(OsStr::new(name)))
        });
        fs::write(bed.origin("d/doomed"), round.to_string()).unwrap();
        until("the name is back", || bed.look(d, "doomed").unwrap().is_some());
    }
    bed.finish();
}

/// What changed before a directory was watched was told to nobody.
#[test]
fn nothing_from_before_the_watch_is_believed() {
    let bed = Plan::new(Coherence::Notify).bed();
    fs::create_dir(bed.origin("d")).unwrap();
    fs::write(bed.origin("d/f"), vec![b'.'; 5000]).unwrap();
    come_of_age();
    let d = bed.ino("d");
    let dir = bed.dataset.open_dir(d).unwrap();
    assert_eq!(dir.entries(0).unwrap().iter().count(), 3);
    let file = bed.open("d/f");
    all_of(&file);
    // Many more events than are kept, so that some are lost and nothing is watched any more.
    overflow(&bed);
    bed.pass_time();
    fs::write(bed.origin("d/f"), vec![b'#'; 5000]).unwrap();
    fs::write(bed.origin("d/g"), "").unwrap();
    come_of_age();
    // Whoever looks now has it watched again, and sees the truth.
    assert!(bed.look(d, "g").unwrap().is_some());
    assert_eq!(bed.names(d).unwrap(), ["f", "g"]);
    same(&all_of(&file), &[b'#'; 5000]);
    drop((file, dir));
    bed.finish();
}

/// Makes the kernel drop events: more than its queue holds, while the origin does not answer.
fn overflow(bed: &bed::Bed) {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let file = fs::File::create(bed.origin("d/noise")).unwrap();
    let other = fs::File::create(bed.origin("d/noise2")).unwrap();
    for n in 0..limit.min(40_000) {
        // Equal events in a row are merged: take turns.
        let file = if n % 2 == 0 { &file } else { &other };
        file.write_all_at(b"x", 0).unwrap();
    }
    fs::remove_file(bed.origin("d/noise")).unwrap();
    fs::remove_file(bed.origin("d/noise2")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
}

#[test]
fn a_change_through_a_second_name_is_seen_under_notify() {
    let bed = Plan::new(Coherence::Notify).bed();
    fs::create_dir(bed.origin("seen")).unwrap();
    fs::create_dir(bed.origin("unseen")).unwrap();
    fs::write(bed.origin("seen/f"), vec![b'.'; 5000]).unwrap();
    fs::hard_link(bed.origin("seen/f"), bed.origin("unseen/f")).unwrap();
    come_of_age();
    same(&bed.contents("seen/f"), &[b'.'; 5000]);
    fs::write(bed.origin("unseen/f"), vec![b'#'; 5000]).unwrap();
    same(&bed.contents("seen/f"), &[b'#'; 5000]);
    bed.finish();
}

#[test]
fn own_changes_keep_the_blocks() {
    for coherence in [Coherence::Exclusive, Coherence::Timeout, Coherence::Notify] {
        let bed = Plan::new(coherence).bed();
        let file = bed.create(bed.root(), "f").unwrap();
        for n in 0..16u64 {
            write_at(&file, n * 4096, &[b'a' + n as u8; 4096]);
        }
        bed.dataset
            .rename((bed.root(), OsStr::new("f")), (bed.root(), OsStr::new("g")), RenameMode::Replace)
            .unwrap();
        write_at(&file, 100, b"patched");
        let again = bed.open("g");
        assert_eq!(&all_of(&again)[98..109], b"aapatchedaa");
        assert_eq!(bed.asked("origin.reads"), 0, "{coherence}: all of it was written by us");
        drop((file, again));
        bed.finish();
    }
}

#[test]
fn exclusive_asks_nothing_twice() {
    let bed = Plan::new(Coherence::Exclusive).lists(ListKind::Single).bed();
    fs::create_dir(bed.origin("d")).unwrap();
    for n in 0..20 {
        lettered(&bed.origin(&format!("d/f{n}")), 3, 4096);
    }
    std::os::unix::fs::symlink("nowhere", bed.origin("d/link")).unwrap();
    let walk = || {
        let d = bed.ino_cached("d");
        let mut bytes = 0;
        for name in bed.names(d).unwrap() {
            let stat = bed.look(d, name.to_str().unwrap()).unwrap().unwrap();
            assert_eq!(bed.stat(stat.id.ino).unwrap(), stat);
            if name == "link" {
                let target = bed.dataset.cached_read_link(stat.id.ino);
                assert_eq!(target.unwrap_or_else(|| bed.dataset.read_link(stat.id.ino)).unwrap(), b"nowhere");
                continue;
            }
            let open = bed.dataset.cached_open(stat.id.ino, OpenHow::default()).unwrap().unwrap();
            bytes += all_of(&open).len();
            let xattr = bed.dataset.cached_xattr(stat.id.ino, OsStr::new("user.x"));
            let xattr = xattr.unwrap_or_else(|| bed.dataset.xattr(stat.id.ino, OsStr::new("user.x")));
            assert!(xattr.is_err());
            let list = bed.dataset.cached_xattr_list(stat.id.ino);
            assert_eq!(list.unwrap_or_else(|| bed.dataset.xattr_list(stat.id.ino)).unwrap(), b"");
        }
        assert!(bed.look(d, "absent").unwrap().is_none());
        bytes
    };
    let first = walk();
    let asked = bed.asked("origin.operations");
    for _ in 0..3 {
        bed.pass_time();
        assert_eq!(walk(), first);
    }
    assert_eq!(bed.asked("origin.operations"), asked, "the second walk asks nothing");
    bed.finish();
}

impl bed::Bed {
    fn ino_cached(&self, name: &str) -> u64 {
        self.look(self.root(), name).unwrap().unwrap().id.ino
    }
}

/// Somebody replaces a whole file again and again; each version is of one letter. Whoever opens it
/// and reads all of it in one go sees one letter.
#[test]
fn old_and_new_are_never_mixed() {
    for coherence in BOTH {
        let bed = Plan::new(coherence).cache(512 << 10).bed();
        let replace = |letter: u8| {
            fs::write(bed.origin("next"), vec![letter; 40_000]).unwrap();
            fs::rename(bed.origin("next"), bed.origin("f")).unwrap();
        };
        replace(b'a');
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        read_one_letter(&bed);
                    }
                });
            }
            for round in 0..150 {
                replace(b'a' + round % 26);
                bed.clock.advance(std::time::Duration::from_millis(400));
                std::thread::sleep(std::time::Duration::from_millis(u64::from(round % 5)));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        bed.finish();
    }
}

/// While the workers have no room an event waits, and is looked into later.
#[test]
fn a_full_queue_loses_no_notice() {
    use arcwell_base::table::Tunables;
    use arcwell_pool::Class;
    let bed = Plan::new(Coherence::Notify).bed();
    fs::write(bed.origin("f"), "old").unwrap();
    come_of_age();
    let file = bed.open("f");
    assert_eq!(all_of(&file), b"old");
    bed.pool.tunables().set("pool.workers_max", "1", true).unwrap();
    bed.pool.tunables().set("pool.queue_max", "4", true).unwrap();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let hang = move || {
        let _ = gate.recv();
        Ok(())
    };
    bed.pool.workers().run(Class::Change, hang, |_| ());
    until("it hangs", || bed.pool.workers().load().running == 1);
    for _ in 0..5 {
        bed.pool.workers().run(Class::Query, || Ok(()), |_| ());
    }
    fs::write(bed.origin("f"), "newer").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    drop(release);
    until("what was noticed", || all_of(&file) == b"newer");
    drop(file);
    bed.finish();
}

/// Whoever lets the dataset go last, and whenever.
#[test]
fn a_pool_may_be_dropped_while_it_is_told_of_changes() {
    for round in 0..30u64 {
        let bed = Plan::new(Coherence::Notify).bed();
        let home = bed.home.clone();
        fs::write(home.path().join("f"), "1").unwrap();
        assert_eq!(bed.contents("f"), b"1");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    fs::write(home.path().join("f"), "2").unwrap();
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(round % 7));
            drop(bed);
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

fn read_one_letter(bed: &bed::Bed) {
    let Ok(Some(stat)) = bed.find("f") else { return };
    let Ok(file) = bed.dataset.open(stat.id.ino, OpenHow::default()) else { return };
    let Ok(read) = file.read(0, 1 << 20) else { return };
    let bytes = read.to_vec();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "mixed");
}
