//! Random sequences of operations, on a mount and on a plain directory side by side.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::place::{Place, outcome};

/// Few names, so that operations meet.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "d/a", "d/b", "d/e"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Write { name: usize, offset: u64, length: usize },
    Append { name: usize, length: usize },
    Create { name: usize },
    Truncate { name: usize, length: u64 },
    Read { name: usize },
    MakeDir { name: usize },
    RemoveDir { name: usize },
    Remove { name: usize },
    Rename { from: usize, to: usize },
    Link { from: usize, to: usize },
    Symlink { from: usize, to: usize },
    Mode { name: usize, bits: u32 },
    Stat { name: usize },
    List { name: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        4 => (name(), 0..300_000u64, 0..200_000usize)
            .prop_map(|(name, offset, length)| Step::Write { name, offset, length }),
        2 => (name(), 0..5000usize).prop_map(|(name, length)| Step::Append { name, length }),
        2 => name().prop_map(|name| Step::Create { name }),
        2 => (name(), 0..400_000u64).prop_map(|(name, length)| Step::Truncate { name, length }),
        4 => name().prop_map(|name| Step::Read { name }),
        3 => name().prop_map(|name| Step::MakeDir { name }),
        1 => name().prop_map(|name| Step::RemoveDir { name }),
        2 => name().prop_map(|name| Step::Remove { name }),
        3 => (name(), name()).prop_map(|(from, to)| Step::Rename { from, to }),
        2 => (name(), name()).prop_map(|(from, to)| Step::Link { from, to }),
        1 => (name(), name()).prop_map(|(from, to)| Step::Symlink { from, to }),
        1 => (name(), 0..0o10000u32).prop_map(|(name, bits)| Step::Mode { name, bits }),
        3 => name().prop_map(|name| Step::Stat { name }),
        2 => name().prop_map(|name| Step::List { name }),
    ]
}

/// What a step gave, in a form that is the same wherever it is done.
type Seen = Result<Vec<String>, Option<i32>>;

fn apply(dir: &Path, step: Step, number: usize) -> Seen {
    let path = |name: usize| dir.join(NAMES[name]);
    let bytes = |length: usize| vec![number as u8 | 1; length];
    let none = |()| Vec::new();
    outcome(match step {
        Step::Write { name, offset, length } => File::options()
            .write(true)
            .open(path(name))
            .and_then(|file| file.write_all_at(&bytes(length), offset))
            .map(none),
        Step::Append { name, length } => File::options()
            .append(true)
            .create(true)
            .open(path(name))
            .and_then(|mut file| file.write_all(&bytes(length)))
            .map(none),
        Step::Create { name } => {
            File::options().write(true).create_new(true).open(path(name)).map(|_| Vec::new())
        }
        Step::Truncate { name, length } => {
            File::options().write(true).open(path(name)).and_then(|file| file.set_len(length)).map(none)
        }
        Step::Read { name } => fs::read(path(name)).map(|bytes| vec![summary(&bytes)]),
        Step::MakeDir { name } => fs::create_dir(path(name)).map(none),
        Step::RemoveDir { name } => fs::remove_dir(path(name)).map(none),
        Step::Remove { name } => fs::remove_file(path(name)).map(none),
        Step::Rename { from, to } => fs::rename(path(from), path(to)).map(none),
        Step::Link { from, to } => fs::hard_link(path(from), path(to)).map(none),
        Step::Symlink { from, to } => symlink(NAMES[from], path(to)).map(none),
        Step::Mode { name, bits } => {
            fs::set_permissions(path(name), fs::Permissions::from_mode(bits)).map(none)
        }
        Step::Stat { name } => fs::symlink_metadata(path(name)).map(|stat| vec![describe(&stat)]),
        Step::List { name } => list(&path(name)),
    })
}

/// Contents in few words: runs of equal bytes.
fn summary(bytes: &[u8]) -> String {
    bytes.chunk_by(|a, b| a == b).map(|run| format!("{}x{} ", run[0], run.len())).collect()
}

fn describe(stat: &fs::Metadata) -> String {
    // The size of a directory is the origin's own affair, and so is the space that a file takes.
    let size = if stat.is_dir() { 0 } else { stat.size() };
    format!("{:o} {} {size}", stat.mode(), stat.nlink())
}

fn list(dir: &Path) -> std::io::Result<Vec<String>> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        rows.push(format!("{} {}", entry.file_name().display(), describe(&entry.metadata()?)));
    }
    rows.sort();
    Ok(rows)
}

#[test]
fn any_sequence_of_operations_gives_what_a_plain_directory_gives() {
    let Some(place) = Place::new() else { return };
    // Beside the origin, so that both are on the same file system.
    let plain = tempfile::tempdir().unwrap();
    let mut run = 0;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 48,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let run = std::cell::RefCell::new(&mut run);
    let outcome = runner.run(&proptest::collection::vec(step(), 1..60), |steps| {
        let number = {
            let mut run = run.borrow_mut();
            **run += 1;
            **run
        };
        let (expected_in, seen_in) =
            (plain.path().join(format!("{number}")), place.path(&format!("{number}")));
        fs::create_dir(&expected_in).unwrap();
        fs::create_dir(&seen_in).unwrap();
        for (number, step) in steps.into_iter().enumerate() {
            let (expected, seen) = (apply(&expected_in, step, number), apply(&seen_in, step, number));
            prop_assert_eq!(seen, expected, "{:?}", step);
        }
        prop_assert_eq!(list(&place.origin(&format!("{number}"))).unwrap(), list(&expected_in).unwrap());
        Ok(())
    });
    outcome.unwrap();
}
