//! Identities for as long as the process lives: for programs that embed us and want no files, and
//! for tests.

use std::ops::Range;
use std::path::{Path, PathBuf};

use arcwell_base::error::Result;
use arcwell_base::identity::{DatasetId, Identity, IdentityStore};
use arcwell_base::origin::FileId;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::random_uuid;

/// An [`IdentityStore`] that forgets everything when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryIdentities(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    objects: u64,
    datasets: HashMap<PathBuf, DatasetId>,
    files: HashMap<(DatasetId, FileId), Identity>,
    devices: Vec<u128>,
}

impl IdentityStore for MemoryIdentities {
    fn reserve_objects(&self, count: u64) -> Result<Range<u64>> {
        let mut inside = self.0.lock();
        let first = inside.objects + 1;
        inside.objects += count;
        Ok(first..first + count)
    }

    fn dataset(&self, origin: &Path) -> Result<DatasetId> {
        let mut inside = self.0.lock();
        if let Some(&known) = inside.datasets.get(origin) {
            return Ok(known);
        }
        let made = DatasetId(random_uuid()?);
        inside.datasets.insert(origin.to_owned(), made);
        Ok(made)
    }

    fn load(&self, dataset: DatasetId, file: FileId) -> Result<Option<Identity>> {
        Ok(self.0.lock().files.get(&(dataset, file)).copied())
    }

    fn save(&self, dataset: DatasetId, files: &[(FileId, Identity)]) -> Result<()> {
        let mut inside = self.0.lock();
        inside.files.extend(files.iter().map(|&(file, identity)| ((dataset, file), identity)));
        Ok(())
    }

    fn forget(&self, dataset: DatasetId, files: &[FileId]) -> Result<()> {
        let mut inside = self.0.lock();
        for &file in files {
            inside.files.remove(&(dataset, file));
        }
        Ok(())
    }

    fn trusted_devices(&self) -> Result<Vec<u128>> {
        Ok(self.0.lock().devices.clone())
    }

    fn trust_devices(&self, devices: &[u128]) -> Result<()> {
        self.0.lock().devices = devices.to_vec();
        Ok(())
    }
}
