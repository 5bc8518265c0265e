//! What the control socket needs of the daemon behind it.

use std::error::Error;
use std::path::Path;

use arcwell_base::Result;
use arcwell_base::table::{Form, Sample, Setting, TunableRow};

use super::wire::{AddRequest, Cached, PrimeProgress, Status};

/// The daemon, as the control socket sees it.
///
/// Every call may block, and is made on a thread that may.
pub trait ControlPlane: Send + Sync + 'static {
    /// Every statistic.
    fn samples(&self) -> Vec<Sample>;

    /// What is served, and how it is.
    fn status(&self) -> Status;

    /// Every tunable.
    fn settings(&self) -> Vec<Setting>;

    /// Sets a tunable, at once.
    ///
    /// # Errors
    /// When the name is unknown, the value not allowed, or the row only read at start.
    fn set(&self, name: &str, value: &str) -> std::result::Result<(), Box<dyn Error + Send + Sync>>;

    /// Loads what is at and below an absolute path under a mountpoint. `progress` is called often
    /// and answers whether to go on.
    ///
    /// # Errors
    /// When the path is not served here or could not be read.
    fn prime(&self, path: &Path, progress: &mut dyn FnMut(PrimeProgress) -> bool) -> Result<PrimeProgress>;

    /// How much is held of what is at and below an absolute path under a mountpoint.
    ///
    /// # Errors
    /// When the path is not served here or is not there.
    fn cached(&self, path: &Path) -> Result<Cached>;

    /// Begins to record what a dataset asks of the cache, with plain names of files or hashed ones.
    ///
    /// # Errors
    /// When there is no such dataset, or it is being recorded already.
    fn record(&self, dataset: &str, has_names: bool) -> Result<Take>;

    /// Adds a cache device.
    ///
    /// # Errors
    /// What is wrong with it, or what it holds instead.
    fn add_cache(&self, request: &AddRequest) -> Result<()>;

    /// Takes the cache device out that was added by this path.
    ///
    /// # Errors
    /// When there is none; its own, and then it is out all the same.
    fn remove_cache(&self, path: &Path) -> Result<()>;

    /// Unmounts; the daemon ends by itself once its mount is gone.
    ///
    /// # Errors
    /// `EBUSY` while files are open, unless forced.
    fn unmount(&self, force: bool) -> Result<()>;
}

/// A recording under way: appends what happened since the last call, and answers whether there is more
/// at once. Dropping it ends the recording.
pub type Take = Box<dyn FnMut(&mut Vec<u8>) -> bool + Send>;

/// What a row allows, as people read it.
pub fn range(row: &TunableRow) -> String {
    match row.form {
        Form::Choice(words) => words.join(", "),
        Form::Switch => "on, off".to_owned(),
        form => match row.max {
            u64::MAX => format!("at least {}", form.print(row.min)),
            max => format!("{} to {}", form.print(row.min), form.print(max)),
        },
    }
}
