//! From what was measured on one CPU to what two would do, and, if that is right, many more.
//!
//! All that goes into the [model](super::model) comes from one CPU. What was measured on two is only
//! compared with it. `docs/scaling.md` says how, and what the model does not know.

use arcwell_base::lock::lockstat::Row;
use serde_json::{Value, json};

use super::lists::Strewn;
use super::model::{Class, Costs, Outcome, Visit, Work};
use super::scaling::{Alone, Cell};
use crate::grid::{Align, Grid};
use crate::{Failure, say};

/// How far the model may be off on two CPUs.
const TOLERANCE: f64 = 0.2;

/// Cache lines that move with a lock: its own and the next, as what it guards lies beside it, and one that
/// every holder changes behind that (the block at the list's head, the slot that was freed last).
const LINES_OF_LOCK: f64 = 3.0;

/// Locks that fewer hits take are left out: less than one in a thousand.
const RARE: f64 = 1e-3;

/// Operations of a simulation for each CPU.
const OPS: u64 = 4_000;

/// The published outcomes at 32 CPUs, as times `single`.
const PUBLISHED: &[(&str, usize, f64)] = &[("multilist", 32, 3.26), ("pages", 32, 3.6)];

/// The model, with what one CPU said.
pub(super) struct Forecast<'a> {
    cells: &'a [Cell],
    costs: Costs,
    threads: u32,
}

/// What the model says of a kind of lists, beside what was measured on two CPUs.
pub(super) struct Check {
    lists: &'static str,
    figure: &'static str,
    predicted: f64,
    measured: f64,
}

/// A point of the curve.
pub(super) struct Point {
    lists: &'static str,
    cpus: usize,
    outcome: Outcome,
}

impl<'a> Forecast<'a> {
    pub(super) fn new(cells: &'a [Cell], costs: Costs, threads: u32) -> Forecast<'a> {
        Forecast { cells, costs, threads }
    }

    fn on(&self, cpus: usize) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| cell.cpus == cpus)
    }

    fn simulate(&self, cell: &Cell, cpus: usize) -> Outcome {
        let cpus = cpus as u32;
        work_of(cell).simulate(&self.costs, self.threads, cpus, OPS * u64::from(cpus.max(4)))
    }

    /// Every figure that can be compared.
    pub(super) fn checks(&self) -> Vec<Check> {
        let of_pair = |(one, two): (&Cell, &Cell)| {
            let (lists, outcome) = (one.lists.name, self.simulate(one, 2));
            let check = |figure, predicted, measured| Check { lists, figure, predicted, measured };
            let of = |alone: Alone| {
                [
                    check("cpu_ns", outcome.cpu_ns(), alone.cpu_ns),
                    check("reads/s", outcome.ops_per_s(), alone.ops_per_s),
                ]
            };
            two.alone.map(of).into_iter().flatten()
        };
        self.on(1).zip(self.on(2)).flat_map(of_pair).collect()
    }

    /// Whether two CPUs were to be had, for every kind.
    fn is_checked(&self) -> bool {
        self.on(2).all(|cell| cell.alone.is_some())
    }

    /// Whether the model may be believed.
    pub(super) fn is_right(&self) -> bool {
        self.is_checked() && self.checks().iter().all(Check::is_right)
    }

    /// What is said instead of a curve.
    pub(super) fn why_not(&self) -> &'static str {
        match self.is_checked() {
            true => "the model does not foretell two CPUs within 20 %: no curve",
            false => {
                "others use the machine, and the model cannot be checked: no curve; a larger --repeat may help"
            }
        }
    }

    pub(super) fn print_checks(&self) -> Result<(), Failure> {
        let costs = self.costs;
        say(&format!(
            "\nmodel, from one CPU: a line from elsewhere {:.0} ns, spin {:.0} ns, \
             yield {:.0} ns, switch {:.0} ns, sleep and wake {:.0} ns",
            costs.transfer_ns, costs.spin_ns, costs.yield_ns, costs.switch_ns, costs.sleep_ns
        ))?;
        for cell in self.on(1) {
            let work = work_of(cell);
            let held: f64 = work.service_ns() - work.outside_ns;
            say(&format!(
                "  {}: {:.0} ns a read, of them {held:.0} ns in {:.1} visits of {} kinds of locks and lines",
                cell.lists.name,
                work.service_ns(),
                work.visits.iter().map(|visit| visit.times).sum::<f64>(),
                work.classes.len(),
            ))?;
        }
        let mut grid = Grid::new(&[
            ("LISTS", Align::Left),
            ("ON 2 CPUS", Align::Left),
            ("MODEL", Align::Right),
            ("MEASURED", Align::Right),
            ("OFF BY", Align::Right),
        ]);
        for check in self.checks() {
            let off = format!("{:+.1} %", 100.0 * check.error());
            let figures = [check.predicted, check.measured].map(|figure| format!("{figure:.0}"));
            let [predicted, measured] = figures;
            grid.row([check.lists.to_owned(), check.figure.to_owned(), predicted, measured, off]);
        }
        Ok(grid.print()?)
    }

    /// The model on each of these numbers of CPUs.
    pub(super) fn curve(&self, counts: &[usize]) -> Vec<Point> {
        let point =
            |cell: &Cell, cpus| Point { lists: cell.lists.name, cpus, outcome: self.simulate(cell, cpus) };
        counts.iter().flat_map(|&cpus| self.on(1).map(move |cell| point(cell, cpus))).collect()
    }
}

/// What a hit does, from what was counted on one CPU.
fn work_of(cell: &Cell) -> Work {
    let mut work = Work::default();
    // Of the repetitions, the last is as warm as it gets.
    if let Some((ops, rows)) = cell.locks.last() {
        let names = add_locks(&mut work, *ops as f64, rows);
        if let Some(strewn) = cell.lists.strewn {
            add_strewn(&mut work, strewn, &names);
        }
    }
    work.outside_ns = (cell.cpu_ns - work.service_ns()).max(0.0);
    work
}

/// Adds a class for each name of locks, and a visit for each caller. Returns the names.
fn add_locks<'a>(work: &mut Work, ops: f64, rows: &'a [Row]) -> Vec<&'a str> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.acquired as f64 >= RARE * ops).collect();
    // Outer ones first. What is taken under an inner one is rare, and is put beside both.
    let is_outer = |row: &Row| row.under.is_none();
    rows.sort_by_key(|row| !is_outer(row));
    let mut names: Vec<&str> = Vec::new();
    for row in &rows {
        let class = names.iter().position(|name| *name == row.lock).unwrap_or_else(|| {
            names.push(row.lock);
            work.classes.push(Class { instances: 1, lines: LINES_OF_LOCK, is_lock: true });
            names.len() - 1
        });
        let known = &mut work.classes[class].instances;
        *known = (row.instances().round() as u32).max(*known);
        let outer = |under: &String| rows.iter().position(|outer| outer.caller == *under && is_outer(outer));
        let under = row.under.as_ref().and_then(outer);
        let (times, hold_ns) = (row.acquired as f64 / ops, row.mean_hold_ns().unwrap_or(0.0));
        if let Some(outer) = under {
            let outer = &mut work.visits[outer];
            outer.hold_ns = (outer.hold_ns - hold_ns * times / outer.times).max(0.0);
        }
        work.visits.push(Visit { class, times, hold_ns, under });
    }
    names
}

/// Adds the lines behind a lock. That they are written to is within the time that it is held; only where
/// they come from is new.
fn add_strewn(work: &mut Work, strewn: Strewn, names: &[&str]) {
    let Some(lock) = names.iter().position(|name| *name == strewn.lock) else { return };
    let class = work.classes.len();
    work.classes.push(Class { instances: strewn.count, lines: 1.0, is_lock: false });
    for outer in 0..work.visits.len() {
        let Visit { class: of, times, under, .. } = work.visits[outer];
        if of == lock && under.is_none() {
            let write = Visit { class, times, hold_ns: 0.0, under: Some(outer) };
            work.visits.extend(std::iter::repeat_n(write, strewn.writes));
        }
    }
}

impl Check {
    fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }

    fn is_right(&self) -> bool {
        self.error().abs() <= TOLERANCE
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "work": "model-check", "lists": self.lists, "cpus": 2, "figure": self.figure,
            "predicted": self.predicted, "measured": self.measured, "is_right": self.is_right(),
        })
    }
}

impl Point {
    fn to_single(&self, points: &[Point]) -> Option<f64> {
        let first = points.iter().find(|point| point.cpus == self.cpus && point.lists == "single")?;
        Some(self.outcome.ops_per_s() / first.outcome.ops_per_s())
    }

    fn published(&self) -> Option<f64> {
        let row = PUBLISHED.iter().find(|(lists, cpus, _)| (*lists, *cpus) == (self.lists, self.cpus))?;
        Some(row.2)
    }

    pub(super) fn json(&self, points: &[Point]) -> Value {
        json!({
            "work": "model", "lists": self.lists, "cpus": self.cpus, "ops_s": self.outcome.ops_per_s(),
            "cpu_ns": self.outcome.cpu_ns(), "to_single": self.to_single(points),
            "published_to_single": self.published(),
        })
    }
}

/// Prints the curve, as what it is.
pub(super) fn print_curve(points: &[Point]) -> Result<(), Failure> {
    say(&"\nMODEL, not measured:")?;
    let mut grid = Grid::new(&[
        ("CPUS", Align::Right),
        ("LISTS", Align::Left),
        ("READS/S", Align::Right),
        ("CPU NS", Align::Right),
        ("TO SINGLE", Align::Right),
        ("PUBLISHED", Align::Right),
    ]);
    let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    for point in points {
        grid.row([
            point.cpus.to_string(),
            point.lists.to_owned(),
            format!("{:.0}", point.outcome.ops_per_s()),
            format!("{:.0}", point.outcome.cpu_ns()),
            ratio(point.to_single(points)),
            ratio(point.published()),
        ]);
    }
    Ok(grid.print()?)
}
