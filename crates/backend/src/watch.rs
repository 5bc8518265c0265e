//! Notices of foreign changes, by inotify.
//!
//! Directories are watched one by one, each through its own descriptor (`/proc/self/fd/N`), so that a
//! mount that covers the origin hides nothing. One thread translates events; it ends, and is joined,
//! when the watch is dropped.
//!
//! The kernel tells of changes made through the watched directory's names. It does not tell of writes
//! through a shared mapping, of writes through another hard link in a directory that is not watched,
//! nor of anything that another machine does to a network file system.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc as Shared;
use std::thread::JoinHandle;

use arcwell_base::error::{Cause, Error, Result};
use arcwell_base::origin::{Change, ChangeSink, FileId, Place, Watch};
use hashbrown::HashMap;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::dir::{Tree, Want, proc_path};

/// Room for a few hundred events at once.
const EVENT_BYTES: usize = 32 << 10;

/// Starts the thread that reports to `sink`.
pub(crate) fn start(tree: Shared<Tree>, sink: ChangeSink) -> std::result::Result<Box<dyn Watch>, Cause> {
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
    let shared = Shared::new(State { events, stop, watched: Mutex::default() });
    let state = shared.clone();
    let thread = std::thread::Builder::new()
        .name("arcwell-watch".to_owned())
        .spawn(move || state.report(&sink))
        .map_err(Cause::from)?;
    Ok(Box::new(DirWatch { tree, state: shared, thread: Some(thread) }))
}

struct DirWatch {
    tree: Shared<Tree>,
    state: Shared<State>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    events: OwnedFd,
    stop: OwnedFd,
    watched: Mutex<Watched>,
}

/// Both ways between directories and the kernel's numbers for watches.
#[derive(Default)]
struct Watched {
    by_number: HashMap<i32, FileId>,
    by_dir: HashMap<FileId, i32>,
}

impl Watch for DirWatch {
    fn add(&self, dir: &dyn Place) -> Result<()> {
        let failed = |cause: Cause| {
            let error = Error::new("watch", cause);
            match dir.path() {
                Some(path) => error.about(path),
                None => error,
            }
        };
        let descriptor = self.tree.descriptor(dir, Want::Path).map_err(failed)?;
        // The lock is held over the call, so that the thread knows whose events it reads.
        let mut watched = self.state.watched.lock();
        let number = inotify::add_watch(&self.state.events, proc_path(&descriptor), interest())
            .map_err(|errno| failed(errno.into()))?;
        watched.by_number.insert(number, dir.id());
        watched.by_dir.insert(dir.id(), number);
        Ok(())
    }

    fn remove(&self, dir: FileId) {
        let mut watched = self.state.watched.lock();
        if let Some(number) = watched.by_dir.remove(&dir) {
            watched.by_number.remove(&number);
            // The directory may be gone, and its watch with it.
            let _gone = inotify::remove_watch(&self.state.events, number);
        }
    }
}

impl Drop for DirWatch {
    fn drop(&mut self) {
        let woken = rustix::io::write(&self.state.stop, &1u64.to_ne_bytes());
        debug_assert!(woken.is_ok());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that watches the origin had failed");
        }
    }
}

impl State {
    fn report(&self, sink: &ChangeSink) {
        let mut buffer = vec![MaybeUninit::uninit(); EVENT_BYTES];
        let mut reader = Reader::new(&self.events, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
                    if let Some(change) = self.translate(event.wd(), event.events(), name) {
                        sink(change);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if self.wait().is_break() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "changes of the origin are noticed no longer");
                    sink(Change::Overflow);
                    return;
                }
            }
            // A flood of events must not keep the thread from seeing that it is to end.
            if reader.is_buffer_empty() && self.is_stopping() {
                return;
            }
        }
    }

    fn translate(&self, number: i32, what: ReadFlags, name: Option<OsString>) -> Option<Change> {
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            return Some(Change::Overflow);
        }
        let mut watched = self.watched.lock();
        let dir = *watched.by_number.get(&number)?;
        if what.contains(ReadFlags::IGNORED) {
            watched.by_number.remove(&number);
            if watched.by_dir.get(&dir) == Some(&number) {
                watched.by_dir.remove(&dir);
            }
            return Some(Change::Node(dir));
        }
        Some(match name {
            Some(name) => Change::Name { dir, name },
            None => Change::Node(dir),
        })
    }

    fn wait(&self) -> std::ops::ControlFlow<()> {
        let mut ready = [
            PollFd::from_borrowed_fd(self.events.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) if ready[1].revents().is_empty() => std::ops::ControlFlow::Continue(()),
            Err(Errno::INTR) => std::ops::ControlFlow::Continue(()),
            _ => std::ops::ControlFlow::Break(()),
        }
    }

    fn is_stopping(&self) -> bool {
        let mut stop = [PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut stop, Some(&now)), Ok(1..))
    }
}

fn interest() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR
        | WatchFlags::EXCL_UNLINK
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use arcwell_base::origin::Origin;

    use super::*;
    use crate::dir::{DirOptions, DirOrigin, tests::At};

    /// Long enough for any machine; only a failing test waits for it.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A directory that is watched, with the directory `sub` in it, watched as well.
    struct Bed {
        origin: DirOrigin,
        watch: Box<dyn Watch>,
        receive: Receiver<Change>,
        root: At,
        sub: At,
    }

    fn watched(dir: &tempfile::TempDir) -> Bed {
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        let origin = DirOrigin::open(dir.path(), DirOptions::default()).unwrap();
        let (send, receive) = channel();
        let watch = origin.watch(Box::new(move |change| drop(send.send(change)))).unwrap();
        let root = At::root(&origin);
        let sub = root.child(&origin, "sub");
        watch.add(&root).unwrap();
        watch.add(&sub).unwrap();
        Bed { origin, watch, receive, root, sub }
    }

    fn until(receive: &Receiver<Change>, wanted: &Change) {
        while receive.recv_timeout(PATIENCE).expect("the change is reported") != *wanted {}
    }

    #[test]
    fn foreign_changes_are_reported_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let Bed { origin: _origin, watch, receive, root, sub } = watched(&dir);
        watch.add(&sub).unwrap();
        let change = |dir: &At, name: &str| Change::Name { dir: dir.id(), name: name.into() };

        std::fs::write(dir.path().join("file"), "1").unwrap();
        until(&receive, &change(&root, "file"));
        std::fs::rename(dir.path().join("file"), dir.path().join("sub/moved")).unwrap();
        until(&receive, &change(&root, "file"));
        until(&receive, &change(&sub, "moved"));
        std::fs::remove_file(dir.path().join("sub/moved")).unwrap();
        until(&receive, &change(&sub, "moved"));
        std::fs::remove_dir(dir.path().join("sub")).unwrap();
        // Its own end is told by its parent: we keep it open, so that the kernel does not see it go.
        until(&receive, &change(&root, "sub"));
    }

    #[test]
    fn what_is_not_watched_any_more_is_silent() {
        let dir = tempfile::tempdir().unwrap();
        let Bed { origin: _origin, watch, receive, root, sub } = watched(&dir);
        watch.remove(sub.id());
        watch.remove(sub.id());
        std::fs::write(dir.path().join("sub/unseen"), "1").unwrap();
        std::fs::write(dir.path().join("seen"), "1").unwrap();
        let seen = Change::Name { dir: root.id(), name: "seen".into() };
        loop {
            let change = receive.recv_timeout(PATIENCE).unwrap();
            assert!(!matches!(&change, Change::Name { name, .. } if name == "unseen"));
            if change == seen {
                break;
            }
        }
        drop(watch);
        // Ends only if the thread has ended and dropped its sink.
        while receive.recv().is_ok() {}
    }
}
