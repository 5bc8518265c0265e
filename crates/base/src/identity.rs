//! What has to be remembered of files and datasets from one run to the next.
//!
//! An object's id, the version that we expect the origin to show, and its record size live in the
//! pool's state directory behind [`IdentityStore`]. What is remembered there lets the next run know
//! whether a file is still the object that flash holds blocks of, and keeps the record size of an
//! object what it was when the object was created.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use crate::error::Result;
use crate::key::ObjectId;
use crate::origin::{FileId, Version};

/// The id of a dataset: a random (version 4) UUID, given when the dataset is first named.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatasetId(pub u128);

impl fmt::Debug for DatasetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        f.write_str(&parts.join("-"))
    }
}

/// What is remembered of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The object that the file was.
    pub object: ObjectId,
    /// The version that we expected last.
    pub version: Version,
    /// Bytes a record; fixed for the object's life.
    pub record_size: u32,
}

/// Where identities are kept. Calls may do I/O.
pub trait IdentityStore: Send + Sync {
    /// Takes `count` object ids that were never given out and never will be again, even after a
    /// crash. Starts above zero.
    fn reserve_objects(&self, count: u64) -> Result<Range<u64>>;

    /// The id of the dataset whose origin is `origin`; made and kept when it is new.
    fn dataset(&self, origin: &Path) -> Result<DatasetId>;

    /// What is remembered of a file.
    fn load(&self, dataset: DatasetId, file: FileId) -> Result<Option<Identity>>;

    /// Remembers many files at once; durable when it returns.
    fn save(&self, dataset: DatasetId, files: &[(FileId, Identity)]) -> Result<()>;

    /// Forgets files that are gone.
    fn forget(&self, dataset: DatasetId, files: &[FileId]) -> Result<()>;

    /// The devices of level 2 that had forgotten all that changed before identities were last saved, by their
    /// ids. What any other device holds may be older than an identity says.
    fn trusted_devices(&self) -> Result<Vec<u128>>;

    /// Sets which these are; durable when it returns. A device that missed something must be left out *before*
    /// identities are saved that it missed.
    fn trust_devices(&self, devices: &[u128]) -> Result<()>;
}
