//! Models: small programs of a few threads that a checker (shuttle) runs under many schedules.
//!
//! A schedule decides before every operation on what threads share which thread goes on: at random, or by
//! few changes of priority (S. Burckhardt et al., "A randomized scheduler with probabilistic guarantees of
//! finding bugs", ASPLOS 2010). So these find what comes of the order of operations. What comes of
//! operations that a machine lets overtake each other they cannot find.
//!
//! Each program is run as it is, and then with a [`Fault`](crate::sync::Fault) in the code that it is about:
//! a model that does not find its fault has no worth. `cargo xtask models` runs them all.

pub(crate) mod engines;

#[cfg(test)]
mod blocks;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod run;
#[cfg(test)]
mod table;
