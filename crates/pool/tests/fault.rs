//! An origin that fails, hangs, answers short or loses its answers: never an absence that is none,
//! never an empty listing, and a cache that afterwards shows what the origin has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use std::ffi::OsStr;
use std::fs;
use std::sync::{Arc, mpsc};

use arcwell_backend::{Fault, Operation};
use arcwell_base::origin::{Allocate, RenameMode, SetAttr};
use arcwell_base::table::Tunables;
use arcwell_pool::{Class, Coherence, OpenFile, OpenHow, WriteHow};
use bed::{Bed, Plan, all_of, come_of_age, lettered, same, write_at};
use rustix::io::Errno;

const ALL: [Coherence; 3] = [Coherence::Exclusive, Coherence::Notify, Coherence::Timeout];

fn filled(coherence: Coherence) -> Bed {
    let bed = Plan::new(coherence).bed();
    fs::create_dir(bed.origin("d")).unwrap();
    for name in ["d/a", "d/b", "d/c"] {
        lettered(&bed.origin(name), 4, 4096);
    }
    come_of_age();
    bed
}

#[test]
fn a_failing_origin_is_neither_absent_nor_empty() {
    for coherence in ALL {
        for fault in [Errno::IO, Errno::TIMEDOUT, Errno::STALE, Errno::NOTCONN] {
            // A lost server is an I/O error to programs.
            let errno = if fault == Errno::NOTCONN { Errno::IO } else { fault };
            let bed = filled(coherence);
            let d = bed.ino("d");
            bed.faulty.set(Fault::Fail(fault));
            assert_eq!(bed.look(d, "a").unwrap_err().errno(), errno);
            assert_eq!(bed.look(d, "absent").unwrap_err().errno(), errno);
            assert_eq!(bed.names(d).unwrap_err().errno(), errno);
            assert!(bed.dataset.unlink(d, OsStr::new("a")).is_err());
            bed.faulty.set(Fault::Pass);
            assert!(bed.look(d, "a").unwrap().is_some(), "no absence was remembered");
            assert!(bed.look(d, "absent").unwrap().is_none());
            assert_eq!(bed.names(d).unwrap(), ["a", "b", "c"]);
            bed.finish();
        }
    }
}

#[test]
fn what_is_cached_is_served_while_the_origin_hangs() {
    for coherence in ALL {
        let bed = filled(coherence);
        let (d, file) = (bed.ino("d"), bed.open("d/a"));
        let known = all_of(&file);
        let names = bed.names(d).unwrap();
        bed.look(d, "a").unwrap();
        bed.faulty.set(Fault::Hang);
        same(&all_of(&file), &known);
        assert_eq!(bed.names(d).unwrap(), names);
        assert!(bed.look(d, "a").unwrap().is_some());
        assert_eq!(bed.stat(file.ino()).unwrap().size, known.len() as u64);
        bed.faulty.set(Fault::Pass);
        drop(file);
        bed.finish();
    }
}

/// What has to be asked again, and cannot: it is served as it was, and what is not cached is an error.
#[test]
fn what_is_cached_is_served_while_the_origin_fails() {
    for fault in [Errno::IO, Errno::TIMEDOUT, Errno::NOTCONN] {
        let bed = filled(Coherence::Timeout);
        std::os::unix::fs::symlink("a", bed.origin("d/link")).unwrap();
        come_of_age();
        let (d, link, file, unread) = (bed.ino("d"), bed.ino("d/link"), bed.open("d/a"), bed.open("d/b"));
        let (known, names, size) = (all_of(&file), bed.names(d).unwrap(), bed.stat(file.ino()).unwrap().size);
        bed.dataset.read_link(link).unwrap();
        assert!(bed.look(d, "absent").unwrap().is_none());
        bed.pass_time();
        bed.faulty.set(Fault::Fail(fault));
        let errno = if fault == Errno::NOTCONN { Errno::IO } else { fault };
        same(&all_of(&file), &known);
        same(&all_of(&bed.open_to_read("d/a")), &known);
        assert_eq!(bed.names(d).unwrap(), names);
        assert_eq!(bed.stat(file.ino()).unwrap().size, size);
        assert_eq!(bed.dataset.read_link(link).unwrap(), b"a");
        for name in ["absent", "unseen"] {
            assert_eq!(bed.look(d, name).unwrap_err().errno(), errno, "no absence is served");
        }
        assert_eq!(unread.read(0, 1).unwrap_err().errno(), errno, "nor is what was never read");
        let write = OpenHow { write: true, truncate: false };
        assert_eq!(bed.dataset.open(file.ino(), write).unwrap_err().errno(), errno);
        bed.faulty.set(Fault::Pass);
        fs::write(bed.origin("d/a"), b"foreign").unwrap();
        assert_eq!(all_of(&bed.open("d/a")), b"foreign");
        drop((file, unread));
        bed.finish();
    }
}

#[test]
fn a_hanging_origin_answers_by_the_deadline() {
    let bed = filled(Coherence::Timeout);
    bed.pool.tunables().set("pool.origin_timeout", "50ms", true).unwrap();
    let d = bed.ino("d");
    bed.faulty.set(Fault::Hang);
    let (sender, receiver) = mpsc::channel();
    for name in ["a", "absent"] {
        let (dataset, sender) = (bed.dataset.clone(), sender.clone());
        let job = move || dataset.lookup(d, OsStr::new(name)).map(drop);
        bed.pool.workers().run(Class::Query, job, move |result| sender.send(result).unwrap());
    }
    let (dataset, names) = (bed.dataset.clone(), sender.clone());
    let list = move || dataset.open_dir(d)?.entries(0).map(drop);
    bed.pool.workers().run(Class::Query, list, move |result| names.send(result).unwrap());
    for _ in 0..3 {
        assert_eq!(receiver.recv().unwrap().unwrap_err().errno(), Errno::TIMEDOUT);
    }
    assert_eq!(bed.counter("pool.timeouts"), 3);
    bed.faulty.set(Fault::Fail(Errno::IO));
    assert_eq!(bed.look(d, "a").unwrap_err().errno(), Errno::IO);
    bed.faulty.set(Fault::Pass);
    bed::until("the late ones are through", || bed.pool.workers().load().running == 0);
    assert!(bed.look(d, "a").unwrap().is_some());
    // What the late look-up found was held for an asker who had gone: the front end's to give back.
    bed.dataset.forget(bed.ino("d/a"), 1);
    bed.finish();
}

#[test]
fn a_failed_read_is_an_error_and_leaves_nothing() {
    for coherence in ALL {
        let bed = filled(coherence);
        let expected = fs::read(bed.origin("d/a")).unwrap();
        let file = bed.open("d/a");
        bed.faulty.set_for(&[Operation::Read], Fault::Fail(Errno::IO));
        assert_eq!(file.read(0, 16_384).unwrap_err().errno(), Errno::IO);
        bed.faulty.set(Fault::Pass);
        same(&all_of(&file), &expected);
        // The length changes behind our back: what is missing is not made up.
        fs::File::options().write(true).open(bed.origin("d/b")).unwrap().set_len(5000).unwrap();
        let shorter = bed.open("d/b");
        same(&all_of(&shorter), &expected_head(&bed));
        drop((file, shorter));
        bed.finish();
    }
}

fn expected_head(bed: &Bed) -> Vec<u8> {
    fs::read(bed.origin("d/b")).unwrap()
}

#[test]
fn a_file_cut_between_stat_and_read_is_read_as_it_is() {
    for coherence in ALL {
        let bed = filled(coherence);
        let file = bed.open("d/a");
        assert_eq!(file.size(), 16_384);
        fs::File::options().write(true).open(bed.origin("d/a")).unwrap().set_len(9000).unwrap();
        same(&all_of(&file), &fs::read(bed.origin("d/a")).unwrap());
        drop(file);
        bed.finish();
    }
}

/// Every change, refused or with its answer lost, at every stage of what is cached.
#[test]
fn after_a_failed_change_the_cache_shows_what_the_origin_has() {
    type Change = fn(&Bed, u64) -> arcwell_base::Result<()>;
    let changes: [(&str, Operation, Change); 12] = [
        ("overwrite", Operation::Write, |bed, d| write(bed, d, 5000, 6000)),
        ("extend", Operation::Write, |bed, d| write(bed, d, 16_000, 6000)),
        ("append", Operation::Write, |bed, d| append(bed, d)),
        ("truncate", Operation::SetAttr, |bed, d| truncate(bed, d, 5000)),
        ("lengthen", Operation::SetAttr, |bed, d| truncate(bed, d, 50_000)),
        ("punch", Operation::Allocate, |bed, d| allocate(bed, d, 0x03, 4096)),
        ("collapse", Operation::Allocate, |bed, d| allocate(bed, d, 0x08, 4096)),
        ("copy", Operation::CopyRange, |bed, d| copy(bed, d)),
        ("unlink", Operation::Unlink, |bed, d| bed.dataset.unlink(d, OsStr::new("a"))),
        ("rename", Operation::Rename, |bed, d| rename(bed, d, "a", "b", RenameMode::Replace)),
        ("exchange", Operation::Rename, |bed, d| rename(bed, d, "a", "b", RenameMode::Exchange)),
        ("create", Operation::Create, |bed, d| bed.create(d, "new").map(drop)),
    ];
    for coherence in ALL {
        for fault in [Fault::Fail(Errno::NOSPC), Fault::LoseAnswer(Errno::IO)] {
            for (what, operation, change) in changes {
                let bed = filled(coherence);
                let d = bed.ino("d");
                bed.names(d).unwrap();
                for name in ["a", "b", "new"] {
                    bed.look(d, name).unwrap();
                }
                let open = bed.open("d/a");
                all_of(&open);
                bed.faulty.set_for(&[operation], fault);
                let error = change(&bed, d).unwrap_err();
                bed.faulty.set(Fault::Pass);
                let Fault::Fail(errno) = fault else {
                    continue_lost(bed, d, what, open, error);
                    continue;
                };
                assert_eq!(error.errno(), errno, "{what}");
                drop(open);
                agrees(&bed, d, what);
                bed.finish();
            }
        }
    }
}

fn continue_lost(bed: Bed, d: u64, what: &str, open: Arc<OpenFile>, error: arcwell_base::Error) {
    assert_eq!(error.errno(), Errno::IO, "{what}");
    agrees(&bed, d, what);
    if what != "unlink" && what != "exchange" && what != "rename" {
        same(&all_of(&open), &fs::read(bed.origin("d/a")).unwrap());
    }
    drop(open);
    bed.finish();
}

/// All that can be asked about the directory agrees with the origin, without time passing.
fn agrees(bed: &Bed, d: u64, what: &str) {
    let mut names: Vec<_> =
        fs::read_dir(bed.origin("d")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(bed.names(d).unwrap(), names, "{what}");
    for name in ["a", "b", "c", "new"] {
        let is_there = names.contains(&name.into());
        let found = bed.look(d, name).unwrap();
        assert_eq!(found.is_some(), is_there, "{what}: {name}");
        let Some(found) = found else { continue };
        let truth = fs::metadata(bed.origin("d").join(name)).unwrap();
        let shown = bed.stat(found.id.ino).unwrap();
        assert_eq!((found.size, shown.size), (truth.len(), truth.len()), "{what}: {name}");
        assert_eq!(shown.id.ino, std::os::unix::fs::MetadataExt::ino(&truth), "{what}: {name}");
        let file = bed.dataset.cached_open(found.id.ino, OpenHow::default());
        let file = file.unwrap_or_else(|| bed.dataset.open(found.id.ino, OpenHow::default())).unwrap();
        same(&all_of(&file), &fs::read(bed.origin("d").join(name)).unwrap());
    }
}

fn write(bed: &Bed, d: u64, offset: u64, len: usize) -> arcwell_base::Result<()> {
    let file = bed.open_ino(bed.look(d, "a")?.unwrap().id.ino)?;
    file.write(offset, &vec![b'#'; len], WriteHow::default()).map(drop)
}

fn append(bed: &Bed, d: u64) -> arcwell_base::Result<()> {
    let file = bed.open_ino(bed.look(d, "a")?.unwrap().id.ino)?;
    file.write(0, &[b'#'; 9000], WriteHow { append: true, ..WriteHow::default() }).map(drop)
}

fn truncate(bed: &Bed, d: u64, size: u64) -> arcwell_base::Result<()> {
    let ino = bed.look(d, "a")?.unwrap().id.ino;
    bed.dataset.set_attr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }).map(drop)
}

fn allocate(bed: &Bed, d: u64, mode: u32, offset: u64) -> arcwell_base::Result<()> {
    let file = bed.open_ino(bed.look(d, "a")?.unwrap().id.ino)?;
    file.allocate(Allocate { mode, offset, length: 4096 })
}

fn copy(bed: &Bed, d: u64) -> arcwell_base::Result<()> {
    let to = bed.open_ino(bed.look(d, "a")?.unwrap().id.ino)?;
    let from = bed.open_ino(bed.look(d, "b")?.unwrap().id.ino)?;
    from.copy_range(0, &to, 10_000, 10_000).map(drop)
}

fn rename(bed: &Bed, d: u64, from: &str, to: &str, mode: RenameMode) -> arcwell_base::Result<()> {
    bed.dataset.rename((d, OsStr::new(from)), (d, OsStr::new(to)), mode)
}

#[test]
fn a_full_origin_takes_what_it_can() {
    // A limit on file size stands in for a full disk: the first part is written, the rest is not.
    let bed = Plan::new(Coherence::Exclusive).bed();
    let file = bed.create(bed.root(), "f").unwrap();
    write_at(&file, 0, &[b'a'; 10_000]);
    let far = file.write(u64::MAX - 100, &[1; 50], WriteHow::default());
    assert!(far.is_err());
    same(&all_of(&file), &[b'a'; 10_000]);
    assert_eq!(bed.stat(file.ino()).unwrap().size, 10_000);
    drop(file);
    bed.finish();
}

/// Who asked has given up and let the file go; the change goes on alone. Whoever finds the file again
/// meanwhile must see its outcome.
#[test]
fn a_change_that_outlives_its_asker_is_seen() {
    for coherence in ALL {
        let bed = filled(coherence);
        bed.pool.tunables().set("pool.change_timeout", "20ms", true).unwrap();
        let ino = bed.ino("d/a");
        all_of(&bed.open("d/a"));
        bed.faulty.set_for(&[Operation::SetAttr], Fault::Hang);
        let (sender, receiver) = mpsc::channel();
        let dataset = bed.dataset.clone();
        let cut = move || dataset.set_attr(ino, &SetAttr { size: Some(5000), ..SetAttr::default() });
        bed.pool.workers().run(Class::Change, cut, move |result| sender.send(result.map(drop)).unwrap());
        assert_eq!(receiver.recv().unwrap().unwrap_err().errno(), Errno::TIMEDOUT);
        bed.forget_all();
        let again = bed.open_to_read("d/a");
        assert_eq!(again.size(), 16_384);
        bed.faulty.set(Fault::Pass);
        bed::until("it is done", || bed.pool.workers().load().running == 0);
        assert_eq!(again.size(), 5000, "{coherence}");
        same(&all_of(&again), &fs::read(bed.origin("d/a")).unwrap());
        drop(again);
        bed.finish();
    }
}

#[test]
fn while_an_origin_is_silent_what_is_cached_is_served() {
    let bed = filled(Coherence::Timeout);
    let d = bed.ino("d");
    let expected = bed.contents("d/a");
    assert_eq!(bed.names(d).unwrap().len(), 3);
    bed.pass_time();
    bed.faulty.set(Fault::Hang);
    let (sender, receiver) = mpsc::channel();
    let (dataset, ino) = (std::sync::Arc::clone(&bed.dataset), d);
    // The first to ask waits: it is the probe.
    let asker = std::thread::spawn(move || sender.send(dataset.stat(ino).is_ok()).unwrap());
    bed.faulty.wait_until_hanging(1);
    bed.clock.advance(std::time::Duration::from_millis(bed.pool.tunables().origin_timeout()));
    same(&bed.contents("d/a"), &expected);
    assert_eq!(bed.names(d).unwrap().len(), 3);
    bed.faulty.set(Fault::Pass);
    assert!(receiver.recv().unwrap());
    asker.join().unwrap();
    assert!(bed.look(d, "never-heard-of").unwrap().is_none(), "the silence is over");
    bed.finish();
}
