//! Foreign changes: noticing that the origin changed and it was not us.
//!
//! Every file carries the version (size and times) that we expect the origin to show. After a change
//! of our own the stat that results becomes the expected one, so the object id stays. A stat that
//! shows another version is a foreign change: the file becomes a new object, and its old blocks are
//! simply never asked for again. When the origin is asked depends on the dataset's `coherence`.
//!
//! A version that is younger than the origin's timestamps can tell apart may hide a further change.
//! It is marked young: blocks that are read under it are not kept, and the first look after it came of
//! age makes a new object of the file even if the version seems the same.
//!
//! Under `notify` the origin's events are collected by [`Noticed`] and worked off by one job at a
//! time on a worker; an event that our own change caused finds the expected version and is dropped.

use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arcwell_base::origin::{Change, FileId, Stat};
use arcwell_base::{Error, ObjectId, Result};
use hashbrown::HashSet;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::dataset::{Attributes, Dataset};
use crate::metadata::{self, Dnode, Named};
use crate::property::Coherence;
use crate::workers::Class;
use crate::znode::change::Changing;
use crate::znode::{ObjectIdentity, Znode};

/// Events that may wait; more are one overflow.
const NOTICED_MAX: usize = 65_536;

/// Events of the origin that have not been looked into.
#[derive(Default)]
pub(crate) struct Noticed {
    pending: Mutex<Pending>,
    is_working: AtomicBool,
}

#[derive(Default)]
struct Pending {
    names: HashSet<(FileId, OsString)>,
    nodes: HashSet<FileId>,
    has_overflowed: bool,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.nodes.is_empty() && !self.has_overflowed
    }
}

impl Noticed {
    fn is_empty(&self) -> bool {
        self.pending.lock().is_empty()
    }
}

/// Whether an error tells of the way to the origin and not of the file: what is cached is then served
/// although it should be asked for again. An absence is not, ever.
pub(crate) fn is_out_of_reach(error: &Error) -> bool {
    matches!(error.errno(), Errno::IO | Errno::TIMEDOUT)
}

/// What attributes that the origin showed have told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Observed {
    /// The file is what we thought.
    Expected,
    /// It is another now, and a new object.
    Foreign,
    /// Nothing: it changed, or was seen to have changed, while the origin was asked.
    Unproven,
}

impl Observed {
    /// The sequence for a fill that goes on with what was observed, having begun at `sequence`.
    pub(crate) fn continued(self, sequence: u64) -> u64 {
        if self == Observed::Foreign { sequence + 2 } else { sequence }
    }
}

impl Dataset {
    /// Begins a change of `nodes`; see [`Changing`].
    pub(crate) fn begin<'a>(&'a self, nodes: &[&'a Arc<Znode>]) -> Changing<'a> {
        Changing::begin(&self.changes, nodes)
    }

    /// Whether the origin has told us of every change of this directory's names since `checked`.
    fn is_told_of_names(&self, dir: &Znode, checked: u64) -> bool {
        match self.properties.coherence {
            Coherence::Exclusive => true,
            Coherence::Notify => dir.is_watched_since(checked),
            Coherence::Timeout => false,
        }
    }

    /// Whether the origin has told us of every change of this file's attributes since `checked`: its
    /// directory is watched, and it has no second name through which it could change unseen.
    pub(crate) fn is_told_of(&self, node: &Znode, stat: &Stat, checked: u64) -> bool {
        match self.properties.coherence {
            Coherence::Exclusive => true,
            Coherence::Timeout => false,
            Coherence::Notify if node.is_directory() => node.is_watched_since(checked),
            Coherence::Notify => {
                let link = node.first_link();
                stat.nlink == 1 && link.is_some_and(|link| link.parent.is_watched_since(checked))
            }
        }
    }

    /// The same of a file in `dir` that nobody may hold.
    pub(crate) fn is_told_below(&self, dir: &Znode, dnode: &Dnode) -> bool {
        match self.properties.coherence {
            Coherence::Exclusive => true,
            _ => dnode.stat.nlink == 1 && self.is_told_of_names(dir, dnode.checked),
        }
    }

    /// The same of a file's contents.
    pub(crate) fn is_told_of_contents(&self, node: &Znode, identity: &ObjectIdentity) -> bool {
        match self.properties.coherence {
            Coherence::Exclusive => identity.checked != 0,
            Coherence::Timeout => false,
            Coherence::Notify if identity.is_young || identity.has_other_names => false,
            Coherence::Notify if node.is_directory() => node.is_watched_since(identity.checked),
            Coherence::Notify => {
                node.first_link().is_some_and(|link| link.parent.is_watched_since(identity.checked))
            }
        }
    }

    /// How long a name in `dir` may be believed that was looked at when the directory was.
    pub(crate) fn entry_ttl(&self, dir: &Znode, checked: u64) -> Duration {
        self.ttl(checked, self.is_told_of_names(dir, checked))
    }

    /// How long attributes may be believed that were shown at `checked`.
    pub(crate) fn attr_ttl(&self, node: &Znode, stat: &Stat, checked: u64) -> Duration {
        self.ttl(checked, self.is_told_of(node, stat, checked))
    }

    /// Whether what is known of a file's contents may be believed now.
    pub(crate) fn is_fresh(&self, node: &Znode, identity: &ObjectIdentity) -> bool {
        if identity.checked == 0 {
            return false;
        }
        self.is_told_of_contents(node, identity)
            || self.now().saturating_sub(identity.checked) < self.properties.attr_timeout.as_millis() as u64
    }

    /// Asks the origin again unless what is known may be believed.
    pub(crate) fn refresh(&self, node: &Znode) -> Result<()> {
        if self.is_fresh(node, &node.identity()) { Ok(()) } else { self.revalidate(node).map(drop) }
    }

    /// Asks the origin for a file's attributes and compares.
    pub(crate) fn revalidate(&self, node: &Znode) -> Result<Attributes> {
        self.shared.stats.revalidations.add(1);
        let (sequence, now) = (node.sequence(), self.now());
        let stat = match self.ask(|| self.is_known(node), |origin| origin.stat(node)) {
            Err(error) if is_out_of_reach(&error) => return self.last_known(node).ok_or(error),
            answer => answer?,
        };
        let ttl = match self.observe(node, &stat, sequence)? {
            Observed::Unproven => Duration::ZERO,
            _ => self.attr_ttl(node, &stat, now),
        };
        Ok(Attributes { stat, ttl })
    }

    /// Whether there is something for [`Dataset::last_known`] to answer; counts as no request.
    pub(crate) fn is_known(&self, node: &Znode) -> bool {
        let key = metadata::dnode_key(self.object, node.id.ino);
        node.identity().checked != 0 && self.blocks.contains(key)
    }

    /// The attributes that were shown last, for the time that the origin is out of reach.
    pub(crate) fn last_known(&self, node: &Znode) -> Option<Attributes> {
        let identity = node.identity();
        let pin = self.metadata(metadata::dnode_key(self.object, node.id.ino))?;
        let dnode = Dnode::decode(&pin).filter(|dnode| dnode.stat.id == node.id)?;
        let is_of_object = identity.checked != 0 && dnode.identity().object == identity.object;
        is_of_object.then_some(Attributes { stat: dnode.stat, ttl: Duration::ZERO })
    }

    /// Takes note of attributes that the origin showed. `sequence` was noted before it was asked: when
    /// a change of ours was under way meanwhile, or somebody saw a foreign one, the attributes prove
    /// nothing and are not kept. To see a foreign change counts as a change.
    pub(crate) fn observe(&self, node: &Znode, stat: &Stat, sequence: u64) -> Result<Observed> {
        let is_unproven = || !sequence.is_multiple_of(2) || node.sequence() != sequence;
        let seen = self.identity_of(ObjectId(0), self.properties.recordsize, stat);
        {
            let mut identity = node.identity.lock();
            if is_unproven() {
                return Ok(Observed::Unproven);
            }
            // Nothing was kept under a young version that one as young could take away.
            if identity.version == seen.version && (seen.is_young || !identity.is_young) {
                identity.checked = seen.checked;
                identity.has_other_names = seen.has_other_names;
                drop(identity);
                self.keep_dnode(node, stat, sequence);
                return Ok(Observed::Expected);
            }
        }
        let object = self.shared.objects.next()?;
        {
            let mut identity = node.identity.lock();
            if is_unproven() {
                return Ok(Observed::Unproven);
            }
            *identity = ObjectIdentity { object, ..seen };
            node.sequence.fetch_add(2, Ordering::AcqRel);
        }
        self.lost_touch(node);
        self.keep_dnode(node, stat, Observed::Foreign.continued(sequence));
        // Again: a sheet may have been gathered from the old dnode meanwhile.
        self.changed_below_parents(node);
        Ok(Observed::Foreign)
    }

    /// What follows from a foreign change.
    fn lost_touch(&self, node: &Znode) {
        self.changed_below_parents(node);
        node.has_data.store(false, Ordering::Relaxed);
        node.streams.lock().take();
        self.shared.stats.foreign_changes.add(1);
        self.shared.objects.forget(self.id, node.id);
        self.tell_holder(|holder| holder.invalidate_node(node.id.ino));
    }

    /// Before a change of our own, where others may write too: whether the file is still what we
    /// think. Called within the change, so that the version cannot move by us.
    pub(crate) fn verify_before(&self, node: &Znode) -> Result<()> {
        if self.properties.coherence == Coherence::Exclusive {
            return Ok(());
        }
        let stat = self.origin.stat(node)?;
        {
            let mut identity = node.identity.lock();
            // Behind a young version a change may hide, and afterwards ours hides it for good.
            if identity.version == stat.version() && !identity.is_young {
                identity.checked = self.now();
                return Ok(());
            }
        }
        let object = self.shared.objects.next()?;
        *node.identity.lock() = self.identity_of(object, self.properties.recordsize, &stat);
        self.lost_touch(node);
        Ok(())
    }

    /// After a change of our own: what results is what we expect.
    pub(crate) fn settle(&self, node: &Znode, stat: &Stat) -> ObjectIdentity {
        let identity = {
            let mut identity = node.identity.lock();
            identity.version = stat.version();
            identity.checked = self.now();
            identity.is_young = false;
            identity.has_other_names = metadata::has_other_names(stat);
            *identity
        };
        let key = metadata::dnode_key(self.object, node.id.ino);
        self.replace_metadata(key, &Dnode::new(stat, &identity).encode());
        self.changed_below_parents(node);
        if node.has_data.load(Ordering::Relaxed) {
            self.remember(node, &identity);
        }
        identity
    }

    /// After a change whose outcome is not known: nothing of the file is believed unasked.
    pub(crate) fn doubt(&self, node: &Znode) {
        node.identity.lock().checked = 0;
        self.blocks.remove(metadata::dnode_key(self.object, node.id.ino));
        self.changed_below_parents(node);
    }

    /// After a file's attributes changed: the sheets that show them are no longer true.
    fn changed_below_parents(&self, node: &Znode) {
        for parent in node.parents() {
            self.drop_sheets(&parent);
        }
    }

    /// Asks the origin what a change of ours resulted in.
    pub(crate) fn settle_by_asking(&self, node: &Znode) -> Option<Stat> {
        match self.origin.stat(node) {
            Ok(stat) => {
                self.settle(node, &stat);
                Some(stat)
            }
            Err(_) => {
                self.doubt(node);
                None
            }
        }
    }

    // ---- notify ----

    /// Starts to be told of changes, if the dataset wants it and the origin can.
    pub(crate) fn start_watch(self: &Arc<Self>) {
        if self.properties.coherence != Coherence::Notify {
            return;
        }
        let dataset = Arc::downgrade(self);
        match self.origin.watch(Box::new(move |change| notice(&dataset, change))) {
            Ok(watch) => {
                *self.watch.lock() = Some(Arc::from(watch));
                self.watch_directory(&self.root);
            }
            Err(error) => {
                tracing::warn!(%error, "the origin does not tell of changes: asked after attr_timeout")
            }
        }
    }

    /// Ends the notices.
    pub(crate) fn stop_watch(&self) {
        let watch = self.watch.lock().take();
        drop(watch);
    }

    /// Watches a directory before its contents are read, so that no change falls between.
    pub(crate) fn watch_directory(&self, dir: &Znode) {
        if self.properties.coherence != Coherence::Notify || dir.watched_since.load(Ordering::Relaxed) != 0 {
            return;
        }
        // Not under the lock: the origin may take its time.
        let watch = self.watch.lock().clone();
        if let Some(watch) = watch {
            match watch.add(dir) {
                Ok(()) => {
                    // What was known from before the watch may have changed unseen.
                    dir.identity.lock().checked = 0;
                    dir.watched_since.store(self.now(), Ordering::Release);
                }
                Err(error) => tracing::debug!(%error, "not watched: asked after attr_timeout"),
            }
        }
    }

    /// Sees that somebody looks into what was noticed, if there is anything. Called again by
    /// housekeeping, should the workers have had no room.
    pub(crate) fn start_work_on_notices(self: &Arc<Self>) {
        if self.noticed.is_empty() || self.noticed.is_working.swap(true, Ordering::SeqCst) {
            return;
        }
        let worker = Arc::clone(self);
        let job = move || {
            // A burst of events about one file is one look.
            std::thread::sleep(Duration::from_millis(2));
            worker.work_off_notices();
            Ok(())
        };
        let weak = Arc::downgrade(self);
        self.workers().run(Class::Sync, job, move |result| {
            if let (Err(_), Some(dataset)) = (result, weak.upgrade()) {
                dataset.noticed.is_working.store(false, Ordering::SeqCst);
            }
        });
    }

    fn work_off_notices(self: &Arc<Self>) {
        loop {
            let pending = std::mem::take(&mut *self.noticed.pending.lock());
            if pending.is_empty() {
                self.noticed.is_working.store(false, Ordering::SeqCst);
                // An event may have come between the look and the store.
                if self.noticed.is_empty() || self.noticed.is_working.swap(true, Ordering::SeqCst) {
                    return;
                }
                continue;
            }
            if pending.has_overflowed {
                self.doubt_everything();
            }
            pending.nodes.into_iter().for_each(|id| self.look_into_node(id));
            pending.names.into_iter().for_each(|(dir, name)| self.look_into_name(dir, &name));
        }
    }

    fn look_into_node(&self, id: FileId) {
        if let Some(node) = self.visit_file(id) {
            self.compare(&node);
        }
    }

    /// Compares with the origin, between changes of ours. Whether it is what we expect.
    fn compare(&self, node: &Arc<Znode>) -> bool {
        // Waits for a change of ours to end; its result is then the expected version.
        let _no_change = node.changing.lock();
        let sequence = node.sequence();
        match self.origin.stat(&**node) {
            Ok(stat) => self.observe(node, &stat, sequence).is_ok_and(|seen| seen == Observed::Expected),
            Err(_) => {
                self.doubt(node);
                self.tell_holder(|holder| holder.invalidate_node(node.id.ino));
                false
            }
        }
    }

    fn look_into_name(&self, dir: FileId, name: &OsStr) {
        let Some(dir) = self.visit_file(dir) else {
            return;
        };
        let key = self.names.name_key(dir.identity().object, name);
        let known = self.blocks.peek(key).and_then(|pin| metadata::decode_name(&pin, name));
        let is_unknown = known.is_none();
        let is_dir_expected = self.compare(&dir);
        let child = match known {
            Some(Named::File(id)) => Some(id),
            // Its block was evicted, or went with what the directory was: the file may be known still.
            Some(Named::Absent) | None => self.origin.lookup(&**dir, name).ok().map(|stat| stat.id),
        };
        let is_child_expected = child.is_none_or(|id| match self.visit_file(id) {
            Some(child) => self.compare(&child),
            None => {
                // Nobody holds it: what is kept of it is looked at again when somebody asks.
                self.blocks.remove(metadata::dnode_key(self.object, id.ino));
                true
            }
        });
        // Of a name that we know nothing of, the holder may know what was true before: another event
        // may have shown us the directory as it is after this one.
        if !is_dir_expected || !is_child_expected || is_unknown {
            self.tell_holder(|holder| holder.invalidate_name(dir.id.ino, name));
        }
    }

    fn doubt_everything(&self) {
        self.znodes.for_each(|node| {
            node.watched_since.store(0, Ordering::Relaxed);
            self.doubt(node);
            let link = node.first_link();
            self.tell_holder(|holder| {
                holder.invalidate_node(node.id.ino);
                if let Some(link) = link {
                    holder.invalidate_name(link.parent.id.ino, &link.name);
                }
            });
        });
    }
}

/// Takes an event in, on the watch's thread, and sees that somebody looks into it.
fn notice(dataset: &Weak<Dataset>, change: Change) {
    let Some(dataset) = dataset.upgrade() else {
        return;
    };
    {
        let mut pending = dataset.noticed.pending.lock();
        if pending.names.len() + pending.nodes.len() >= NOTICED_MAX {
            pending.has_overflowed = true;
            pending.names.clear();
            pending.nodes.clear();
        }
        match change {
            Change::Name { dir, name } => drop(pending.names.insert((dir, name))),
            Change::Node(id) => drop(pending.nodes.insert(id)),
            Change::Overflow => pending.has_overflowed = true,
        }
    }
    dataset.start_work_on_notices();
}
