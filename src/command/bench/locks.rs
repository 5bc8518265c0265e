//! `arcwell bench locks`: who waited for which lock, for each kind of lists, as lockstat shows it, and which
//! cache lines hits write to.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use arcwell_base::lock::lockstat::{self, Row};
use serde_json::json;

use super::UNCOUNTED;
use super::lines;
use super::load::{self, Hits, Load, Misses, Run};
use crate::grid::{Align, Grid};
use crate::{Failure, say};

/// Count the locks that reads take and wait for, for each kind of lists
///
/// Once while all reads hit, and once while about half of them miss and fill the cache anew. Needs a
/// build that counts locks: cargo build --release --features lockstat. One that counts cache lines too (features
/// lockstat,linestat) shows which of them hits write to.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    load: Load,

    /// Print one JSON object for each kind of lists, phase, lock and caller, and one for each sum
    #[arg(long)]
    json: bool,
}

/// What happened with one kind of lists.
struct Part {
    lists: &'static str,
    run: Run,
    rows: Vec<Row>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        if !lockstat::IS_COUNTING {
            return Err(UNCOUNTED.into());
        }
        let cpus = load::cpus()?;
        let beds = self.load.caches(0)?;
        for phase in ["hits", "misses"] {
            let mut parts = Vec::new();
            for bed in &beds {
                lockstat::reset();
                let run = match phase {
                    "hits" => self.load.run(&Hits(bed), &cpus)?,
                    _ => self.load.run(&Misses(bed), &cpus)?,
                };
                parts.push(Part { lists: bed.lists.name, run, rows: lockstat::table() });
            }
            match self.json {
                true => self.print_json(phase, &parts)?,
                false => print(phase, self.load.threads(), cpus.len(), &parts)?,
            }
            if phase == "hits" {
                lines::show(&self.load, &beds, &cpus, self.json)?;
            }
        }
        Ok(())
    }

    fn print_json(&self, phase: &str, parts: &[Part]) -> Result<(), Failure> {
        for part in parts {
            let waits = part.waits();
            let head = json!({
                "work": "locks", "phase": phase, "lists": part.lists, "threads": self.load.threads(),
                "ops": part.run.ops, "cpu_ns": part.run.cpu_ns(),
                "hit_ratio": part.run.hits as f64 / part.run.ops as f64,
                "acquired": part.rows.iter().map(|row| row.acquired).sum::<u64>(), "contended": waits,
            });
            say(&head)?;
            for row in &part.rows {
                say(&json!({
                    "work": "locks", "phase": phase, "lists": part.lists, "lock": row.lock,
                    "caller": row.caller, "acquired": row.acquired, "contended": row.contended,
                    "share": share(row.contended, waits), "waited_ns": row.waited_ns,
                    "failed_tries": row.failed_tries, "hold_ns": row.mean_hold_ns(),
                }))?;
            }
        }
        Ok(())
    }
}

impl Part {
    fn waits(&self) -> u64 {
        self.rows.iter().map(|row| row.contended).sum()
    }
}

fn share(count: u64, all: u64) -> f64 {
    count as f64 / all.max(1) as f64
}

/// One phase, with the kinds beside each other: what each lock was before, and what became of it.
fn print(phase: &str, threads: u32, cpus: usize, parts: &[Part]) -> Result<(), Failure> {
    say(&format!("{phase}: {threads} threads on {cpus} CPUs"))?;
    for part in parts {
        let (run, taken) = (&part.run, part.rows.iter().map(|row| row.acquired).sum::<u64>());
        say(&format!(
            "  {}: {} reads, {:.1} % hits, {:.0} ns of a CPU each; {:.3} locks taken and {:.5} waited for a read",
            part.lists,
            run.ops,
            100.0 * share(run.hits, run.ops),
            run.cpu_ns(),
            share(taken, run.ops),
            share(part.waits(), run.ops),
        ))?;
    }
    let headings: Vec<[String; 4]> = parts
        .iter()
        .map(|part| {
            ["TAKEN", "COUNT", "SHARE", "NS"].map(|word| format!("{} {word}", part.lists.to_uppercase()))
        })
        .collect();
    let mut columns: Vec<(&str, Align)> =
        headings.iter().flatten().map(|heading| (heading.as_str(), Align::Right)).collect();
    columns.extend([("LOCK", Align::Left), ("CALLER", Align::Left)]);
    let mut grid = Grid::new(&columns);
    for Beside { lock, caller, rows } in beside_each_other(parts) {
        let cells = rows.iter().zip(parts).flat_map(|(row, part)| cells(*row, part.waits()));
        grid.row(cells.chain([lock.to_owned(), caller.to_owned()]).collect::<Vec<_>>());
    }
    grid.lines().iter().try_for_each(|line| say(line))?;
    say(&"")?;
    Ok(())
}

/// One lock and caller in all parts; `None` where it does not occur.
struct Beside<'a> {
    lock: &'a str,
    caller: &'a str,
    rows: Vec<Option<&'a Row>>,
}

/// The rows of all parts by lock and caller, the most contended first.
fn beside_each_other(parts: &[Part]) -> Vec<Beside<'_>> {
    let mut found: BTreeMap<(&str, &str), Vec<Option<&Row>>> = BTreeMap::new();
    for (place, part) in parts.iter().enumerate() {
        for row in &part.rows {
            found.entry((row.lock, &row.caller)).or_insert_with(|| vec![None; parts.len()])[place] =
                Some(row);
        }
    }
    let beside = |((lock, caller), rows)| Beside { lock, caller, rows };
    let mut all: Vec<Beside<'_>> = found.into_iter().map(beside).collect();
    all.sort_by_key(|beside| {
        Reverse(beside.rows.iter().flatten().map(|row| (row.contended, row.acquired)).max())
    });
    all
}

fn cells(row: Option<&Row>, waits: u64) -> [String; 4] {
    let Some(row) = row else { return ["-", "-", "-", "-"].map(str::to_owned) };
    [
        row.acquired.to_string(),
        row.contended.to_string(),
        format!("{:.0}%", 100.0 * share(row.contended, waits)),
        (row.waited_ns / row.contended.max(1)).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(lists: &'static str, rows: &[(&'static str, u64)]) -> Part {
        let row = |&(lock, contended)| Row {
            lock,
            caller: "a:1".to_owned(),
            acquired: 100,
            contended,
            ..Row::default()
        };
        Part { lists, run: Run::default(), rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn a_lock_that_one_kind_does_not_have_is_blank_there() {
        let parts = [part("before", &[("list", 30), ("shard", 10)]), part("after", &[("shard", 20)])];
        let rows = beside_each_other(&parts);
        let shown: Vec<(&str, Vec<Option<u64>>)> = rows
            .iter()
            .map(|beside| (beside.lock, beside.rows.iter().map(|row| row.map(|row| row.contended)).collect()))
            .collect();
        assert_eq!(shown, [("list", vec![Some(30), None]), ("shard", vec![Some(10), Some(20)])]);
        assert_eq!(cells(rows[0].rows[0], parts[0].waits()), ["100", "30", "75%", "0"]);
        assert_eq!(cells(None, 0), ["-"; 4]);
    }
}
