//! The bench `memory`: resident memory of the daemon against its limit.
//!
//! Three works, in the order of the list: `fill` reads half as much again as the cache holds in
//! blocks of 8 KiB; `files` then walks very many small files through the same daemon, so that
//! attributes and names compete with data; `directories` walks very many directories through a fresh
//! daemon that may hold few descriptors.
//!
//! Nothing is dropped from the kernel's caches here: what the kernel remembers, the daemon has to
//! remember too, and that is part of what is weighed.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::arcwell::{Arcwell, Mounting, program};
use crate::cpu::measure;
use crate::report::print_json;
use crate::scratch::Scratch;
use crate::tree::{self, BLOCK};
use crate::walk::{Depth, walk};
use crate::{Result, interrupt};

/// Small files in one directory.
const PER_DIRECTORY: u64 = 1000;
/// Directories in one directory.
const FAN: u64 = 100;
/// Room beyond the limit and its tenth: the program itself.
const ALLOWANCE: u64 = 64 << 20;

/// Resident memory of the daemon against its limit
#[derive(Debug, clap::Args)]
pub struct Options {
    /// One JSON object a line
    #[arg(long)]
    json: bool,

    /// What is done, each in a daemon's life after what stands before it
    #[arg(long, value_delimiter = ',', default_values = ["fill", "files", "directories"])]
    works: Vec<Work>,

    /// The cache's limit, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    arc_max: u64,

    /// Small files to list and ask for attributes
    #[arg(long, default_value_t = 1_000_000)]
    files: u64,

    /// Directories to walk
    #[arg(long, default_value_t = 200_000)]
    directories: u64,

    /// Descriptors that the daemon may hold while directories are walked
    #[arg(long, default_value_t = 1024)]
    descriptors: u64,

    /// Little of everything, within seconds: shows that it works, not how well
    #[arg(long)]
    small: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Work {
    Fill,
    Files,
    Directories,
}

/// What one work left behind.
#[derive(Debug, Serialize)]
struct Weighed {
    kind: &'static str,
    server: &'static str,
    work: Work,
    /// Blocks or entries.
    ops: u64,
    /// `--arc-max`.
    limit_bytes: u64,
    /// 1.10 × the limit + 64 MiB.
    allowed_bytes: u64,
    rss_bytes: u64,
    peak_rss_bytes: u64,
    /// What the cache itself believes to hold.
    arc_size_bytes: Option<u64>,
    /// Whether even the peak was allowed.
    is_within: bool,
    /// Descriptors held at the end.
    descriptors: u64,
    server_cpu_ns: u64,
    wall_ns: u64,
}

/// How much of everything.
struct Plan {
    works: Vec<Work>,
    limit: u64,
    files: u64,
    directories: u64,
    descriptors: u64,
}

impl Options {
    /// With what `--small` makes of it.
    fn shrunk(&self) -> Plan {
        let works = self.works.clone();
        match self.small {
            true => {
                Plan { works, limit: 64 << 20, files: 2000, directories: 1500, descriptors: self.descriptors }
            }
            false => Plan {
                works,
                limit: self.arc_max << 20,
                files: self.files,
                directories: self.directories,
                descriptors: self.descriptors,
            },
        }
    }
}

impl Plan {
    fn blocks(&self) -> u64 {
        self.limit / 2 * 3 / BLOCK as u64
    }

    fn does(&self, work: Work) -> bool {
        self.works.contains(&work)
    }
}

/// Runs the bench.
///
/// # Errors
/// When arcwell does not serve, or an operation fails.
pub fn run(options: &Options) -> Result<()> {
    interrupt::watch()?;
    let (plan, program, scratch) = (options.shrunk(), program()?, Scratch::new()?);
    let mut weighed = Vec::new();
    let mut note = |one: Weighed| -> Result<()> {
        if options.json {
            print_json(&one)?;
        }
        weighed.push(one);
        Ok(())
    };
    if plan.does(Work::Fill) || plan.does(Work::Files) {
        let origin = scratch.directory("origin")?;
        make_files(&origin, &plan)?;
        let how = Mounting {
            name: "filled".to_owned(),
            arc_max: plan.limit,
            recordsize: Some("8K".to_owned()),
            descriptors: None,
        };
        let arcwell = Arcwell::mount(&program, &origin, &scratch, &how)?;
        if plan.does(Work::Fill) {
            note(weigh(&arcwell, Work::Fill, plan.limit, || read_all(&arcwell.mountpoint.join("data")))?)?;
        }
        if plan.does(Work::Files) {
            let root = arcwell.mountpoint.join("files");
            let one = weigh(&arcwell, Work::Files, plan.limit, || walk(&root, Depth::Attributes))?;
            expect(one.ops, plan.files + plan.files.div_ceil(PER_DIRECTORY))?;
            note(one)?;
        }
    }
    if plan.does(Work::Directories) {
        note(walk_directories(&plan, &program, &scratch)?)?;
    }
    if !options.json {
        print(&weighed);
    }
    Ok(())
}

fn walk_directories(plan: &Plan, program: &Path, scratch: &Scratch) -> Result<Weighed> {
    let origin = scratch.directory("directories")?;
    let made = make_directories(&origin, plan.directories)?;
    let how = Mounting {
        name: "few-descriptors".to_owned(),
        arc_max: plan.limit,
        recordsize: None,
        descriptors: Some(plan.descriptors),
    };
    let arcwell = Arcwell::mount(program, &origin, scratch, &how)?;
    let root = &arcwell.mountpoint;
    let one = weigh(&arcwell, Work::Directories, plan.limit, || walk(root, Depth::Attributes))?;
    expect(one.ops, made)?;
    Ok(one)
}

fn expect(seen: u64, made: u64) -> Result<()> {
    if seen == made { Ok(()) } else { Err(format!("{seen} of {made} entries were seen").into()) }
}

/// Does some work and weighs the daemon afterwards.
fn weigh(arcwell: &Arcwell, work: Work, limit: u64, act: impl FnOnce() -> Result<u64>) -> Result<Weighed> {
    let (ops, spent) = measure(arcwell.daemon.clock()?, act)?;
    let allowed = limit + limit / 10 + ALLOWANCE;
    let peak = arcwell.daemon.memory("VmHWM")?;
    let statistics = arcwell.statistics()?;
    Ok(Weighed {
        kind: "run",
        server: "arcwell",
        work,
        ops,
        limit_bytes: limit,
        allowed_bytes: allowed,
        rss_bytes: arcwell.daemon.memory("VmRSS")?,
        peak_rss_bytes: peak,
        arc_size_bytes: statistics.get("arc.size").map(|size| *size as u64),
        is_within: peak <= allowed,
        descriptors: arcwell.daemon.descriptors()?,
        server_cpu_ns: spent.server.as_nanos() as u64,
        wall_ns: spent.wall.as_nanos() as u64,
    })
}

/// Reads a file from its beginning to its end; how many blocks it had.
fn read_all(path: &Path) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 16 * BLOCK];
    let mut bytes = 0;
    loop {
        interrupt::check()?;
        match file.read(&mut buffer)? {
            0 => return Ok(bytes / BLOCK as u64),
            length => bytes += length as u64,
        }
    }
}

fn make_files(origin: &Path, plan: &Plan) -> Result<()> {
    if plan.does(Work::Fill) {
        tree::make_data(&origin.join("data"), 0, plan.blocks())?;
    }
    if plan.does(Work::Files) {
        let root = origin.join("files");
        std::fs::create_dir(&root)?;
        for first in (0..plan.files).step_by(PER_DIRECTORY as usize) {
            let directory = root.join(tree::directory_name(first / PER_DIRECTORY));
            std::fs::create_dir(&directory)?;
            tree::make_small(&directory, PER_DIRECTORY.min(plan.files - first))?;
        }
    }
    Ok(())
}

/// Makes directories in directories, [`FAN`] in each that has any; how many.
fn make_directories(origin: &Path, count: u64) -> Result<u64> {
    let mut made: Vec<PathBuf> = vec![origin.to_owned()];
    for number in 0..count {
        let path = made[(number / FAN) as usize].join(tree::directory_name(number));
        std::fs::create_dir(&path)?;
        // Of those at the end none will be a parent.
        if (made.len() as u64) <= count / FAN {
            made.push(path);
        }
        if number % 256 == 0 {
            interrupt::check()?;
        }
    }
    Ok(count)
}

fn print(weighed: &[Weighed]) {
    println!(
        "{:<13}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>12}{:>9}",
        "work", "ops", "limit", "allowed", "rss", "peak", "within", "descriptors", "seconds"
    );
    let mebibytes = |bytes: u64| format!("{} M", bytes >> 20);
    for one in weighed {
        let name = match one.work {
            Work::Fill => "fill",
            Work::Files => "files",
            Work::Directories => "directories",
        };
        println!(
            "{name:<13}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>12}{:>9.1}",
            one.ops,
            mebibytes(one.limit_bytes),
            mebibytes(one.allowed_bytes),
            mebibytes(one.rss_bytes),
            mebibytes(one.peak_rss_bytes),
            if one.is_within { "yes" } else { "NO" },
            one.descriptors,
            one.wall_ns as f64 / 1e9,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_directories_as_were_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let made = make_directories(directory.path(), 350).unwrap();
        assert_eq!((made, walk(directory.path(), Depth::Names).unwrap()), (350, 350));
    }
}
