//! What was measured: one line a run, then the medians and the ratios.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::Result;
use crate::cpu::Spent;
use crate::server::Kind;
use crate::walk::KernelCaches;

/// What a run did.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Task {
    /// `read`, `find`, `statx` or `list`.
    pub work: &'static str,
    /// On what: `data`, `many` or `flat`.
    pub shape: &'static str,
    /// Readers at once.
    pub threads: u64,
}

/// One run of one server. Times are of the whole run; `*_per_op` is what one operation took.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// `run`.
    kind: &'static str,
    /// Who was measured.
    pub server: Kind,
    /// With what.
    #[serde(flatten)]
    pub task: Task,
    /// Which turn, from 0.
    pub repeat: u64,
    /// Reads or entries.
    pub ops: u64,
    server_cpu_ns: u64,
    client_cpu_ns: u64,
    wall_ns: u64,
    server_cpu_ns_per_op: f64,
    client_cpu_ns_per_op: f64,
    /// Operations a second on the wall.
    wall_ops: f64,
    /// Operations that passed the cache, where that is known.
    pub origin_ops: Option<u64>,
    /// What the kernel was allowed to remember, where that matters.
    pub kernel_caches: Option<KernelCaches>,
}

impl Run {
    /// Puts a run together.
    pub fn new(server: Kind, task: Task, repeat: u64, ops: u64, spent: Spent) -> Self {
        let count = ops.max(1) as f64;
        Run {
            kind: "run",
            server,
            task,
            repeat,
            ops,
            server_cpu_ns: spent.server.as_nanos() as u64,
            client_cpu_ns: spent.client.as_nanos() as u64,
            wall_ns: spent.wall.as_nanos() as u64,
            server_cpu_ns_per_op: spent.server.as_nanos() as f64 / count,
            client_cpu_ns_per_op: spent.client.as_nanos() as f64 / count,
            wall_ops: count / spent.wall.as_secs_f64(),
            origin_ops: None,
            kernel_caches: None,
        }
    }

    /// This one and another slice of it, as one.
    #[must_use]
    pub fn and(self, slice: &Run) -> Run {
        let sum = |ours: u64, more: u64| Duration::from_nanos(ours + more);
        let spent = Spent {
            server: sum(self.server_cpu_ns, slice.server_cpu_ns),
            client: sum(self.client_cpu_ns, slice.client_cpu_ns),
            wall: sum(self.wall_ns, slice.wall_ns),
        };
        let origin_ops = self.origin_ops.zip(slice.origin_ops).map(|(ours, more)| ours + more);
        let kernel_caches = self.kernel_caches.max(slice.kernel_caches);
        let whole = Run::new(self.server, self.task, self.repeat, self.ops + slice.ops, spent);
        Run { origin_ops, kernel_caches, ..whole }
    }
}

/// The middle of some runs of one server.
#[derive(Debug, Serialize)]
struct Median {
    server: Kind,
    #[serde(flatten)]
    task: Task,
    runs: usize,
    server_cpu_ns_per_op: f64,
    client_cpu_ns_per_op: f64,
    wall_ops: f64,
    /// The most of all runs.
    origin_ops: Option<u64>,
}

/// One of ours beside another: the middle, the least and the most of the ratios of all turns.
#[derive(Debug, Serialize)]
struct Ratio {
    server: Kind,
    against: Kind,
    #[serde(flatten)]
    task: Task,
    server_cpu: f64,
    server_cpu_least: f64,
    server_cpu_most: f64,
    wall_ops: f64,
}

/// The last line.
#[derive(Debug, Serialize)]
pub struct Summary {
    kind: &'static str,
    medians: Vec<Median>,
    ratios: Vec<Ratio>,
}

impl Summary {
    /// Sums up.
    pub fn of(runs: &[Run]) -> Self {
        let mut groups: BTreeMap<(Task, Kind), Vec<&Run>> = BTreeMap::new();
        for run in runs {
            groups.entry((run.task.clone(), run.server)).or_default().push(run);
        }
        let medians = groups.iter().map(|((task, server), runs)| Median {
            server: *server,
            task: task.clone(),
            runs: runs.len(),
            server_cpu_ns_per_op: median(runs.iter().map(|run| run.server_cpu_ns_per_op)),
            client_cpu_ns_per_op: median(runs.iter().map(|run| run.client_cpu_ns_per_op)),
            wall_ops: median(runs.iter().map(|run| run.wall_ops)),
            origin_ops: runs.iter().filter_map(|run| run.origin_ops).max(),
        });
        let pairs = groups.iter().filter(|((_, ours), _)| ours.is_ours()).flat_map(|((task, ours), runs)| {
            let others = [Kind::Bare, Kind::ZfsFuse].into_iter();
            others
                .filter_map(|other| ratio(task, (*ours, runs), (other, groups.get(&(task.clone(), other))?)))
        });
        let ratios = pairs.collect();
        Summary { kind: "summary", medians: medians.collect(), ratios }
    }

    /// As a table.
    pub fn print(&self) {
        println!(
            "\n{:<6}{:<6}{:>8}  {:<11}{:>5}{:>14}{:>14}{:>11}{:>12}",
            "work",
            "tree",
            "threads",
            "server",
            "runs",
            "server ns/op",
            "client ns/op",
            "kop/s",
            "origin ops"
        );
        for Median { server, task, runs, server_cpu_ns_per_op, client_cpu_ns_per_op, wall_ops, origin_ops } in
            &self.medians
        {
            println!(
                "{:<6}{:<6}{:>8}  {:<11}{runs:>5}{server_cpu_ns_per_op:>14.0}{client_cpu_ns_per_op:>14.0}{:>11.1}{:>12}",
                task.work,
                task.shape,
                task.threads,
                server.name(),
                wall_ops / 1000.0,
                origin_ops.map_or("·".to_owned(), |count| count.to_string()),
            );
        }
        if self.ratios.is_empty() {
            return;
        }
        println!(
            "\n{:<6}{:<6}{:>8}  {:<11}{:<10}{:>12}{:>16}{:>12}",
            "work", "tree", "threads", "server", "against", "server CPU", "least–most", "operations"
        );
        for ratio in &self.ratios {
            let range = format!("{:.2}–{:.2}", ratio.server_cpu_least, ratio.server_cpu_most);
            println!(
                "{:<6}{:<6}{:>8}  {:<11}{:<10}{:>11.2}x{range:>16}{:>11.2}x",
                ratio.task.work,
                ratio.task.shape,
                ratio.task.threads,
                ratio.server.name(),
                ratio.against.name(),
                ratio.server_cpu,
                ratio.wall_ops,
            );
        }
    }
}

fn ratio(task: &Task, ours: (Kind, &[&Run]), other: (Kind, &[&Run])) -> Option<Ratio> {
    let turns =
        ours.1.iter().filter_map(|run| Some((*run, *other.1.iter().find(|o| o.repeat == run.repeat)?)));
    let turns: Vec<(&Run, &Run)> = turns.collect();
    let cpu = || turns.iter().map(|(run, other)| run.server_cpu_ns_per_op / other.server_cpu_ns_per_op);
    (!turns.is_empty()).then(|| Ratio {
        server: ours.0,
        against: other.0,
        task: task.clone(),
        server_cpu: median(cpu()),
        server_cpu_least: cpu().fold(f64::INFINITY, f64::min),
        server_cpu_most: cpu().fold(0.0, f64::max),
        wall_ops: median(turns.iter().map(|(run, other)| run.wall_ops / other.wall_ops)),
    })
}

/// The middle one; of an even number, the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}

/// One line of JSON.
///
/// # Errors
/// When it cannot be written down.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(server: Kind, repeat: u64, server_nanos: u64) -> Run {
        let task = Task { work: "read", shape: "data", threads: 1 };
        let (server_cpu, wall) = (Duration::from_nanos(server_nanos), Duration::from_secs(2));
        Run::new(server, task, repeat, 10, Spent { server: server_cpu, client: Duration::ZERO, wall })
    }

    #[test]
    fn a_ratio_is_formed_within_a_turn() {
        let runs = [
            run(Kind::Arcwell, 0, 120),
            run(Kind::Bare, 0, 100),
            run(Kind::Arcwell, 1, 1300),
            run(Kind::Bare, 1, 1000),
            run(Kind::Arcwell, 2, 1400),
            run(Kind::Bare, 2, 1000),
        ];
        let summary = Summary::of(&runs);
        let [ratio] = summary.ratios.as_slice() else { panic!("{summary:?}") };
        assert_eq!((ratio.server, ratio.against), (Kind::Arcwell, Kind::Bare));
        assert_eq!((ratio.server_cpu, ratio.server_cpu_least, ratio.server_cpu_most), (1.3, 1.2, 1.4));
        assert_eq!(summary.medians.len(), 2);
        assert_eq!((summary.medians[1].server_cpu_ns_per_op, summary.medians[1].wall_ops), (100.0, 5.0));
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    }

    #[test]
    fn a_run_has_the_promised_fields() {
        let json = serde_json::to_value(run(Kind::ArcwellEight, 0, 50)).unwrap();
        assert_eq!((&json["server"], &json["threads"]), (&"arcwell-8k".into(), &1.into()));
        assert_eq!((&json["server_cpu_ns"], &json["ops"]), (&50.into(), &10.into()));
        assert_eq!((&json["client_cpu_ns"], &json["server_cpu_ns_per_op"]), (&0.into(), &5.0.into()));
    }
}
