//! Identities on disk: a small `redb` database in the state directory.
//!
//! Every change is one transaction that is durable when its call returns. Object ids are handed out
//! by moving a counter on *before* they are used, so that a crash can lose ids but never give one
//! twice.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use arcwell_base::error::{Cause, Error, Result};
use arcwell_base::identity::{DatasetId, Identity, IdentityStore};
use arcwell_base::key::ObjectId;
use arcwell_base::origin::{FileId, Timestamp, Version};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::{PoolId, random_uuid};

/// Single numbers of the pool.
const NUMBERS: TableDefinition<'_, &str, u128> = TableDefinition::new("numbers");
/// The pool that the database belongs to.
const POOL: &str = "pool";
/// The next object id that was never given out.
const NEXT_OBJECT: &str = "next_object";
/// Dataset ids by origin path.
const DATASETS: TableDefinition<'_, &[u8], u128> = TableDefinition::new("datasets");
/// What is remembered of files, by dataset, inode number and generation.
const IDENTITIES: TableDefinition<'_, (u128, u64, u64), Row> = TableDefinition::new("identities");

/// Devices of level 2 whose contents may be believed.
const DEVICES: TableDefinition<'_, u128, ()> = TableDefinition::new("devices");

/// Object, size, mtime, ctime, record size.
type Row = (u64, u64, (i64, u32), (i64, u32), u32);

/// What the database may keep of itself in memory: its own default is a gigabyte.
const CACHE_BYTES: usize = 8 << 20;

/// The database.
#[derive(Debug)]
pub(super) struct Identities {
    database: Database,
    path: PathBuf,
}

impl Identities {
    /// Opens the database of this pool, making it when it is new.
    pub(super) fn open(path: &Path, pool: PoolId) -> Result<Identities> {
        let failed =
            |error: redb::Error| Error::new("open identities", Cause::Other(Box::new(error))).about(path);
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create(path).map_err(|error| failed(error.into()))?;
        let owner = claim(&database, pool).map_err(failed)?;
        if owner != pool {
            let what = format!("they belong to the pool {owner}, not to {pool}");
            return Err(Error::invalid("open identities", what).about(path));
        }
        Ok(Identities { database, path: path.to_owned() })
    }

    fn tried<T>(&self, operation: &'static str, tried: std::result::Result<T, redb::Error>) -> Result<T> {
        tried.map_err(|error| Error::new(operation, Cause::Other(Box::new(error))).about(&*self.path))
    }

    fn take_objects(&self, count: u64) -> std::result::Result<u128, redb::Error> {
        let change = self.database.begin_write()?;
        let first = {
            let mut numbers = change.open_table(NUMBERS)?;
            let first = numbers.get(NEXT_OBJECT)?.map_or(1, |next| next.value());
            numbers.insert(NEXT_OBJECT, first + u128::from(count))?;
            first
        };
        change.commit()?;
        Ok(first)
    }

    fn find_dataset(&self, origin: &[u8], fresh: u128) -> std::result::Result<u128, redb::Error> {
        let change = self.database.begin_write()?;
        let (id, is_new) = {
            let mut datasets = change.open_table(DATASETS)?;
            let known = datasets.get(origin)?.map(|known| known.value());
            if known.is_none() {
                datasets.insert(origin, fresh)?;
            }
            (known.unwrap_or(fresh), known.is_none())
        };
        if is_new {
            change.commit()?;
        } else {
            change.abort()?;
        }
        Ok(id)
    }

    fn find(&self, key: (u128, u64, u64)) -> std::result::Result<Option<Row>, redb::Error> {
        let view = self.database.begin_read()?;
        let found = view.open_table(IDENTITIES)?.get(key)?;
        Ok(found.map(|row| row.value()))
    }

    fn replace(
        &self,
        rows: impl Iterator<Item = ((u128, u64, u64), Option<Row>)>,
    ) -> std::result::Result<(), redb::Error> {
        let change = self.database.begin_write()?;
        {
            let mut table = change.open_table(IDENTITIES)?;
            for (key, row) in rows {
                match row {
                    Some(row) => drop(table.insert(key, row)?),
                    None => drop(table.remove(key)?),
                }
            }
        }
        change.commit()?;
        Ok(())
    }

    fn devices(&self) -> std::result::Result<Vec<u128>, redb::Error> {
        let view = self.database.begin_read()?;
        let table = view.open_table(DEVICES)?;
        table.iter()?.map(|row| Ok(row?.0.value())).collect()
    }

    fn replace_devices(&self, devices: &[u128]) -> std::result::Result<(), redb::Error> {
        let change = self.database.begin_write()?;
        {
            let mut table = change.open_table(DEVICES)?;
            table.retain(|device, ()| devices.contains(&device))?;
            for device in devices {
                table.insert(device, ())?;
            }
        }
        change.commit()?;
        Ok(())
    }
}

/// Writes the pool into a new database, makes all tables, and says whose it is.
fn claim(database: &Database, pool: PoolId) -> std::result::Result<PoolId, redb::Error> {
    let change = database.begin_write()?;
    let owner = {
        change.open_table(DATASETS)?;
        change.open_table(IDENTITIES)?;
        change.open_table(DEVICES)?;
        let mut numbers = change.open_table(NUMBERS)?;
        let known = numbers.get(POOL)?.map(|known| known.value());
        if known.is_none() {
            numbers.insert(POOL, pool.0)?;
        }
        known.unwrap_or(pool.0)
    };
    change.commit()?;
    Ok(PoolId(owner))
}

impl IdentityStore for Identities {
    fn reserve_objects(&self, count: u64) -> Result<Range<u64>> {
        const OPERATION: &str = "reserve object ids";
        let first = self.tried(OPERATION, self.take_objects(count))?;
        let range = u64::try_from(first).ok().and_then(|first| Some(first..first.checked_add(count)?));
        range.ok_or_else(|| Error::invalid(OPERATION, "all of them are used up").about(&*self.path))
    }

    fn dataset(&self, origin: &Path) -> Result<DatasetId> {
        let fresh = random_uuid()?;
        let found = self.find_dataset(origin.as_os_str().as_bytes(), fresh);
        self.tried("look up dataset", found).map(DatasetId)
    }

    fn load(&self, dataset: DatasetId, file: FileId) -> Result<Option<Identity>> {
        let found = self.tried("load identity", self.find(key(dataset, file)))?;
        Ok(found.map(identity))
    }

    fn save(&self, dataset: DatasetId, files: &[(FileId, Identity)]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let rows = files.iter().map(|&(file, identity)| (key(dataset, file), Some(row(identity))));
        self.tried("save identities", self.replace(rows))
    }

    fn forget(&self, dataset: DatasetId, files: &[FileId]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let rows = files.iter().map(|&file| (key(dataset, file), None));
        self.tried("forget identities", self.replace(rows))
    }

    fn trusted_devices(&self) -> Result<Vec<u128>> {
        self.tried("look up cache devices", self.devices())
    }

    fn trust_devices(&self, devices: &[u128]) -> Result<()> {
        self.tried("remember cache devices", self.replace_devices(devices))
    }
}

fn key(dataset: DatasetId, file: FileId) -> (u128, u64, u64) {
    (dataset.0, file.ino, file.generation)
}

fn row(identity: Identity) -> Row {
    let time = |time: Timestamp| (time.sec, time.nsec);
    let version = identity.version;
    (identity.object.0, version.size, time(version.mtime), time(version.ctime), identity.record_size)
}

fn identity((object, size, mtime, ctime, record_size): Row) -> Identity {
    let time = |(sec, nsec)| Timestamp { sec, nsec };
    let version = Version { size, mtime: time(mtime), ctime: time(ctime) };
    Identity { object: ObjectId(object), version, record_size }
}
