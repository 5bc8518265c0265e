//! Going into the background, and telling the one who waits in front how it went.
//!
//! A process with threads cannot fork safely, so the program starts itself anew, with a hidden flag.
//! The child leads a session of its own; its standard output is a pipe to the parent, on which it
//! writes exactly one line: that it is ready, or why not. Then the pipe's place is taken by the log.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use arcwell::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::Failure;

/// The hidden flag of the child.
pub(crate) const FLAG: &str = "--detached";

/// The one line that the child writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Report {
    /// It serves; what to say about it.
    Ready(String),
    /// It does not; why.
    Failed(String),
}

/// Starts this program again with the arguments that it was given, and waits until it serves.
/// Returns what there is to say.
///
/// # Errors
/// The child's own reason, or how it ended without giving one.
pub(crate) fn launch() -> std::result::Result<String, Failure> {
    let program = std::env::current_exe().map_err(|e| Error::new("find this program", e))?;
    let mut child = Command::new(&program)
        .args(with_flag(std::env::args_os().skip(1)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| Error::new("start", e).about(program))?;
    let mut line = String::new();
    if let Some(pipe) = child.stdout.take() {
        BufReader::new(pipe).read_line(&mut line).map_err(|e| Error::new("wait for the daemon", e))?;
    }
    match serde_json::from_str(&line) {
        Ok(Report::Ready(text)) => Ok(text),
        Ok(Report::Failed(reason)) => {
            child.wait().map_err(|e| Error::new("wait for the daemon", e))?;
            Err(reason.into())
        }
        Err(_) => {
            let status = child.wait().map_err(|e| Error::new("wait for the daemon", e))?;
            Err(Error::invalid("mount", format!("the daemon ended before it was ready ({status})")).into())
        }
    }
}

/// The arguments of the child: the flag stands right behind the command, where no `--` precedes it.
fn with_flag(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    arguments.insert(arguments.len().min(1), OsStr::new(FLAG).to_owned());
    arguments
}

/// How a serving process speaks: to a terminal, or through the pipe of [`launch`].
#[derive(Debug)]
pub(crate) enum Voice {
    /// A person watches.
    Terminal,
    /// A parent waits; afterwards there is only this log.
    Parent {
        /// Where the log is.
        log: PathBuf,
    },
}

impl Voice {
    /// Takes the log in place of standard error, and leaves the parent's session.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub(crate) fn settle(&self) -> Result<()> {
        if let Voice::Parent { log } = self {
            // It fails only for the leader of a group, who has a session's worth of peace already.
            let _ = rustix::process::setsid();
            let file = crate::log::open(log)?;
            rustix::stdio::dup2_stderr(&file)
                .map_err(|e| Error::new("write the log", e).about(log.clone()))?;
        }
        crate::log::start();
        Ok(())
    }

    /// Says that it serves.
    ///
    /// # Errors
    /// When the parent does not listen any more: whoever asked for the mount went away.
    pub(crate) fn ready(&self, text: String) -> Result<()> {
        match self {
            Voice::Terminal => {
                // A mount does not depend on somebody who reads what it prints.
                let _ = say(&text);
                Ok(())
            }
            Voice::Parent { log } => {
                report(&Report::Ready(text))?;
                let file: File = crate::log::open(log)?;
                rustix::stdio::dup2_stdout(&file).map_err(|e| Error::new("close the pipe", e))
            }
        }
    }
}

/// A failure that was told to the parent, which tells the person.
#[derive(Debug)]
pub(crate) struct Told;

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("told to whoever started this")
    }
}

impl std::error::Error for Told {}

/// Says through the pipe why it does not serve.
pub(crate) fn failed(error: &Error) -> Told {
    // If nobody is left to hear it, nobody is left to tell that.
    let _ = report(&Report::Failed(error.to_string()));
    Told
}

fn report(report: &Report) -> Result<()> {
    let line = serde_json::to_string(report).map_err(|e| Error::new("report", std::io::Error::from(e)))?;
    say(&line)
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|e| Error::new("report", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_stands_before_anything_that_could_swallow_it() {
        let given = ["mount", "--over", "--", "-odd name"].map(OsString::from);
        let expected = ["mount", FLAG, "--over", "--", "-odd name"].map(OsString::from);
        assert_eq!(with_flag(given.into_iter()), expected);
    }
}
