//! A dataset as a POSIX file system: the mount through FUSE.
//!
//! ```text
//!   kernel ── device ── session (loops) ── filesystem ── dataset          a hit: one thread
//!                │                             └── workers ── dataset     a miss: answered later
//!                └── holder (notices) ◄── pool                            "forget that"
//! ```
//!
//! [`Mounted::new`] makes a mount; `mount` is its life, `attach` the system calls, `mountpoint` what
//! is mounted where. `session` reads requests, `filesystem` says who answers them, and
//! `namespace`, `attribute`, `data`, `directory`, `xattr` do; `handle` numbers what is open, `given` knows what
//! the kernel has already. `wire` is the protocol as bytes.
//!
//! # Why not the loop of the `fuser` crate
//!
//! It hides the room that a listing may take, its listing with attributes cannot name a file whose
//! attributes are not known (the kernel would show number 0, which C libraries skip), its replies
//! take one piece of data (a read over several blocks would be copied together), times before 1970
//! come out wrong by up to a second, 64-bit copies are not passed on, and it may unmount what is not
//! its own. Each could be worked around; together they are the larger part of what it
//! does, and each work-around costs on the path of a hit.
//!
//! # Invariants, as absences
//!
//! - A loop never waits: not for an origin, not for a lock that is held across I/O, not for a queue.
//! - A notice is never sent by a thread that serves requests.
//! - Bytes of the cache are never copied before the kernel copies them.
//! - No request goes unanswered: the duty to answer is a value (`device::Debt`).
//! - The kernel's page cache holds nothing but mapped pages.

mod attach;
mod attribute;
mod data;
mod device;
mod directory;
mod filesystem;
mod given;
mod handle;
mod holder;
mod mount;
mod mountpoint;
mod namespace;
mod privilege;
mod session;
mod wire;
mod xattr;

pub use mount::{MountOptions, Mounted, Unmounted};
pub use mountpoint::{MountEntry, detach_stale, mounted_at, mounts};
