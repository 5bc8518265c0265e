//! Level 1 of Arcwell: the adaptive replacement cache. Memory only: this crate knows no file, no
//! device and starts no thread.
//!
//! # What it does
//!
//! Blocks that were seen once stand in *mru*, blocks that were seen again in *mfu*. What is evicted
//! from either leaves a ghost. A miss on a ghost says that the list it came from was too short, and
//! the targets move by the ghost's bytes: N. Megiddo and D. Modha, "ARC: a self-tuning, low overhead
//! replacement cache", FAST 2003. A scan passes through mru and leaves mfu alone; a working set that
//! outlives its first use moves to mfu; nobody sets a parameter.
//!
//! From ZFS come the departures that a real system needs: blocks of any size, so that everything is
//! counted in bytes; two kinds, data and metadata, apart at the top level and balanced by what their
//! ghosts cost; blocks in use, which cannot be evicted and so are on no list; a limit that moves
//! while the cache runs; and a state for what may pass through but not stay. Not from ZFS come the
//! rules by which targets and ghosts move: those are the paper's, since they measured better.
//!
//! In loops longer than the cache the paper's rule finds nothing. Therefore a second rule stands beside
//! it, and a *duel* on a sample of the keys decides which of the two the cache goes by
//! (`arc.policy=adaptive`, the default; `arc` is the paper alone).
//!
//! A block read ahead of demand is a *guess*. It enters mru without teaching the cache anything, its
//! first use counts as the block's first use, and if it is evicted unused nobody remembers it.
//!
//! # Rooms
//!
//! [`Cache`] is the door; [`Anon`] a block being filled, [`Pin`] a block in use. Behind it, `policy`
//! is arithmetic that touches nothing, `partition` holds the lists, ghosts and shares that the
//! policy speaks of, `duel` the trial of the two rules, `shard` the table of headers, `evict` the way
//! out and `check` the recount.
//!
//! # Who locks what
//!
//! A shard's lock guards its headers; a sublist's its chain; a part's its ghosts. They are taken in
//! this order: shard, then sublist *or* ghosts; the shares' lock stands outside of it, and under it
//! only ghosts are locked. The duel's lock stands alone, and when the rule changes the shares' is taken
//! under it. Nobody holds two locks of a sort. Eviction goes against the order (a list leads it to a
//! header) and therefore holds nothing while it does: it notes what stands at a tail, gives the sublist
//! back, *tries* the shard, and believes only what the header then says.
//!
//! A hit of a sampled key takes the duel's lock; in a large cache that is one key in hundreds. Any hit
//! takes its shard's lock twice, to pin and to release, and the sublist's at the first pin and the last
//! release. It allocates nothing, but for a chunk of list nodes now and then while mfu is longer than it
//! ever was.
//!
//! # Invariants
//!
//! - **A1** A block is found in its shard's table exactly when its state is not anon. A slot in use
//!   has a buffer, a vacated one has none.
//! - **A2** A block that nobody has pinned is on the list of its state and kind; an anon block is on
//!   none. A pinned one is off its list, unless all who hold it only peeked.
//! - **A3** Every pin is given back once, and a pinned block is never evicted nor its slot used
//!   again.
//! - **A4** The bytes and blocks counted for a state, kind or list are those that a recount finds.
//!   What is being filled counts as anon.
//! - **A5** No block is resident and a ghost.
//! - **A6** Only what stands in mru or uncached can be a guess, and what is uncached and no guess is
//!   pinned.
//! - **A7** Targets lie within their bounds, and the ghosts of a kind stand for no more bytes than
//!   the target of the whole, the distant ones for no more than twice that.
//! - **A8** The charge of a block fits into 32 bits.
//!
//! The size may exceed the target only by what is pinned or being filled, and admission refuses to
//! add to that beyond a tolerated overshoot.

mod admit;
#[allow(unsafe_code, reason = "an island: see its opening doc")]
mod arena;
mod block;
mod cache;
mod check;
mod config;
mod duel;
mod evict;
mod footprint;
mod gauge;
mod ghost;
mod header;
mod headers;
mod list;
#[cfg(feature = "model")]
mod models;
mod noted;
mod partition;
#[allow(unsafe_code, reason = "an island: see its opening doc")]
mod pin;
mod policy;
mod shared;
mod slab;
mod stat;
mod sync;
mod table;
mod tunable;

pub use admit::{Admit, Asked, Full, Keep};
pub use cache::Cache;
pub use check::Violation;
pub use config::{Config, ListKind, Policy};
pub use footprint::Overhead;
pub use header::State;
pub use list::End;
pub use pin::{Anon, Pin};
pub use stat::ArcStats;
pub use tunable::ArcTunables;
