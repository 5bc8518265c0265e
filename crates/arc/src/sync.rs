//! The atomics that the engine is built on: the one place where a model checker may put its own.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
