//! Work `read`: random reads of 8 KiB, each reader on a file of its own.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;

use crate::tree::{self, BLOCK, Shape};
use crate::{Result, interrupt};

/// Reads between two looks at the clock.
const BATCH: u64 = 64;
/// Readers' buffers begin on a page, as a database's would.
const PAGE: usize = 4096;

/// Reads every block of every data file once, in order, and checks what it reads.
///
/// # Errors
/// When a read fails or gives other bytes than were written.
pub fn warm(root: &Path, shape: &Shape) -> Result<()> {
    let mut block = vec![0; BLOCK];
    for number in 0..shape.files {
        let path = root.join("data").join(tree::data_name(number));
        let file = File::open(&path)?;
        for index in 0..shape.blocks {
            file.read_exact_at(&mut block, index * BLOCK as u64)?;
            if !tree::is_right(&block, number, index) {
                return Err(format!("block {index} of {} is wrong", path.display()).into());
            }
        }
        interrupt::check()?;
    }
    Ok(())
}

/// How readers open their files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// As programs do.
    Plain,
    /// Past the kernel's page cache (`O_DIRECT`): for a server that lets it answer.
    Direct,
}

impl Opening {
    fn open(self, path: &Path) -> std::io::Result<File> {
        let flags = match self {
            Opening::Plain => OFlag::empty(),
            Opening::Direct => OFlag::O_DIRECT,
        };
        OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
    }
}

/// Lets `threads` readers read for some time; how often they did. A reader that reads less than it
/// asked for is an error.
///
/// # Errors
/// When a read fails; an interruption.
pub fn run(root: &Path, shape: &Shape, threads: u64, time: Duration, how: Opening) -> Result<u64> {
    let barrier = Barrier::new(threads as usize);
    let readers = std::thread::scope(|scope| {
        let start = |number| {
            let (path, barrier) = (root.join("data").join(tree::data_name(number)), &barrier);
            scope.spawn(move || {
                let file = how.open(&path);
                barrier.wait();
                read(&file?, shape.blocks, number, time)
            })
        };
        let readers: Vec<_> = (0..threads).map(start).collect();
        readers.into_iter().map(|reader| reader.join()).collect::<Vec<_>>()
    });
    let mut sum = 0;
    for reader in readers {
        sum += reader.map_err(|_| "a reader panicked")??;
    }
    interrupt::check()?;
    Ok(sum)
}

fn read(file: &File, blocks: u64, seed: u64, time: Duration) -> std::io::Result<u64> {
    let mut space = vec![0u8; BLOCK + PAGE];
    let first = space.as_ptr().align_offset(PAGE);
    let buffer = &mut space[first..first + BLOCK];
    let mut random = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (mut done, start) = (0, Instant::now());
    while start.elapsed() < time && !interrupt::is_asked() {
        for _ in 0..BATCH {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // The upper bits are the better ones.
            file.read_exact_at(buffer, (random >> 16) % blocks * BLOCK as u64)?;
        }
        done += BATCH;
    }
    Ok(done)
}
