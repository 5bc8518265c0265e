//! The engine, as the cache and its pins share it: the rooms, the limit, the sums, tunables and statistics.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arcwell_base::Kind;
use arcwell_base::table::Tunables;

use crate::arena::Arena;
use crate::config::{Config, ListKind};
use crate::duel::Allowed;
use crate::footprint::Overhead;
use crate::header::{Header, State, Word};
use crate::headers::Headers;
use crate::noted::Noted;
use crate::partition::Partition;
use crate::policy::{GhostHit, Past, Rank, Tick};
use crate::stat::ArcStats;
use crate::sync::Mutex;
use crate::table::Table;
use crate::tunable::ArcTunables;

/// How far admissions may go over the target when nothing can be evicted, at most: 1/128 of it or
/// 16 MiB, but for small caches half of it.
const OVERSHOOT_DIVISOR: u64 = 128;
const OVERSHOOT_FLOOR: u64 = 16 << 20;

/// From this size of the cache on, table and headers are in huge pages: they waste two of them at most.
const HUGE_FROM: u64 = 256 << 20;

/// Ticks in the time in which as much comes in as the cache can hold, about: enough to tell blocks
/// apart, and so few that 2^31 of them are tens of thousands of such times.
const TICKS: u64 = 1 << 16;

/// The shadows of the two rules may take one part in so many of the target.
const SHADOWS_DIVISOR: u64 = 32;

/// Where blocks are so small that ghosts take more than one part in so many of the target, there are
/// no distant ones.
const GHOSTS_DIVISOR: u64 = 16;

/// Distant ghosts that are forgotten at once, at most: there may be many when the rule changes.
const DISTANT_BATCH: usize = 8;

/// See the module's doc.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) tunables: ArcTunables,
    pub(crate) stats: ArcStats,
    pub(crate) overhead: Overhead,
    pub(crate) partition: Partition,
    pub(crate) table: Table,
    pub(crate) headers: Headers,
    pub(crate) arena: Arena,
    pub(crate) noted: Noted,
    /// Held by who does what is noted.
    pub(crate) settling: Mutex<()>,
    /// Whether lists keep the blocks that are used.
    pub(crate) keeps_used: bool,
    /// Those who own a share in the engine, and all whom its memory waits for. See [`crate::pin::owner`].
    pub(crate) owners: AtomicU64,
    pub(crate) keepers: AtomicU64,
    /// What the target would be without bounds.
    pub(crate) wish: AtomicU64,
    /// The largest target, as last taken over from the tunable.
    pub(crate) ceiling: AtomicU64,
    /// Whether the target may not grow for now.
    pub(crate) is_held_down: AtomicBool,
    /// Whether the size was left over the target because nothing could be evicted.
    pub(crate) is_over: AtomicBool,
    /// Memory held elsewhere.
    pub(crate) other: AtomicU64,
    /// Bytes ever admitted: the cache's clock.
    admitted: AtomicU64,
    /// A tick is this power of two of admitted bytes.
    tick_shift: u32,
    /// Headers in use.
    pub(crate) blocks: AtomicU64,
    dice: AtomicU64,
    /// Whose turn it is to give a block of mru to mfu. Apart from the dice: taken from one row of turns, the
    /// blocks of some sublists would always rise and those of the others always go.
    rise: AtomicU64,
}

impl Shared {
    /// An empty engine.
    ///
    /// # Errors
    /// The kernel's, for want of address space.
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        let tunables = ArcTunables::default();
        tunables.store("arc.size_max", config.size_max);
        tunables.store("arc.size_min", config.size_min);
        tunables.store("arc.policy", config.policy as u64);
        tunables.store("arc.lists", config.lists as u64);
        tunables.store("arc.sublists", config.sublist_count() as u64);
        tunables.store("arc.page_size", config.page_slots());
        let blocks = config.blocks_max();
        let (table, headers) = (Table::reserve(blocks.into())?, Headers::reserve(blocks)?);
        if config.size_max >= HUGE_FROM && config.overhead == Overhead::Counted {
            table.want_huge();
            headers.want_huge();
        }
        Ok(Shared {
            tunables,
            stats: ArcStats::default(),
            overhead: config.overhead,
            partition: Partition::new(config, blocks)?,
            table,
            headers,
            arena: Arena::new(config.arena_space())?,
            noted: Noted::default(),
            settling: Mutex::named("arc.notes"),
            keeps_used: config.lists == ListKind::Pages,
            owners: AtomicU64::new(0),
            keepers: AtomicU64::new(0),
            wish: AtomicU64::new(config.size_max),
            ceiling: AtomicU64::new(config.size_max),
            is_held_down: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            other: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
            tick_shift: (config.size_max / TICKS).max(1).ilog2(),
            blocks: AtomicU64::new(0),
            dice: AtomicU64::new(config.seed),
            rise: AtomicU64::new(0),
        })
    }

    /// The target of the size: `c`. Bounded here and not where it changes, so that threads that
    /// change it and its bounds at once cannot leave it outside (A7).
    pub(crate) fn target(&self) -> u64 {
        let wish = self.wish.load(Ordering::Relaxed).max(self.tunables.size_min());
        wish.min(self.ceiling.load(Ordering::Relaxed))
    }

    /// The smallest target.
    pub(crate) fn floor(&self) -> u64 {
        self.tunables.size_min().min(self.ceiling.load(Ordering::Relaxed))
    }

    /// What is in memory besides blocks.
    fn fixed(&self) -> u64 {
        let ghosts = self.partition.ghosts.len() * self.overhead.of_ghost();
        let shadows = self.partition.shadows() * self.overhead.of_shadow();
        self.other.load(Ordering::Relaxed) + ghosts + shadows
    }

    /// The moment.
    #[inline]
    pub(crate) fn now(&self) -> Tick {
        Tick((self.admitted.load(Ordering::Relaxed) >> self.tick_shift) as u32)
    }

    /// Moves the clock by bytes that come in.
    pub(crate) fn advance(&self, bytes: u64) {
        self.admitted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All that counts within the limit.
    pub(crate) fn size(&self) -> u64 {
        self.partition.size() + self.fixed()
    }

    /// What the target leaves to blocks.
    pub(crate) fn room(&self) -> u64 {
        self.target().saturating_sub(self.fixed())
    }

    /// What the shadows of the two rules stand for and may take.
    pub(crate) fn allowed_shadows(&self) -> Allowed {
        let entries = match self.overhead.of_shadow() {
            0 => usize::MAX,
            charge => (self.target() / SHADOWS_DIVISOR / charge) as usize,
        };
        Allowed { target: self.room(), entries }
    }

    /// The length of a new block, as headers hold it, and its charge; `None` when they are too large
    /// for that (A8).
    pub(crate) fn charge_of(&self, len: usize) -> Option<(u32, u64)> {
        let narrow = u32::try_from(len).ok()?;
        let charge = self.overhead.of_block(len);
        u32::try_from(charge).ok().map(|_| (narrow, charge))
    }

    /// The size that no admission goes beyond.
    pub(crate) fn brink(&self) -> u64 {
        let target = self.target();
        target.saturating_add((target / OVERSHOOT_DIVISOR).max(OVERSHOOT_FLOOR).min(target / 2))
    }

    /// Lets the target grow by what an admission needs, if it may.
    pub(crate) fn grow(&self, bytes: u64) {
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        let target = self.target();
        let is_wanted = target < ceiling && self.size() + bytes > target;
        if is_wanted && !self.is_held_down.load(Ordering::Relaxed) {
            // From the target, not from the wish: that may lie far below the floor.
            self.wish.fetch_max((target + bytes).min(ceiling), Ordering::Relaxed);
        }
    }

    /// Counts a block that is evicted and leaves its ghost, unless it was a guess that failed.
    pub(crate) fn note_eviction(&self, header: Header<'_>, word: Word, hash: u64) {
        let bytes = self.bytes(header);
        self.stats.evicted.add(1);
        self.stats.evicted_bytes.add(bytes);
        match word.state().and_then(State::rank) {
            _ if word.has(Word::GUESS) => self.stats.prefetch_unused.add(1),
            Some(rank) => {
                let (past, kind, tick) = (rank.into(), word.kind(), header.tick());
                self.partition.ghosts.insert(hash, GhostHit { past, kind, bytes, tick });
            }
            None => {}
        }
    }

    /// Forgets ghosts until their lists are as short as the policy says.
    pub(crate) fn trim_ghosts(&self) {
        let (shares, partition) = (self.partition.shares(), &self.partition);
        for kind in Kind::ALL {
            while let Some(rank) = shares.surplus(kind, &partition.sizes(self.room())) {
                let is_done = match rank {
                    Rank::Mru if shares.remembers_distant() => partition.ghosts.age_oldest(kind),
                    _ => partition.ghosts.drop_oldest(rank.into(), kind),
                };
                if !is_done {
                    break;
                }
            }
        }
        self.trim_distant(DISTANT_BATCH);
    }

    /// Forgets up to `batch` distant ghosts of either kind, if there are too many.
    pub(crate) fn trim_distant(&self, batch: usize) {
        let (shares, partition) = (self.partition.shares(), &self.partition);
        for kind in Kind::ALL {
            for _ in 0..batch {
                // Most of the time there are none.
                if partition.ghosts.distant()[kind.index()] == 0 {
                    break;
                }
                let is_over = shares.has_distant_surplus(kind, &partition.sizes(self.room()));
                let is_dear =
                    partition.ghosts.len() * self.overhead.of_ghost() > self.target() / GHOSTS_DIVISOR;
                if !(is_over || is_dear) || !partition.ghosts.drop_oldest(Past::Distant, kind) {
                    break;
                }
            }
        }
    }

    /// The sublist of mru, out of `count`, that is to give a block to mfu.
    pub(crate) fn rising_sublist(&self, count: usize) -> usize {
        (self.rise.fetch_add(1, Ordering::Relaxed) % count as u64) as usize
    }

    /// The sublist, out of `count`, that is to lose a block.
    pub(crate) fn victim_sublist(&self, count: usize) -> usize {
        /// `arc.victim_list` = roundrobin.
        const ROUND_ROBIN: u64 = 1;
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        if count == 1 {
            return 0;
        }
        if self.tunables.victim_list() == ROUND_ROBIN {
            return (self.dice.fetch_add(1, Ordering::Relaxed) % count as u64) as usize;
        }
        // splitmix64
        let mut mixed = self.dice.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count as u64) as usize
    }
}
