//! `arcwell manual`: man pages and shell completions, printed from the same rows as `--help`.

use std::path::PathBuf;

use arcwell::Error;
use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use crate::Failure;

/// Write man pages to a directory, or print completions for a shell
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct Arguments {
    /// Write arcwell.1 and a page for each command there
    #[arg(group = "what")]
    directory: Option<PathBuf>,

    /// Print the completions of this shell
    #[arg(long, group = "what")]
    complete: Option<Shell>,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut program = Cli::command();
        if let Some(shell) = self.complete {
            clap_complete::generate(shell, &mut program, "arcwell", &mut std::io::stdout());
        }
        if let Some(directory) = self.directory {
            std::fs::create_dir_all(&directory)
                .and_then(|()| clap_mangen::generate_to(program, &directory))
                .map_err(|e| Error::new("write man pages to", e).about(directory))?;
        }
        Ok(())
    }
}
