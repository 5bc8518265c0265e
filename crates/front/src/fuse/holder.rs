//! Telling the kernel to forget: foreign changes, and nodes that are held for nothing.
//!
//! The kernel holds nodes, attributes, names and mapped pages. The pool calls [`Notices`] (by the trait
//! [`Holder`]) when one of them is wrong or when it has to shrink. A notice may block in the kernel
//! for as long as some program's own request on that directory or page is under way, and that
//! request may need the very thread that brought the notice. So notices are queued, and one thread
//! that does nothing else sends them.
//!
//! A node that already waits in the queue is not queued again. The queue is bounded: prunes beyond
//! it are dropped (they are hints), invalidations beyond it are dropped *and counted and logged*: the
//! kernel then finds out when what it knows expires.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arcwell_pool::{Holder, PruneCandidate};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use super::device::Device;
use super::filesystem::node_of;
use super::wire::{self, ROOT_NODE, notify};

/// Notices that may wait.
const QUEUE_MAX: usize = 1 << 16;
/// Prunes that may wait: more of them would only be stale.
const PRUNES_MAX: usize = 2;
/// Nodes in one prune message.
const PRUNE_BATCH: usize = 512;

enum Notice {
    /// Attributes and pages of a node.
    Node(u64),
    /// A name in a directory.
    Name { parent: u64, name: OsString },
    /// Nodes to let go of.
    Prune(Vec<PruneCandidate>),
}

#[derive(Default)]
struct Queue {
    notices: VecDeque<Notice>,
    nodes: HashSet<u64>,
    prunes: usize,
    stopped: bool,
}

/// The notices of one mount on their way to the kernel.
pub(crate) struct Notices {
    device: Arc<Device>,
    root: u64,
    queue: Mutex<Queue>,
    work: Condvar,
    dropped: AtomicU64,
    /// Whether this kernel was found not to know `FUSE_NOTIFY_PRUNE` (before Linux 6.18).
    cannot_prune: AtomicBool,
}

impl Notices {
    pub(crate) fn new(device: Arc<Device>, root: u64) -> Arc<Self> {
        Arc::new(Notices {
            device,
            root,
            queue: Mutex::default(),
            work: Condvar::new(),
            dropped: AtomicU64::new(0),
            cannot_prune: AtomicBool::new(false),
        })
    }

    /// Queues the news that a node of the kernel has changed.
    pub(crate) fn node(&self, node: u64) {
        let mut queue = self.queue.lock();
        if queue.nodes.contains(&node) {
            return;
        }
        if self.push(&mut queue, Notice::Node(node)) {
            queue.nodes.insert(node);
        }
    }

    fn push(&self, queue: &mut Queue, notice: Notice) -> bool {
        if queue.stopped {
            return false;
        }
        if queue.notices.len() >= QUEUE_MAX {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(dropped, "the kernel takes news of changes more slowly than they come");
            }
            return false;
        }
        queue.notices.push_back(notice);
        self.work.notify_one();
        true
    }

    /// Invalidations that were lost because the queue was full.
    #[cfg(test)]
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Ends [`Notices::run`]; what waits is dropped.
    pub(crate) fn stop(&self) {
        let mut queue = self.queue.lock();
        *queue = Queue { stopped: true, ..Queue::default() };
        self.work.notify_all();
    }

    /// The life of the thread that sends.
    pub(crate) fn run(&self) {
        while let Some(notice) = self.next() {
            match notice {
                Notice::Node(node) => self.send_node(node),
                Notice::Name { parent, name } => self.send_name(parent, &name),
                Notice::Prune(candidates) => self.send_prune(&candidates),
            }
        }
    }

    fn next(&self) -> Option<Notice> {
        let mut queue = self.queue.lock();
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(notice) = queue.notices.pop_front() {
                match &notice {
                    // From here on a new change needs a new notice.
                    Notice::Node(node) => {
                        queue.nodes.remove(node);
                    }
                    Notice::Name { .. } => {}
                    Notice::Prune(_) => queue.prunes -= 1,
                }
                return Some(notice);
            }
            self.work.wait(&mut queue);
        }
    }

    fn send_node(&self, node: u64) {
        let message = wire::inval_inode(node);
        report(self.device.notify(notify::INVAL_INODE, &[message.as_bytes()]));
    }

    fn send_name(&self, parent: u64, name: &OsStr) {
        let head = wire::inval_entry(parent, name);
        report(self.device.notify(notify::INVAL_ENTRY, &[head.as_bytes(), name.as_bytes(), &[0]]));
    }

    fn send_prune(&self, candidates: &[PruneCandidate]) {
        for batch in candidates.chunks(PRUNE_BATCH) {
            if self.cannot_prune.load(Ordering::Relaxed) || !self.prune_nodes(batch) {
                // An older kernel lets go of a node when the name that led to it is invalidated.
                for candidate in batch.iter().filter(|candidate| candidate.ino != self.root) {
                    self.send_name(node_of(candidate.parent, self.root), &candidate.name);
                }
            }
        }
    }

    /// Asks for nodes by number; `false` when this kernel does not know how.
    fn prune_nodes(&self, batch: &[PruneCandidate]) -> bool {
        let nodes: Vec<u64> = batch
            .iter()
            .map(|candidate| node_of(candidate.ino, self.root))
            .filter(|node| *node != ROOT_NODE)
            .collect();
        let numbers: Vec<u8> = nodes.iter().flat_map(|node| node.to_ne_bytes()).collect();
        let head = wire::prune(nodes.len());
        match self.device.notify(notify::PRUNE, &[head.as_bytes(), &numbers]) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                self.cannot_prune.store(true, Ordering::Relaxed);
                false
            }
            result => {
                report(result);
                true
            }
        }
    }
}

fn report(result: Result<(), Errno>) {
    match result {
        // The kernel does not know the node or the name, or the mount is gone: nothing to forget.
        Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::NOTCONN | Errno::NOTDIR) => {}
        Err(errno) => tracing::debug!(%errno, "the kernel did not take a notice"),
    }
}

/// The kernel, as the pool sees it.
pub(crate) struct Kernel(pub(crate) Arc<Notices>);

impl Holder for Kernel {
    fn invalidate_node(&self, ino: u64) {
        self.0.node(node_of(ino, self.0.root));
    }

    fn invalidate_name(&self, parent: u64, name: &OsStr) {
        let parent = node_of(parent, self.0.root);
        let mut queue = self.0.queue.lock();
        self.0.push(&mut queue, Notice::Name { parent, name: name.to_owned() });
    }

    fn prune(&self, nodes: &[PruneCandidate]) {
        let candidates = nodes
            .iter()
            .map(|node| PruneCandidate { ino: node.ino, parent: node.parent, name: node.name.clone() })
            .collect();
        let mut queue = self.0.queue.lock();
        if queue.prunes < PRUNES_MAX && self.0.push(&mut queue, Notice::Prune(candidates)) {
            queue.prunes += 1;
        }
    }
}

#[cfg(test)]
mod tests;
