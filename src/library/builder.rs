//! Settings of a [`Cache`], checked before one is made.

use arcwell_arc::{ArcTunables, Config, ListKind, Policy};
use arcwell_base::table::BadSetting;
use arcwell_base::{ByteSize, Error, Result};

use super::Cache;

/// The largest cache: what a process can address on the usual 64-bit machines.
const SIZE_LIMIT: u64 = 1 << 47;

/// Settings of a [`Cache`]; made by [`Cache::builder`].
///
/// All sizes are in bytes. Only [`size_max`](CacheBuilder::size_max) has to be given.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is made before build()"]
pub struct CacheBuilder {
    size_max: Option<u64>,
    size_min: Option<u64>,
    policy: Option<Policy>,
    lists: Option<ListKind>,
    typical_block: Option<u64>,
    tunables: Vec<(String, String)>,
}

impl CacheBuilder {
    /// The most memory to take, bytes: blocks, and all that is remembered of them and of evicted
    /// ones. From 1 MiB to 128 TiB. A block may be as large as half of it.
    pub fn size_max(mut self, bytes: u64) -> Self {
        self.size_max = Some(bytes);
        self
    }

    /// The least that [`Cache::shrink`] leaves, bytes; not more than `size_max`. By default one part
    /// in 32 of that.
    pub fn size_min(mut self, bytes: u64) -> Self {
        self.size_min = Some(bytes);
        self
    }

    /// By what is decided which blocks stay. The default is [`Policy::Adaptive`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The kind of lists that blocks stand on: how exact their order is against how rarely threads
    /// meet. The default is what measured best.
    pub fn lists(mut self, lists: ListKind) -> Self {
        self.lists = Some(lists);
        self
    }

    /// Bytes of a typical block: the page size of a database. Blocks may have any size; this one says
    /// how many to expect. By default 32 KiB.
    pub fn typical_block(mut self, bytes: u64) -> Self {
        self.typical_block = Some(bytes);
        self
    }

    /// Any other tunable of the engine, by the name and with a value that `arcwell set` knows:
    /// `("arc.move_threshold", "20")`, `("arc.page_size", "128")`. Of several values the last one holds; one that has a
    /// setter of its own here is overridden by it.
    pub fn tunable(mut self, name: &str, value: &str) -> Self {
        self.tunables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes the cache. It starts no thread and opens no file; memory is taken as it fills.
    ///
    /// # Errors
    /// [`Cause::Invalid`](arcwell_base::Cause::Invalid), which names the setting, what it is and what
    /// would be right: no `size_max`, a value outside the range that its setter names, or a tunable that does not
    /// exist. The kernel's ENOMEM, when the process may not reserve enough address space (`ulimit -v`).
    pub fn build(self) -> Result<Cache> {
        let mut config = self.config()?;
        let live: Vec<(&str, u64)> =
            self.tunables()?.into_iter().filter(|(name, value)| !config.set(name, *value)).collect();
        // A setter of its own goes first.
        config.policy = self.policy.unwrap_or(config.policy);
        config.lists = self.lists.unwrap_or(config.lists);
        Cache::from_config(&config, &live)
    }

    /// The tunables that were given, read.
    fn tunables(&self) -> Result<Vec<(&str, u64)>> {
        let read = |(name, text): &(String, String)| {
            let row = ArcTunables::ROWS.iter().find(|row| row.name == name && !name.starts_with("arc.size_"));
            row.ok_or_else(|| BadSetting::unknown(name)).and_then(|row| Ok((row.name, row.parse(text)?)))
        };
        self.tunables.iter().map(|given| read(given).map_err(|bad| refuse(bad.to_string()))).collect()
    }

    fn config(&self) -> Result<Config> {
        let size_max = self.size_max.ok_or_else(|| refuse("size_max is not set".to_owned()))?;
        check_size_max(size_max)?;
        let mut config = Config::new(size_max);
        if let Some(bytes) = self.size_min {
            check("size_min", bytes, 0..=size_max)?;
            config.size_min = bytes;
        }
        if let Some(bytes) = self.typical_block {
            check("typical_block", bytes, 1..=size_max / 2)?;
            config.typical_block = bytes;
        }
        Ok(config)
    }
}

/// Whether a cache may be so large.
pub(super) fn check_size_max(bytes: u64) -> Result<()> {
    let row = ArcTunables::ROWS.iter().find(|row| row.name == "arc.size_max");
    check("size_max", bytes, row.map_or(1, |row| row.min)..=SIZE_LIMIT)
}

fn check(name: &str, bytes: u64, allowed: std::ops::RangeInclusive<u64>) -> Result<()> {
    if allowed.contains(&bytes) {
        return Ok(());
    }
    let [given, least, most] = [bytes, *allowed.start(), *allowed.end()].map(ByteSize);
    Err(refuse(format!("{name} is {given}, expected {least} to {most}")))
}

fn refuse(what: String) -> Error {
    Error::invalid("configure a cache", what)
}
