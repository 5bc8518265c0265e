//! The life of one mount: made, served, waited for, taken off.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arcwell_base::{Error, Result};
use arcwell_pool::Dataset;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::attach::attach;
use super::device::Device;
use super::filesystem::Filesystem;
use super::holder::{Kernel, Notices};
use super::mountpoint::{MountEntry, detach, detach_stale, mounted_at, resolve, take_off};
use super::session::{self, Loops};

/// How long a mount that is in use is asked to come off before it is torn off.
const BUSY_PATIENCE: Duration = Duration::from_secs(2);
/// How long the loops may take to notice that the mount is gone.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// More loops than this only compete.
const THREADS_MAX: usize = 8;

/// How a dataset shall be mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The directory to mount on.
    pub mountpoint: PathBuf,
    /// Whether the kernel shall refuse every change.
    pub read_only: bool,
    /// Whether users other than the one who mounts may use it.
    pub allow_other: bool,
    /// Threads that read requests; 0 chooses by the number of processors.
    pub threads: usize,
    /// What `mount` and `df` show as the source.
    pub fs_name: String,
    /// Whether the mountpoint may hold files: they are covered, as when a directory is mounted on
    /// itself.
    pub over: bool,
}

impl MountOptions {
    /// A mount for the user who asks, readable and writable, on an empty directory.
    pub fn new(mountpoint: impl Into<PathBuf>) -> Self {
        MountOptions {
            mountpoint: mountpoint.into(),
            read_only: false,
            allow_other: false,
            threads: 0,
            fs_name: "arcwell".to_owned(),
            over: false,
        }
    }
}

/// How a mount came off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmounted {
    /// Nobody used it.
    Clean,
    /// It was in use and was torn off: programs that still use it get errors.
    Detached,
    /// It is in use and out of sight, and could not be torn off: its threads go on until the last
    /// program lets go.
    Lingering,
}

/// A mounted dataset. Dropping it unmounts.
pub struct Mounted {
    mountpoint: PathBuf,
    /// Device number as `mountinfo` shows it: tells our mount from others at the same place.
    device: String,
    dataset: Arc<Dataset>,
    loops: Loops,
    pub(super) notices: Arc<Notices>,
    notifier: Mutex<Option<JoinHandle<()>>>,
}

impl Mounted {
    /// Mounts `dataset`, which may have one mount at a time. What a dead daemon has left at the
    /// mountpoint is taken off first.
    ///
    /// # Errors
    /// When the mountpoint is no directory, not empty (without [`MountOptions::over`]) or already
    /// ours, when there is no FUSE device or no leave to mount. Nothing is left behind then.
    pub fn new(dataset: Arc<Dataset>, options: &MountOptions) -> Result<Mounted> {
        let mountpoint = resolve(&options.mountpoint);
        detach_stale(&mountpoint)?;
        check(&mountpoint, options.over)?;
        let device = Arc::new(Device::new(attach(&mountpoint, options)?));
        let mounted = Self::serve(dataset, options, &mountpoint, device);
        if mounted.is_err() {
            // The descriptor is closed by now: the mount is dead, but still in everybody's way.
            detach(&mountpoint)?;
        }
        mounted
    }

    fn serve(
        dataset: Arc<Dataset>,
        options: &MountOptions,
        mountpoint: &Path,
        device: Arc<Device>,
    ) -> Result<Mounted> {
        let entry = mounted_at(mountpoint)?
            .filter(MountEntry::is_arcwell)
            .ok_or_else(|| Error::new("find the mount", Errno::NOENT).about(mountpoint))?;
        session::agree(&device)?;
        let notices = Notices::new(Arc::clone(&device), dataset.root_ino());
        dataset.set_holder(Box::new(Kernel(Arc::clone(&notices))));
        let sender = Arc::clone(&notices);
        let notifier = std::thread::Builder::new()
            .name("arcwell-notices".into())
            .spawn(move || sender.run())
            .map_err(|error| Error::new("start a thread", error))?;
        let filesystem = Filesystem::new(Arc::clone(&dataset), device, Arc::clone(&notices));
        let filesystem = Arc::new(filesystem);
        let loops = match Loops::start(&filesystem, threads(options.threads)) {
            Ok(loops) => loops,
            Err(error) => {
                notices.stop();
                dataset.clear_holder();
                // It has nothing to send any more, so this does not wait.
                let _ = notifier.join();
                return Err(error);
            }
        };
        Ok(Mounted {
            mountpoint: mountpoint.to_owned(),
            device: entry.device,
            dataset,
            loops,
            notices,
            notifier: Mutex::new(Some(notifier)),
        })
    }

    /// Where it is mounted: absolute, without links.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Waits until the mount is gone: by [`Mounted::unmount`] on another thread, `umount` or
    /// `fusermount3 -u`. `false` when `limit` passed before that.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        self.loops.wait(limit)
    }

    /// Takes the mount off. One that is in use is asked for a while, then torn off.
    ///
    /// # Errors
    /// When it is still there afterwards.
    pub fn unmount(&self) -> Result<Unmounted> {
        let end = Instant::now() + BUSY_PATIENCE;
        while self.is_mounted()? {
            match take_off(&self.mountpoint) {
                Ok(()) => break,
                Err(error) if error.errno() == Errno::BUSY => {
                    if Instant::now() >= end {
                        return self.tear_off();
                    }
                    std::thread::sleep(PAUSE);
                }
                // Somebody else was faster, or it is really wrong: the next look tells.
                Err(error) if self.is_mounted()? => return Err(error),
                Err(_) => break,
            }
        }
        // Out of sight; it ends when the last program that uses it lets go (somebody may have
        // detached it lazily).
        Ok(if self.loops.wait(Some(END_PATIENCE)) { Unmounted::Clean } else { Unmounted::Lingering })
    }

    /// Takes the mount off and joins its threads.
    ///
    /// # Errors
    /// As [`Mounted::unmount`].
    pub fn unmount_and_join(self) -> Result<Unmounted> {
        let outcome = self.unmount()?;
        self.join();
        Ok(outcome)
    }

    /// Whether our mount is still the one that is seen at the mountpoint.
    fn is_mounted(&self) -> Result<bool> {
        Ok(mounted_at(&self.mountpoint)?.is_some_and(|entry| entry.device == self.device))
    }

    fn tear_off(&self) -> Result<Unmounted> {
        // FORCE ends the conversation, so that nobody waits for an answer that never comes. What was
        // written has reached the origin already, except for pages that are mapped and dirty: those
        // are asked for first.
        self.write_back_mapped();
        match unmount(&self.mountpoint, UnmountFlags::FORCE | UnmountFlags::DETACH) {
            Ok(()) => {}
            Err(_) => {
                detach(&self.mountpoint)?;
                self.abort();
            }
        }
        Ok(if self.loops.wait(Some(END_PATIENCE)) { Unmounted::Detached } else { Unmounted::Lingering })
    }

    fn write_back_mapped(&self) {
        let opened = rustix::fs::open(
            &self.mountpoint,
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        );
        if let Err(errno) = opened.and_then(rustix::fs::syncfs) {
            tracing::warn!(%errno, "mapped pages of a busy mount may not have been written");
        }
    }

    /// Ends the conversation by the control file that a user who mounted may write.
    fn abort(&self) {
        if let Some((_, minor)) = self.device.split_once(':') {
            let file = format!("/sys/fs/fuse/connections/{minor}/abort");
            if let Err(error) = std::fs::write(&file, "1") {
                tracing::debug!(%error, file, "cannot end a busy mount");
            }
        }
    }

    /// Joins all threads that have ended, which with a lingering mount are not the loops.
    fn join(&self) {
        self.notices.stop();
        if self.loops.wait(Some(Duration::ZERO)) {
            self.loops.join();
            self.dataset.clear_holder();
            if let Some(notifier) = self.notifier.lock().take()
                && notifier.join().is_err()
            {
                tracing::error!("the thread of notices ended by a bug");
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.loops.wait(Some(Duration::ZERO))
            && let Err(error) = self.unmount()
        {
            tracing::warn!(%error, "a mount could not be taken off");
        }
        self.join();
    }
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mounted").field("mountpoint", &self.mountpoint).finish_non_exhaustive()
    }
}

/// Whether `mountpoint` can be mounted on.
fn check(mountpoint: &Path, over: bool) -> Result<()> {
    if mounted_at(mountpoint)?.is_some_and(|entry| entry.is_arcwell()) {
        return Err(Error::invalid("mount", "already mounted by arcwell").about(mountpoint));
    }
    let mut names =
        std::fs::read_dir(mountpoint).map_err(|error| Error::new("mount", error).about(mountpoint))?;
    if !over && names.next().is_some() {
        return Err(Error::invalid("mount", "the mountpoint is not empty (--over covers what it holds)")
            .about(mountpoint));
    }
    Ok(())
}

fn threads(wanted: usize) -> usize {
    if wanted > 0 {
        return wanted;
    }
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}
