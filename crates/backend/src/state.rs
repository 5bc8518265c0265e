//! The state directory of a pool: what has to survive the process.
//!
//! It holds a lock (one instance at a time), `pool.toml` (which format and which pool this is) and
//! `identities.redb` (see [`arcwell_base::identity`]). It is nobody else's business: mode 0700. A
//! directory that holds other things is refused, so that a slip of the hand does not turn somebody's
//! home into a state directory.

mod durable;
mod lock;
mod memory;

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use arcwell_base::error::{Cause, Error, Result};
use arcwell_base::identity::{DatasetId, Identity, IdentityStore};
use arcwell_base::origin::FileId;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

use self::durable::Identities;
use self::lock::Lock;
pub use self::memory::MemoryIdentities;

/// The format of everything in the directory. Another number is refused.
const FORMAT: u32 = 1;
const POOL_FILE: &str = "pool.toml";
const IDENTITIES_FILE: &str = "identities.redb";

/// Which pool it is: a random (version 4) UUID, given when its state directory is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(pub u128);

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A pool's id and a dataset's are written alike.
        write!(f, "{:?}", DatasetId(self.0))
    }
}

impl fmt::Debug for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for PoolId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> std::result::Result<PoolId, Self::Err> {
        u128::from_str_radix(&text.replace('-', ""), 16).map(PoolId)
    }
}

/// `pool.toml`.
#[derive(Debug, Serialize, Deserialize)]
struct PoolFile {
    format: u32,
    name: String,
    pool: String,
}

/// The open, locked state directory of a pool. It is its [`IdentityStore`], too.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    name: String,
    id: PoolId,
    identities: Identities,
    /// Released last, when everything else is closed.
    _lock: Lock,
}

impl StateDir {
    /// Opens the state directory of the pool called `name`, making it when it is new. With
    /// `expect`, it must be the one of that very pool.
    ///
    /// # Errors
    /// When another instance uses it; when it belongs to another pool or format, holds other things,
    /// or is damaged. Each says which.
    pub fn open(path: &Path, name: &str, expect: Option<PoolId>) -> Result<StateDir> {
        prepare(path)?;
        let lock = Lock::take(path)?;
        let found = match read_pool(path)? {
            Some(found) => found,
            None => make_pool(path, name)?,
        };
        let id = belongs(path, &found, name, expect)?;
        let identities = Identities::open(&path.join(IDENTITIES_FILE), id)?;
        Ok(StateDir { path: path.to_owned(), name: found.name, id, identities, _lock: lock })
    }

    /// Which pool this is.
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// What the pool is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a pool's state lies when nobody says otherwise: `/var/lib/arcwell/<pool>` for root, else
    /// below `$XDG_STATE_HOME` or `~/.local/state`.
    ///
    /// # Errors
    /// When there is no home to put it in.
    pub fn default_path(pool: &str) -> Result<PathBuf> {
        let root = rustix::process::geteuid().is_root();
        let env = |name: &str| std::env::var_os(name).map(PathBuf::from);
        default_path(pool, root, env("XDG_STATE_HOME"), env("HOME"))
    }
}

impl IdentityStore for StateDir {
    fn reserve_objects(&self, count: u64) -> Result<Range<u64>> {
        self.identities.reserve_objects(count)
    }

    fn dataset(&self, origin: &Path) -> Result<DatasetId> {
        self.identities.dataset(origin)
    }

    fn load(&self, dataset: DatasetId, file: FileId) -> Result<Option<Identity>> {
        self.identities.load(dataset, file)
    }

    fn save(&self, dataset: DatasetId, files: &[(FileId, Identity)]) -> Result<()> {
        self.identities.save(dataset, files)
    }

    fn forget(&self, dataset: DatasetId, files: &[FileId]) -> Result<()> {
        self.identities.forget(dataset, files)
    }

    fn trusted_devices(&self) -> Result<Vec<u128>> {
        self.identities.trusted_devices()
    }

    fn trust_devices(&self, devices: &[u128]) -> Result<()> {
        self.identities.trust_devices(devices)
    }
}

/// A random (version 4) UUID.
fn random_uuid() -> Result<u128> {
    let mut bytes = [0; 16];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty());
    match filled {
        Ok(16) => {}
        Ok(_) => return Err(Error::invalid("draw a random id", "the system gave too few random bytes")),
        Err(errno) => return Err(Error::new("draw a random id", errno)),
    }
    let version = 4 << 76;
    let variant = 2 << 62;
    let cleared = !(0xf << 76 | 3 << 62);
    Ok(u128::from_be_bytes(bytes) & cleared | version | variant)
}

fn default_path(pool: &str, root: bool, state: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf> {
    if pool.is_empty() || pool.starts_with('.') || pool.contains('/') {
        let what = format!("'{pool}' cannot name a pool: use letters, digits, '-' and '_'");
        return Err(Error::invalid("choose a state directory", what));
    }
    let absolute = |path: &PathBuf| path.is_absolute();
    let base = match (root, state.filter(absolute), home.filter(absolute)) {
        (true, _, _) => PathBuf::from("/var/lib"),
        (false, Some(state), _) => state,
        (false, None, Some(home)) => home.join(".local/state"),
        (false, None, None) => {
            let what = "neither XDG_STATE_HOME nor HOME says where; give --state DIR";
            return Err(Error::invalid("choose a state directory", what));
        }
    };
    Ok(base.join("arcwell").join(pool))
}

/// Sees to it that the directory is there, is ours, and is closed to others.
fn prepare(path: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Error::new("prepare state directory", error).about(path);
    if !path.try_exists().map_err(failed)? {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        return Ok(());
    }
    let mut others = false;
    let mut ours = false;
    for entry in path.read_dir().map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        match name.to_str() {
            Some(POOL_FILE) => ours = true,
            Some(name) if name == lock::FILE || name.starts_with(POOL_FILE) => {}
            _ => others = true,
        }
    }
    if others && !ours {
        let what = "it holds other files and is not a state directory; name an empty or a new one";
        return Err(Error::invalid("prepare state directory", what).about(path));
    }
    let found = path.metadata().map_err(failed)?;
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

fn read_pool(dir: &Path) -> Result<Option<PoolFile>> {
    let path = dir.join(POOL_FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::new("read", error).about(path)),
    };
    // The parser's own text shows the place in several lines; here one has to do.
    let found = toml::from_str(&text)
        .map_err(|error| Error::invalid("read", format!("it is damaged: {}", error.message())).about(path))?;
    Ok(Some(found))
}

/// Writes `pool.toml` of a new pool: whole and durable, or not at all.
fn make_pool(dir: &Path, name: &str) -> Result<PoolFile> {
    let made = PoolFile { format: FORMAT, name: name.to_owned(), pool: PoolId(random_uuid()?).to_string() };
    let path = dir.join(POOL_FILE);
    let text = toml::to_string(&made)
        .map_err(|error| Error::new("write", Cause::Other(Box::new(error))).about(&*path))?;
    write_durably(dir, &path, text.as_bytes()).map_err(|error| Error::new("write", error).about(path))?;
    Ok(made)
}

fn write_durably(dir: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension("toml.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    File::open(dir)?.sync_all()
}

/// Makes sure that the directory is of our format and of the pool that is meant.
fn belongs(dir: &Path, found: &PoolFile, name: &str, expect: Option<PoolId>) -> Result<PoolId> {
    let refuse = |what: String| Err(Error::invalid("open state directory", what).about(dir));
    if found.format != FORMAT {
        return refuse(format!("it has format {}, and this program knows format {FORMAT}", found.format));
    }
    let Ok(id) = found.pool.parse::<PoolId>() else {
        return refuse(format!("its pool id '{}' is none; {POOL_FILE} is damaged", found.pool));
    };
    if found.name != name {
        return refuse(format!("it belongs to the pool '{}', not to '{name}'", found.name));
    }
    match expect {
        Some(wanted) if wanted != id => refuse(format!("it belongs to the pool {id}, not to {wanted}")),
        _ => Ok(id),
    }
}

#[cfg(test)]
mod tests;
