//! `arcwell sim`: what caches of some sizes and policies would have hit on a recorded load.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;

use arcwell::{ByteSize, Error, ListKind};
use arcwell_sim::chart;
use arcwell_sim::curve::{CSV_HEADER, Curves};
use arcwell_sim::policy::{self, POLICIES, Policy, Setup};
use arcwell_sim::sizes::Sizes;
use arcwell_sim::trace::{Columns, Format, Options, Trace, Unit};

use self::picture::Picture;
use self::report::Report;
use self::runs::{Measured, Run};
use super::mount::list_kind;
use crate::Failure;

mod load;
mod picture;
mod report;
mod runs;

/// Replay a trace: what caches of some sizes and policies would have hit
///
/// Every block of the trace counts one, or has its own bytes where sizes are given in bytes. Caches are
/// empty at first, and every request is counted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A trace, packed by zstd, gzip, xz or not at all; given again, further ones
    #[arg(short, long = "trace", value_name = "FILE", required = true)]
    traces: Vec<PathBuf>,

    /// What to call it in tables; given again, the further ones; without it, as its file
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,

    /// What the trace is written in, if its name and first bytes do not tell; --help lists formats
    #[arg(short, long, value_name = "NAME", long_help = formats())]
    format: Option<Format>,

    /// Columns of a csv trace, such as key=lbn,size=4,header=no
    ///
    /// Assignments to key, size, time (a column's name, or its number from 1), separator (a character, or
    /// tab), header (yes, no) and keys (text, number). What is not said is found out from the first line.
    #[arg(long, value_name = "SPEC")]
    columns: Option<Columns>,

    /// Read so many requests and no more
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Sizes of caches: 1000,2000 or 5% or 1GiB or LO..HI:N
    ///
    /// With commas between: 1000 (blocks), 5% (of the distinct blocks), 512MiB (bytes, which need a trace
    /// with sizes, or --block), 1000..64000:7 (so many sizes, each by the same factor larger than the one
    /// before).
    #[arg(short, long, value_name = "LIST", default_value = "1%,2%,5%,10%,20%,50%")]
    sizes: Sizes,

    /// Policies to compare, or all; --help lists them
    #[arg(short, long, value_delimiter = ',', default_value = "lru,arc,arcwell,opt")]
    #[arg(value_name = "NAMES", value_parser = policy_name, long_help = policies())]
    policies: Vec<&'static str>,

    /// Kinds of lists of the cache itself, each a row of its own: single, multilist, pages
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = list_kind)]
    lists: Vec<ListKind>,

    /// Bytes of every block, whatever the trace says
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    block: Option<u64>,

    /// How many replays at once; without it, one for each CPU
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Print comma-separated values: trace, requests, unique, size, policy, hits
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Print one JSON object: what the table has, bytes, and the CPU time of each replay
    #[arg(long)]
    json: bool,

    /// Draw hit ratios by size, as SVG
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let picture = self.chart.as_deref().map(Picture::new).transpose()?;
        if self.names.len() > self.traces.len() {
            return Err(Error::invalid("--name", "there are more names than traces").into());
        }
        let mut out = io::stdout().lock();
        if self.csv {
            writeln!(out, "{CSV_HEADER}")?;
        }
        let mut reports = Vec::new();
        for (place, path) in self.traces.iter().enumerate() {
            let report = self.replay(path, self.names.get(place))?;
            if self.csv {
                write!(out, "{}", report.curves.csv())?;
            } else if !self.json {
                let gap = if place == 0 { "" } else { "\n" };
                write!(out, "{gap}{}", report.text())?;
            }
            out.flush()?;
            reports.push(report);
        }
        if self.json {
            writeln!(out, "{}", serde_json::to_string(&report::json(&reports))?)?;
        }
        if let Some(picture) = picture {
            let curves: Vec<&Curves> = reports.iter().map(|report| &report.curves).collect();
            picture.finish(&chart::svg(&curves))?;
        }
        Ok(())
    }

    /// Replays one trace in caches of every size and policy.
    fn replay(&self, path: &Path, name: Option<&String>) -> Result<Report, Failure> {
        let columns = self.columns.clone().unwrap_or_default();
        let options = Options { format: self.format, columns, limit: self.limit };
        let trace = load::load(path, &options)?;
        let name = name.map_or(trace.name(), String::as_str);
        let capacities = self.capacities(&trace).map_err(|e| e.about(path))?;
        let contenders = self.contenders();

        let mut runs: Vec<Run<'_>> = Vec::new();
        let unit = if self.block.is_some() { Unit::Blocks } else { self.sizes.unit() };
        for (_, capacity) in &capacities {
            runs.extend(contenders.iter().map(|contender| contender.run(&trace, unit, *capacity)));
        }
        let bar = load::bar((trace.len() * runs.len()) as u64, "{percent}%", format!("replaying {name}"))?;
        let measured = runs::all(&runs, self.threads(), &bar)?;
        bar.finish_and_clear();

        let titles = contenders.iter().map(Contender::title).collect();
        let mut curves = Curves::new(name, &trace, self.sizes.unit(), titles);
        for ((size, _), row) in capacities.iter().zip(measured.chunks(contenders.len())) {
            curves.push(*size, row.iter().map(|measured| measured.tally).collect());
        }
        Ok(Report::new(path, &trace, self.block, curves, &measured))
    }

    /// Sizes as they were asked for, and in what the replay counts.
    fn capacities(&self, trace: &Trace) -> Result<Vec<(u64, u64)>, Error> {
        let sizes = self.sizes.of(trace.unique());
        let Some(block) = self.block.filter(|_| self.sizes.unit() == Unit::Bytes) else {
            if self.sizes.unit() == Unit::Bytes && !trace.has_sizes() {
                let what =
                    "its blocks have no sizes; say with --block how large all of them are, or ask for blocks";
                return Err(Error::invalid("simulate caches of bytes for", what));
            }
            return Ok(sizes.into_iter().map(|size| (size, size)).collect());
        };
        let capacity = |size| match size / block {
            0 => {
                let what = format!("there is no block of {} in {}", ByteSize(block), ByteSize(size));
                Err(Error::invalid("simulate", what))
            }
            blocks => Ok((size, blocks)),
        };
        sizes.into_iter().map(capacity).collect()
    }

    /// What is compared, in the order in which it was asked for, each once.
    fn contenders(&self) -> Vec<Contender> {
        let mut rows: Vec<&'static policy::Row> = Vec::new();
        for name in &self.policies {
            let asked = POLICIES.iter().filter(|row| *name == ALL || row.name == *name);
            for row in asked {
                if rows.iter().all(|known| known.name != row.name) {
                    rows.push(row);
                }
            }
        }
        let kinds = |row: &policy::Row| -> Vec<Option<ListKind>> {
            if self.lists.is_empty() || !row.has_lists {
                return vec![None];
            }
            let asked = |kind: &ListKind| self.lists.contains(kind);
            ListKind::ALL.into_iter().filter(asked).map(Some).collect()
        };
        let of_row = |row| kinds(row).into_iter().map(move |lists| Contender { row, lists });
        rows.into_iter().flat_map(of_row).collect()
    }

    fn threads(&self) -> usize {
        let cpus = || thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cpus, usize::from)
    }
}

/// A policy, and the kind of lists that it is to have if one was asked for.
struct Contender {
    row: &'static policy::Row,
    lists: Option<ListKind>,
}

impl Contender {
    fn title(&self) -> String {
        let title = self.row.title;
        self.lists.map_or_else(|| title.to_owned(), |lists| format!("{title}-{}", lists.name()))
    }

    fn run<'a>(&self, trace: &'a Trace, unit: Unit, capacity: u64) -> Run<'a> {
        let row = self.row;
        let lists = self.lists.unwrap_or(ListKind::Single);
        let setup = Setup { capacity, unit, lists, ..Setup::blocks(capacity) };
        let build = Box::new(move || -> Box<dyn Policy> { (row.build)(&setup, trace) });
        Run { build, trace, unit }
    }
}

/// Every policy there is.
const ALL: &str = "all";

fn policy_name(text: &str) -> Result<&'static str, Failure> {
    if text.eq_ignore_ascii_case(ALL) {
        return Ok(ALL);
    }
    let names = || POLICIES.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    let row = policy::find(text).ok_or_else(|| format!("'{text}' is not a policy: {}, {ALL}", names()));
    Ok(row?.name)
}

fn block_size(text: &str) -> Result<u64, Failure> {
    match text.parse()? {
        ByteSize(bytes @ 1..=MAX_BLOCK) => Ok(bytes),
        _ => Err(format!("'{text}' is not a size from 1 byte to {}", ByteSize(MAX_BLOCK)).into()),
    }
}

/// No block is larger than what a trace can say of one.
const MAX_BLOCK: u64 = 1 << 32;

fn policies() -> String {
    let head = format!("Policies, with commas between, or {ALL}:\n");
    POLICIES.iter().fold(head, |text, row| text + &format!("\n{}: {} ({})", row.name, row.about, row.source))
}

fn formats() -> String {
    let head = "What the trace is written in, if its name and first bytes do not tell:\n";
    let line = |text: String, format: Format| text + &format!("\n{format}: {}", format.about());
    Format::ALL.into_iter().fold(head.to_owned(), line)
}
