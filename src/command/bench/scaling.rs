//! `arcwell bench scaling`: cached random reads on more and more CPUs, the kinds of lists side by side.
//!
//! The kinds take turns within a repetition, and each has the floor measured before it, so that what
//! the machine does besides falls on all of them. Figures are medians of the repetitions.

use std::io::{self, Write};

use arcwell_base::lock::lockstat::{self, Row};
use serde_json::{Value, json};

use super::forecast::{self, Forecast};
use super::lists::Lists;
use super::load::{self, BLOCK, Bed, Floor, Hits, Load, Run};
use super::{UNCOUNTED, cost};
use crate::grid::{Align, Grid};
use crate::{Failure, say};

/// Measure random 8 KiB reads that hit, on 1 CPU up to all, for each kind of lists
///
/// Counts the CPU time of a read beside that of a copy from a known address, which is the floor.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    load: Load,

    /// How often everything is measured; medians are shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,

    /// Go on to so many CPUs by a model, if it foretells two of them; needs a build that counts locks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1024))]
    model_cpus: Option<u32>,

    /// Print one JSON object for each kind of lists and number of CPUs
    #[arg(long)]
    json: bool,
}

/// One repetition: the floor, and the reads after it.
struct Round {
    floor: Run,
    run: Run,
    locks: Vec<Row>,
}

/// What was measured of one kind of lists on so many CPUs.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) lists: &'static Lists,
    pub(super) cpus: usize,
    pub(super) ops: u64,
    pub(super) ops_per_s: f64,
    /// CPU time of a read, and of a copy from a known address.
    pub(super) cpu_ns: f64,
    pub(super) floor_cpu_ns: f64,
    /// The same of those repetitions for which the machine gave the CPUs to nobody else; `None` if there
    /// were none.
    pub(super) alone: Option<Alone>,
    pub(super) hit_ratio: f64,
    /// What the locks counted in so many reads, for each repetition.
    pub(super) locks: Vec<(u64, Vec<Row>)>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let cpus = load::cpus()?;
        if self.model_cpus.is_some() && !lockstat::IS_COUNTING {
            return Err(format!("--model-cpus: {UNCOUNTED}").into());
        }
        if self.model_cpus.is_some() && cpus.len() < 2 {
            return Err("--model-cpus: the model is checked on two CPUs, and there is one".into());
        }
        let beds = self.load.caches(1)?;
        let floor = self.load.floor()?;
        let mut cells = Vec::new();
        for count in counts(cpus.len()) {
            cells.extend(self.measure(&beds, &floor, &cpus[..count])?);
        }
        drop((beds, floor));
        self.print(&cells)?;
        let Some(most) = self.model_cpus else { return Ok(()) };
        let costs = cost::measure(cpus[0])?;
        self.foretell(&Forecast::new(&cells, costs, self.load.threads()), most)
    }

    /// All kinds on some CPUs.
    fn measure(&self, beds: &[Bed], floor: &Floor, cpus: &[usize]) -> Result<Vec<Cell>, Failure> {
        let mut rounds: Vec<Vec<Round>> = beds.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.repeat {
            for (bed, rounds) in beds.iter().zip(&mut rounds) {
                let floor = self.load.run(floor, cpus)?;
                lockstat::reset();
                let run = self.load.run(&Hits(bed), cpus)?;
                rounds.push(Round { floor, run, locks: lockstat::table() });
            }
        }
        let cell = |(bed, rounds): (&Bed, Vec<Round>)| Cell::new(bed.lists, cpus.len(), rounds);
        Ok(beds.iter().zip(rounds).map(cell).collect())
    }

    fn print(&self, cells: &[Cell]) -> Result<(), Failure> {
        if self.json {
            return Ok(cells.iter().try_for_each(|cell| say(&self.json_of(cell, cells)))?);
        }
        let mut grid = Grid::new(&[
            ("CPUS", Align::Right),
            ("LISTS", Align::Left),
            ("READS", Align::Right),
            ("READS/S", Align::Right),
            ("MB/S", Align::Right),
            ("CPU NS", Align::Right),
            ("FLOOR NS", Align::Right),
            ("WAITS", Align::Right),
            ("TO SINGLE", Align::Right),
        ]);
        for cell in cells {
            let waits = cell.waits().map_or("-".to_owned(), |waits| waits.to_string());
            let ratio = cell.to_single(cells).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            grid.row([
                cell.cpus.to_string(),
                cell.lists.name.to_owned(),
                cell.ops.to_string(),
                format!("{:.0}", cell.ops_per_s),
                format!("{:.0}", cell.mb_per_s()),
                format!("{:.0}", cell.cpu_ns),
                format!("{:.0}", cell.floor_cpu_ns),
                waits,
                ratio,
            ]);
        }
        grid.print()?;
        if !lockstat::IS_COUNTING {
            say(&format!("WAITS are not counted: {UNCOUNTED}"))?;
        }
        Ok(())
    }

    fn json_of(&self, cell: &Cell, cells: &[Cell]) -> Value {
        json!({
            "work": "scaling",
            "peer": "arcwell",
            "lists": cell.lists.name,
            "cpus": cell.cpus,
            "threads": self.load.threads(),
            "repeat": self.repeat,
            "ops": cell.ops,
            "wall_ops": cell.ops_per_s,
            "mb_s": cell.mb_per_s(),
            "cpu_ns": cell.cpu_ns,
            "floor_cpu_ns": cell.floor_cpu_ns,
            "hit_ratio": cell.hit_ratio,
            "waits": cell.waits(),
            "to_single": cell.to_single(cells),
        })
    }

    /// Prints what the model says of two CPUs and, if it is right, of more.
    fn foretell(&self, forecast: &Forecast<'_>, most: u32) -> Result<(), Failure> {
        if self.json {
            forecast.checks().iter().try_for_each(|check| say(&check.json()))?;
        } else {
            forecast.print_checks()?;
        }
        if !forecast.is_right() {
            return Err(forecast.why_not().into());
        }
        let points = forecast.curve(&counts(most as usize));
        if self.json {
            points.iter().try_for_each(|point| say(&point.json(&points)))?;
        } else {
            forecast::print_curve(&points)?;
        }
        io::stdout().flush()?;
        Ok(())
    }
}

/// Figures of a machine that does nothing else. Threads that get CPUs one after the other hardly ever
/// meet at a lock: where they should, even the CPU time of a read is less then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    pub(super) cpu_ns: f64,
    pub(super) ops_per_s: f64,
}

/// The part of the CPUs that must have been ours for that.
const ALONE: f64 = 0.9;

impl Alone {
    fn new(rounds: &[Round], cpus: usize) -> Option<Alone> {
        let is_alone = |round: &&Round| round.run.cpus_had() >= ALONE * cpus as f64;
        let rounds: Vec<&Round> = rounds.iter().filter(is_alone).collect();
        let middle =
            |figure: fn(&Run) -> f64| median(rounds.iter().map(|round| figure(&round.run)).collect());
        (!rounds.is_empty()).then(|| Alone { cpu_ns: middle(Run::cpu_ns), ops_per_s: middle(Run::ops_per_s) })
    }
}

impl Cell {
    fn new(lists: &'static Lists, cpus: usize, rounds: Vec<Round>) -> Cell {
        let middle = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
        Cell {
            lists,
            cpus,
            ops: middle(|round| round.run.ops as f64) as u64,
            ops_per_s: middle(|round| round.run.ops_per_s()),
            cpu_ns: middle(|round| round.run.cpu_ns()),
            floor_cpu_ns: middle(|round| round.floor.cpu_ns()),
            alone: Alone::new(&rounds, cpus),
            hit_ratio: middle(|round| round.run.hits as f64 / round.run.ops as f64),
            locks: rounds.into_iter().map(|round| (round.run.ops, round.locks)).collect(),
        }
    }

    fn mb_per_s(&self) -> f64 {
        self.ops_per_s * BLOCK as f64 / 1e6
    }

    /// How often a thread waited for a lock, in the middle one of the repetitions; `None` where that is
    /// not counted.
    fn waits(&self) -> Option<u64> {
        let sum = |(_, rows): &(u64, Vec<Row>)| rows.iter().map(|row| row.contended).sum::<u64>() as f64;
        lockstat::IS_COUNTING.then(|| median(self.locks.iter().map(sum).collect()) as u64)
    }

    /// How many times as many reads as with the first kind on as many CPUs.
    fn to_single(&self, cells: &[Cell]) -> Option<f64> {
        let first = cells.iter().find(|cell| cell.cpus == self.cpus && cell.lists.name == "single")?;
        Some(self.ops_per_s / first.ops_per_s)
    }
}

/// 1, 2, 4 and so on, and all.
fn counts(all: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1), |count| Some(count * 2));
    doubled.take_while(|count| *count < all).chain([all]).collect()
}

/// The middle one, or the mean of the two that are.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() % 2 {
        0 => (figures[middle - 1] + figures[middle]) / 2.0,
        _ => figures[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cpus_come_last_and_once() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 4, 6]);
        assert_eq!(counts(64), [1, 2, 4, 8, 16, 32, 64]);
    }

    #[test]
    fn the_middle_is_not_the_mean() {
        assert_eq!(median(vec![100.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 100.0, 1.0, 2.0]), 3.0);
    }
}
