//! What a cache has to do here, and which there are.

use crate::Result;
use crate::cache::drive::Stage;
use crate::cache::floor::{Flat, Lines};
use crate::cache::ours::Arcwell;
use crate::cache::theirs::{Foyer, Lru, Moka, Quick};
use crate::cache::work::{Load, Work};

/// A cache that is measured. Keys are numbers below 2^32.
pub trait Peer: Sync {
    /// Copies the beginning of a value, as much as `out` has room for, if it is there.
    fn copy(&self, key: u32, out: &mut [u8]) -> bool;

    /// Finds a value, holds it and lets it go again, if it is there.
    fn touch(&self, key: u32) -> bool;

    /// Puts a value in. The cache may refuse it.
    fn insert(&self, key: u32, value: &[u8]);

    /// What is in it.
    fn resident(&self) -> Resident;

    /// Copies many values, each over the one before; how many were there.
    fn copy_many(&self, keys: &[u32], out: &mut [u8]) -> u64 {
        keys.iter().map(|key| u64::from(self.copy(*key, out))).sum()
    }

    /// Called between the runs: whoever counts more than values within its limit makes up for it.
    fn settle(&self) {}
}

/// What is in a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resident {
    /// Values.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Which caches there are. The names are those of the reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Name {
    /// Ours
    #[value(name = "arcwell")]
    Arcwell,
    /// The best of the others where threads are many
    #[value(name = "quick_cache")]
    Quick,
    /// W-TinyLFU
    #[value(name = "moka")]
    Moka,
    /// foyer's memory cache by LRU
    #[value(name = "foyer-lru")]
    FoyerLru,
    /// The same by S3-FIFO
    #[value(name = "foyer-s3fifo")]
    FoyerS3Fifo,
    /// The same by SIEVE
    #[value(name = "foyer-sieve")]
    FoyerSieve,
    /// The same by W-TinyLFU
    #[value(name = "foyer-w-tinylfu")]
    FoyerTinyLfu,
    /// A mutex around `lru`
    #[value(name = "lru")]
    Lru,
    /// No cache: what the memory itself costs
    #[value(name = "floor", hide = true)]
    Floor,
}

impl Name {
    /// All that are no floor, in the order of the reports.
    pub const ALL: [Name; 8] = [
        Name::Arcwell,
        Name::Quick,
        Name::Moka,
        Name::FoyerLru,
        Name::FoyerS3Fifo,
        Name::FoyerSieve,
        Name::FoyerTinyLfu,
        Name::Lru,
    ];

    /// Makes this cache, empty, and takes part with it; `lists` is for ours.
    ///
    /// # Errors
    /// Those of `stage`; lists that are unknown.
    pub fn enter(self, lists: &str, load: &Load, stage: Stage<'_>) -> Result<()> {
        match self {
            Name::Arcwell => stage.play(&Arcwell::new(lists, load)?),
            Name::Quick => stage.play(&Quick::new(load)),
            Name::Moka => stage.play(&Moka::new(load)),
            Name::FoyerLru => stage.play(&Foyer::new(foyer_memory::LruConfig::default().into(), load)),
            Name::FoyerS3Fifo => stage.play(&Foyer::new(foyer_memory::S3FifoConfig::default().into(), load)),
            Name::FoyerSieve => stage.play(&Foyer::new(foyer_memory::SieveConfig.into(), load)),
            Name::FoyerTinyLfu => stage.play(&Foyer::new(foyer_memory::LfuConfig::default().into(), load)),
            Name::Lru => stage.play(&Lru::new(load)),
            Name::Floor if load.work == Work::A2 => stage.play(&Lines::new(load)),
            Name::Floor => stage.play(&Flat::new(load)?),
        }
    }
}
