//! The file system as programs see it: real mounts, compared with a plain directory.

#![allow(clippy::unwrap_used)]

mod attributes;
mod contents;
mod death;
mod directories;
mod model;
mod names;
mod place;
