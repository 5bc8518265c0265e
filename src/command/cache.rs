//! `arcwell cache`: the flash behind memory.

use clap::Subcommand;

use crate::Failure;

mod add;
mod label;
mod list;
mod remove;

/// Add, remove, list and look at cache devices
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Add(add::Arguments),
    Remove(remove::Arguments),
    List(list::Arguments),
    Label(label::Arguments),
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.what {
            What::Add(arguments) => arguments.run(),
            What::Remove(arguments) => arguments.run(),
            What::List(arguments) => arguments.run(),
            What::Label(arguments) => arguments.run(),
        }
    }
}
