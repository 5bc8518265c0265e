//! `arcwell`: the program.
//!
//! One file a command in [`command`]; what a mount is made of, in [`assembly`]; everything that is
//! said to a person goes through here, so that bad news is always one line that begins with
//! `arcwell:` and a status that is not zero. It goes through [`say`] and [`complain`], never through
//! `println!`, which panics when the reader has gone away (`arcwell mount … | head -1`).

#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

mod allocator;
mod announcement;
mod assembly;
mod cache_device;
mod cache_size;
mod column;
mod command;
mod daemon;
mod grid;
mod locate;
mod log;
mod plane;
mod preflight;
mod scratch;
mod signals;

/// What a command may fail with: anything that says what happened in one line.
type Failure = Box<dyn Error + Send + Sync>;

/// The status for wrong use, as is the custom.
const WRONG_USE: u8 = 2;

fn main() -> ExitCode {
    let cli = match command::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return wrong_use(&error),
    };
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if is_closed_pipe(&*failure) => ExitCode::SUCCESS,
        Err(failure) if failure.is::<daemon::Told>() => ExitCode::FAILURE,
        Err(failure) => {
            complain(&whole(&*failure));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line.
///
/// # Errors
/// When nobody reads it any more, among others.
fn say(line: &dyn Display) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// Says what went wrong. Where nobody listens, the status still tells.
fn complain(what: &dyn Display) {
    let _ = writeln!(io::stderr(), "arcwell: {what}");
}

/// A failure, and those that led to it as far as it does not quote them itself.
fn whole(failure: &(dyn Error + 'static)) -> String {
    let mut line = failure.to_string();
    let sources = std::iter::successors(failure.source(), |&error| error.source());
    for text in sources.map(ToString::to_string) {
        let text = text.split(" (os error").next().unwrap_or_default();
        if !line.contains(text) {
            line = format!("{line}: {text}");
        }
    }
    line
}

/// Whether somebody stopped reading what we print (`arcwell stat 1 | head`): no news at all.
fn is_closed_pipe(failure: &(dyn Error + 'static)) -> bool {
    failure.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Help and version as clap prints them; mistakes in one line.
fn wrong_use(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return if error.use_stderr() { ExitCode::from(WRONG_USE) } else { ExitCode::SUCCESS };
    }
    complain(&one_line(error));
    ExitCode::from(WRONG_USE)
}

fn one_line(error: &clap::Error) -> String {
    // Our own parsers say all that is needed; clap would repeat what was given.
    if let (Some(ContextValue::String(argument)), Some(source)) =
        (error.get(ContextKind::InvalidArg), error.source())
    {
        let argument = argument.split(' ').next().unwrap_or(argument);
        return format!("{argument}: {source}");
    }
    let text = error.render().to_string();
    let first = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn mistake(arguments: &[&str]) -> String {
        one_line(&command::Cli::try_parse_from(arguments).unwrap_err())
    }

    #[test]
    fn the_commands_are_sound() {
        command::Cli::command().debug_assert();
    }

    #[test]
    fn mistakes_are_one_line() {
        assert_eq!(
            mistake(&["arcwell", "mount", "--arc-max", "4Q", "a", "b"]),
            "--arc-max: '4Q' is not auto or a size such as 512M or 4GiB"
        );
        assert_eq!(
            mistake(&["arcwell", "mount", "--coherence", "never", "a", "b"]),
            "--coherence: 'never' is not one of exclusive, notify, timeout"
        );
        assert_eq!(
            mistake(&["arcwell", "mount"]),
            "the following required arguments were not provided: <ORIGIN> <MOUNTPOINT>"
        );
        assert_eq!(mistake(&["arcwell", "mont"]), "unrecognized subcommand 'mont'");
    }
}
