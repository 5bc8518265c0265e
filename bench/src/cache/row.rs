//! What is printed: one row for a work, a peer and a number of threads, the middle of its repeats.

use serde::Serialize;

use crate::cache::drive::Outcome;
use crate::report::median;

/// One run, with the floor that was measured right before it.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// What the peer gave.
    pub outcome: Outcome,
    /// CPU time of an operation without any cache, ns.
    pub floor: f64,
    /// What quick_cache took in the same turn, ns, if it took part.
    pub quick: Option<f64>,
}

/// A row of the table, and with [`crate::report::print_json`] a line of JSON.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    work: String,
    peer: String,
    /// Empty for peers that have no choice of lists.
    lists: String,
    threads: usize,
    /// CPU time of one operation, ns.
    cpu_ns: f64,
    /// Operations a second on the wall, of all threads.
    wall_ops: f64,
    /// CPU time of an operation without any cache, ns.
    floor_cpu_ns: f64,
    hit_ratio: f64,
    /// Resident memory beyond the payload, bytes for each value, after the last of the runs.
    overhead_bytes: f64,
    #[serde(skip)]
    by_floor: f64,
    #[serde(skip)]
    by_quick: Option<f64>,
    #[serde(skip)]
    entries: u64,
}

impl Row {
    /// Sums up the runs of one peer, in their order; ratios are formed within a turn. `None` without runs.
    pub fn of(work: String, peer: String, lists: &str, threads: usize, samples: &[Sample]) -> Option<Row> {
        let last = samples.last()?.outcome;
        let middle = |of: fn(&Outcome) -> f64| median(samples.iter().map(|sample| of(&sample.outcome)));
        let ratios = samples.iter().filter_map(|sample| Some(sample.outcome.cpu_ns / sample.quick?));
        let by_quick = median(ratios);
        Some(Row {
            work,
            peer,
            lists: lists.to_owned(),
            threads,
            cpu_ns: rounded(middle(|outcome| outcome.cpu_ns), 10.0),
            wall_ops: middle(|outcome| outcome.wall_ops).round(),
            floor_cpu_ns: rounded(median(samples.iter().map(|sample| sample.floor)), 10.0),
            hit_ratio: rounded(middle(|outcome| outcome.hit_ratio), 1e5),
            overhead_bytes: last.overhead_bytes.round(),
            by_floor: median(samples.iter().map(|sample| sample.outcome.cpu_ns / sample.floor)),
            by_quick: by_quick.is_finite().then_some(by_quick),
            entries: last.entries,
        })
    }

    /// The names of the columns.
    pub fn print_heading() {
        println!(
            "{:<6}{:<17}{:<11}{:>7}{:>10}{:>10}{:>9}{:>9}{:>10}{:>9}{:>11}{:>10}",
            "work",
            "peer",
            "lists",
            "threads",
            "CPU ns",
            "floor ns",
            "x floor",
            "x quick",
            "Mop/s",
            "hits",
            "overhead B",
            "resident"
        );
    }

    /// One line of the table.
    pub fn print(&self) {
        println!(
            "{:<6}{:<17}{:<11}{:>7}{:>10.1}{:>10.1}{:>9.2}{:>9}{:>10.3}{:>9.4}{:>11.0}{:>10}",
            self.work,
            self.peer,
            self.lists,
            self.threads,
            self.cpu_ns,
            self.floor_cpu_ns,
            self.by_floor,
            self.by_quick.map_or("·".to_owned(), |ratio| format!("{ratio:.2}")),
            self.wall_ops / 1e6,
            self.hit_ratio,
            self.overhead_bytes,
            self.entries,
        );
    }
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu_ns: f64, floor: f64, quick: Option<f64>) -> Sample {
        let outcome = Outcome { cpu_ns, wall_ops: 1e6, hit_ratio: 0.5, entries: 7, overhead_bytes: cpu_ns };
        Sample { outcome, floor, quick }
    }

    #[test]
    fn ratios_are_formed_within_a_turn_and_memory_is_that_of_the_end() {
        let samples = [
            sample(120.0, 100.0, Some(60.0)),
            sample(1300.0, 1000.0, None),
            sample(260.0, 200.0, Some(65.0)),
        ];
        let row = Row::of("A1".into(), "lru".into(), "", 2, &samples).unwrap();
        assert_eq!((row.cpu_ns, row.floor_cpu_ns, row.by_floor), (260.0, 200.0, 1.3));
        assert_eq!((row.by_quick, row.overhead_bytes, row.entries), (Some(3.0), 260.0, 7));
        assert_eq!(Row::of("A1".into(), "lru".into(), "", 2, &[]), None);
    }

    #[test]
    fn a_line_of_json_has_the_promised_keys_in_their_order() {
        let row = Row::of("A1".into(), "arcwell".into(), "single", 1, &[sample(1.0, 1.0, None)]).unwrap();
        let promised = r#"{"work":"A1","peer":"arcwell","lists":"single","threads":1,"cpu_ns":1.0,"#
            .to_owned()
            + r#""wall_ops":1000000.0,"floor_cpu_ns":1.0,"hit_ratio":0.5,"overhead_bytes":1.0}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), promised);
    }
}
