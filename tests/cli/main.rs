//! The program `arcwell` from outside: the real binary, real mounts, what it says and how it ends.

#![allow(clippy::unwrap_used, reason = "what stands around tests here is part of tests")]

mod bad_input;
mod bed;
mod bench;
mod flash;
mod life;
mod trace;
