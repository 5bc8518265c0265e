//! What hits write to, for each kind of lists: the part of `arcwell bench locks` that counts cache lines and
//! not locks.

use std::io;

use arcwell_arc::linestat::{IS_COUNTING, Traffic};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::load::{BLOCK, Bed, Hits, Load, Random, Run, Work};
use crate::grid::{Align, Grid};
use crate::{Failure, say};

/// What a build that counts no lines says.
const UNCOUNTED: &str = "the lines that a hit writes to are not counted: \
     cargo build --release --features lockstat,linestat makes a build that does";

/// What the hits of one kind of lists wrote.
struct Part {
    lists: &'static str,
    run: Run,
    traffic: Traffic,
}

/// Reads that all hit, each of them watched.
struct Watched<'a> {
    hits: Hits<'a>,
    sum: Mutex<Traffic>,
}

impl Work for Watched<'_> {
    fn read(&self, thread: u32, random: &mut Random, buffer: &mut [u8; BLOCK]) -> bool {
        let (is_hit, traffic) = self.hits.watched(thread, random, buffer);
        *self.sum.lock() += traffic;
        is_hit
    }
}

/// Counts what hits write in all caches, and prints it; or says that this build cannot.
pub(super) fn show(load: &Load, beds: &[Bed], cpus: &[usize], as_json: bool) -> Result<(), Failure> {
    if !IS_COUNTING {
        if !as_json {
            say(&UNCOUNTED)?;
        }
        return Ok(());
    }
    let parts = beds.iter().map(|bed| measure(load, bed, cpus)).collect::<io::Result<Vec<Part>>>()?;
    if as_json {
        return Ok(parts.iter().try_for_each(|part| say(&part.json(load.threads())))?);
    }
    say(&format!("lines: writes a hit, {} threads on {} CPUs", load.threads(), cpus.len()))?;
    let mut grid = Grid::new(&[
        ("LISTS", Align::Left),
        ("HITS", Align::Right),
        ("HEADER RMW", Align::Right),
        ("HEADER STORE", Align::Right),
        ("OWN RMW", Align::Right),
        ("OWN STORE", Align::Right),
        ("OTHER RMW", Align::Right),
        ("OTHER STORE", Align::Right),
    ]);
    for part in &parts {
        let figures = part.a_hit().map(|(_, writes)| format!("{writes:.4}"));
        let head = [part.lists.to_owned(), part.run.hits.to_string()];
        grid.row(head.into_iter().chain(figures).collect::<Vec<_>>());
    }
    grid.print()?;
    Ok(say(&"")?)
}

fn measure(load: &Load, bed: &Bed, cpus: &[usize]) -> io::Result<Part> {
    let work = Watched { hits: Hits(bed), sum: Mutex::default() };
    let run = load.run(&work, cpus)?;
    Ok(Part { lists: bed.lists.name, run, traffic: work.sum.into_inner() })
}

impl Part {
    /// Writes a hit, by name.
    fn a_hit(&self) -> [(&'static str, f64); 6] {
        let Traffic { header, own, other } = self.traffic;
        [
            ("header_rmws", header.rmws),
            ("header_stores", header.stores),
            ("own_rmws", own.rmws),
            ("own_stores", own.stores),
            ("other_rmws", other.rmws),
            ("other_stores", other.stores),
        ]
        .map(|(name, writes)| (name, writes as f64 / self.run.hits.max(1) as f64))
    }

    fn json(&self, threads: u32) -> Value {
        let mut row = json!({
            "work": "locks", "phase": "lines", "lists": self.lists, "threads": threads,
            "ops": self.run.ops, "hit_ratio": self.run.hits as f64 / self.run.ops as f64,
        });
        self.a_hit().into_iter().for_each(|(name, writes)| row[name] = writes.into());
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arcwell_arc::linestat::Writes;

    #[test]
    fn writes_are_shown_for_one_hit() {
        let writes = |rmws, stores| Writes { rmws, stores };
        let traffic = Traffic { header: writes(8, 1), own: writes(0, 6), other: writes(2, 0) };
        let part = Part { lists: "some", run: Run { ops: 5, hits: 4, ..Run::default() }, traffic };
        assert_eq!(part.a_hit().map(|(_, writes)| writes), [2.0, 0.25, 0.0, 1.5, 0.5, 0.0]);
        assert_eq!(part.json(3)["other_rmws"], 0.5);
    }
}
