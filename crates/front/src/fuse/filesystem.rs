//! One mounted dataset: which request goes where, and the one pattern by which all are answered.
//!
//! The pattern ([`Filesystem::serve`]): ask the dataset for what it has in memory and answer on the
//! loop's own thread; only when that gives nothing, hand the work *and the duty to answer* to a
//! worker. Functions here answer in one of three ways: by `Err(errno)` (malformed requests), by an
//! answer sent before they return, or by a [`Debt`] that travels with the work.
//!
//! **References.** The kernel counts how often it was told of a node and gives the counts back
//! (`FORGET`); the dataset keeps the same count. A reference taken for an answer that nobody
//! received is given back at once: see [`Held`].

use std::sync::Arc;

use arcwell_base::Result;
use arcwell_base::origin::Caller;
use arcwell_pool::{Class, Dataset, Entry, Looked, OpenFile};
use rustix::io::Errno;

use super::device::{Debt, Device};
use super::given::{Given, Listed};
use super::handle::Table;
use super::holder::Notices;
use super::wire::{ROOT_NODE, Request, opcode};

/// How a request was dealt with: answered or handed on, or to be answered with this error.
pub(crate) type Handled = std::result::Result<(), Errno>;

/// A dataset behind one mount.
pub(crate) struct Filesystem {
    pub(super) dataset: Arc<Dataset>,
    pub(super) device: Arc<Device>,
    pub(super) notices: Arc<Notices>,
    pub(super) files: Table<OpenFile>,
    pub(super) directories: Table<Listed>,
    pub(super) given: Given,
    root: u64,
}

impl Filesystem {
    pub(crate) fn new(dataset: Arc<Dataset>, device: Arc<Device>, notices: Arc<Notices>) -> Self {
        let root = dataset.root_ino();
        let (files, directories) = (Table::new(), Table::new());
        Filesystem { dataset, device, notices, files, directories, given: Given::default(), root }
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The dataset's number of a node of the kernel.
    pub(super) fn ino(&self, node: u64) -> u64 {
        if node == ROOT_NODE { self.root } else { node }
    }

    /// The kernel's number of a node of the dataset.
    pub(super) fn node(&self, ino: u64) -> u64 {
        node_of(ino, self.root)
    }

    /// Answers one request, now or later.
    pub(crate) fn dispatch(self: &Arc<Self>, request: &Request<'_>) {
        if let Err(errno) = self.handle(request) {
            self.device.reply_error(request.unique, errno);
        }
    }

    fn handle(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        match request.opcode {
            opcode::READ => self.read(request),
            opcode::GETATTR => self.getattr(request),
            opcode::LOOKUP => self.lookup(request),
            opcode::OPEN => self.open(request),
            opcode::RELEASE => self.release(request),
            opcode::WRITE => self.write(request),
            opcode::READDIRPLUS => self.readdir(request, true),
            opcode::READDIR => self.readdir(request, false),
            opcode::OPENDIR => self.opendir(request),
            opcode::RELEASEDIR => self.releasedir(request),
            opcode::FORGET => self.forget(request),
            opcode::BATCH_FORGET => self.batch_forget(request),
            opcode::GETXATTR => self.getxattr(request),
            opcode::LISTXATTR => self.listxattr(request),
            opcode::SETXATTR => self.setxattr(request),
            opcode::REMOVEXATTR => self.removexattr(request),
            opcode::READLINK => self.readlink(request),
            opcode::CREATE => self.create(request),
            opcode::TMPFILE => self.create_unnamed(request),
            opcode::MKNOD => self.mknod(request),
            opcode::MKDIR => self.mkdir(request),
            opcode::SYMLINK => self.symlink(request),
            opcode::LINK => self.link(request),
            opcode::UNLINK => self.unlink(request),
            opcode::RMDIR => self.rmdir(request),
            opcode::RENAME => self.rename(request, false),
            opcode::RENAME2 => self.rename(request, true),
            opcode::SETATTR => self.setattr(request),
            opcode::STATFS => self.statfs(request),
            opcode::FSYNC => self.fsync(request),
            opcode::FSYNCDIR => self.fsyncdir(request),
            opcode::FALLOCATE => self.fallocate(request),
            opcode::LSEEK => self.lseek(request),
            opcode::COPY_FILE_RANGE => self.copy_file_range(request, false),
            opcode::COPY_FILE_RANGE_64 => self.copy_file_range(request, true),
            // ENOSYS would be passed on to programs here; ENOTTY is what they know.
            opcode::IOCTL => Err(Errno::NOTTY),
            opcode::DESTROY => {
                self.device.reply_done(request.unique);
                Ok(())
            }
            // The kernel remembers ENOSYS and does these on its own: FLUSH (nothing of ours waits for
            // a close), locks, POLL (always ready), BMAP, ACCESS (default_permissions), INTERRUPT
            // (requests have deadlines of their own) and STATX: all that it adds is the time of birth,
            // and whoever asks for that, as every program in Rust does, would ask us again for each
            // file whose attributes the kernel has.
            _ => Err(Errno::NOSYS),
        }
    }

    /// The pattern: `cached` answers at once; where it is `None`, `job` runs on a worker and its
    /// result is answered from there.
    pub(super) fn serve<T: Send + 'static>(
        self: &Arc<Self>,
        unique: u64,
        class: Class,
        cached: Option<Result<T>>,
        job: impl FnOnce(&Arc<Dataset>) -> Result<T> + Send + 'static,
        send: impl FnOnce(&Filesystem, u64, T) + Send + 'static,
    ) -> Handled {
        match cached {
            Some(result) => self.answer(unique, result, send),
            None => self.hand_on(unique, class, job, send),
        }
        Ok(())
    }

    /// The pattern's second half alone, for what always needs the origin.
    pub(super) fn hand_on<T: Send + 'static>(
        self: &Arc<Self>,
        unique: u64,
        class: Class,
        job: impl FnOnce(&Arc<Dataset>) -> Result<T> + Send + 'static,
        send: impl FnOnce(&Filesystem, u64, T) + Send + 'static,
    ) {
        let debt = Debt::new(Arc::clone(&self.device), unique);
        let filesystem = Arc::clone(self);
        let dataset = Arc::clone(&self.dataset);
        let done = move |result| filesystem.answer(debt.settle(), result, send);
        self.dataset.workers().run(class, move || job(&dataset), done);
    }

    /// A change whose answer is only "done".
    pub(super) fn change(
        self: &Arc<Self>,
        unique: u64,
        class: Class,
        job: impl FnOnce(&Arc<Dataset>) -> Result<()> + Send + 'static,
    ) -> Handled {
        self.hand_on(unique, class, job, |filesystem, unique, ()| filesystem.device.reply_done(unique));
        Ok(())
    }

    fn answer<T>(&self, unique: u64, result: Result<T>, send: impl FnOnce(&Filesystem, u64, T)) {
        match result {
            Ok(value) => send(self, unique, value),
            Err(error) => {
                let errno = error.errno();
                if !is_everyday(errno) {
                    tracing::debug!(%error, "a request failed");
                }
                self.device.reply_error(unique, errno);
            }
        }
    }
}

/// The kernel's number of node `ino` in a dataset with this root.
pub(super) fn node_of(ino: u64, root: u64) -> u64 {
    if ino == root { ROOT_NODE } else { ino }
}

/// Errors that programs ask for all day and that nobody wants in a log.
fn is_everyday(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT | Errno::NODATA | Errno::EXIST | Errno::NOTEMPTY | Errno::NXIO | Errno::RANGE
    )
}

/// On whose behalf a request comes.
pub(super) fn caller(request: &Request<'_>, umask: u32) -> Caller {
    Caller { uid: request.uid, gid: request.gid, umask, pid: request.pid }
}

/// What may carry a kernel reference.
pub(super) trait Referring {
    /// The node that was counted for the kernel.
    fn referred(&self) -> Option<u64>;
}

impl Referring for Entry {
    fn referred(&self) -> Option<u64> {
        Some(self.stat.id.ino)
    }
}

impl Referring for Looked {
    fn referred(&self) -> Option<u64> {
        match self {
            Looked::Found(entry) => entry.referred(),
            Looked::Absent { .. } => None,
        }
    }
}

impl Referring for (Entry, Arc<OpenFile>) {
    fn referred(&self) -> Option<u64> {
        self.0.referred()
    }
}

/// A result that carries a reference, on its way to the kernel. Dropped on the way (the job was given
/// up at its deadline, the asker was killed), it gives the reference back.
pub(super) struct Held<T: Referring> {
    dataset: Arc<Dataset>,
    value: T,
    owed: bool,
}

impl<T: Referring> Held<T> {
    pub(super) fn new(dataset: &Arc<Dataset>, value: T) -> Self {
        Held { dataset: Arc::clone(dataset), value, owed: true }
    }

    /// Sends the result; when it arrived, the reference is the kernel's.
    pub(super) fn deliver(mut self, send: impl FnOnce(&T) -> bool) {
        self.owed = !send(&self.value);
    }
}

impl<T: Referring> Drop for Held<T> {
    fn drop(&mut self) {
        if self.owed
            && let Some(ino) = self.value.referred()
        {
            self.dataset.forget(ino, 1);
        }
    }
}
