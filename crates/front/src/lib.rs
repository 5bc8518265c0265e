//! placeholder

pub mod control;
