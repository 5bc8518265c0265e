//! `arcwell bench`: what the published tables showed, measured on this machine.

use clap::Subcommand;

use crate::Failure;

mod cost;
mod forecast;
mod lines;
mod lists;
mod load;
mod locks;
mod model;
mod scaling;

/// Measure how the cache scales with CPUs, and what its threads wait for
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Scaling(scaling::Arguments),
    Locks(locks::Arguments),
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.what {
            What::Scaling(arguments) => arguments.run(),
            What::Locks(arguments) => arguments.run(),
        }
    }
}

/// What a build that counts no locks says to whoever wants them counted.
const UNCOUNTED: &str =
    "this build counts no locks: cargo build --release --features lockstat makes one that does";
