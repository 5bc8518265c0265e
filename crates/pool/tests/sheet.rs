//! Listings with attributes: sheets tell the truth, give references that can be used and are given back,
//! and die with any change below the directory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use arcwell_base::origin::{RenameMode, SetAttr, Stat};
use arcwell_pool::{Coherence, OpenHow, WriteHow};
use bed::{Bed, Plan};

/// A directory `d` of files, some hundred, so that there is more than one part; all looked up once.
fn full_directory(coherence: Coherence, files: usize) -> Bed {
    let bed = Plan::new(coherence).bed();
    std::fs::create_dir(bed.origin("d")).unwrap();
    for n in 0..files {
        std::fs::write(bed.origin(&format!("d/{}", name(n))), vec![b'x'; n]).unwrap();
    }
    std::thread::sleep(bed::OF_AGE);
    let dir = bed.ino("d");
    assert_eq!(listed(&bed, dir).len(), 0, "nobody asked for any attributes yet");
    for n in 0..files {
        bed.ino(&format!("d/{}", name(n)));
    }
    bed
}

fn name(n: usize) -> String {
    format!("file-with-a-name-of-some-length-{n:04}")
}

/// What a listing gives attributes for; the references are kept for [`Bed::finish`].
fn listed(bed: &Bed, dir: u64) -> BTreeMap<OsString, Stat> {
    let open = bed.dataset.open_dir(dir).unwrap();
    let mut all = BTreeMap::new();
    let mut offset = 0;
    loop {
        let entries = match open.cached_entries(offset) {
            Some(entries) => entries.unwrap(),
            None => open.entries(offset).unwrap(),
        };
        // A few at a time, as a kernel asks.
        let mut count = 0;
        for item in entries.iter().take(50) {
            count += 1;
            offset = item.next;
            if let Some(entry) = bed.dataset.cached_entry(&entries, &item) {
                assert_eq!(entry.stat.id.ino, item.ino);
                bed.hold(entry.stat.id.ino);
                all.insert(item.name.to_owned(), entry.stat);
            }
        }
        if count == 0 {
            return all;
        }
    }
}

fn assert_as_origin(bed: &Bed, listed: &BTreeMap<OsString, Stat>) {
    for (name, stat) in listed {
        let truth = std::fs::symlink_metadata(bed.origin("d").join(name)).unwrap();
        assert_eq!(stat.size, truth.size(), "{name:?}");
        assert_eq!(u32::from(stat.perm), truth.permissions().mode() & 0o7777, "{name:?}");
        assert_eq!(stat.nlink as u64, truth.nlink(), "{name:?}");
    }
}

#[test]
fn the_second_listing_has_all_attributes_and_asks_nothing() {
    let bed = full_directory(Coherence::Exclusive, 1500);
    let dir = bed.ino("d");
    bed.forget_all();
    let dir = dir_again(&bed, dir);
    let before = bed.asked("origin.operations");
    let all = listed(&bed, dir);
    assert_eq!(all.len(), 1500);
    assert_as_origin(&bed, &all);
    assert_eq!(bed.asked("origin.operations"), before);
    bed.finish();
}

/// The directory, looked up anew: its znode had been given back.
fn dir_again(bed: &Bed, dir: u64) -> u64 {
    assert_eq!(bed.ino("d"), dir);
    dir
}

#[test]
fn a_listed_file_can_be_used_by_its_number_alone() {
    let bed = full_directory(Coherence::Exclusive, 300);
    let dir = bed.ino("d");
    bed.forget_all();
    let all = listed(&bed, dir_again(&bed, dir));
    let ino = all[OsStr::new(&name(77))].id.ino;
    let file = bed.dataset.open(ino, OpenHow { write: true, truncate: false }).unwrap();
    assert_eq!(file.read(0, 1000).unwrap().to_vec(), vec![b'x'; 77]);
    file.write(77, b"yy", WriteHow::default()).unwrap();
    drop(file);
    bed.dataset.rename((dir, OsStr::new(&name(77))), (dir, OsStr::new("new")), RenameMode::Replace).unwrap();
    let all = listed(&bed, dir);
    assert_as_origin(&bed, &all);
    bed.finish();
}

#[test]
fn any_change_below_ends_a_sheet() {
    let bed = full_directory(Coherence::Exclusive, 300);
    let dir = bed.ino("d");
    let (one, two, three) = (name(1), name(2), name(3));
    assert_eq!(listed(&bed, dir).len(), 300);
    let ino = bed.ino(&format!("d/{one}"));
    bed.dataset.set_attr(ino, &SetAttr { perm: Some(0o600), ..SetAttr::default() }).unwrap();
    let all = listed(&bed, dir);
    assert_eq!((all.len(), all[OsStr::new(&one)].perm), (300, 0o600));
    let file =
        bed.dataset.open(bed.ino(&format!("d/{two}")), OpenHow { write: true, truncate: true }).unwrap();
    file.write(0, &[b'z'; 5000], WriteHow::default()).unwrap();
    assert_eq!(listed(&bed, dir)[OsStr::new(&two)].size, 5000);
    drop(file);
    bed.dataset.unlink(dir, OsStr::new(&three)).unwrap();
    let all = listed(&bed, dir);
    assert!(!all.contains_key(OsStr::new(&three)));
    assert_as_origin(&bed, &all);
    bed.finish();
}

#[test]
fn a_file_with_a_second_name_is_not_volunteered() {
    let bed = full_directory(Coherence::Exclusive, 10);
    let dir = bed.ino("d");
    let ino = bed.ino(&format!("d/{}", name(4)));
    let link = bed.dataset.link(ino, bed.dataset.root_ino(), OsStr::new("elsewhere")).unwrap();
    bed.hold(link.stat.id.ino);
    let all = listed(&bed, dir);
    assert!(!all.contains_key(OsStr::new(&name(4))) && all.len() == 9);
    bed.finish();
}

#[test]
fn a_foreign_change_is_not_hidden_by_a_sheet() {
    let bed = full_directory(Coherence::Timeout, 50);
    let dir = bed.ino("d");
    assert_eq!(listed(&bed, dir).len(), 50);
    std::fs::write(bed.origin(&format!("d/{}", name(9))), b"changed by somebody else").unwrap();
    bed.clock.advance(bed.dataset.properties().attr_timeout * 2);
    // Out of date: nothing is volunteered, or what is asked for anew.
    assert_as_origin(&bed, &listed(&bed, dir));
    bed.ino(&format!("d/{}", name(9)));
    assert_as_origin(&bed, &listed(&bed, dir));
    bed.finish();
}

#[test]
fn beyond_their_share_no_references_are_volunteered() {
    let bed = full_directory(Coherence::Exclusive, 300);
    let dir = bed.ino("d");
    bed.pool.set_tunable("pool.znode_percent", "1").unwrap();
    assert_eq!(listed(&bed, dir).len(), 0);
    bed.pool.set_tunable("pool.znode_percent", "25").unwrap();
    assert_eq!(listed(&bed, dir).len(), 300);
    bed.finish();
}
