//! The bench `fuse`: what one operation through a mount costs, arcwell beside others.
//!
//! All servers run all the time and take turns, each turn beginning with another one.
//!
//! Before a walk the kernel's caches of names and attributes are dropped, so that the server is asked
//! for all of them. That is hard on a server that keeps a record for each file the kernel knows: it
//! was just told to forget them all, and makes them anew, while the bare server has nothing to forget.
//! With `--kernel-caches kept` a walk is what a second `find` is in life: the server is asked for the
//! listings, and the kernel answers the rest. Only root may drop them; for others they are kept, and
//! the output says so.

use std::time::Duration;

use crate::cpu::measure;
use crate::report::{Run, Summary, Task, print_json};
use crate::scratch::Scratch;
use crate::server::{Ground, Kind, Server};
use crate::tree::Shape;
use crate::walk::{Depth, KernelCaches, walk};
use crate::{Result, arcwell, interrupt, read};

/// Data of all readers together, at most.
const DATA_MAX: u64 = 512 << 20;
/// Data of one reader.
const FILE_MAX: u64 = 16 << 20;
/// Into how many a run is cut, between which the others have theirs; a slice of a walk is a walk.
const SLICES: u32 = 8;
/// Walks that fill the caches before anything is measured: attributes may come one walk later than
/// names.
const WARM_WALKS: u32 = 2;

/// CPU time per operation of a server, and of its client, through a FUSE mount
///
/// With --json each run is one line. server_cpu_ns and client_cpu_ns are CPU time of the whole run, of
/// all threads, and ops is what was done in it; server_cpu_ns_per_op and client_cpu_ns_per_op are the
/// quotients. The last line has "kind":"summary" and holds medians and ratios.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// One JSON object a line
    #[arg(long)]
    json: bool,

    /// read: random reads of 8 KiB; find: a walk with an lstat of every entry; statx: a walk that asks
    /// for birth times too; list: a walk that asks for nothing
    #[arg(long, value_delimiter = ',', default_values = ["read", "find", "list"])]
    works: Vec<Work>,

    /// Who takes part
    #[arg(long, value_delimiter = ',', default_values = ["arcwell", "arcwell-8k", "bare", "zfs-fuse"])]
    servers: Vec<Kind>,

    /// Numbers of readers of the work read
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=256),
          default_values = ["1", "8", "32"])]
    threads: Vec<u64>,

    /// Turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,

    /// Seconds of reading in a run
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,

    /// The kernel's caches of names and attributes before a walk: dropping them takes root
    #[arg(long, default_value = "dropped")]
    kernel_caches: KernelCaches,

    /// Little of everything, within seconds: shows that it works, not how well
    #[arg(long)]
    small: bool,
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Work {
    Read,
    Find,
    Statx,
    List,
}

impl Options {
    /// With what `--small` makes of it.
    fn shrunk(&self) -> Plan {
        let time = Duration::try_from_secs_f64(self.seconds).unwrap_or(Duration::from_secs(2));
        let (limits, time, repeat) = match self.small {
            true => ((2 << 20, 8 << 20), time.min(Duration::from_millis(100)), self.repeat.min(1)),
            false => ((FILE_MAX, DATA_MAX), time, self.repeat),
        };
        let readers = self.threads.iter().copied().max().unwrap_or(1);
        let bytes = limits.0.min(limits.1 / readers);
        let (directories, flat) = if self.small { (20, 200) } else { (1000, 20_000) };
        let blocks = (bytes / crate::tree::BLOCK as u64).max(1);
        let shape = Shape { files: readers, blocks, directories, per_directory: 20, flat };
        let slices = if self.small { 1 } else { SLICES };
        Plan { shape, time, repeat, slices, kernel_caches: self.kernel_caches }
    }

    fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for work in &self.works {
            let walks = |work| ["many", "flat"].map(|shape| Task { work, shape, threads: 1 });
            let read = |threads| Task { work: "read", shape: "data", threads };
            match work {
                Work::Read => tasks.extend(self.threads.iter().copied().map(read)),
                Work::Find => tasks.extend(walks("find")),
                Work::Statx => tasks.extend(walks("statx")),
                Work::List => tasks.extend(walks("list")),
            }
        }
        tasks
    }

    /// Those that can take part here.
    fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        for &kind in &self.servers {
            match kind.obstacle() {
                Some(why) => eprintln!("skipped: {}: {why}", kind.name()),
                None if kinds.contains(&kind) => {}
                None => kinds.push(kind),
            }
        }
        kinds
    }
}

struct Plan {
    shape: Shape,
    time: Duration,
    repeat: u64,
    slices: u32,
    kernel_caches: KernelCaches,
}

/// Runs the bench.
///
/// # Errors
/// When a server does not serve, or an operation fails.
pub fn run(options: &Options) -> Result<()> {
    interrupt::watch()?;
    let (plan, kinds) = (options.shrunk(), options.kinds());
    let program = if kinds.iter().any(|kind| kind.is_ours()) { Some(arcwell::program()?) } else { None };
    let scratch = Scratch::new()?;
    let origin = scratch.directory("origin")?;
    if program.is_some() {
        plan.shape.make(&origin)?;
    }
    let ground =
        Ground { scratch: &scratch, shape: &plan.shape, origin: &origin, program: program.as_deref() };
    let mut servers = Vec::new();
    for kind in kinds {
        interrupt::check()?;
        servers.push(Server::start(kind, &ground)?);
    }
    let tasks = options.tasks();
    for server in &servers {
        warm(server, &plan, &tasks)?;
    }
    let runs = turns(&servers, &plan, &tasks, options.json)?;
    let were_kept = runs.iter().any(|run| run.kernel_caches == Some(KernelCaches::Kept));
    if were_kept && plan.kernel_caches == KernelCaches::Dropped {
        eprintln!(
            "not root: the kernel's caches of names and attributes are kept between walks, so walks \
             measure what is left to ask for: listings"
        );
    }
    let summary = Summary::of(&runs);
    if options.json {
        print_json(&summary)
    } else {
        summary.print();
        Ok(())
    }
}

/// Fills a server's cache with what the tasks need.
fn warm(server: &Server, plan: &Plan, tasks: &[Task]) -> Result<()> {
    if tasks.iter().any(|task| task.work == "read") {
        read::warm(&server.root, &plan.shape)?;
    }
    for shape in ["many", "flat"] {
        if tasks.iter().any(|task| task.shape == shape) {
            for _ in 0..WARM_WALKS {
                walk(&server.root.join(shape), Depth::Attributes)?;
                plan.kernel_caches.prepare();
            }
        }
    }
    Ok(())
}

fn turns(servers: &[Server], plan: &Plan, tasks: &[Task], is_json: bool) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for task in tasks {
        for repeat in 0..plan.repeat {
            for run in turn(servers, plan, task, repeat)? {
                if is_json {
                    print_json(&run)?;
                }
                runs.push(run);
            }
            if !is_json {
                let Task { work, shape, threads } = task;
                eprintln!("{work} {shape} with {threads} at once: turn {} of {}", repeat + 1, plan.repeat);
            }
        }
    }
    Ok(runs)
}

/// One run of every server: in slices, so that what disturbs the machine for a second disturbs all.
fn turn(servers: &[Server], plan: &Plan, task: &Task, repeat: u64) -> Result<Vec<Run>> {
    let mut runs: Vec<Option<Run>> = servers.iter().map(|_| None).collect();
    for slice in 0..plan.slices {
        for number in 0..servers.len() {
            interrupt::check()?;
            let place = (number + repeat as usize + slice as usize) % servers.len();
            let run = run_slice(&servers[place], plan, task, repeat)?;
            runs[place] = Some(match runs[place].take() {
                Some(before) => before.and(&run),
                None => run,
            });
        }
    }
    Ok(runs.into_iter().flatten().collect())
}

/// A part of the reading time, or one walk.
fn run_slice(server: &Server, plan: &Plan, task: &Task, repeat: u64) -> Result<Run> {
    let depth = match task.work {
        "find" => Some(Depth::Attributes),
        "statx" => Some(Depth::BirthTimes),
        "list" => Some(Depth::Names),
        _ => None,
    };
    let kernel_caches = depth.map(|_| plan.kernel_caches.prepare());
    let (clock, before) = (server.clock()?, server.origin_operations()?);
    let (ops, spent) = measure(clock, || match depth {
        None => {
            read::run(&server.root, &plan.shape, task.threads, plan.time / plan.slices, server.kind.opening())
        }
        Some(depth) => walk(&server.root.join(task.shape), depth),
    })?;
    let expected = plan.shape.entries(task.shape);
    if depth.is_some() && ops != expected {
        return Err(format!("{} shows {ops} of {expected} entries", server.kind.name()).into());
    }
    let mut run = Run::new(server.kind, task.clone(), repeat, ops, spent);
    run.kernel_caches = kernel_caches;
    run.origin_ops = server.origin_operations()?.zip(before).map(|(now, before)| now - before);
    Ok(run)
}
