//! `arcwell trace`: recordings of what is asked of a cache.

use clap::Subcommand;

use crate::Failure;

mod convert;
mod record;

/// Record what is asked of the cache, or convert such traces
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Record(record::Arguments),
    Convert(convert::Arguments),
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.what {
            What::Record(arguments) => arguments.run(),
            What::Convert(arguments) => arguments.run(),
        }
    }
}
