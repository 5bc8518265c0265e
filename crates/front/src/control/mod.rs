//! The control socket: how a running daemon is asked and told.
//!
//! A daemon listens on one Unix socket, named after its mountpoint, in a directory that only its
//! owner may enter ([`socket`]). What goes over it is HTTP/1.1 with JSON bodies, so that `curl` is
//! as good a client as `arcwell` itself:
//!
//! | request | answer |
//! |---|---|
//! | `GET /stat` | every statistic by name, and the time ([`Stat`]) |
//! | `GET /status` | what is mounted, how it is, what is still to be done ([`Status`]) |
//! | `GET /tunables` | every tunable with value, default and range ([`Tunable`]) |
//! | `PUT /tunables/{name}` | sets one ([`NewValue`]) and answers with it |
//! | `POST /prime` | loads paths ([`PrimeRequest`]); one [`PrimeEvent`] a line while it goes on |
//! | `GET /cached?path=` | how much of a path is held ([`Cached`]) |
//! | `POST /trace` | records what a dataset asks of the cache ([`TraceRequest`]), as bytes that go on ([`record`]) |
//! | `POST /umount` | unmounts ([`UnmountRequest`]); the daemon then ends by itself |
//!
//! A refusal is a 4xx or 5xx status with a [`Refusal`]: the one line that a person should read.
//!
//! The [`server`] knows nothing of caches and mounts: it asks a [`ControlPlane`], which is the whole
//! seam, so that every route is tested without a mount. It lives on one thread of its own with its
//! own small runtime; no request of a file system ever passes through it, and a client that hangs
//! can take nothing but its own connection.
//!
//! What bounds it:
//!
//! - C1: at most [`server::CONNECTIONS_MAX`] connections; the next one waits in the kernel's queue.
//! - C2: a body longer than [`server::BODY_BYTES_MAX`] is refused.
//! - C3: at most [`server::PRIMES_MAX`] primes at once; a prime ends when its connection does.
//! - C4: [`Server::stop`] returns within [`server::STOP_LIMIT`] whatever the requests under way do.
//! - C5: a recording ends with its connection, or wholly when the server stops; the plane sees to it that
//!   a dataset has one at a time.
//!
//! [`record`]: arcwell_base::record

pub mod client;
mod plane;
pub mod server;
pub mod socket;
mod wire;

#[cfg(test)]
mod tests;

pub use client::{Client, ClientError};
pub use plane::{ControlPlane, Take, range};
pub use server::Server;
pub use wire::{
    AddRequest, CacheStatus, Cached, CachedRow, DatasetStatus, DeviceCondition, DeviceStatus, Health,
    NewValue, PrimeEvent, PrimeProgress, PrimeRequest, Refusal, RemoveRequest, Stat, Status, TraceRequest,
    Tunable, UnmountRequest, WirePath,
};
