//! The files that all servers show: the same names, sizes and bytes, made on disk or in memory.
//!
//! `data/` holds one file a reader, `many/` directories of a few files, `flat/` one large directory.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::{Result, interrupt};

/// Bytes of one read, and of one block of the data files.
pub const BLOCK: usize = 8 << 10;

/// How much of everything there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::Args)]
pub struct Shape {
    /// Files in data/
    #[arg(long)]
    pub files: u64,
    /// Blocks of 8 KiB in each of them
    #[arg(long)]
    pub blocks: u64,
    /// Directories in many/
    #[arg(long)]
    pub directories: u64,
    /// Files in each of them
    #[arg(long)]
    pub per_directory: u64,
    /// Files in flat/
    #[arg(long)]
    pub flat: u64,
}

impl Shape {
    /// Bytes of one data file.
    pub fn file_bytes(&self) -> u64 {
        self.blocks * BLOCK as u64
    }

    /// Bytes of all of them.
    pub fn data_bytes(&self) -> u64 {
        self.files * self.file_bytes()
    }

    /// As arguments of a program.
    pub fn arguments(&self) -> [String; 5] {
        [
            format!("--files={}", self.files),
            format!("--blocks={}", self.blocks),
            format!("--directories={}", self.directories),
            format!("--per-directory={}", self.per_directory),
            format!("--flat={}", self.flat),
        ]
    }

    /// Entries below `many/` or `flat/`.
    pub fn entries(&self, root: &str) -> u64 {
        match root {
            "many" => self.directories * (1 + self.per_directory),
            _ => self.flat,
        }
    }

    /// Makes everything below `root`.
    ///
    /// # Errors
    /// Those of the file system; an interruption.
    pub fn make(&self, root: &Path) -> Result<()> {
        for top in ["data", "many", "flat"] {
            std::fs::create_dir(root.join(top))?;
        }
        for number in 0..self.files {
            interrupt::check()?;
            make_data(&root.join("data").join(data_name(number)), number, self.blocks)?;
        }
        for number in 0..self.directories {
            interrupt::check()?;
            let directory = root.join("many").join(directory_name(number));
            std::fs::create_dir(&directory)?;
            make_small(&directory, self.per_directory)?;
        }
        make_small(&root.join("flat"), self.flat)
    }
}

/// Makes a data file.
///
/// # Errors
/// Those of the file system.
pub fn make_data(path: &Path, number: u64, blocks: u64) -> Result<()> {
    let mut file = File::create(path)?;
    let mut buffer = vec![0; BLOCK * 16];
    for first in (0..blocks).step_by(16) {
        let length = BLOCK * (blocks - first).min(16) as usize;
        for (index, block) in (first..).zip(buffer[..length].chunks_exact_mut(BLOCK)) {
            fill(block, number, index);
        }
        file.write_all(&buffer[..length])?;
    }
    Ok(())
}

/// Makes small files in a directory.
///
/// # Errors
/// Those of the file system.
pub fn make_small(directory: &Path, count: u64) -> Result<()> {
    for number in 0..count {
        std::fs::write(directory.join(small_name(number)), CONTENT)?;
        if number % 256 == 0 {
            interrupt::check()?;
        }
    }
    Ok(())
}

/// What a small file holds.
pub const CONTENT: &[u8] = b"small\n";

/// The name of a data file.
pub fn data_name(number: u64) -> String {
    format!("data-{number:03}")
}

/// The name of a directory in `many/`.
pub fn directory_name(number: u64) -> String {
    format!("directory-{number:06}")
}

/// The name of a small file.
pub fn small_name(number: u64) -> String {
    format!("file-{number:06}.txt")
}

/// Writes what a block of a data file holds: no two words of all files are alike.
pub fn fill(block: &mut [u8], file: u64, index: u64) {
    for (word, place) in (0u64..).zip(block.chunks_exact_mut(8)) {
        place.copy_from_slice(&word_at(file, index, word).to_le_bytes());
    }
}

/// Whether a block holds what it should: its first, middle and last words are looked at.
pub fn is_right(block: &[u8], file: u64, index: u64) -> bool {
    let last = (BLOCK / 8) as u64 - 1;
    block.len() == BLOCK
        && [0, last / 2, last].into_iter().all(|word| {
            let place = word as usize * 8;
            block[place..place + 8] == word_at(file, index, word).to_le_bytes()
        })
}

fn word_at(file: u64, index: u64, word: u64) -> u64 {
    (file << 48 | index << 16 | word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_right_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let shape = Shape { files: 2, blocks: 19, directories: 3, per_directory: 2, flat: 5 };
        shape.make(directory.path()).unwrap();
        let bytes = std::fs::read(directory.path().join("data").join(data_name(1))).unwrap();
        assert_eq!(bytes.len() as u64, shape.file_bytes());
        let block = |index: usize| &bytes[index * BLOCK..][..BLOCK];
        assert!((0..19).all(|index| is_right(block(index), 1, index as u64)));
        assert!(!is_right(block(3), 1, 4) && !is_right(block(3), 0, 3) && !is_right(&bytes[..8], 1, 0));
        assert_eq!(std::fs::read_dir(directory.path().join("flat")).unwrap().count(), 5);
    }
}
