//! The two jobs of the demonstration, done by ordinary system calls through the mount, and what a
//! round of one took.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use arcwell::Error;

use crate::Failure;
use crate::plane::Plane;
use crate::scratch::{Shape, mix};

/// Bytes a random read.
const READ_BYTES: u64 = 8 << 10;

/// What one round of a job took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// How long it lasted.
    pub(super) time: Duration,
    /// How many things were done.
    pub(super) done: u64,
    /// What the origin was asked for meanwhile.
    pub(super) operations: u64,
    /// Blocks that the cache had.
    pub(super) hits: u64,
    /// Blocks that it had not.
    pub(super) misses: u64,
}

/// What is counted around a job.
const COUNTED: [&str; 3] = ["origin.operations", "arc.hits", "arc.misses"];

impl Round {
    /// Does a job and measures it.
    pub(super) fn measure(
        plane: &Plane,
        job: impl FnOnce() -> Result<u64, Failure>,
    ) -> Result<Round, Failure> {
        let before = plane.values(COUNTED);
        let start = Instant::now();
        let done = job()?;
        let time = start.elapsed();
        let now = plane.values(COUNTED);
        let [operations, hits, misses] = std::array::from_fn(|place| now[place] - before[place]);
        Ok(Round { time, done, operations, hits, misses })
    }
}

/// What `find -type f` does: lists every directory, follows nothing. Counts the files; `step` is
/// taken once a directory.
pub(super) fn find(root: &Path, step: impl Fn() -> Result<(), Failure>) -> Result<u64, Failure> {
    let mut files = 0;
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        let failed = |e| Error::new("list", e).about(&*directory);
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() {
                files += 1;
            }
        }
        step()?;
    }
    Ok(files)
}

/// Reads at random: the same places in each round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    /// The tree.
    pub(super) shape: Shape,
    /// How many.
    pub(super) reads: u64,
}

impl Reads {
    /// Reads, and checks what was read. `step` is taken once a read.
    pub(super) fn run(self, root: &Path, step: impl Fn() -> Result<(), Failure>) -> Result<u64, Failure> {
        let mut buffer = vec![0; READ_BYTES as usize];
        for number in 0..self.reads {
            let leaf = self.shape.leaf(mix(number) % self.shape.files);
            let path = root.join(&leaf.path);
            let failed = |e| Error::new("read", e).about(&*path);
            let last = leaf.bytes.saturating_sub(READ_BYTES);
            let offset = mix(!number) % (last + 1) / 8 * 8;
            let read =
                File::open(&path).and_then(|file| file.read_at(&mut buffer, offset)).map_err(failed)?;
            if !leaf.has(offset, &buffer[..read]) {
                let what = format!("the {read} bytes at {offset} are wrong");
                return Err(Error::invalid("check", what).about(path).into());
            }
            step()?;
        }
        Ok(self.reads)
    }
}
