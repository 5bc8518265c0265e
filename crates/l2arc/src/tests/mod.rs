//! Tests of level 2 as a whole, over a device in memory.

mod bed;
mod caching;
mod faults;
mod feeding;
mod identity;
mod reading;
mod rebuilding;
mod states;
