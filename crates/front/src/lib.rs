//! The front ends: how programs reach a pool.
//!
//! `fuse` mounts a dataset as a file system; `control` answers whoever asks a running daemon.

pub mod control;
pub mod fuse;
