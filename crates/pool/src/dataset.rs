//! A dataset: one origin behind the cache.
//!
//! What it knows lies in two places: [`Znode`]s for what somebody holds, and metadata blocks in the
//! cache for the rest ([`metadata`](crate::metadata)). The operations are in rooms of their own, each
//! an `impl Dataset`: [`name`](crate::name) (look-up, create, remove, rename), [`attribute`](crate::attribute)
//! (attributes and extended ones), [`file`](crate::file) (opening, reading, writing), [`listing`](crate::listing),
//! [`coherence`](crate::coherence) (foreign changes), [`prime`](crate::prime).
//!
//! Methods named `cached_…` never block and never ask the origin; they answer `None` when the work
//! must leave the calling thread. The others may block for as long as the origin likes and belong on
//! a worker.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arcwell_arc::{Admit, Asked, Cache, Keep, Pin};
use arcwell_base::identity::{DatasetId, Identity, IdentityStore};
use arcwell_base::origin::{FileId, Origin, OriginInfo, Stat, StatFs, Version, Watch};
use arcwell_base::{BlockKey, Cause, Clock, Error, Kind, ObjectId, Result};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;

use crate::blocks::Blocks;
use crate::flash::Flash;
use crate::flight::Flights;
use crate::metadata::{self, Dnode, NameHash};
use crate::object::Objects;
use crate::property::{Coherence, Properties};
use crate::recorder::Recorder;
use crate::silence::Silence;
use crate::tunable::{PoolStats, PoolTunables};
use crate::workers::{Class, Workers};
use crate::znode::sheet::Account;
use crate::znode::table::{Inserted, ZnodeTable};
use crate::znode::{Link, ObjectIdentity, Znode};

/// A znode held as if it were open, for as long as an operation on it may wait. The asker may give up
/// and let it go meanwhile; were it found again as a second znode of the same file, that one would not
/// know of what is done under this one.
pub(crate) struct Visited<'a> {
    dataset: &'a Dataset,
    node: Arc<Znode>,
}

impl std::ops::Deref for Visited<'_> {
    type Target = Arc<Znode>;

    fn deref(&self) -> &Arc<Znode> {
        &self.node
    }
}

impl Drop for Visited<'_> {
    fn drop(&mut self) {
        self.dataset.let_go(&self.node);
    }
}

/// How long the kernel may believe what cannot change behind our back.
const FOREVER: Duration = Duration::from_secs(86_400);

/// A file that was found, with how long the answer may be believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The file's attributes.
    pub stat: Stat,
    /// How long the name may be believed.
    pub entry_ttl: Duration,
    /// How long the attributes may be believed.
    pub attr_ttl: Duration,
}

/// The answer to a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looked {
    /// There is such a file; the asker now holds one reference to it.
    Found(Entry),
    /// There is none, and the origin said so.
    Absent {
        /// How long that may be believed.
        ttl: Duration,
    },
}

/// Attributes with how long they may be believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// The attributes.
    pub stat: Stat,
    /// How long they may be believed.
    pub ttl: Duration,
}

/// A znode that its holder could let go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PruneCandidate {
    /// Its inode number.
    pub ino: u64,
    /// Its parent's inode number.
    pub parent: u64,
    /// Its name there.
    pub name: OsString,
}

/// Whoever holds our znodes: the kernel, behind a front end.
///
/// Called from the pool's threads, never from one that serves a request; must not block for long.
pub trait Holder: Send + Sync {
    /// Attributes and mapped pages of a file are no longer true.
    fn invalidate_node(&self, ino: u64);
    /// A name is no longer true.
    fn invalidate_name(&self, parent: u64, name: &OsStr);
    /// Please let these go.
    fn prune(&self, nodes: &[PruneCandidate]);
}

/// What a dataset shares with its pool.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) cache: Arc<Cache>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) tunables: Arc<PoolTunables>,
    pub(crate) stats: Arc<PoolStats>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) objects: Arc<Objects>,
    pub(crate) identities: Arc<dyn IdentityStore>,
    pub(crate) flash: Arc<Flash>,
}

impl Shared {
    /// Bytes that znodes may take.
    pub(crate) fn znode_share(&self) -> u64 {
        self.cache.tunables().size_max() / 100 * self.tunables.znode_percent()
    }
}

/// One origin behind the cache. See the module's doc.
pub struct Dataset {
    pub(crate) name: String,
    pub(crate) id: DatasetId,
    /// The object under which dnodes are kept.
    pub(crate) object: ObjectId,
    pub(crate) names: NameHash,
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) info: OriginInfo,
    pub(crate) properties: Properties,
    pub(crate) shared: Shared,
    pub(crate) blocks: Blocks,
    pub(crate) root: Arc<Znode>,
    pub(crate) account: Arc<Account>,
    pub(crate) znodes: ZnodeTable,
    pub(crate) flights: Flights,
    pub(crate) silence: Silence,
    pub(crate) watch: Mutex<Option<Arc<dyn Watch>>>,
    pub(crate) noticed: crate::coherence::Noticed,
    pub(crate) holder: RwLock<Option<Box<dyn Holder>>>,
    /// Counts beginnings and ends of changes of any file here.
    pub(crate) changes: AtomicU64,
    /// Bytes that prefetch has under way.
    pub(crate) guessed_bytes: AtomicU64,
    /// The next stamp for sheets: each is given once.
    pub(crate) stamps: AtomicU64,
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dataset").field("name", &self.name).field("id", &self.id).finish_non_exhaustive()
    }
}

impl Dataset {
    /// Opens the origin's root. Asks the origin.
    pub(crate) fn attach(
        name: &str,
        origin: Arc<dyn Origin>,
        properties: Properties,
        shared: Shared,
    ) -> Result<Dataset> {
        properties.check()?;
        let info = origin.info();
        let id = shared.identities.dataset(std::path::Path::new(&info.name))?;
        let stat = origin.root()?;
        let object = shared.objects.next()?;
        let now = milliseconds(&*shared.clock);
        let identity = ObjectIdentity {
            object: shared.objects.next()?,
            record_size: properties.recordsize,
            version: stat.version(),
            checked: now,
            is_young: properties.coherence != Coherence::Exclusive && is_young(&stat, &info),
            has_other_names: false,
        };
        let recorder = Recorder::new(Arc::clone(&shared.clock), Arc::clone(&shared.stats));
        let blocks = Blocks::new(
            Arc::clone(&shared.cache),
            Arc::clone(&shared.flash),
            properties.secondarycache,
            recorder,
        );
        let account = Arc::new(Account { cache: shared.cache.clone(), stats: shared.stats.clone() });
        let root = Znode::new(stat.id, stat.kind, identity, None, &account);
        let znodes = ZnodeTable::new();
        let (root, _) = znodes.find_or_insert(stat.id.ino, stat.id.generation, 1, || root);
        let dataset = Dataset {
            name: name.to_owned(),
            id,
            object,
            names: NameHash::new(id),
            origin,
            info,
            properties,
            shared,
            blocks,
            root,
            account,
            znodes,
            flights: Flights::default(),
            silence: Silence::default(),
            watch: Mutex::new(None),
            noticed: Default::default(),
            holder: RwLock::new(None),
            changes: AtomicU64::new(0),
            guessed_bytes: AtomicU64::new(0),
            stamps: AtomicU64::new(0),
        };
        dataset.keep_dnode(&dataset.root, &stat, dataset.root.sequence());
        Ok(dataset)
    }

    /// The dataset's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dataset's id, the same in every run.
    pub fn id(&self) -> DatasetId {
        self.id
    }

    /// What the origin is like.
    pub fn origin_info(&self) -> &OriginInfo {
        &self.info
    }

    /// The inode number of the root.
    pub fn root_ino(&self) -> u64 {
        self.root.id.ino
    }

    /// The properties.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The threads on which everything that may block belongs.
    pub fn workers(&self) -> &Workers {
        &self.shared.workers
    }

    /// Znodes at present.
    pub fn znodes(&self) -> u64 {
        self.znodes.count()
    }

    /// Says who holds our znodes and has to be told of foreign changes.
    pub fn set_holder(&self, holder: Box<dyn Holder>) {
        let before = self.holder.write().replace(holder);
        drop(before);
    }

    /// Ends what was set up by [`Dataset::set_holder`]: nobody holds anything any more.
    pub fn clear_holder(&self) {
        let before = self.holder.write().take();
        drop(before);
        self.znodes.forget_all(self.root.id.ino).iter().for_each(|node| self.retire(node));
    }

    /// Space and names of the origin. Asks it.
    pub fn stat_fs(&self) -> Result<StatFs> {
        self.origin.stat_fs()
    }

    /// Takes back `count` of the references that look-ups gave. Never blocks.
    pub fn forget(&self, ino: u64, count: u64) {
        if ino == self.root.id.ino {
            return;
        }
        if let Some(node) = self.znodes.forget(ino, count) {
            self.retire(&node);
        }
    }

    // ---- what the rooms share ----

    pub(crate) fn now(&self) -> u64 {
        milliseconds(&*self.shared.clock)
    }

    pub(crate) fn tell_holder(&self, tell: impl FnOnce(&dyn Holder)) {
        if let Some(holder) = &*self.holder.read() {
            tell(&**holder);
        }
    }

    /// The znode of `ino`, or ESTALE: a number that nobody was given.
    pub(crate) fn node(&self, ino: u64) -> Result<Arc<Znode>> {
        self.znodes.find(ino).ok_or_else(|| Error::new("find znode", Cause::Stale))
    }

    /// The same for whoever may wait meanwhile: see [`Visited`].
    pub(crate) fn visit_node(&self, ino: u64) -> Result<Visited<'_>> {
        let node = self.znodes.find_and_hold(ino).ok_or_else(|| Error::new("find znode", Cause::Stale))?;
        Ok(Visited { dataset: self, node })
    }

    /// The same of a file that may have no znode.
    pub(crate) fn visit_file(&self, id: FileId) -> Option<Visited<'_>> {
        self.visit_node(id.ino).ok().filter(|node| node.id == id)
    }

    pub(crate) fn visit_directory(&self, ino: u64) -> Result<Visited<'_>> {
        let node = self.visit_node(ino)?;
        if node.is_directory() { Ok(node) } else { Err(Error::new("find directory", Errno::NOTDIR)) }
    }

    pub(crate) fn directory(&self, ino: u64) -> Result<Arc<Znode>> {
        let node = self.node(ino)?;
        if node.is_directory() { Ok(node) } else { Err(Error::new("find directory", Errno::NOTDIR)) }
    }

    pub(crate) fn writable(&self, operation: &'static str) -> Result<()> {
        if self.properties.readonly { Err(Error::new(operation, Cause::ReadOnly)) } else { Ok(()) }
    }

    /// The znode of a file that was just seen, with `lookups` more references.
    pub(crate) fn intern(
        &self,
        seen: &Stat,
        identity: impl FnOnce() -> ObjectIdentity,
        parent: &Arc<Znode>,
        name: &OsStr,
        lookups: u64,
    ) -> Arc<Znode> {
        let id = seen.id;
        if id == self.root.id {
            return Arc::clone(&self.root);
        }
        let link = || Link { parent: Arc::clone(parent), name: name.into() };
        let (node, inserted) = self.znodes.find_or_insert(id.ino, id.generation, lookups, || {
            Znode::new(id, seen.kind, identity(), Some(link()), &self.account)
        });
        match inserted {
            Inserted::No => node.add_link(parent, name),
            Inserted::New => {}
            Inserted::Replaced(old) => self.retire(&old),
        }
        node
    }

    /// Lets a znode go that left the table. Does not wait for the origin.
    pub(crate) fn retire(&self, node: &Znode) {
        if !node.has_link() {
            self.drop_blocks(node);
        }
        if !node.is_held()
            && let Some(hold) = node.unkeep()
        {
            let let_go = move || {
                drop(hold);
                Ok(())
            };
            self.workers().run(Class::Change, let_go, |_| ());
        }
    }

    /// Drops the blocks of a file that is gone: nobody will ask for them again.
    pub(crate) fn drop_blocks(&self, node: &Znode) {
        let identity = node.identity();
        self.blocks.remove(metadata::dnode_key(self.object, node.id.ino));
        if node.has_data.load(Ordering::Relaxed) {
            let blocks = identity.version.size.div_ceil(u64::from(identity.record_size));
            for index in 0..blocks.min(DROP_MAX) {
                self.blocks.remove(BlockKey::new(identity.object, index));
            }
        }
    }

    /// What is known of a file that was just seen for the first time: from its dnode, from the last
    /// run, or as a new object.
    pub(crate) fn identify(&self, seen: &Stat) -> Result<ObjectIdentity> {
        let key = metadata::dnode_key(self.object, seen.id.ino);
        let known = self.blocks.peek(key).and_then(|pin| Dnode::decode(&pin));
        if let Some(dnode) = known.filter(|dnode| dnode.stat.id == seen.id) {
            return Ok(dnode.identity());
        }
        if is_young(seen, &self.info) {
            // A change after the one that is remembered may hide behind the same timestamps.
            return Ok(self.identity_of(self.shared.objects.next()?, self.properties.recordsize, seen));
        }
        let kept = self.shared.objects.recall(self.id, seen.id)?;
        if let Some(Identity { object, version, record_size }) = kept
            && version == seen.version()
        {
            return Ok(self.identity_of(object, record_size, seen));
        }
        Ok(self.identity_of(self.shared.objects.next()?, self.properties.recordsize, seen))
    }

    pub(crate) fn identity_of(&self, object: ObjectId, record_size: u32, seen: &Stat) -> ObjectIdentity {
        ObjectIdentity {
            object,
            record_size,
            version: seen.version(),
            checked: self.now(),
            is_young: self.properties.coherence != Coherence::Exclusive && is_young(seen, &self.info),
            has_other_names: metadata::has_other_names(seen),
        }
    }

    /// Keeps a file's attributes as its dnode, unless it changed since `sequence` was noted.
    pub(crate) fn keep_dnode(&self, node: &Znode, stat: &Stat, sequence: u64) {
        let identity = node.identity();
        let bytes = Dnode::new(stat, &identity).encode();
        let key = metadata::dnode_key(self.object, node.id.ino);
        self.keep_metadata(node, key, &bytes, sequence);
    }

    /// Keeps a metadata block about `node`, unless the node changed since `sequence` was noted.
    pub(crate) fn keep_metadata(&self, node: &Znode, key: BlockKey, bytes: &[u8], sequence: u64) {
        if !self.properties.primarycache.covers(Kind::Metadata) {
            return;
        }
        let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
        let Ok(mut anon) = self.blocks.admit(key, Kind::Metadata, bytes.len(), how) else {
            return;
        };
        anon.copy_from_slice(bytes);
        let identity = node.identity.lock();
        if sequence.is_multiple_of(2) && node.sequence.load(Ordering::Acquire) == sequence {
            drop(anon.publish());
        }
        drop(identity);
    }

    /// Replaces a metadata block during a change of ours; what cannot be kept is removed.
    pub(crate) fn replace_metadata(&self, key: BlockKey, bytes: &[u8]) {
        let blocks = &self.blocks;
        let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
        let is_kept = self.properties.primarycache.covers(Kind::Metadata);
        match blocks.admit(key, Kind::Metadata, bytes.len(), how) {
            Ok(mut anon) if is_kept => {
                anon.copy_from_slice(bytes);
                drop(anon.publish());
            }
            _ => {
                blocks.remove(key);
            }
        }
    }

    /// Looks a metadata block up, counted as one request.
    pub(crate) fn metadata(&self, key: BlockKey) -> Option<Pin> {
        self.blocks.lookup(key, Kind::Metadata, Asked::Demand)
    }

    /// The dnode of a file when it is there and may be believed; `is_told` when the origin tells of
    /// changes of it.
    pub(crate) fn fresh_dnode(
        &self,
        id: FileId,
        is_told: impl FnOnce(&Dnode) -> bool,
    ) -> Option<(Dnode, Duration)> {
        let pin = self.metadata(metadata::dnode_key(self.object, id.ino))?;
        let dnode = Dnode::decode(&pin).filter(|dnode| dnode.stat.id == id)?;
        let ttl = self.ttl(dnode.checked, is_told(&dnode));
        (!ttl.is_zero()).then_some((dnode, ttl))
    }

    /// How long an answer that was checked at `checked` may still be believed. `is_told` when the
    /// origin tells of changes.
    pub(crate) fn ttl(&self, checked: u64, is_told: bool) -> Duration {
        if !self.properties.primarycache.covers(Kind::Metadata) {
            return Duration::ZERO;
        }
        if is_told {
            return FOREVER;
        }
        let age = Duration::from_millis(self.now().saturating_sub(checked));
        self.properties.attr_timeout.saturating_sub(age)
    }

    /// Notes the identity of a file that has blocks, for the next checkpoint.
    pub(crate) fn remember(&self, node: &Znode, identity: &ObjectIdentity) {
        if !identity.is_young {
            let ObjectIdentity { object, version, record_size, .. } = *identity;
            let identity = Identity { object, version, record_size };
            self.shared.objects.remember(self.id, node.id, identity, self.info.granularity * 2);
        }
    }
}

/// What time it is, never 0: that stands for doubt.
pub(crate) fn milliseconds(clock: &dyn Clock) -> u64 {
    clock.now().as_millis() as u64 + 1
}

/// Blocks of a removed file that are dropped at once; more are left to grow old.
const DROP_MAX: u64 = 65_536;

/// Whether a version is so recent that a further change could hide behind the same timestamps.
pub(crate) fn is_young(stat: &Stat, info: &OriginInfo) -> bool {
    is_younger(&stat.version(), info.granularity * 2)
}

/// Whether a version is younger than that.
pub(crate) fn is_younger(version: &Version, than: Duration) -> bool {
    let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else {
        return true;
    };
    let newest = version.mtime.max(version.ctime);
    let Ok(seconds) = u64::try_from(newest.sec) else {
        return false;
    };
    let changed = Duration::new(seconds, newest.nsec.min(999_999_999));
    // A timestamp of the future (another machine's clock) says nothing of when the change was; only
    // when it is near can it be one that is still being made.
    let distance = now.abs_diff(changed);
    distance <= than
}
