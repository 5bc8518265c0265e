//! The commands, one file each.

use clap::{Parser, Subcommand};

use crate::Failure;

mod bench;
mod cache;
mod cached;
mod demo;
mod get;
mod manual;
mod mount;
mod prime;
pub(crate) mod set;
mod sim;
mod stat;
mod status;
mod trace;
mod umount;

/// Memory in front of slow storage: ZFS's adaptive replacement cache for any directory.
#[derive(Debug, Parser)]
#[command(name = "arcwell", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Mount(mount::Arguments),
    Umount(umount::Arguments),
    Stat(stat::Arguments),
    Status(status::Arguments),
    Cache(cache::Arguments),
    Get(get::Arguments),
    Set(set::Arguments),
    Prime(prime::Arguments),
    Cached(cached::Arguments),
    Sim(sim::Arguments),
    Trace(trace::Arguments),
    Demo(demo::Arguments),
    Bench(bench::Arguments),
    Manual(manual::Arguments),
}

impl Cli {
    /// Runs the command that was given.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Mount(arguments) => arguments.run(),
            Command::Umount(arguments) => arguments.run(),
            Command::Stat(arguments) => arguments.run(),
            Command::Status(arguments) => arguments.run(),
            Command::Cache(arguments) => arguments.run(),
            Command::Get(arguments) => arguments.run(),
            Command::Set(arguments) => arguments.run(),
            Command::Prime(arguments) => arguments.run(),
            Command::Cached(arguments) => arguments.run(),
            Command::Sim(arguments) => arguments.run(),
            Command::Trace(arguments) => arguments.run(),
            Command::Demo(arguments) => arguments.run(),
            Command::Bench(arguments) => arguments.run(),
            Command::Manual(arguments) => arguments.run(),
        }
    }
}
