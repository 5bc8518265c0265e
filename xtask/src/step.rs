//! One step of the gate: a cargo command that must succeed.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::Failure;

/// A cargo command with a name.
pub(crate) struct Step {
    /// What is announced.
    pub(crate) name: &'static str,
    /// Arguments of cargo.
    pub(crate) arguments: &'static [&'static str],
    /// Environment on top of ours.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

impl Step {
    /// Runs the command in `root`, its output going where ours goes.
    pub(crate) fn run(&self, root: &Path) -> Result<(), Failure> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(self.arguments).envs(self.environment.iter().copied()).current_dir(root);
        self.judge(command.status())
    }

    fn judge(&self, outcome: io::Result<ExitStatus>) -> Result<(), Failure> {
        let line = self.arguments.join(" ");
        match outcome {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure(format!("{} failed: `cargo {line}` ended with {status}", self.name))),
            Err(error) => Err(Failure(format!("{} failed: cargo cannot be started: {error}", self.name))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_step_that_fails_is_named() {
        let step = Step { name: "format", arguments: &["fmt", "--check"], environment: &[] };
        assert!(step.judge(Ok(ExitStatus::from_raw(0))).is_ok());

        let Failure(line) = step.judge(Ok(ExitStatus::from_raw(1 << 8))).expect_err("exit status 1");
        assert_eq!(line, "format failed: `cargo fmt --check` ended with exit status: 1");

        let gone = io::Error::from(io::ErrorKind::NotFound);
        let Failure(line) = step.judge(Err(gone)).expect_err("no cargo");
        assert!(line.starts_with("format failed: cargo cannot be started"), "{line}");
    }
}
