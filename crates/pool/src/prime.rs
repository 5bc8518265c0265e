//! Priming: loading named data into the cache on purpose, and telling what is there.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use arcwell_base::origin::FileType;
use arcwell_base::{BlockKey, Error, Result};
use rustix::io::Errno;

use crate::dataset::{Dataset, Looked};
use crate::file::OpenHow;

/// Bytes that are read at a time.
const STEP: u32 = 1 << 20;

/// How far priming has come.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PrimeProgress {
    /// Files that are loaded.
    pub files_done: u64,
    /// Files that were found so far.
    pub files_total: u64,
    /// Bytes that are loaded.
    pub bytes_done: u64,
    /// Bytes that were found so far.
    pub bytes_total: u64,
    /// What is being loaded.
    pub path: PathBuf,
}

/// How much of some files is cached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CachedReport {
    /// Regular files.
    pub files: u64,
    /// Their blocks.
    pub blocks: u64,
    /// Blocks that are cached.
    pub blocks_cached: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that are cached.
    pub bytes_cached: u64,
    /// Per file: path, bytes, bytes cached. At most [`ROWS_MAX`] files have a row.
    pub rows: Vec<(PathBuf, u64, u64)>,
}

/// Rows that a [`CachedReport`] has at most.
pub const ROWS_MAX: usize = 10_000;

/// A file on the way through a tree. Its reference is given back when it goes.
struct Visit {
    dataset: Arc<Dataset>,
    ino: u64,
    kind: FileType,
    size: u64,
    path: PathBuf,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.dataset.forget(self.ino, 1);
    }
}

impl Dataset {
    /// Loads a file, or everything below a directory, with its metadata. Blocks while it does;
    /// `progress` is called now and then and ends it by answering `false`.
    ///
    /// # Errors
    /// ENOENT for a path that is not there; the origin's.
    pub fn prime(
        self: &Arc<Self>,
        path: &Path,
        progress: &mut dyn FnMut(PrimeProgress) -> bool,
    ) -> Result<PrimeProgress> {
        let mut so_far = PrimeProgress::default();
        let mut files = Vec::new();
        let mut pending = vec![self.walk_to(path)?];
        while let Some(visit) = pending.pop() {
            so_far.path.clone_from(&visit.path);
            match visit.kind {
                FileType::Directory => pending.extend(self.visit_children(&visit)?),
                FileType::Regular => {
                    so_far.files_total += 1;
                    so_far.bytes_total += visit.size;
                    files.push(visit.path.clone());
                }
                FileType::Symlink => drop(self.read_link(visit.ino)?),
                _ => {}
            }
            if !progress(so_far.clone()) {
                return Ok(so_far);
            }
        }
        for path in files {
            so_far.path = path;
            if !self.prime_file(&mut so_far, progress)? {
                break;
            }
        }
        Ok(so_far)
    }

    fn prime_file(
        self: &Arc<Self>,
        so_far: &mut PrimeProgress,
        progress: &mut dyn FnMut(PrimeProgress) -> bool,
    ) -> Result<bool> {
        // What was removed since it was found is simply not there to be loaded.
        let visit = match self.walk_to(&so_far.path) {
            Ok(visit) => visit,
            Err(error) if error.is_absence() => return Ok(true),
            Err(error) => return Err(error),
        };
        let file = self.open(visit.ino, OpenHow::default())?;
        let mut offset = 0;
        loop {
            let read = file.read(offset, STEP)?.len() as u64;
            offset += read;
            so_far.bytes_done += read;
            if read == 0 {
                break;
            }
            if !progress(so_far.clone()) {
                return Ok(false);
            }
        }
        so_far.files_done += 1;
        Ok(progress(so_far.clone()))
    }

    /// How much of a file, or of everything below a directory, is cached. Changes nothing in the
    /// order of the cache's data.
    ///
    /// # Errors
    /// ENOENT for a path that is not there; the origin's.
    pub fn cached(self: &Arc<Self>, path: &Path) -> Result<CachedReport> {
        let mut report = CachedReport::default();
        let mut pending = vec![self.walk_to(path)?];
        while let Some(visit) = pending.pop() {
            match visit.kind {
                FileType::Directory => pending.extend(self.visit_children(&visit)?),
                FileType::Regular => self.count_cached(&visit, &mut report)?,
                _ => {}
            }
        }
        Ok(report)
    }

    fn count_cached(&self, visit: &Visit, report: &mut CachedReport) -> Result<()> {
        let identity = self.node(visit.ino)?.identity();
        let record_size = u64::from(identity.record_size);
        let size = identity.version.size;
        let blocks = size.div_ceil(record_size);
        let (mut blocks_cached, mut bytes_cached) = (0, 0);
        for index in 0..blocks {
            if self.blocks.contains(BlockKey::new(identity.object, index)) {
                blocks_cached += 1;
                bytes_cached += record_size.min(size - index * record_size);
            }
        }
        report.files += 1;
        report.blocks += blocks;
        report.blocks_cached += blocks_cached;
        report.bytes += size;
        report.bytes_cached += bytes_cached;
        if report.rows.len() < ROWS_MAX {
            report.rows.push((visit.path.clone(), size, bytes_cached));
        }
        Ok(())
    }

    fn walk_to(self: &Arc<Self>, path: &Path) -> Result<Visit> {
        let root = self.stat_or_cached(self.root_ino())?;
        let mut at = Visit {
            dataset: Arc::clone(self),
            ino: self.root_ino(),
            kind: FileType::Directory,
            size: root,
            path: PathBuf::new(),
        };
        for component in path.components() {
            match component {
                Component::CurDir | Component::RootDir => {}
                Component::Normal(name) => at = self.visit(&at, name)?,
                _ => return Err(Error::new("walk to", Errno::INVAL).about(path)),
            }
        }
        Ok(at)
    }

    fn stat_or_cached(&self, ino: u64) -> Result<u64> {
        let attributes = match self.cached_stat(ino) {
            Some(attributes) => attributes?,
            None => self.stat(ino)?,
        };
        Ok(attributes.stat.size)
    }

    fn visit(self: &Arc<Self>, dir: &Visit, name: &OsStr) -> Result<Visit> {
        let path = dir.path.join(name);
        let looked = match self.cached_lookup(dir.ino, name) {
            Some(looked) => looked?,
            None => self.lookup(dir.ino, name)?,
        };
        match looked {
            Looked::Found(entry) => Ok(Visit {
                dataset: Arc::clone(self),
                ino: entry.stat.id.ino,
                kind: entry.stat.kind,
                size: entry.stat.size,
                path,
            }),
            Looked::Absent { .. } => Err(Error::new("walk to", Errno::NOENT).about(path)),
        }
    }

    fn visit_children(self: &Arc<Self>, dir: &Visit) -> Result<Vec<Visit>> {
        let open = self.open_dir(dir.ino)?;
        let entries = match open.cached_entries(0) {
            Some(entries) => entries?,
            None => open.entries(0)?,
        };
        let mut children = Vec::new();
        for item in entries.iter().skip(2) {
            match self.visit(dir, item.name) {
                Ok(visit) => children.push(visit),
                Err(error) if error.is_absence() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(children)
    }
}
