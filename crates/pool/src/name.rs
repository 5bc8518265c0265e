//! Names: look-up, create, link, remove, rename.
//!
//! A name block says which file a name is, or that there is none. It is under the directory's object,
//! so a foreign change of the directory makes all of them unreachable at once; changes of our own
//! replace the one block and drop the listing.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arcwell_base::origin::{Caller, FileId, NewNode, RenameMode, Stat};
use arcwell_base::{Error, Result};
use rustix::io::Errno;

use crate::coherence::is_out_of_reach;
use crate::dataset::{Dataset, Entry, Looked, Visited};
use crate::metadata::{self, Dnode, Named};
use crate::znode::Znode;

/// Times that an operation begins again when the directory changes under it.
const RETRIES: usize = 8;

/// A name, and the directory that it is in.
type NameIn<'a> = (&'a Arc<Znode>, &'a OsStr);
/// A file, and its znode if it has one.
type Known<'a> = (FileId, Option<&'a Znode>);

/// A rename, once it is known which files the two names are.
struct Rename<'a> {
    from: NameIn<'a>,
    to: NameIn<'a>,
    mode: RenameMode,
    moved: Known<'a>,
    target: Option<Known<'a>>,
}

impl Dataset {
    /// Looks a name up in the cache. See [`Dataset::lookup`].
    pub fn cached_lookup(&self, parent: u64, name: &OsStr) -> Option<Result<Looked>> {
        let dir = match self.check_name(name).and_then(|()| self.directory(parent)) {
            Ok(dir) => dir,
            Err(error) => return Some(Err(error)),
        };
        let identity = dir.identity();
        if !self.is_fresh(&dir, &identity) {
            return None;
        }
        let ttl = self.entry_ttl(&dir, identity.checked);
        let pin = self.metadata(self.names.name_key(identity.object, name))?;
        match metadata::decode_name(&pin, name)? {
            Named::Absent => Some(Ok(Looked::Absent { ttl })),
            Named::File(id) => {
                let (dnode, attr_ttl) = self.fresh_dnode(id, |dnode| self.is_told_below(&dir, dnode))?;
                self.intern(&dnode.stat, || dnode.identity(), &dir, name, 1);
                Some(Ok(Looked::Found(Entry { stat: dnode.stat, entry_ttl: ttl, attr_ttl })))
            }
        }
    }

    /// Looks a name up; what is found is held until [`Dataset::forget`].
    ///
    /// # Errors
    /// The origin's, but for ENOENT, which is an answer; ESTALE when the parent is not known.
    pub fn lookup(&self, parent: u64, name: &OsStr) -> Result<Looked> {
        let dir = self.visit_named(parent, name)?;
        self.watch_directory(&dir);
        self.refresh(&dir)?;
        for _ in 0..RETRIES {
            let (sequence, changes) = (dir.sequence(), self.changes.load(Ordering::Acquire));
            let object = dir.identity().object;
            let key = self.names.name_key(object, name);
            let stat = match self.ask(|| self.blocks.contains(key), |origin| origin.lookup(&**dir, name)) {
                Ok(stat) => stat,
                Err(error) if error.is_absence() => {
                    self.keep_metadata(&dir, key, &metadata::encode_name(name, Named::Absent), sequence);
                    let ttl = self.entry_ttl(&dir, dir.identity().checked);
                    return Ok(Looked::Absent { ttl });
                }
                Err(error) if is_out_of_reach(&error) => return self.last_found(&dir, name).ok_or(error),
                Err(error) => return Err(error),
            };
            let entry = self.found(&dir, name, stat, changes)?;
            if dir.identity().object != object {
                // The directory changed behind our back while it was asked.
                self.forget(entry.stat.id.ino, 1);
                continue;
            }
            self.keep_metadata(&dir, key, &metadata::encode_name(name, Named::File(entry.stat.id)), sequence);
            return Ok(Looked::Found(entry));
        }
        Err(Error::new("lookup", Errno::AGAIN))
    }

    /// What was found last under a name, for the time that the origin is out of reach.
    fn last_found(&self, dir: &Arc<Znode>, name: &OsStr) -> Option<Looked> {
        let identity = dir.identity();
        let pin =
            self.metadata(self.names.name_key(identity.object, name)).filter(|_| identity.checked != 0)?;
        let Named::File(id) = metadata::decode_name(&pin, name)? else { return None };
        let pin = self.metadata(metadata::dnode_key(self.object, id.ino))?;
        let dnode = Dnode::decode(&pin).filter(|dnode| dnode.stat.id == id)?;
        self.intern(&dnode.stat, || dnode.identity(), dir, name, 1);
        Some(Looked::Found(Entry { stat: dnode.stat, entry_ttl: Duration::ZERO, attr_ttl: Duration::ZERO }))
    }

    /// Makes a znode of a file that the origin showed under `name`. `changes` was noted before.
    fn found(&self, dir: &Arc<Znode>, name: &OsStr, seen: Stat, changes: u64) -> Result<Entry> {
        let identity = self.identify(&seen)?;
        let node = self.intern(&seen, || identity, dir, name, 1);
        let (stat, sequence) = if self.changes.load(Ordering::Acquire) == changes {
            (seen, node.sequence())
        } else {
            // Something of ours changed meanwhile, maybe this file: ask for it alone.
            let sequence = node.sequence();
            (self.origin.stat(&*node).inspect_err(|_| self.forget(seen.id.ino, 1))?, sequence)
        };
        self.observe(&node, &stat, sequence)?;
        let dir_identity = dir.identity();
        // The next listing shall gather this one too.
        self.blocks.remove(metadata::stamp_key(dir_identity.object));
        Ok(Entry {
            stat,
            entry_ttl: self.entry_ttl(dir, dir_identity.checked),
            attr_ttl: self.attr_ttl(&node, &stat, node.identity().checked),
        })
    }

    fn visit_named(&self, parent: u64, name: &OsStr) -> Result<Visited<'_>> {
        self.check_name(name)?;
        self.visit_directory(parent)
    }

    fn check_name(&self, name: &OsStr) -> Result<()> {
        if name.len() > self.info.name_max as usize {
            return Err(Error::new("look at a name", Errno::NAMETOOLONG));
        }
        Ok(())
    }

    /// Creates anything but an open file.
    ///
    /// # Errors
    /// The origin's; EROFS on a read-only dataset.
    pub fn make(
        &self,
        parent: u64,
        name: &OsStr,
        node: &NewNode,
        perm: u16,
        caller: Caller,
    ) -> Result<Entry> {
        self.writable("create")?;
        let dir = self.visit_named(parent, name)?;
        let _changing = self.begin(&[&dir]);
        self.verify_before(&dir)?;
        let made = self.origin.make(&**dir, name, node, perm, caller);
        let stat = made.inspect_err(|_| self.doubt_name(&dir, name))?;
        self.adopt(&dir, name, &stat).map(|(entry, _)| entry)
    }

    /// Takes in a file that we have just created under `name`, within the change of `dir`.
    pub(crate) fn adopt(&self, dir: &Arc<Znode>, name: &OsStr, stat: &Stat) -> Result<(Entry, Arc<Znode>)> {
        let mut identity = self.identity_of(self.shared.objects.next()?, self.properties.recordsize, stat);
        identity.is_young = false;
        let node = self.intern(stat, || identity, dir, name, 1);
        if node.identity().object != identity.object {
            // Somebody holds a file that had the number before, and whose end we did not see.
            self.renew(&node)?;
        }
        self.settle(&node, stat);
        self.name_changed(dir, name, Some(Named::File(stat.id)));
        self.settle_by_asking(dir);
        let entry_ttl = self.entry_ttl(dir, self.now());
        let attr_ttl = self.attr_ttl(&node, stat, self.now());
        Ok((Entry { stat: *stat, entry_ttl, attr_ttl }, node))
    }

    /// Gives a file a further name.
    ///
    /// # Errors
    /// The origin's; EROFS on a read-only dataset.
    pub fn link(&self, ino: u64, parent: u64, name: &OsStr) -> Result<Entry> {
        self.writable("link")?;
        let dir = self.visit_named(parent, name)?;
        let node = self.visit_node(ino)?;
        let _changing = self.begin(&[&dir, &node]);
        self.verify_before(&dir)?;
        self.verify_before(&node)?;
        let linked = self.origin.link(&**node, &**dir, name);
        let stat = linked.inspect_err(|_| self.doubt_name(&dir, name))?;
        self.intern(&stat, || node.identity(), &dir, name, 1);
        drop(node.unkeep());
        self.settle(&node, &stat);
        self.name_changed(&dir, name, Some(Named::File(stat.id)));
        self.settle_by_asking(&dir);
        let entry_ttl = self.entry_ttl(&dir, self.now());
        let attr_ttl = self.attr_ttl(&node, &stat, self.now());
        Ok(Entry { stat, entry_ttl, attr_ttl })
    }

    /// Removes a name of anything but a directory.
    ///
    /// # Errors
    /// The origin's; EROFS on a read-only dataset.
    pub fn unlink(&self, parent: u64, name: &OsStr) -> Result<()> {
        self.remove(parent, name, |dir| self.origin.unlink(dir, name))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The origin's; EROFS on a read-only dataset.
    pub fn rmdir(&self, parent: u64, name: &OsStr) -> Result<()> {
        self.remove(parent, name, |dir| self.origin.rmdir(dir, name))
    }

    fn remove(&self, parent: u64, name: &OsStr, remove: impl FnOnce(&Znode) -> Result<()>) -> Result<()> {
        self.writable("remove")?;
        let dir = self.visit_named(parent, name)?;
        let absent = || Error::new("remove", Errno::NOENT);
        for _ in 0..RETRIES {
            let victim = self.named(&dir, name)?.ok_or_else(absent)?;
            let visited = self.visit_file(victim);
            let victim_node = visited.as_deref();
            let mut nodes: Vec<&Arc<Znode>> = vec![&dir];
            nodes.extend(victim_node);
            let _changing = self.begin(&nodes);
            self.verify_before(&dir)?;
            if self.named(&dir, name)? != Some(victim) {
                // Another file took the name before we had it to ourselves.
                continue;
            }
            let victim_node = victim_node.map(Arc::as_ref);
            self.verify_named(victim_node)?;
            self.keep_last(victim_node);
            if let Err(error) = remove(&dir) {
                self.doubt_name(&dir, name);
                self.doubt_file(victim, victim_node);
                return Err(error);
            }
            self.unnamed(&dir, name, victim, victim_node);
            self.name_changed(&dir, name, Some(Named::Absent));
            self.settle_by_asking(&dir);
            return Ok(());
        }
        Err(Error::new("remove", Errno::AGAIN))
    }

    /// Before a name of a file changes: afterwards its version is taken for ours, so what somebody else did to it must be
    /// seen now.
    fn verify_named(&self, node: Option<&Znode>) -> Result<()> {
        match node {
            Some(node) if self.verify_before(node).is_err() => self.renew(node),
            _ => Ok(()),
        }
    }

    /// After a change of one of its names failed or went unanswered.
    fn doubt_file(&self, id: FileId, node: Option<&Znode>) {
        match node {
            Some(node) => self.doubt(node),
            None => _ = self.blocks.remove(metadata::dnode_key(self.object, id.ino)),
        }
    }

    /// Which file a name is: from the cache, else from the origin.
    fn named(&self, dir: &Arc<Znode>, name: &OsStr) -> Result<Option<FileId>> {
        let identity = dir.identity();
        if self.is_fresh(dir, &identity) {
            let pin = self.blocks.peek(self.names.name_key(identity.object, name));
            match pin.and_then(|pin| metadata::decode_name(&pin, name)) {
                Some(Named::File(id)) => return Ok(Some(id)),
                Some(Named::Absent) => return Ok(None),
                None => {}
            }
        }
        match self.origin.lookup(&**dir, name) {
            Ok(stat) => Ok(Some(stat.id)),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a descriptor of a held file that is about to lose a name: of its other names, those that
    /// we know may be gone, and others there may be we need not know.
    fn keep_last(&self, victim: Option<&Znode>) {
        let Some(victim) = victim.filter(|victim| victim.is_held()) else {
            return;
        };
        match self.origin.hold(victim) {
            Ok(hold) => victim.keep(hold),
            Err(error) => tracing::debug!(%error, "a removed file cannot be kept for those who hold it"),
        }
    }

    /// After `name` was removed from `victim`.
    fn unnamed(&self, dir: &Znode, name: &OsStr, victim: FileId, node: Option<&Znode>) {
        let Some(node) = node else {
            self.blocks.remove(metadata::dnode_key(self.object, victim.ino));
            self.shared.objects.forget(self.id, victim);
            return;
        };
        node.remove_link(dir, name);
        let is_last = !node.has_link();
        match self.settle_by_asking(node) {
            Some(stat) if stat.nlink > 0 && !is_last => drop(node.unkeep()),
            Some(stat) if stat.nlink > 0 => {}
            _ => self.shared.objects.forget(self.id, victim),
        }
    }

    /// Moves a name.
    ///
    /// # Errors
    /// The origin's; EROFS on a read-only dataset.
    pub fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), mode: RenameMode) -> Result<()> {
        self.writable("rename")?;
        let from_dir = self.visit_named(from.0, from.1)?;
        let to_dir = self.visit_named(to.0, to.1)?;
        let absent = || Error::new("rename", Errno::NOENT);
        for _ in 0..RETRIES {
            let moved = self.named(&from_dir, from.1)?.ok_or_else(absent)?;
            let target = self.named(&to_dir, to.1)?;
            let (moved_node, target_node) =
                (self.visit_file(moved), target.and_then(|id| self.visit_file(id)));
            let mut nodes: Vec<&Arc<Znode>> = vec![&from_dir, &to_dir];
            nodes.extend(moved_node.as_deref());
            nodes.extend(target_node.as_deref());
            let _changing = self.begin(&nodes);
            self.verify_before(&from_dir)?;
            if !Arc::ptr_eq(&from_dir, &to_dir) {
                self.verify_before(&to_dir)?;
            }
            if self.named(&from_dir, from.1)? != Some(moved) || self.named(&to_dir, to.1)? != target {
                // Other files took the names before we had them to ourselves.
                continue;
            }
            self.verify_named(moved_node.as_deref().map(Arc::as_ref))?;
            self.verify_named(target_node.as_deref().map(Arc::as_ref))?;
            let rename = Rename {
                from: (&from_dir, from.1),
                to: (&to_dir, to.1),
                mode,
                moved: (moved, moved_node.as_deref().map(Arc::as_ref)),
                target: target.map(|id| (id, target_node.as_deref().map(Arc::as_ref))),
            };
            return self.rename_known(&rename);
        }
        Err(Error::new("rename", Errno::AGAIN))
    }

    /// Moves a name within a change of all that are concerned.
    fn rename_known(&self, rename: &Rename<'_>) -> Result<()> {
        let Rename { from, to, mode, moved, target } = *rename;
        if let Some((id, node)) = target
            && mode != RenameMode::Exchange
            && id != moved.0
        {
            self.keep_last(node);
        }
        if let Err(error) = self.origin.rename((&**from.0, from.1), (&**to.0, to.1), mode) {
            self.doubt_name(from.0, from.1);
            self.doubt_name(to.0, to.1);
            for (id, node) in std::iter::once(moved).chain(target) {
                self.doubt_file(id, node);
            }
            return Err(error);
        }
        self.renamed(rename);
        self.settle_by_asking(from.0);
        if !Arc::ptr_eq(from.0, to.0) {
            self.settle_by_asking(to.0);
        }
        Ok(())
    }

    /// Takes a rename into znodes and name blocks.
    fn renamed(&self, rename: &Rename<'_>) {
        let Rename { from, to, mode, moved, target } = *rename;
        if target.is_some_and(|(id, _)| id == moved.0) {
            // Two names of one file: POSIX leaves both standing.
            self.name_changed(from.0, from.1, None);
            self.name_changed(to.0, to.1, None);
            return;
        }
        match (mode, target) {
            (RenameMode::Exchange, Some(target)) => {
                self.relinked(target, to, from);
                self.relinked(moved, from, to);
                self.name_changed(from.0, from.1, Some(Named::File(target.0)));
            }
            (mode, target) => {
                if let Some((id, node)) = target {
                    self.unnamed(to.0, to.1, id, node);
                }
                self.relinked(moved, from, to);
                let left = (mode != RenameMode::Whiteout).then_some(Named::Absent);
                self.name_changed(from.0, from.1, left);
            }
        }
        self.name_changed(to.0, to.1, Some(Named::File(moved.0)));
    }

    fn relinked(&self, (id, node): Known<'_>, from: NameIn<'_>, to: NameIn<'_>) {
        let Some(node) = node else {
            self.blocks.remove(metadata::dnode_key(self.object, id.ino));
            return;
        };
        // In this order, so that whoever asks for its path meanwhile finds one.
        node.add_link(to.0, to.1);
        node.remove_link(from.0, from.1);
        self.settle_by_asking(node);
    }

    /// After a name changed: its block says so (`None`: nobody knows), and the listing goes.
    pub(crate) fn name_changed(&self, dir: &Znode, name: &OsStr, now: Option<Named>) {
        let object = dir.identity().object;
        let key = self.names.name_key(object, name);
        match now {
            Some(named) => self.replace_metadata(key, &metadata::encode_name(name, named)),
            None => _ = self.blocks.remove(key),
        }
        self.drop_listing(dir);
    }

    /// After a change of a name failed or went unanswered: it may have happened all the same.
    pub(crate) fn doubt_name(&self, dir: &Znode, name: &OsStr) {
        self.name_changed(dir, name, None);
        self.doubt(dir);
    }
}
