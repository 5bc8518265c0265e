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
//! policy speaks of, `duel` the trial of the two rules. `table` leads from a key to a `header`, one cache
//! line a block, of which `headers` has the row; `arena` is where bytes come from. `block` is what happens to
//! a block, `noted` what hits leave behind for the next admission, `evict` the way out, `remember` what is left of
//! a block, `candidates` what a second level sees, and `check` the recount.
//!
//! # What a hit does
//!
//! It hashes the key, reads one line of the table and one header, raises the count in the header's word by
//! compare-and-swap, and lowers it again in the end. With `arc.lists=pages` that is all that it ever writes
//! to memory that others write to: no lock, no list, no counter. That the block was used is a bit of the
//! same word; the first use since its standing was last looked at, and each use of a sampled key, is noted in
//! a ring of the thread's own, and what follows from it for lists and rules is done by an admission that comes
//! later: in a small cache by the next one, in a large one each time that as much has come in as eviction makes
//! room for at once. A full ring loses notes, not uses: eviction spares a block with the bit once. A build with the
//! feature `linestat` counts what hits write to whose lines, and `tests/lines.rs` holds them to this.
//!
//! With the other two kinds of lists, which are there to be compared with, the first pin takes the block off
//! its list and the last puts it back, under the lock bit of its header and a sublist's lock.
//!
//! # What a miss does
//!
//! The look-up has read the bucket, and so whether there is a ghost: an entry of the table leads to a block or to
//! the ghost that it left, never to both. If there is one, the targets learn from it. A header and bytes come
//! from stacks of the thread's lane. When the size is over the target, eviction takes the page at the tail out of
//! its list, goes a little below the target (`Shared::slack`), turns the entry of each block that goes into that of
//! its ghost, and forgets as many old ghosts. What it has to know for that it sums up once. One thread does this for
//! all; others go on meanwhile, and only help when the size has come too far over the target.
//!
//! # What a second level sees
//!
//! A feed that writes blocks to flash before they are evicted walks through the lists from their tails, by a
//! [`Cursor`] of its own and with no more than a peek at each block ([`Cache::candidates`]). What it knows of a block
//! it marks in the block's header. A block that comes back from there as one that was used often goes to mfu
//! ([`Anon::was_frequent`]). What is evicted though it might have been written is counted, and nothing waits for it.
//!
//! # Who locks what
//!
//! The lock bit of a header's word guards its block's standing: state and place on a list. A bucket of the
//! table has one for those who change it. They are taken in the order header, then bucket, then a part of
//! the ghosts or a list's own lock. What was learned is read without a lock; who changes it has one, and under it
//! a list's at most. The duel's stands alone, and when the rule changes that of what was learned is taken under
//! it; what settles notes and what evicts for all hold locks that are only tried. Nobody holds two locks of a sort
//! but who resizes the table. Eviction goes against the order (a list leads it to a header): it only *tries* the
//! header, and believes only what that then says.
//!
//! # Memory that is let go of
//!
//! Headers, buckets and pages of slots are rows in reserved address space: a number stays good for as long as
//! the engine lives, and who comes late finds another block's header, never something else. A header's word
//! counts the blocks that used it, so that a compare-and-swap from an old word fails. Bytes go back to the
//! arena when nobody can find the block and nobody holds it; the engine goes when its last owner and the last
//! pin have gone (`pin`).
//!
//! # Invariants
//!
//! - **A1** A block is found in the table exactly when its state is not anon.
//! - **A2** A block that nobody has pinned is on the list of its state and kind; an anon block is on
//!   none. A pinned one is on its list with pages, and else off it, unless all who hold it only peeked.
//! - **A3** Every pin is given back once, and a pinned block is never evicted nor its header used
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
mod candidates;
mod check;
mod config;
mod duel;
mod evict;
mod footprint;
mod gauge;
mod ghost;
mod header;
mod headers;
pub mod linestat;
mod list;
#[cfg(feature = "model")]
mod models;
mod noted;
mod partition;
#[allow(unsafe_code, reason = "an island: see its opening doc")]
mod pin;
mod policy;
mod remember;
mod shared;
mod slab;
mod stack;
mod stat;
mod sync;
mod table;
mod tunable;

pub use admit::{Admit, Asked, Full, Keep};
pub use cache::Cache;
pub use candidates::{Candidate, Cursor, Walked};
pub use check::Violation;
pub use config::{Config, ListKind, Policy};
pub use footprint::Overhead;
pub use header::State;
pub use list::End;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub use list::door;
pub use pin::{Anon, Pin};
pub use stat::ArcStats;
pub use tunable::ArcTunables;
