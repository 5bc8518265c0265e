//! A directory tree that is made up, for the demonstration: every byte of it can be worked out from
//! its place, so that what is read through the cache is checked, not believed.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use arcwell::{Error, Result};

/// Bytes that are worked out at once.
const WORD: u64 = 8;

/// How large the tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Files in all.
    pub(crate) files: u64,
    /// Directories that they are spread over.
    pub(crate) directories: u64,
    /// Directories directly below the root; the others lie below these.
    pub(crate) branches: u64,
    /// Bytes of the shortest file.
    pub(crate) shortest: u64,
    /// Bytes of the longest file.
    pub(crate) longest: u64,
}

/// One file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// Where it is, below the root.
    pub(crate) path: PathBuf,
    /// Its number.
    pub(crate) number: u64,
    /// Its length: a multiple of eight.
    pub(crate) bytes: u64,
}

impl Shape {
    /// The file of a number.
    pub(crate) fn leaf(&self, number: u64) -> Leaf {
        let directory = number % self.directories;
        let branch = directory % self.branches;
        let span = self.longest - self.shortest;
        let bytes = (self.shortest + mix(number) % (span + 1)) / WORD * WORD;
        let path = format!("branch-{branch:02}/leaves-{directory:03}/{number:05}.bin");
        Leaf { path: path.into(), number, bytes }
    }

    /// All files.
    pub(crate) fn leaves(self) -> impl Iterator<Item = Leaf> {
        (0..self.files).map(move |number| self.leaf(number))
    }

    /// Bytes of all files.
    pub(crate) fn bytes(self) -> u64 {
        self.leaves().map(|leaf| leaf.bytes).sum()
    }
}

impl Leaf {
    /// Writes the file below `root`.
    ///
    /// # Errors
    /// When the disk is full, above all.
    pub(crate) fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(&self.path);
        let written = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut file = BufWriter::with_capacity(1 << 17, File::create(&path)?);
            for place in 0..self.bytes / WORD {
                file.write_all(&self.word(place))?;
            }
            file.flush()
        };
        written().map_err(|e: std::io::Error| Error::new("write", e).about(path.clone()))
    }

    /// Whether these are the bytes at `offset`, a multiple of eight.
    pub(crate) fn has(&self, offset: u64, bytes: &[u8]) -> bool {
        let places = offset / WORD..;
        let words = bytes.chunks(WORD as usize);
        words.zip(places).all(|(word, place)| word == &self.word(place)[..word.len()])
    }

    fn word(&self, place: u64) -> [u8; WORD as usize] {
        mix(self.number << 32 | place).to_le_bytes()
    }
}

/// Spreads a number over all bits (the finaliser of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { files: 20, directories: 6, branches: 2, shortest: 8, longest: 4000 };

    #[test]
    fn what_was_written_is_recognised_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        for leaf in SHAPE.leaves() {
            leaf.write(root.path()).unwrap();
            let bytes = fs::read(root.path().join(&leaf.path)).unwrap();
            assert_eq!(bytes.len() as u64, leaf.bytes);
            assert!(leaf.has(0, &bytes));
            let mut wrong = bytes.clone();
            wrong[leaf.bytes as usize / 2] ^= 1;
            assert!(!leaf.has(0, &wrong));
            assert!(leaf.bytes < 32 || (leaf.has(16, &bytes[16..29]) && !leaf.has(8, &bytes[16..])));
        }
    }

    #[test]
    fn the_tree_has_the_size_that_it_says() {
        let root = tempfile::tempdir().unwrap();
        SHAPE.leaves().try_for_each(|leaf| leaf.write(root.path())).unwrap();
        let branches = fs::read_dir(root.path()).unwrap().count() as u64;
        assert_eq!(branches, SHAPE.branches);
        assert_eq!(SHAPE.leaves().count() as u64, SHAPE.files);
        assert_eq!(SHAPE.bytes(), SHAPE.leaves().map(|leaf| leaf.bytes).sum::<u64>());
    }
}
