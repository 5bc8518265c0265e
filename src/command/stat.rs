//! `arcwell stat`: what the cache does, line by line.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use arcwell::Error;
use arcwell::size::parse_duration;
use arcwell_front::control::Stat;

use crate::Failure;
use crate::column::{self, COLUMNS, Column};
use crate::grid::{Align, Grid};
use crate::locate::Daemon;

/// Lines between two lines of headings.
const HEADING_EVERY: u64 = 20;

/// Show what the cache does: reads, hits, sizes
///
/// The first line shows everything since the daemon started, each one after it what happened since
/// the line before.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Time between two lines, such as 1, 0.5s or 2m; without it, one line
    #[arg(value_parser = parse_duration)]
    interval: Option<Duration>,

    /// Number of lines; without it, until Ctrl-C
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only these columns, in this order: names with commas between, or help to list them
    #[arg(short, long, value_delimiter = ',', conflicts_with_all = ["extended", "json"])]
    fields: Vec<String>,

    /// Columns for a closer look: states, ghosts, eviction, origin
    #[arg(short = 'x', long, conflicts_with = "json")]
    extended: bool,

    /// One JSON object a line: every statistic by its full name, and the time
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: Daemon,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.fields.iter().any(|field| field == "help") {
            return list_columns();
        }
        let columns = self.columns()?;
        let lines = match (self.interval, self.count) {
            (None, _) => 1,
            (Some(_), None) => u64::MAX,
            (Some(_), Some(count)) => count,
        };
        let interval = self.interval.unwrap_or_default();
        let client = self.daemon.client()?;
        let mut out = io::stdout().lock();
        let mut before = Stat::default();
        let start = Instant::now();
        for number in 0..lines {
            // Counted from the start, so that the time that printing takes does not add up.
            let due = interval.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX));
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            let now = client.stat()?;
            if self.json {
                writeln!(out, "{}", serde_json::to_string(&now)?)?;
            } else {
                if number % HEADING_EVERY == 0 {
                    writeln!(out, "{}", column::headings(&columns))?;
                }
                writeln!(out, "{}", column::values(&columns, &before, &now))?;
            }
            out.flush()?;
            before = now;
        }
        Ok(())
    }

    fn columns(&self) -> Result<Vec<&'static Column>, Error> {
        if self.extended {
            return Ok(column::extended());
        }
        if self.fields.is_empty() {
            return Ok(column::usual());
        }
        let unknown =
            |name: &String| Error::invalid(name.clone(), "there is no such column; see arcwell stat -f help");
        self.fields.iter().map(|name| column::named(name).ok_or_else(|| unknown(name))).collect()
    }
}

fn list_columns() -> Result<(), Failure> {
    let mut grid = Grid::new(&[("COLUMN", Align::Left), ("WHAT IT SHOWS", Align::Left)]);
    for column in COLUMNS {
        grid.row([column.name.to_owned(), column.doc.to_owned()]);
    }
    grid.print()?;
    Ok(())
}
