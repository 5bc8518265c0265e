//! The production policy: the cache of the daemon itself, with blocks that have no bytes.
//!
//! Nothing is modelled here. A request is a look-up by demand and, on a miss, an admission, as a reader
//! of a mount does it; the other acts of a recording are the calls that they were. Where it differs from
//! the policies of the literature is where the cache does: a block larger than half of the capacity is
//! never admitted.

use arcwell_arc::{self as arc, Admit, ArcTunables, Asked, Cache, Config, Keep, Overhead};
use arcwell_base::table::Tunables;
use arcwell_base::{BlockKey, ObjectId};

use super::{Broken, Policy, Setup, ensure};
use crate::trace::{Access, Act, Recorded, Trace, Unit};

/// How a reader's block comes in.
const DEMAND: Admit = Admit { asked: Asked::Demand, keep: Keep::Cached };

/// Bytes of a recorded cache at most: a recording may say anything, and sums must not overflow.
const MOST: u64 = 1 << 60;

/// The cache, and what it does not tell of blocks without bytes.
pub(super) struct Arcwell {
    cache: Cache,
    /// The size that each block was last admitted with; empty where all are 1.
    sizes: Vec<u32>,
}

impl Arcwell {
    /// With one of the values of `arc.policy`.
    pub(super) fn new(setup: &Setup, trace: &Trace, policy: arc::Policy) -> Self {
        let typical_block = match setup.unit {
            Unit::Blocks => 1,
            Unit::Bytes => trace.requested_bytes() / trace.requests().max(1),
        };
        let Setup { capacity, lists, overhead, .. } = *setup;
        let config = Config { policy, lists, typical_block, overhead, ..Config::new(capacity) };
        let cache = Cache::new(config);
        if let Some(percent) = setup.move_threshold {
            cache.tunables().store("arc.move_threshold", percent);
        }
        Arcwell { cache, sizes: sizes(setup.unit, trace) }
    }

    /// The daemon's own cache, with its settings at the start of the recording and all of the memory
    /// that was ever charged to it. A setting that this version does not know is left at its default.
    pub(super) fn recorded(recorded: &Recorded, trace: &Trace) -> Self {
        let settings = ArcSettings(recorded);
        let size_max = settings.get("arc.size_max").min(MOST);
        let mut config = Config { overhead: Overhead::Counted, ..Config::new(size_max) };
        for row in ArcTunables::ROWS {
            config.set(row.name, settings.get(row.name));
        }
        let cache = Cache::new(config);
        for row in cache.tunables().rows() {
            cache.tunables().store(row.name, settings.get(row.name));
        }
        cache.set_size_max(size_max);
        cache.charge(recorded.charged.min(size_max));
        Arcwell { cache, sizes: sizes(Unit::Bytes, trace) }
    }

    /// Puts a block in, or what is new of it; one that does not fit is not there any more.
    fn admit(&mut self, access: Access, how: Admit) {
        let Access { block, size, kind, .. } = access;
        match self.cache.admit_phantom(key(block), kind, size as usize, how) {
            Ok(anon) => drop(anon.publish()),
            Err(_) => drop(self.cache.remove(key(block))),
        }
        if let Some(known) = self.sizes.get_mut(block as usize) {
            *known = size;
        }
    }
}

impl Policy for Arcwell {
    fn request(&mut self, access: Access) -> bool {
        let is_hit = self.cache.lookup(key(access.block), access.kind, Asked::Demand).is_some();
        let has_changed = self.sizes.get(access.block as usize).is_some_and(|&size| size != access.size);
        if !is_hit || has_changed {
            self.admit(access, DEMAND);
        }
        is_hit
    }

    fn note(&mut self, access: Access) {
        match access.act {
            Act::Read => drop(self.request(access)),
            Act::Probe => drop(self.cache.lookup(key(access.block), access.kind, Asked::Prefetch)),
            Act::Admit { is_guess, stays } => {
                let asked = if is_guess { Asked::Prefetch } else { Asked::Demand };
                let keep = if stays { Keep::Cached } else { Keep::Uncached };
                self.admit(access, Admit { asked, keep });
            }
            Act::Remove => drop(self.cache.remove(key(access.block))),
        }
    }

    fn validate(&self) -> Result<(), Broken> {
        self.cache.validate().map_err(Broken::violation)?;
        self.cache.refresh_gauges();
        let stats = self.cache.stats();
        ensure(stats.size.value() <= stats.c.value(), "nobody holds a block, so the capacity holds")
    }
}

/// The sizes to remember: none yet, or none at all.
fn sizes(unit: Unit, trace: &Trace) -> Vec<u32> {
    match unit {
        Unit::Bytes if trace.has_sizes() => vec![0; trace.unique() as usize],
        Unit::Bytes | Unit::Blocks => Vec::new(),
    }
}

/// The key of a block: its number, as equal blocks of a trace are equal numbers whatever their kind.
fn key(block: u32) -> BlockKey {
    BlockKey::new(ObjectId(1), block.into())
}

/// The cache's tunables as a recording tells them.
struct ArcSettings<'a>(&'a Recorded);

impl ArcSettings<'_> {
    /// The value of a tunable; its default where the recording has none, or none that is allowed.
    fn get(&self, name: &str) -> u64 {
        let row = ArcTunables::ROWS.iter().find(|row| row.name == name);
        let row = row.expect("a tunable of the cache");
        let told = self.0.settings.get(name).copied();
        told.filter(|value| (row.min..=row.max).contains(value)).unwrap_or(row.default)
    }
}
