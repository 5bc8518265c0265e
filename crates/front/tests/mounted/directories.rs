//! Listings: complete, stable, and true about what they list.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};

use super::place::{Place, same};

#[test]
fn a_huge_directory_is_listed_once_each_while_it_is_emptied() {
    const FILES: usize = 100_000;
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.origin("d")).unwrap();
    for number in 0..FILES {
        fs::File::create(place.origin(&format!("d/{number}"))).unwrap();
    }
    let mut seen = BTreeSet::new();
    for (count, entry) in fs::read_dir(place.path("d")).unwrap().enumerate() {
        let entry = entry.unwrap();
        let number: usize = entry.file_name().into_string().unwrap().parse().unwrap();
        assert!(seen.insert(number), "{number} was listed twice");
        if count % 16 == 0 {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    assert_eq!(seen.len(), FILES);
    let left = fs::read_dir(place.path("d")).unwrap().count();
    assert_eq!(left, FILES - FILES.div_ceil(16));
    assert_eq!(fs::read_dir(place.origin("d")).unwrap().count(), left);
}

#[test]
fn a_listing_tells_numbers_and_kinds() {
    let Some(place) = Place::new() else { return };
    for number in 0..300 {
        fs::write(place.path(&format!("file{number}")), "x").unwrap();
        fs::create_dir(place.path(&format!("dir{number}"))).unwrap();
    }
    // The second time attributes are known and come with the names.
    for _ in 0..2 {
        let mut count = 0;
        for entry in fs::read_dir(place.path("")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let (seen, real) = (entry.metadata().unwrap(), fs::metadata(place.origin(&name)).unwrap());
            assert_eq!(entry.ino(), real.ino());
            assert_eq!((seen.ino(), seen.mode(), seen.len()), (real.ino(), real.mode(), real.len()));
            assert_eq!(entry.file_type().unwrap().is_dir(), name.starts_with("dir"));
            count += 1;
        }
        assert_eq!(count, 600);
    }
}

#[test]
fn a_new_listing_shows_what_changed() {
    same(|dir| {
        let list = || {
            let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
            names.collect::<BTreeSet<_>>()
        };
        fs::write(dir.join("a"), "").unwrap();
        let first = list();
        fs::write(dir.join("b"), "").unwrap();
        let second = list();
        fs::rename(dir.join("a"), dir.join("c")).unwrap();
        let third = list();
        fs::remove_file(dir.join("b")).unwrap();
        (first, second, third, list())
    });
}

#[test]
fn an_open_listing_starts_anew_when_rewound() {
    same(|dir| {
        let handle = fs::File::open(dir).unwrap();
        let mut listing = rustix::fs::Dir::read_from(&handle).unwrap();
        let mut names = || {
            let names = listing.by_ref().map(|entry| entry.unwrap().file_name().to_owned());
            names.collect::<BTreeSet<_>>()
        };
        fs::write(dir.join("a"), "").unwrap();
        let first = names();
        fs::write(dir.join("b"), "").unwrap();
        let at_end = names();
        listing.rewind();
        let names = listing.by_ref().map(|entry| entry.unwrap().file_name().to_owned());
        (first, at_end, names.collect::<BTreeSet<_>>())
    });
}

#[test]
fn links_to_directories_are_counted() {
    let Some(place) = Place::new() else { return };
    for name in ["a", "a/b", "a/c"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    let count = |path| fs::metadata(path).unwrap().nlink();
    assert_eq!(count(place.path("a")), count(place.origin("a")));
    fs::remove_dir(place.path("a/b")).unwrap();
    assert_eq!(count(place.path("a")), count(place.origin("a")));
}
