//! Every tunable and statistic there is, and the pages that are printed from their rows.
//!
//! `docs/tunables.md` and `docs/kstats.md` are these pages; a test writes them anew and fails when
//! what lay there was something else.

use std::fmt::Write;

use arcwell_arc::{ArcStats, ArcTunables};
use arcwell_backend::OriginStats;
use arcwell_base::table::{KstatForm, KstatRow, TunableRow};
use arcwell_front::control::range;
use arcwell_l2arc::{L2Stats, L2Tunables};
use arcwell_pool::{PoolStats, PoolTunables};

/// The rows of all tunables, by room.
pub fn tunables() -> impl Iterator<Item = &'static TunableRow> {
    [ArcTunables::ROWS, L2Tunables::ROWS, PoolTunables::ROWS].into_iter().flatten()
}

/// The rows of all statistics, by room.
pub fn kstats() -> impl Iterator<Item = &'static KstatRow> {
    [ArcStats::ROWS, L2Stats::ROWS, PoolStats::ROWS, OriginStats::ROWS].into_iter().flatten()
}

/// `docs/tunables.md`.
pub fn tunables_page() -> String {
    let head = "# Tunables\n\n\
        Printed from the code by `cargo xtask docs`; do not edit.\n\n\
        `arcwell get` shows them on a running daemon, `arcwell set NAME=VALUE` changes those that are live, \
        `arcwell mount -o NAME=VALUE` sets any of them at start.\n";
    let columns = ["name", "default", "allowed", "when", "what it does"];
    let rows = tunables().map(|row| {
        let when = if row.live { "live" } else { "at start" };
        let cells = [row.form.print(row.default), range(row), when.to_owned(), row.doc.to_owned()];
        (row.name, cells.to_vec())
    });
    page(head, &columns, rows)
}

/// `docs/kstats.md`.
pub fn kstats_page() -> String {
    let head = "# Statistics\n\n\
        Printed from the code by `cargo xtask docs`; do not edit.\n\n\
        `arcwell stat --json` prints all of them; counters only grow while a daemon runs, gauges go up and \
        down.\n";
    let rows = kstats().map(|row| {
        let form = match row.form {
            KstatForm::Counter => "counter",
            KstatForm::Gauge => "gauge",
        };
        (row.name, vec![form.to_owned(), row.doc.to_owned()])
    });
    page(head, &["name", "form", "what it counts"], rows)
}

/// A page with one table for each room, in which every row is a name and its other cells.
fn page(head: &str, columns: &[&str], rows: impl Iterator<Item = (&'static str, Vec<String>)>) -> String {
    let mut tables: Vec<(&str, String)> = Vec::new();
    for (name, cells) in rows {
        let room = name.split('.').next().unwrap_or(name);
        let place = tables.iter().position(|(known, _)| *known == room).unwrap_or_else(|| {
            let rule = "|---".repeat(columns.len());
            tables.push((room, format!("\n## {room}\n\n| {} |\n{rule}|\n", columns.join(" | "))));
            tables.len() - 1
        });
        // Writing to a String cannot fail.
        let _ = writeln!(tables[place].1, "| `{name}` | {} |", cells.join(" | "));
    }
    tables.into_iter().fold(head.to_owned(), |page, (_, table)| page + &table)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_name_is_given_twice() {
        let mut seen = HashSet::new();
        let names = tunables().map(|row| row.name).chain(kstats().map(|row| row.name));
        for name in names {
            assert!(seen.insert(name), "{name}");
        }
    }

    #[test]
    fn every_default_is_allowed_and_every_row_says_something() {
        for row in tunables() {
            assert!((row.min..=row.max).contains(&row.default), "{}", row.name);
            assert!(row.doc.ends_with('.') && !row.doc.contains('|'), "{}: {}", row.name, row.doc);
        }
        for row in kstats() {
            assert!(row.doc.ends_with('.') && !row.doc.contains('|'), "{}: {}", row.name, row.doc);
        }
    }
}
