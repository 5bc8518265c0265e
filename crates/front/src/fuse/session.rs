//! The conversation with the kernel: the agreement at the beginning, then loops that read requests.
//!
//! Several threads read the same descriptor; the kernel gives each request to one of them. What can
//! be answered from memory is answered there, the rest is handed to the pool's workers, so a loop is
//! never held up by an origin. The loops end when the file system is unmounted (`ENODEV`).
//!
//! # What is agreed on, and why
//!
//! - `ASYNC_READ`, `ASYNC_DIO`, `PARALLEL_DIROPS`: the pool orders what must be ordered; the kernel
//!   need not.
//! - `DONT_MASK`: the mask is the origin's affair, as a default ACL overrides it.
//! - `POSIX_ACL` with `default_permissions`: the kernel judges access by the ACLs it reads as
//!   extended attributes. `SETXATTR_EXT` makes it say when setting one must clear the setgid bit.
//! - `DO_READDIRPLUS`: attributes that are in memory come with the names. Not `READDIRPLUS_AUTO`: the
//!   kernel then asks for attributes with the first part of a listing only, unless a program looks at
//!   files between two parts; `find` and `ls -l` read to the end first, and every file was looked up
//!   by itself (measured: 4 µs of daemon an entry instead of less than 1). What the kernel has already
//!   is not sent again (see `given`).
//! - `DIRECT_IO_ALLOW_MMAP`: files are opened for direct I/O, yet may be mapped shared.
//! - Not `ATOMIC_O_TRUNC`: with it the kernel leaves setuid and setgid of a file that another user
//!   truncates by `open` to us, and says so only to servers that also take over every other such
//!   case (`HANDLE_KILLPRIV_V2`). Without it an `O_TRUNC` open is followed by a `SETATTR` that holds
//!   the size and the new mode.
//! - Not `HANDLE_KILLPRIV`, `HANDLE_KILLPRIV_V2`: the kernel then sends the mode that chown and
//!   truncate leave, and marks direct writes (`WRITE_KILL_SUIDGID`) that must clear it.
//! - Not `POSIX_LOCKS`, `FLOCK_LOCKS`: the kernel's own locks are complete (fork, deadlocks).
//! - Not `WRITEBACK_CACHE`, `CACHE_SYMLINKS`, `AUTO_INVAL_DATA`: data, links and sizes are cached by
//!   us; a foreign change reaches the kernel's mapped pages as a notice (see `holder`).
//! - Not `EXPORT_SUPPORT`: nodes cannot be found again by number once the kernel forgot them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arcwell_base::{Error, Result};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use super::device::Device;
use super::filesystem::Filesystem;
use super::wire::{self, Agreement, Request, init, opcode};

/// Largest write that the kernel may send at once.
const WRITE_MAX: usize = 1 << 20;
/// Room for the largest request: a write with its headers.
const BUFFER: usize = WRITE_MAX + 4096;
/// The protocol's minor version up to which we know what the kernel may send.
const MINOR: u32 = 45;
/// The oldest one that has what we rely on (`FUSE_INIT_EXT`, Linux 5.17).
const MINOR_MIN: u32 = 36;
/// Requests that nobody waits for one by one (asynchronous direct I/O), at most.
const BACKGROUND_MAX: u16 = 64;

const WANTED: u64 = init::ASYNC_READ
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::DO_READDIRPLUS
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::POSIX_ACL
    | init::MAX_PAGES
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::DIRECT_IO_ALLOW_MMAP;

/// Answers the kernel's first request.
pub(crate) fn agree(device: &Device) -> Result<()> {
    let mut buffer = vec![0; BUFFER];
    let length = device
        .receive(&mut buffer)
        .and_then(|length| length.ok_or(Errno::NODEV))
        .map_err(|errno| Error::new("wait for the kernel's greeting", errno))?;
    let request = Request::parse(&buffer[..length])
        .filter(|request| request.opcode == opcode::INIT)
        .ok_or_else(|| Error::new("read the kernel's greeting", Errno::PROTO))?;
    match terms(&request) {
        Ok(terms) => {
            device.reply(request.unique, wire::agreement(&terms).as_bytes());
            Ok(())
        }
        Err(error) => {
            device.reply_error(request.unique, Errno::PROTO);
            Err(error)
        }
    }
}

/// What we take of what the kernel offers.
fn terms(request: &Request<'_>) -> Result<Agreement> {
    let read = |errno| Error::new("read the kernel's greeting", errno);
    let mut fields = request.fields;
    let (major, minor) = (fields.u32().map_err(read)?, fields.u32().map_err(read)?);
    if (major, minor) < (7, MINOR_MIN) {
        return Err(Error::invalid(
            "mount",
            format!("the kernel speaks FUSE {major}.{minor}; 7.{MINOR_MIN} (Linux 5.17) or later is needed"),
        ));
    }
    let max_readahead = fields.u32().map_err(read)?;
    let low = u64::from(fields.u32().map_err(read)?);
    let high = u64::from(fields.u32().map_err(read)?);
    Ok(Agreement {
        minor: minor.min(MINOR),
        max_readahead,
        flags: (low | high << 32) & WANTED,
        max_background: BACKGROUND_MAX,
        max_write: WRITE_MAX as u32,
        max_pages: (WRITE_MAX / rustix::param::page_size()) as u16,
    })
}

/// The loops of one mount.
pub(crate) struct Loops {
    running: Arc<Running>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// How many loops still run.
#[derive(Default)]
struct Running {
    count: Mutex<usize>,
    fewer: Condvar,
}

/// One running loop; dropped when it ends, however it ends.
struct Presence(Arc<Running>);

impl Presence {
    fn new(running: &Arc<Running>) -> Self {
        *running.count.lock() += 1;
        Presence(Arc::clone(running))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.fewer.notify_all();
    }
}

impl Loops {
    /// Starts `threads` loops.
    pub(crate) fn start(filesystem: &Arc<Filesystem>, threads: usize) -> Result<Self> {
        let loops = Loops { running: Arc::default(), threads: Mutex::default() };
        for number in 0..threads {
            let filesystem = Arc::clone(filesystem);
            let presence = Presence::new(&loops.running);
            let thread = std::thread::Builder::new()
                .name(format!("arcwell-fuse-{number}"))
                .spawn(move || {
                    let _presence = presence;
                    serve(&filesystem);
                })
                .map_err(|error| Error::new("start a thread", error))?;
            loops.threads.lock().push(thread);
        }
        Ok(loops)
    }

    /// Waits until all have ended, which is when the file system is gone. `false` when `limit` passed
    /// before that.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> bool {
        let end = limit.map(|limit| Instant::now() + limit);
        let mut count = self.running.count.lock();
        while *count > 0 {
            match end {
                None => self.running.fewer.wait(&mut count),
                Some(end) => {
                    if self.running.fewer.wait_until(&mut count, end).timed_out() {
                        return *count == 0;
                    }
                }
            }
        }
        true
    }

    /// Joins the threads. To be called when they have ended.
    pub(crate) fn join(&self) {
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a loop ended by a bug");
            }
        }
    }
}

/// One loop.
fn serve(filesystem: &Arc<Filesystem>) {
    let device = Arc::clone(filesystem.device());
    // Only as much of it is ever touched as the largest request was long.
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = match device.receive(&mut buffer) {
            Ok(Some(length)) => length,
            Ok(None) => return,
            Err(errno) => {
                tracing::error!(%errno, "reading requests of the kernel failed");
                return;
            }
        };
        let Some(request) = Request::parse(&buffer[..length]) else {
            tracing::error!(length, "the kernel sent what is not a request");
            continue;
        };
        // A panic must not take the loop with it: the mount would go on with one thread fewer, and
        // at last with none.
        if catch_unwind(AssertUnwindSafe(|| filesystem.dispatch(&request))).is_err() {
            tracing::error!(opcode = request.opcode, "a request failed by a bug");
            device.reply_error(request.unique, Errno::IO);
        }
    }
}
