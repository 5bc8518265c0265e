//! The engine, as the cache and its pins share it: the rooms, the limit, the sums, tunables and statistics.

use std::io;

use arcwell_base::table::Tunables;

use crate::arena::Arena;
use crate::config::{Config, ListKind};
use crate::duel::Allowed;
use crate::footprint::Overhead;
use crate::headers::Headers;
use crate::noted::{Event, Noted};
use crate::partition::Partition;
use crate::policy::{Sizes, Tick};
use crate::stat::ArcStats;
use crate::sync::Mutex;
use crate::sync::plain::{AtomicBool, AtomicU64, Ordering};
use crate::table::Table;
use crate::tunable::ArcTunables;
use crossbeam_utils::CachePadded;

/// How far admissions may go over the target when nothing can be evicted, at most: 1/128 of it or
/// 16 MiB, but for small caches half of it.
const OVERSHOOT_DIVISOR: u64 = 128;
const OVERSHOOT_FLOOR: u64 = 16 << 20;

/// With pages, when the size is over the target it is brought under it by one part in so many, but by no more than
/// so many bytes: then the next admissions find room, and what eviction has to find out it finds out once for all
/// of them. Where that is less than a block, each makes room for itself. Larger parts cost hits where a loop is
/// about as long as the cache (one in 4096: a point in one cell of 43).
const SLACK_DIVISOR: u64 = 32_768;
const SLACK_MAX: u64 = 256 << 10;

/// While one thread evicts, others may exceed the target by one part in so many, but by no more than so many bytes.
const LEEWAY_DIVISOR: u64 = 1024;
const LEEWAY_MAX: u64 = 8 << 20;

/// From this size of the cache on, table and headers are in huge pages: they waste two of them at most.
const HUGE_FROM: u64 = 256 << 20;

/// Ticks in the time in which as much comes in as the cache can hold, about: enough to tell blocks
/// apart, and so few that 2^31 of them are tens of thousands of such times.
const TICKS: u64 = 1 << 16;

/// The shadows of the two rules may take one part in so many of the target.
const SHADOWS_DIVISOR: u64 = 32;

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
    /// Held by who makes room for all. Never waited for.
    pub(crate) evicting: Mutex<()>,
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
    /// Whether anything of mru or mfu was ever evicted.
    pub(crate) is_warm: AtomicBool,
    /// Memory held elsewhere.
    pub(crate) other: AtomicU64,
    /// Bytes ever admitted: the cache's clock.
    admitted: CachePadded<AtomicU64>,
    /// What the clock said when notes were settled.
    settled: AtomicU64,
    /// A tick is this power of two of admitted bytes.
    tick_shift: u32,
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
        // For ghosts as well.
        let (table, headers) = (Table::reserve(2 * u64::from(blocks))?, Headers::reserve(blocks)?);
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
            evicting: Mutex::named("arc.evicting"),
            keeps_used: config.lists == ListKind::Pages,
            owners: AtomicU64::new(0),
            keepers: AtomicU64::new(0),
            wish: AtomicU64::new(config.size_max),
            ceiling: AtomicU64::new(config.size_max),
            is_held_down: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_warm: AtomicBool::new(false),
            other: AtomicU64::new(0),
            admitted: CachePadded::default(),
            settled: AtomicU64::new(0),
            tick_shift: (config.size_max / TICKS).max(1).ilog2(),
            dice: AtomicU64::new(config.seed),
            rise: AtomicU64::new(0),
        })
    }

    /// Blocks in memory.
    pub(crate) fn blocks(&self) -> u64 {
        // What ends was published: the other way round, one that ends between would be missing.
        let ended = self.noted.times(Event::Ended);
        self.noted.times(Event::Published).wrapping_sub(ended)
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

    /// Whether it is time to settle notes: each time that so much has come in as eviction makes room for at once.
    pub(crate) fn owes_notes(&self) -> bool {
        let (now, slack) = (self.admitted.load(Ordering::Relaxed), self.slack());
        let is_due = now.wrapping_sub(self.settled.load(Ordering::Relaxed)) >= slack;
        if is_due {
            self.settled.store(now, Ordering::Relaxed);
        }
        is_due
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

    /// What the policy judges by.
    pub(crate) fn sizes(&self) -> Sizes {
        self.partition.sizes(self.room())
    }

    /// How far eviction goes below the target once it has begun.
    pub(crate) fn slack(&self) -> u64 {
        if self.keeps_used { (self.target() / SLACK_DIVISOR).min(SLACK_MAX) } else { 0 }
    }

    /// How far the size may be over the target while another thread evicts: far below what an admission is
    /// refused for.
    pub(crate) fn leeway(&self) -> u64 {
        (self.target() / LEEWAY_DIVISOR).min(LEEWAY_MAX)
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
