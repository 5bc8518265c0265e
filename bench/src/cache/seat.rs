//! The process of a peer, seen from the program that takes turns with all of them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::ValueEnum;

use crate::Result;
use crate::cache::drive::{COMMAND, Options, Order, Outcome, READY};

/// A peer that was started, and ends when this is dropped.
#[derive(Debug)]
pub struct Seat {
    /// Who sits here.
    pub options: Options,
    child: Child,
    /// `None` when it is told to end.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// The name of a value that the command line takes.
pub fn spelled(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Seat {
    /// Starts a peer, which begins to fill itself.
    ///
    /// # Errors
    /// When this program cannot be started again.
    pub fn start(options: Options) -> Result<Self> {
        let size = options.size;
        let numbers = [("--entries", size.entries), ("--keys", size.keys), ("--ops", size.ops)];
        let mut command = Command::new(std::env::current_exe()?);
        command.args([COMMAND, "--peer", &spelled(&options.peer), "--work", &spelled(&options.work)]);
        command.args(["--lists", &options.lists]);
        command.args(numbers.iter().flat_map(|(name, number)| [(*name).to_owned(), number.to_string()]));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Seat { options, child, orders, answers })
    }

    /// Waits until it is filled.
    ///
    /// # Errors
    /// When it ended instead.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let said = self.answer()?;
        if said == READY { Ok(()) } else { Err(format!("{} said {said:?}", self.name()).into()) }
    }

    /// Lets it run once.
    ///
    /// # Errors
    /// When it ended instead; its own error has then been printed.
    pub fn run(&mut self, order: Order) -> Result<Outcome> {
        let line = serde_json::to_string(&order)?;
        // A pipe that nobody reads any more says less than what follows.
        let _ = self.orders.as_mut().map(|orders| writeln!(orders, "{line}"));
        let answer = self.answer()?;
        serde_json::from_str(&answer)
            .map_err(|error| format!("{} said {answer:?}: {error}", self.name()).into())
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(format!("{} ended ({})", self.name(), self.child.wait()?).into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn name(&self) -> String {
        let Options { peer, lists, work, .. } = &self.options;
        format!("{} {lists} at {}", spelled(peer), spelled(work))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.child.wait();
    }
}
