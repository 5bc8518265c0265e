//! Level 2 of Arcwell: blocks that memory has no room for, on flash. This crate works on devices that it is
//! handed (`dyn Vdev`), does no other I/O and starts no thread.
//!
//! # What it does
//!
//! A *feed* copies blocks that level 1 is about to evict to a device, a *segment* at a time, all round the
//! device like the hand of a clock. An *index* in memory tells where each block lies. What the hand overwrites
//! is forgotten. When level 1 misses, the index is asked; what is read is believed only when its checksum
//! agrees. Nothing here is the truth: whatever is lost, damaged or in doubt is a miss, and costs time.
//!
//! # Rooms
//!
//! `layout` is what lies on a device: superblock and tables, encoded and decoded, without I/O. `checksum` is
//! what makes bytes believable. `index` is the memory: key to place, 16 bytes a block.
//!
//! [`Level2`] is the door. `device` is one cache device: whose it is, its ring of segments and the hand that goes round
//! it, what waits to be written, how well it does. `read` reads batches of blocks; `feed` says which blocks are copied,
//! how many and when; `rebuild` knows a device again after a restart.
//!
//! # On flash
//!
//! Two copies of a superblock, at 0 and at 32 KiB, say whose device it is and how it is divided. From 1 MiB on
//! lie segments of equal length. Blocks lie from a segment's start on, its table at its end: key, checksum, place
//! and length of each, and which keys were forgotten. So a whole device is known again from its tables,
//! without reading a block. Everything is little-endian.
//!
//! # Who locks what
//!
//! A shard of the index has a lock ("l2.index"), and under it the arena's ("l2.arena") when the shard grows or
//! shrinks. Nobody holds two shards, and none across I/O. A device has two locks, see `device`. Reads take none
//! of them: the place is in the index's entry, and what was read tells itself whether it is the block.
//!
//! # Invariants
//!
//! - **L1** What a read gives out agreed with the checksum that its own key seeds.
//! - **L2** An entry of the index points to a device that is there, within a segment.
//! - **L3** A key has one entry at most; so has a tag within a shard.
//! - **L4** Entries of a shard stand in the order of their tags, and no slot between an entry and its home is
//!   empty.
//! - **L5** The bytes that the index says it takes are the memory that it takes.
//! - **L6** A table is believed as a whole or not at all, and so is a superblock.
//! - **L7** Lengths and counts from a device are checked before anything is allocated or reached by them.

mod checksum;
mod device;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod door;
mod feed;
mod index;
mod layout;
mod level2;
mod read;
mod rebuild;
mod tunable;

pub use device::health::Condition;
pub use device::label::{DeviceId, Label};
pub use feed::Fed;
pub use level2::{Add, DeviceReport, Level2};
pub use read::{Found, Job, Want};
pub use rebuild::Rebuild;
pub use tunable::{L2Stats, L2Tunables};

#[cfg(test)]
mod tests;
