//! The columns of `arcwell stat`: one row here is a field, its heading, its help and how it is
//! worked out of statistics.
//!
//! Counters are shown as what they grew by since the line before; on the first line, since the
//! daemon started. Sizes are shown as they are.

use std::fmt::Write;

use arcwell_front::control::Stat;

/// How a column is worked out. Several statistics are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The time of day, UTC.
    Time,
    /// Growth of counters.
    Growth(&'static [&'static str]),
    /// Growth of counters of bytes.
    Bytes(&'static [&'static str]),
    /// Growth of the first in per cent of the growth of all.
    Share(&'static str, &'static str),
    /// Bytes as they are now.
    Level(&'static [&'static str]),
}

/// One field of `arcwell stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Heading, and name for `-f`.
    pub(crate) name: &'static str,
    width: usize,
    source: Source,
    /// What it shows.
    pub(crate) doc: &'static str,
}

const fn column(name: &'static str, width: usize, source: Source, doc: &'static str) -> Column {
    Column { name, width, source, doc }
}

use Source::{Bytes, Growth, Level, Share, Time};

/// Every field.
pub(crate) const COLUMNS: &[Column] = &[
    column("time", 8, Time, "time of day (UTC)"),
    column("read", 5, Growth(&["arc.hits", "arc.misses"]), "blocks asked for"),
    column("hits", 5, Growth(&["arc.hits"]), "of these, found"),
    column("miss", 5, Growth(&["arc.misses"]), "of these, not found"),
    column("hit%", 4, Share("arc.hits", "arc.misses"), "found, per cent"),
    column(
        "ddread",
        6,
        Growth(&["arc.demand_data_hits", "arc.demand_data_misses"]),
        "blocks of data that programs asked for",
    ),
    column("ddhit", 5, Growth(&["arc.demand_data_hits"]), "of these, found"),
    column("ddmis", 5, Growth(&["arc.demand_data_misses"]), "of these, not found"),
    column("ddh%", 4, Share("arc.demand_data_hits", "arc.demand_data_misses"), "found, per cent"),
    column(
        "dmread",
        6,
        Growth(&["arc.demand_metadata_hits", "arc.demand_metadata_misses"]),
        "blocks of metadata that programs asked for",
    ),
    column("dmhit", 5, Growth(&["arc.demand_metadata_hits"]), "of these, found"),
    column("dmmis", 5, Growth(&["arc.demand_metadata_misses"]), "of these, not found"),
    column("dmh%", 4, Share("arc.demand_metadata_hits", "arc.demand_metadata_misses"), "found, per cent"),
    column("pread", 5, Growth(PREFETCH), "blocks that prefetch asked for"),
    column("phit", 5, Growth(&["arc.prefetch_data_hits", "arc.prefetch_metadata_hits"]), "of these, found"),
    column(
        "pmis",
        5,
        Growth(&["arc.prefetch_data_misses", "arc.prefetch_metadata_misses"]),
        "of these, read",
    ),
    column("ph%", 4, Share("arc.prefetch_data_hits", "arc.prefetch_data_misses"), "data found, per cent"),
    column("pused", 5, Growth(&["arc.prefetch_used"]), "blocks read ahead that were then asked for"),
    column("pwast", 5, Growth(&["arc.prefetch_unused"]), "blocks read ahead that nobody asked for"),
    column("size", 5, Level(&["arc.size"]), "memory in use"),
    column("c", 5, Level(&["arc.c"]), "its target"),
    column("cmax", 5, Level(&["arc.c_max"]), "the most that the target can be"),
    column("mru", 5, Level(&["arc.mru_data", "arc.mru_metadata"]), "seen once"),
    column("mfu", 5, Level(&["arc.mfu_data", "arc.mfu_metadata"]), "seen more often"),
    column("meta", 5, Level(&["arc.mru_metadata", "arc.mfu_metadata"]), "metadata"),
    column("ghost", 5, Level(GHOSTS), "evicted but remembered; not in memory"),
    column("mruh", 5, Growth(&["arc.mru_hits"]), "hits of what was seen once"),
    column("mfuh", 5, Growth(&["arc.mfu_hits"]), "hits of what was seen more often"),
    column("mrugh", 5, Growth(&["arc.mru_ghost_hits"]), "asked for soon after it left mru"),
    column("mfugh", 5, Growth(&["arc.mfu_ghost_hits"]), "asked for soon after it left mfu"),
    column("evict", 5, Growth(&["arc.evicted"]), "blocks evicted"),
    column("eskip", 5, Growth(&["arc.evict_skipped"]), "passed by at eviction, being in use"),
    column("mtxmis", 6, Growth(&["arc.mutex_miss"]), "passed by at eviction, being locked"),
    column("refus", 5, Growth(&["arc.refused"]), "not admitted, as nothing could be evicted"),
    column("oop", 5, Growth(&["origin.operations"]), "operations of the origin"),
    column("oread", 5, Bytes(&["origin.read_bytes"]), "bytes read from the origin"),
    column("owrit", 5, Bytes(&["origin.write_bytes"]), "bytes written to the origin"),
    column("oerr", 5, Growth(&["origin.errors"]), "operations of the origin that failed"),
];

const PREFETCH: &[&str] = &[
    "arc.prefetch_data_hits",
    "arc.prefetch_data_misses",
    "arc.prefetch_metadata_hits",
    "arc.prefetch_metadata_misses",
];

const GHOSTS: &[&str] =
    &["arc.mru_ghost_data", "arc.mru_ghost_metadata", "arc.mfu_ghost_data", "arc.mfu_ghost_metadata"];

/// What is shown when nothing is asked for.
const USUAL: &[&str] = &[
    "time", "read", "miss", "hit%", "ddread", "ddh%", "dmread", "dmh%", "pread", "ph%", "size", "c", "mru",
    "mfu", "ghost",
];

/// What `-x` shows.
const EXTENDED: &[&str] = &[
    "time", "read", "miss", "hit%", "mruh", "mfuh", "mrugh", "mfugh", "pused", "pwast", "evict", "eskip",
    "mtxmis", "refus", "meta", "size", "c", "oop", "oread", "owrit",
];

/// The usual columns.
pub(crate) fn usual() -> Vec<&'static Column> {
    USUAL.iter().filter_map(|name| named(name)).collect()
}

/// The extended columns.
pub(crate) fn extended() -> Vec<&'static Column> {
    EXTENDED.iter().filter_map(|name| named(name)).collect()
}

/// The column of a name.
pub(crate) fn named(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}

/// The line of headings.
pub(crate) fn headings(columns: &[&Column]) -> String {
    line(columns, |column| column.name.to_owned())
}

/// The line of values: what changed since `before`, and what is now.
pub(crate) fn values(columns: &[&Column], before: &Stat, now: &Stat) -> String {
    line(columns, |column| column.source.print(before, now))
}

fn line(columns: &[&Column], cell: impl Fn(&Column) -> String) -> String {
    let mut line = String::new();
    for column in columns {
        let separator = if line.is_empty() { "" } else { "  " };
        // Writing to a String cannot fail.
        let _ = write!(line, "{separator}{:>width$}", cell(column), width = column.width);
    }
    line
}

impl Source {
    fn print(self, before: &Stat, now: &Stat) -> String {
        let growth = |name: &str| {
            let (before, now) = (value(before, name), value(now, name));
            // A counter that went back is another daemon's: all of it is new.
            now.checked_sub(before).unwrap_or(now)
        };
        let sum = |names: &[&str]| names.iter().map(|name| growth(name)).sum();
        match self {
            Source::Time => time_of_day(now.time),
            Source::Growth(names) => short(sum(names), 1000, &["", "K", "M", "G", "T", "P"]),
            Source::Bytes(names) => size(sum(names)),
            Source::Level(names) => size(names.iter().map(|name| value(now, name)).sum()),
            Source::Share(part, rest) => match (growth(part), growth(rest)) {
                (0, 0) => "-".to_owned(),
                // Only all is 100: a single miss shows.
                (part, rest) => (part * 100 / (part + rest)).to_string(),
            },
        }
    }
}

fn value(stat: &Stat, name: &str) -> u64 {
    stat.kstats.get(name).copied().unwrap_or(0)
}

fn size(bytes: u64) -> String {
    short(bytes, 1024, &["", "K", "M", "G", "T", "P"])
}

/// A number in at most four characters and a unit.
fn short(number: u64, step: u64, units: &[&str]) -> String {
    let mut scaled = number as f64;
    let mut unit = 0;
    while scaled >= step as f64 && unit + 1 < units.len() {
        scaled /= step as f64;
        unit += 1;
    }
    let digits = if unit > 0 && scaled < 10.0 { 1 } else { 0 };
    format!("{scaled:.digits$}{}", units[unit])
}

fn time_of_day(unix: f64) -> String {
    let seconds = unix as u64 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arcwell::reference;

    fn stat(time: f64, kstats: &[(&str, u64)]) -> Stat {
        Stat { time, kstats: kstats.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect() }
    }

    fn show(names: &[&str], before: &Stat, now: &Stat) -> String {
        let columns: Vec<&Column> = names.iter().filter_map(|name| named(name)).collect();
        assert_eq!(columns.len(), names.len());
        values(&columns, before, now)
    }

    #[test]
    fn every_column_is_made_of_statistics_that_exist() {
        let known: Vec<&str> = reference::kstats().map(|row| row.name).collect();
        for column in COLUMNS {
            let names = match column.source {
                Source::Time => vec![],
                Source::Growth(names) | Source::Bytes(names) | Source::Level(names) => names.to_vec(),
                Source::Share(part, rest) => vec![part, rest],
            };
            for name in names {
                assert!(known.contains(&name), "{}: {name}", column.name);
            }
        }
        assert_eq!((usual().len(), extended().len()), (USUAL.len(), EXTENDED.len()));
    }

    #[test]
    fn the_first_line_is_since_the_start_and_the_next_since_the_one_before() {
        let first = stat(3661.5, &[("arc.hits", 90), ("arc.misses", 10), ("arc.size", 3 << 20)]);
        let second = stat(3662.5, &[("arc.hits", 90), ("arc.misses", 12), ("arc.size", 5 << 30)]);
        let names = ["time", "read", "miss", "hit%", "size"];
        assert_eq!(show(&names, &Stat::default(), &first), "01:01:01    100     10    90   3.0M");
        assert_eq!(show(&names, &first, &second), "01:01:02      2      2     0   5.0G");
        assert_eq!(show(&names, &second, &second), "01:01:02      0      0     -   5.0G");
    }

    #[test]
    fn a_daemon_that_started_again_does_not_show_as_less_than_nothing() {
        let before = stat(1.0, &[("arc.hits", 1000)]);
        let after = stat(2.0, &[("arc.hits", 7)]);
        assert_eq!(show(&["hits"], &before, &after), "    7");
    }

    #[test]
    fn a_single_miss_in_a_million_is_not_a_hundred_per_cent() {
        let now = stat(0.0, &[("arc.hits", 999_999), ("arc.misses", 1)]);
        assert_eq!(show(&["hit%", "hits"], &Stat::default(), &now), "  99  1000K");
    }

    #[test]
    fn headings_stand_above_their_values() {
        let columns = usual();
        let zero = Stat::default();
        assert_eq!(headings(&columns).len(), values(&columns, &zero, &zero).len());
        assert!(COLUMNS.iter().all(|column| column.name.len() <= column.width));
    }
}
