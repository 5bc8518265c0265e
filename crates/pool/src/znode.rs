//! Znodes: our handles of files that somebody may hold, kept as a tree.
//!
//! A znode knows its names as (parent, name) and which object its file is; it holds no descriptor.
//! It lives while the kernel refers to it (`lookups`), while it is open, or while a child has it for
//! a parent; then it goes, and what is worth knowing of the file stays in the cache as metadata
//! blocks. A file that loses its last name while it is held keeps a descriptor ([`Hold`]).
//!
//! **Changes and fills.** A file is changed under its `changing` mutex, by one thread at a time, and
//! `sequence` is odd meanwhile. Who fills the cache from the origin notes the sequence first and may
//! keep what was read only if it is even and still the same at the end, looked at under the `identity`
//! lock, under which a change also begins. So a fill is kept before a change begins, whose end then
//! replaces it, or not at all. To notice a foreign change moves the sequence on by two, so that whoever
//! asked the origin before then neither keeps what he got nor takes the change back.
//!
//! **One file, one znode.** Whoever may wait for the origin visits the znode
//! ([`Visited`](crate::dataset::Visited)): it stays in the table although its asker may have given up.
//!
//! Locks, in order: `changing` (several: by inode number, see [`change`]) → a shard of the table →
//! `names` or `identity` → the cache's. `changing` alone is held while the origin is asked.

pub(crate) mod change;
pub(crate) mod sheet;
pub(crate) mod table;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use arcwell_base::ObjectId;
use arcwell_base::origin::{FileId, FileType, Hold, Place, Version};
use parking_lot::Mutex;
use smallvec::SmallVec;

use self::sheet::Account;
use crate::stream::Streams;

/// Which object a file is, and what we expect the origin to show of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ObjectIdentity {
    pub(crate) object: ObjectId,
    pub(crate) record_size: u32,
    /// What the origin showed last, or what our own last change resulted in.
    pub(crate) version: Version,
    /// When that was asked for, milliseconds of the pool's clock; 0: it is doubted.
    pub(crate) checked: u64,
    /// The version was younger than the origin's timestamps can tell apart: a further change may hide
    /// behind it, so it is not trusted at the next look.
    pub(crate) is_young: bool,
    /// It may be changed through a name that we do not know of.
    pub(crate) has_other_names: bool,
}

/// One name of a file.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) parent: Arc<Znode>,
    pub(crate) name: Box<OsStr>,
}

/// A file that somebody may hold.
pub(crate) struct Znode {
    pub(crate) id: FileId,
    pub(crate) kind: FileType,
    /// References that the kernel holds; changed under the table's shard lock.
    pub(crate) lookups: AtomicU64,
    /// Open files and directories of ours.
    pub(crate) opens: AtomicU32,
    /// Even: quiet. Odd: a change is under way.
    pub(crate) sequence: AtomicU64,
    /// Since when the origin tells of changes in this directory, milliseconds of the pool's clock; 0:
    /// it does not. What was looked at before then may have changed unseen.
    pub(crate) watched_since: AtomicU64,
    /// Whether blocks of data were kept under the present object.
    pub(crate) has_data: AtomicBool,
    /// The names that we know. Empty when the last one is gone; the root has none.
    names: Mutex<SmallVec<[Link; 1]>>,
    pub(crate) identity: Mutex<ObjectIdentity>,
    pub(crate) changing: Mutex<()>,
    pub(crate) streams: Mutex<Option<Box<Streams>>>,
    hold: Mutex<Option<Box<dyn Hold>>>,
    /// Moves with every change of a file in this directory; under the `identity` lock.
    below: AtomicU64,
    account: Arc<Account>,
    is_root: bool,
}

impl std::fmt::Debug for Znode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Znode").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Memory that one znode takes with its place in the table. Names change length while it lives: a fixed
/// share for them keeps charge and discharge equal.
pub(crate) const ZNODE_BYTES: u64 = (size_of::<Znode>() + 16 + 56 + 64) as u64;

impl Znode {
    pub(crate) fn new(
        id: FileId,
        kind: FileType,
        identity: ObjectIdentity,
        link: Option<Link>,
        account: &Arc<Account>,
    ) -> Self {
        if link.is_some() {
            // The root is always there, and nobody's to let go.
            account.cache.charge(ZNODE_BYTES);
            account.stats.znode_bytes.add(ZNODE_BYTES);
        }
        Znode {
            id,
            kind,
            lookups: AtomicU64::new(0),
            opens: AtomicU32::new(0),
            sequence: AtomicU64::new(0),
            watched_since: AtomicU64::new(0),
            has_data: AtomicBool::new(false),
            is_root: link.is_none(),
            names: Mutex::new(link.into_iter().collect()),
            identity: Mutex::new(identity),
            changing: Mutex::new(()),
            streams: Mutex::new(None),
            hold: Mutex::new(None),
            below: AtomicU64::new(0),
            account: Arc::clone(account),
        }
    }

    /// A count that moves with every change of a file in this directory.
    pub(crate) fn below(&self) -> u64 {
        self.below.load(Ordering::Acquire)
    }

    /// Takes note that a file in this directory changed, and says which object the directory is.
    pub(crate) fn changed_below(&self) -> ObjectId {
        let identity = self.identity.lock();
        self.below.fetch_add(1, Ordering::AcqRel);
        identity.object
    }

    /// The parents by all names that we know.
    pub(crate) fn parents(&self) -> SmallVec<[Arc<Znode>; 1]> {
        self.names.lock().iter().map(|link| Arc::clone(&link.parent)).collect()
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// The parent by any of its names; the root is its own.
    pub(crate) fn parent(self: &Arc<Self>) -> Option<Arc<Znode>> {
        if self.is_root {
            return Some(Arc::clone(self));
        }
        self.names.lock().first().map(|link| Arc::clone(&link.parent))
    }

    /// The name that it was seen by last, with its parent.
    pub(crate) fn first_link(&self) -> Option<Link> {
        self.names.lock().first().cloned()
    }

    /// Whether the origin has told of every change in this directory since `checked`.
    pub(crate) fn is_watched_since(&self, checked: u64) -> bool {
        let since = self.watched_since.load(Ordering::Acquire);
        since != 0 && checked > since
    }

    /// Takes note of a name under which it was just seen: that one comes first, since others may have
    /// been taken away behind our back.
    pub(crate) fn add_link(&self, parent: &Arc<Znode>, name: &OsStr) {
        if self.is_root {
            return;
        }
        let mut names = self.names.lock();
        let is_this = |link: &Link| Arc::ptr_eq(&link.parent, parent) && *link.name == *name;
        if let Some(at) = names.iter().position(is_this) {
            names[..=at].rotate_right(1);
            return;
        }
        // A directory has one name: the one that was seen last.
        let kept = if self.is_directory() { 0 } else { LINKS_MAX - 1 };
        let kept = kept.min(names.len());
        let gone: SmallVec<[Link; 1]> = names.drain(kept..).collect();
        names.insert(0, Link { parent: Arc::clone(parent), name: name.into() });
        drop(names);
        // Dropped outside the lock: a link may be the last to hold its parent.
        drop(gone);
    }

    /// Removes a name.
    pub(crate) fn remove_link(&self, parent: &Znode, name: &OsStr) {
        let is_this = |link: &Link| std::ptr::eq(&*link.parent, parent) && *link.name == *name;
        let removed: SmallVec<[Link; 1]> = {
            let mut names = self.names.lock();
            let (gone, kept) = names.drain(..).partition(|link| is_this(link));
            *names = kept;
            gone
        };
        // Dropped outside the lock: a link may be the last to hold its parent.
        drop(removed);
    }

    pub(crate) fn has_link(&self) -> bool {
        self.is_root || !self.names.lock().is_empty()
    }

    /// Keeps a descriptor for the time after the last name is gone.
    pub(crate) fn keep(&self, hold: Box<dyn Hold>) {
        let before = self.hold.lock().replace(hold);
        drop(before);
    }

    /// Hands out the descriptor that was kept. To let go of it may take its time: the space of a file
    /// without a name is given back then.
    #[must_use]
    pub(crate) fn unkeep(&self) -> Option<Box<dyn Hold>> {
        self.hold.lock().take()
    }

    /// A consistent copy of the identity.
    pub(crate) fn identity(&self) -> ObjectIdentity {
        *self.identity.lock()
    }

    /// The sequence for a fill that begins now.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Whether the kernel or an open file refers to it.
    pub(crate) fn is_held(&self) -> bool {
        self.lookups.load(Ordering::Relaxed) > 0 || self.opens.load(Ordering::Relaxed) > 0
    }
}

/// Names that are remembered of one file; further ones are found again when they are looked up.
const LINKS_MAX: usize = 64;

impl Place for Znode {
    fn id(&self) -> FileId {
        self.id
    }

    fn path(&self) -> Option<PathBuf> {
        let mut names: Vec<Box<OsStr>> = Vec::new();
        let mut link = match self.first_link() {
            Some(link) => link,
            None => return self.is_root.then(PathBuf::new),
        };
        loop {
            names.push(link.name);
            match link.parent.first_link() {
                Some(above) => link = above,
                None if link.parent.is_root => break,
                None => return None,
            }
        }
        let mut path = OsString::new();
        for name in names.iter().rev() {
            if !path.is_empty() {
                path.push("/");
            }
            path.push(name);
        }
        Some(path.into())
    }
}

impl Drop for Znode {
    /// Lets a long chain of parents go one by one: a tree may be deeper than the stack.
    fn drop(&mut self) {
        if !self.is_root {
            self.account.cache.discharge(ZNODE_BYTES);
            self.account.stats.znode_bytes.sub(ZNODE_BYTES);
        }
        let mut pending: Vec<Link> = self.names.get_mut().drain(..).collect();
        while let Some(link) = pending.pop() {
            if let Some(mut parent) = Arc::into_inner(link.parent) {
                pending.extend(parent.names.get_mut().drain(..));
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn identity(object: u64) -> ObjectIdentity {
        let version = Version { size: 0, mtime: Default::default(), ctime: Default::default() };
        ObjectIdentity {
            object: ObjectId(object),
            record_size: 4096,
            version,
            checked: 0,
            is_young: false,
            has_other_names: false,
        }
    }

    pub(crate) fn account() -> Arc<Account> {
        let cache = Arc::new(arcwell_arc::Cache::new(arcwell_arc::Config::new(64 << 20)));
        Arc::new(Account { cache, stats: Arc::default() })
    }

    pub(crate) fn directory(ino: u64, link: Option<Link>) -> Arc<Znode> {
        let id = FileId { ino, generation: 1 };
        // Of its parent's cache: each takes some gigabytes of addresses.
        let account = link.as_ref().map_or_else(account, |link| Arc::clone(&link.parent.account));
        Arc::new(Znode::new(id, FileType::Directory, identity(ino), link, &account))
    }

    fn below(parent: &Arc<Znode>, ino: u64, name: &str) -> Arc<Znode> {
        directory(ino, Some(Link { parent: parent.clone(), name: OsStr::new(name).into() }))
    }

    #[test]
    fn a_path_is_walked_from_the_root() {
        let root = directory(2, None);
        let a = below(&root, 3, "a");
        let b = below(&a, 4, "b");
        assert_eq!(root.path(), Some(PathBuf::new()));
        assert_eq!(b.path(), Some(PathBuf::from("a/b")));
        a.remove_link(&root, OsStr::new("a"));
        assert_eq!(b.path(), None);
        a.add_link(&root, OsStr::new("c"));
        assert_eq!(b.path(), Some(PathBuf::from("c/b")));
    }

    #[test]
    fn a_very_deep_tree_goes_without_recursion() {
        let mut node = directory(2, None);
        for depth in 0..200_000 {
            node = below(&node, 3 + depth, "d");
        }
        drop(node);
    }
}
