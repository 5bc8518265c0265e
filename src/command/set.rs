//! `arcwell set`: changes tunables of a running daemon.

use std::str::FromStr;

use arcwell::Error;

use crate::locate::Daemon;
use crate::{Failure, say};

/// Set tunables of a running daemon; they take effect at once
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to set, such as arc.size_max=2GiB
    #[arg(required = true, value_name = "NAME=VALUE")]
    assignments: Vec<Assignment>,

    #[command(flatten)]
    daemon: Daemon,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let client = self.daemon.client()?;
        for Assignment { name, value } in &self.assignments {
            let set = client.set(name, value)?;
            say(&format_args!("{} = {}", set.name, set.value))?;
        }
        Ok(())
    }
}

/// `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// Left of the first `=`.
    pub(crate) name: String,
    /// Right of it.
    pub(crate) value: String,
}

impl FromStr for Assignment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(Assignment { name: name.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(Error::invalid(format!("'{text}'"), "write NAME=VALUE, such as arc.size_max=2GiB")),
        }
    }
}
