//! Random operations, done to a directory through the origin and to a plain directory by `std::fs`:
//! both must say the same and end up the same.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use arcwell_base::error::Result;
use arcwell_base::origin::{NewNode, Origin, RenameMode, SetAttr};
use proptest::prelude::*;

use super::{At, DirOptions, DirOrigin, myself};

/// A step; directories and names are numbers, so that steps often meet.
#[derive(Clone, Debug)]
enum Step {
    Create(usize, usize),
    Mkdir(usize, usize),
    Write(usize, usize, u16, Vec<u8>),
    Append(usize, usize, Vec<u8>),
    Truncate(usize, usize, u16),
    Link((usize, usize), (usize, usize)),
    Rename((usize, usize), (usize, usize)),
    Unlink(usize, usize),
    Rmdir(usize, usize),
}

const DIRS: [&str; 4] = ["", "0", "1", "0/1"];
const NAMES: [&str; 4] = ["0", "1", "2", "3"];

fn step() -> impl Strategy<Value = Step> {
    let dir = 0..DIRS.len();
    let name = 0..NAMES.len();
    let at = (dir, name);
    let bytes = prop::collection::vec(any::<u8>(), 1..200);
    prop_oneof![
        at.clone().prop_map(|(d, n)| Step::Create(d, n)),
        at.clone().prop_map(|(d, n)| Step::Mkdir(d, n)),
        (at.clone(), any::<u16>(), bytes.clone()).prop_map(|((d, n), o, b)| Step::Write(d, n, o, b)),
        (at.clone(), bytes).prop_map(|((d, n), b)| Step::Append(d, n, b)),
        (at.clone(), any::<u16>()).prop_map(|((d, n), size)| Step::Truncate(d, n, size)),
        (at.clone(), at.clone()).prop_map(|(a, b)| Step::Link(a, b)),
        (at.clone(), at.clone()).prop_map(|(a, b)| Step::Rename(a, b)),
        at.clone().prop_map(|(d, n)| Step::Unlink(d, n)),
        at.prop_map(|(d, n)| Step::Rmdir(d, n)),
    ]
}

/// Finds a place by looking up every name on the way, as a front would.
fn place(origin: &DirOrigin, path: &Path) -> Result<At> {
    let mut at = At::root(origin);
    for name in path {
        let stat = origin.lookup(&at, name)?;
        at = At { id: stat.id, path: Some(at.path.unwrap_or_default().join(name)) };
    }
    Ok(at)
}

fn through(origin: &DirOrigin, step: &Step) -> Result<()> {
    let dir = |d: usize| place(origin, Path::new(DIRS[d]));
    let node = |d: usize, n: usize| place(origin, &Path::new(DIRS[d]).join(NAMES[n]));
    let name = |n: usize| OsStr::new(NAMES[n]);
    match step {
        Step::Create(d, n) => origin.create(&dir(*d)?, name(*n), 0o644, myself()).map(drop),
        Step::Mkdir(d, n) => origin.make(&dir(*d)?, name(*n), &NewNode::Directory, 0o755, myself()).map(drop),
        Step::Write(d, n, offset, bytes) => {
            origin.write(&node(*d, *n)?, (*offset).into(), bytes, false).map(drop)
        }
        Step::Append(d, n, bytes) => origin.write(&node(*d, *n)?, 0, bytes, true).map(drop),
        Step::Truncate(d, n, size) => {
            let change = SetAttr { size: Some((*size).into()), ..SetAttr::default() };
            origin.set_attr(&node(*d, *n)?, &change).map(drop)
        }
        Step::Link(from, to) => origin.link(&node(from.0, from.1)?, &dir(to.0)?, name(to.1)).map(drop),
        Step::Rename(from, to) => {
            let (source, target) = (dir(from.0)?, dir(to.0)?);
            origin.rename((&source, name(from.1)), (&target, name(to.1)), RenameMode::Replace)
        }
        Step::Unlink(d, n) => origin.unlink(&dir(*d)?, name(*n)),
        Step::Rmdir(d, n) => origin.rmdir(&dir(*d)?, name(*n)),
    }
}

fn plainly(root: &Path, step: &Step) -> std::io::Result<()> {
    let at = |d: usize, n: usize| root.join(DIRS[d]).join(NAMES[n]);
    let open = |d: usize, n: usize| std::fs::OpenOptions::new().write(true).open(at(d, n));
    match step {
        Step::Create(d, n) => std::fs::File::create_new(at(*d, *n)).map(drop),
        Step::Mkdir(d, n) => std::fs::create_dir(at(*d, *n)),
        Step::Write(d, n, offset, bytes) => open(*d, *n)?.write_all_at(bytes, (*offset).into()),
        Step::Append(d, n, bytes) => {
            let file = open(*d, *n)?;
            let end = file.metadata()?.len();
            file.write_all_at(bytes, end)
        }
        Step::Truncate(d, n, size) => open(*d, *n)?.set_len((*size).into()),
        Step::Link(from, to) => std::fs::hard_link(at(from.0, from.1), at(to.0, to.1)),
        Step::Rename(from, to) => std::fs::rename(at(from.0, from.1), at(to.0, to.1)),
        Step::Unlink(d, n) => std::fs::remove_file(at(*d, *n)),
        Step::Rmdir(d, n) => std::fs::remove_dir(at(*d, *n)),
    }
}

/// Everything below a directory: `None` for directories, bytes for files.
fn picture(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut seen = BTreeMap::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(dir) = todo.pop() {
        for entry in root.join(&dir).read_dir().unwrap() {
            let path = dir.join(entry.unwrap().file_name());
            if root.join(&path).is_dir() {
                todo.push(path.clone());
                seen.insert(path, None);
            } else {
                seen.insert(path.clone(), Some(std::fs::read(root.join(path)).unwrap()));
            }
        }
    }
    seen
}

/// The same picture, taken through the origin.
fn picture_through(origin: &DirOrigin) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut seen = BTreeMap::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(dir) = todo.pop() {
        let at = place(origin, &dir).unwrap();
        for entry in origin.list(&at).unwrap().1 {
            let path = dir.join(&entry.name);
            let node = place(origin, &path).unwrap();
            let stat = origin.stat(&node).unwrap();
            assert_eq!((stat.id.ino, Some(stat.kind)), (entry.ino, entry.kind));
            if stat.kind == arcwell_base::origin::FileType::Directory {
                todo.push(path.clone());
                seen.insert(path, None);
            } else {
                let mut bytes = vec![0; stat.size as usize + 1];
                let length = origin.read(&node, 0, &mut bytes).unwrap();
                bytes.truncate(length);
                seen.insert(path, Some(bytes));
            }
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn an_origin_is_the_directory_that_it_is_of(
        steps in prop::collection::vec(step(), 1..60),
        descriptors_max in 1..6usize,
    ) {
        let (dir, plain) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let origin = DirOrigin::open(dir.path(), DirOptions { descriptors_max }).unwrap();
        for step in &steps {
            let ours = through(&origin, step).map_err(|error| error.errno().raw_os_error());
            let theirs = plainly(plain.path(), step).map_err(|error| error.raw_os_error().unwrap());
            match step {
                // With two paths, which of two wrong ones is seen first is the walker's affair.
                Step::Link(..) | Step::Rename(..) => {
                    prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}: {:?} {:?}", step, ours, theirs);
                }
                _ => prop_assert_eq!(ours, theirs, "{:?}", step),
            }
            prop_assert!(origin.tree.table.count() <= descriptors_max);
        }
        let expected = picture(plain.path());
        prop_assert_eq!(&picture(dir.path()), &expected);
        prop_assert_eq!(&picture_through(&origin), &expected);
    }
}
