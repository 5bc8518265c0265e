//! Where the bytes really lie.
//!
//! Implementations of [`Origin`](arcwell_base::origin::Origin), layers that go around one, and what
//! Arcwell itself keeps on disk: its devices ([`Vdev`](arcwell_base::vdev::Vdev)) and its state. Rooms:
//!
//! - [`dir`]: a directory as an origin; its changes are noticed by `watch`.
//! - [`layer`]: the shape of everything that wraps an origin; and the wrappers:
//!   [`count`] counts operations, [`simulate`] makes an origin as slow as a disk or a network,
//!   [`fault`] breaks it on purpose.
//! - [`state`]: the state directory and what it remembers from one run to the next.
//! - [`machine`]: how much memory there is, and how much of it is ours.
//! - [`vdev`]: devices of ours: a file or a block device; one in memory; one that breaks on purpose.

pub mod count;
pub mod dir;
pub mod fault;
pub mod layer;
pub mod machine;
pub mod simulate;
pub mod state;
pub mod vdev;
mod watch;

pub use count::{Counted, OriginStats};
pub use dir::{DirOptions, DirOrigin, raise_descriptor_limit};
pub use fault::{Fault, Faulty};
pub use layer::Operation;
pub use machine::MachineMemory;
pub use simulate::{Profile, Simulated};
pub use state::{MemoryIdentities, PoolId, StateDir};
pub use vdev::{FaultyVdev, FileVdev, MemVdev};
