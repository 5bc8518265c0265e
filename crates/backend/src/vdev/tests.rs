//! Tests of all devices: against a row of bytes, and of what each does when things go wrong.

mod block;
mod broken;
mod file;
mod memory;
mod model;

use std::path::{Path, PathBuf};

use arcwell_base::error::Result;
use arcwell_base::vdev::{Read, Vdev};
use tempfile::TempDir;

use super::aligned::Aligned;
use super::dice::Dice;
use super::{Carrier, FileVdev, OpenHow, SMALLEST};

/// Memory that any device takes.
type Memory = Aligned;

fn zeros(length: usize) -> Memory {
    Aligned::zeros(length)
}

/// Bytes that are others for each seed.
fn noise(seed: u64, length: usize) -> Memory {
    let mut dice = Dice::new(seed);
    let mut memory = zeros(length);
    for word in memory.chunks_mut(8) {
        word.copy_from_slice(&dice.next().to_le_bytes()[..word.len()]);
    }
    memory
}

/// One range, by itself.
fn read(vdev: &dyn Vdev, offset: u64, length: usize) -> Result<Memory> {
    let mut memory = zeros(length);
    let mut reads = [Read::new(offset, &mut memory)];
    vdev.read(&mut reads);
    reads[0].outcome()?;
    Ok(memory)
}

/// A batch of ranges.
fn read_all(vdev: &dyn Vdev, ranges: &[(u64, usize)]) -> Vec<Result<Memory>> {
    let mut memories: Vec<Memory> = ranges.iter().map(|(_, length)| zeros(*length)).collect();
    let mut reads: Vec<Read<'_>> =
        ranges.iter().zip(&mut memories).map(|((offset, _), memory)| Read::new(*offset, memory)).collect();
    vdev.read(&mut reads);
    let outcomes: Vec<Result<()>> = reads.iter_mut().map(Read::outcome).collect();
    outcomes.into_iter().zip(memories).map(|(outcome, memory)| outcome.map(|()| memory)).collect()
}

/// How a test opens a file.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// In memory, rather than in the folder for temporary files.
    is_in_memory: bool,
    buffered: bool,
    carrier: Carrier,
}

impl Way {
    const fn new(is_in_memory: bool, buffered: bool, carrier: Carrier) -> Way {
        Way { is_in_memory, buffered, carrier }
    }

    /// All that differ.
    const ALL: [Way; 6] = [
        Way::new(false, false, Carrier::Ring),
        Way::new(false, false, Carrier::Calls),
        Way::new(false, true, Carrier::Ring),
        Way::new(false, true, Carrier::Calls),
        Way::new(true, false, Carrier::Ring),
        Way::new(true, false, Carrier::Calls),
    ];

    fn folder(self) -> Option<TempDir> {
        let memory = Path::new("/dev/shm");
        match self.is_in_memory {
            true if memory.is_dir() => Some(tempfile::tempdir_in(memory).unwrap()),
            true => None,
            false => Some(tempfile::tempdir().unwrap()),
        }
    }

    fn how(self, bytes: u64) -> OpenHow {
        let without_ring = self.carrier == Carrier::Calls;
        OpenHow { create: Some(bytes), buffered: self.buffered, without_ring, ..OpenHow::default() }
    }

    /// A new file of so many bytes.
    fn open(self, bytes: u64) -> Option<Scratch> {
        let Some(folder) = self.folder() else {
            eprintln!("SKIPPED {self:?}: no /dev/shm here");
            return None;
        };
        let path = folder.path().join("device");
        let vdev = FileVdev::open(&path, self.how(bytes)).unwrap();
        if vdev.carrier() != self.carrier {
            assert!(std::env::var_os("CI").is_none(), "no io_uring here");
            eprintln!("SKIPPED {self:?}: no io_uring here");
            return None;
        }
        Some(Scratch { vdev, path, _folder: folder })
    }
}

/// A device in a file that goes with it.
#[derive(Debug)]
struct Scratch {
    vdev: FileVdev,
    path: PathBuf,
    _folder: TempDir,
}

fn scratch(bytes: u64) -> Scratch {
    let way = if super::ring::try_one().is_ok() { Way::ALL[0] } else { Way::ALL[1] };
    way.open(bytes).unwrap()
}
