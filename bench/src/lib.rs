//! Measures arcwell beside others, in one run, and prints ratios.
//!
//! The machine that a bench runs on is never quiet, so no figure here is meant to be compared with
//! one of another run. All servers are started once, each its own process, and take turns; a ratio
//! is formed within one turn, and the median of the turns is shown. What is compared is CPU time per
//! operation, which a noisy neighbour disturbs far less than time on the wall.
//!
//! - [`cache`]: our cache in memory and without anything around it, beside quick_cache, moka, foyer and
//!   `lru`, each in a process of its own.
//! - [`fuse`]: reads, walks and listings through a mount: arcwell, a bare `fuser` server that only
//!   copies from a flat buffer (the floor of the transport), and zfs-fuse where it is installed.
//! - [`memory`]: resident memory of the daemon against its limit.
//!
//! The only package that knows competitors.

pub mod arcwell;
pub mod bare;
pub mod cache;
pub mod cpu;
pub mod daemon;
pub mod fuse;
pub mod interrupt;
pub mod memory;
pub mod mountpoint;
pub mod read;
pub mod report;
pub mod scratch;
pub mod server;
pub mod tree;
pub mod walk;
pub mod zfs;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

/// What can go wrong in a bench: told to a person, never matched on.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of nearly everything here.
pub type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug, Parser)]
#[command(name = "arcwell-bench", about = "Measures arcwell beside others, in one run")]
enum Command {
    Cache(cache::Options),
    Fuse(fuse::Options),
    Memory(memory::Options),
    #[command(hide = true, name = bare::COMMAND)]
    Bare(bare::Options),
    #[command(hide = true, name = cache::drive::COMMAND)]
    CachePeer(cache::drive::Options),
}

/// Runs what the command line asks for. `bench` is the bench that this program is, if it is only one.
pub fn enter(bench: Option<&str>) -> ExitCode {
    match Command::parse_from(arguments(bench, std::env::args_os())).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

impl Command {
    fn run(self) -> Result<()> {
        match self {
            Command::Cache(options) => cache::run(&options),
            Command::Fuse(options) => fuse::run(&options),
            Command::Memory(options) => memory::run(&options),
            Command::Bare(options) => bare::serve(&options),
            Command::CachePeer(options) => cache::drive::serve(&options),
        }
    }
}

/// The arguments with the name of the bench in front, and without cargo's own `--bench`.
fn arguments(bench: Option<&str>, given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.filter(|argument| argument != "--bench").collect();
    let servers = [bare::COMMAND, cache::drive::COMMAND];
    let is_server = arguments.get(1).is_some_and(|argument| servers.iter().any(|server| argument == server));
    if let Some(bench) = bench.filter(|_| !is_server) {
        arguments.insert(arguments.len().min(1), bench.into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bench: Option<&str>, given: &[&str]) -> Vec<OsString> {
        arguments(bench, given.iter().map(OsString::from))
    }

    #[test]
    fn cargos_argument_is_ignored_and_the_bench_is_named() {
        assert_eq!(seen(Some("fuse"), &["x", "--json", "--bench"]), ["x", "fuse", "--json"]);
        assert_eq!(seen(None, &["x", "memory", "--small"]), ["x", "memory", "--small"]);
    }

    #[test]
    fn a_server_is_no_bench() {
        for server in [bare::COMMAND, cache::drive::COMMAND] {
            assert_eq!(seen(Some("fuse"), &["x", server, "m"]), ["x", server, "m"]);
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Command::command().debug_assert();
    }
}
