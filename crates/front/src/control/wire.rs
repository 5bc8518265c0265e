//! What goes over the control socket: the JSON bodies, both ways.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use arcwell_base::table::Setting;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Every statistic at one moment. On the wire and in `arcwell stat --json` it is one flat object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// Seconds since 1970.
    pub time: f64,
    /// Values by full name, such as `arc.hits`.
    #[serde(flatten)]
    pub kstats: BTreeMap<String, u64>,
}

/// What a daemon serves and how it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it started, seconds since 1970.
    pub since: u64,
    /// How long it has run, seconds.
    pub uptime: u64,
    /// The cache that its datasets share.
    pub cache: CacheStatus,
    /// What it serves.
    pub datasets: Vec<DatasetStatus>,
    /// Its cache devices.
    #[serde(default)]
    pub devices: Vec<DeviceStatus>,
    /// Work that is not finished, by statistic; empty when there is none.
    pub pending: BTreeMap<String, u64>,
}

/// The cache of a daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheStatus {
    /// Bytes that it holds.
    pub size: u64,
    /// Bytes that it aims at.
    pub target: u64,
    /// Bytes that it never exceeds.
    pub limit: u64,
    /// Why the limit is what it is.
    pub reason: String,
    /// Where its state is kept.
    pub state: WirePath,
}

/// One dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetStatus {
    /// Its name.
    pub name: String,
    /// Where programs see it.
    pub mountpoint: WirePath,
    /// Where the truth lies.
    pub origin: String,
    /// The origin's kind of file system.
    pub filesystem: String,
    /// Whether the origin answers.
    pub health: Health,
    /// Its properties, as people write them.
    pub properties: BTreeMap<String, String>,
}

/// One cache device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Its path.
    pub path: WirePath,
    /// How it does.
    pub condition: DeviceCondition,
    /// Bytes that blocks may take on it.
    pub size: u64,
    /// Bytes of the blocks that it holds.
    pub used: u64,
    /// Blocks that it holds.
    pub blocks: u64,
    /// Blocks that were read from it since it was added.
    pub hits: u64,
    /// Reads and writes of it that failed, and blocks that were not what was written.
    pub errors: u64,
    /// Whether the machine's page cache lies in between, since the file system does not let it be left out.
    pub is_buffered: bool,
    /// Of how many parts how many are known again, until all are.
    pub rebuild: Option<(u32, u32)>,
}

/// How a cache device does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum DeviceCondition {
    /// Well.
    Online,
    /// It fails now and then, or can only be read.
    Degraded,
    /// It is of no use any more.
    Faulted,
    /// It was asked for and could not be had.
    Absent {
        /// Why.
        why: String,
    },
}

/// The body of `POST /cache`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddRequest {
    /// The absolute path of a file or block device.
    pub path: WirePath,
    /// Bytes of a file that is to be made.
    #[serde(default)]
    pub size: Option<u64>,
    /// Whether what is not ours is overwritten.
    #[serde(default)]
    pub force: bool,
}

/// The body of `POST /cache/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveRequest {
    /// The path by which the device was added.
    pub path: WirePath,
}

/// Whether an origin answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Health {
    /// It does.
    Online,
    /// It does not: cached blocks are served, the rest fails.
    Degraded {
        /// What it answered instead.
        why: String,
    },
}

/// One tunable, with all that its row says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunable {
    /// Full name, such as `arc.size_max`.
    pub name: String,
    /// Its value as people read it.
    pub value: String,
    /// Its value as it is held: bytes, milliseconds, a place among words.
    pub raw: u64,
    /// The value when nobody sets it.
    pub default: String,
    /// What is allowed.
    pub range: String,
    /// Whether it can be set while running.
    pub live: bool,
    /// What it does.
    pub doc: String,
}

impl From<&Setting> for Tunable {
    fn from(setting: &Setting) -> Self {
        let row = setting.row;
        Tunable {
            name: row.name.to_owned(),
            value: row.form.print(setting.value),
            raw: setting.value,
            default: row.form.print(row.default),
            range: super::plane::range(row),
            live: row.live,
            doc: row.doc.to_owned(),
        }
    }
}

/// The body of `PUT /tunables/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewValue {
    /// The value as people write it.
    pub value: String,
}

/// The body of `POST /prime`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrimeRequest {
    /// What to load: absolute paths under a mountpoint.
    pub paths: Vec<WirePath>,
}

/// How far a prime is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrimeProgress {
    /// Files that are loaded.
    pub files_done: u64,
    /// Files that were found so far.
    pub files_total: u64,
    /// Bytes that are loaded.
    pub bytes_done: u64,
    /// Bytes that were found so far.
    pub bytes_total: u64,
    /// What is being loaded.
    pub path: WirePath,
}

/// One line of the answer to `POST /prime`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrimeEvent {
    /// It goes on.
    Progress(PrimeProgress),
    /// It is finished; always the last line.
    Done(PrimeProgress),
    /// It failed; always the last line.
    Failed(Refusal),
}

/// The body of `POST /trace`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// The dataset's name.
    pub dataset: String,
    /// Whether names of files are recorded as they are.
    #[serde(default)]
    pub names: bool,
}

/// The answer to `GET /cached`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cached {
    /// Files at and below the path.
    pub files: u64,
    /// Their blocks.
    pub blocks: u64,
    /// Blocks that are held.
    pub blocks_cached: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that are held.
    pub bytes_cached: u64,
    /// A row for each file, up to a limit; the sums are of all.
    pub rows: Vec<CachedRow>,
}

/// One line of [`Cached`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedRow {
    /// Relative to the mountpoint.
    pub path: WirePath,
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes that are held.
    pub bytes_cached: u64,
}

/// The body of `POST /umount`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnmountRequest {
    /// Unmount even while files are open: programs that use them get errors.
    #[serde(default)]
    pub force: bool,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// One line for a person.
    pub error: String,
}

/// A path in JSON: a string, or (since Linux allows any bytes) an array of bytes when it is not
/// valid UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WirePath(pub PathBuf);

impl From<&Path> for WirePath {
    fn from(path: &Path) -> Self {
        WirePath(path.to_owned())
    }
}

impl Serialize for WirePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_seq(self.0.as_os_str().as_bytes()),
        }
    }
}

impl<'de> Deserialize<'de> for WirePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(WirePath(match Written::deserialize(deserializer)? {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_survives() {
        for bytes in [&b"/mnt/a b"[..], "/mnt/\u{e4}".as_bytes(), b"/mnt/\xff\x01"] {
            let path = WirePath(OsString::from_vec(bytes.to_vec()).into());
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<WirePath>(&json).unwrap(), path, "{json}");
        }
    }

    #[test]
    fn statistics_are_one_flat_object() {
        let stat = Stat { time: 1.5, kstats: [("arc.hits".to_owned(), 7)].into() };
        let json = serde_json::to_string(&stat).unwrap();
        assert_eq!(json, r#"{"time":1.5,"arc.hits":7}"#);
        assert_eq!(serde_json::from_str::<Stat>(&json).unwrap(), stat);
    }
}
