//! Policies: what to keep. One file each, with the paper that it follows.
//!
//! [`POLICIES`] has a row for each. Adding one is a file with an `impl` of [`Policy`], and a row.
//!
//! All work over blocks of any size: a block counts with the size of its last request, one that could
//! never fit is never admitted, and a hit with another size makes room for it. In blocks of one size
//! they are exactly what their papers say; what a paper leaves open is said in the policy's file.

mod arc;
mod arcwell;
mod chain;
mod clock;
mod fifo;
mod lirs;
mod lru;
mod openzfs;
mod opt;
mod s3_fifo;
mod segmap;
mod sieve;
mod sketch;
mod tiny_lfu;
mod two_q;

use std::fmt;

use arcwell_arc::{self as production, ListKind, Overhead, Violation};

use crate::trace::{Access, Act, Trace, Unit};

pub use openzfs::{Fault, Rules};

/// A cache of one size under one policy.
pub trait Policy {
    /// A request. `true` when it is a hit; a miss admits the block, if the policy admits it at all.
    fn request(&mut self, access: Access) -> bool;

    /// Any other act of a recorded trace. Policies of the literature know requests alone.
    fn note(&mut self, _access: Access) {}

    /// Walks the whole state and recounts it: for tests.
    ///
    /// # Errors
    ///
    /// The first rule of its own that the policy breaks.
    fn validate(&self) -> Result<(), Broken>;
}

/// A rule of a policy that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    rule: &'static str,
    source: Option<Violation>,
}

impl Broken {
    /// An invariant of the production cache.
    fn violation(source: Violation) -> Self {
        Broken { rule: "an invariant of the cache", source: Some(source) }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "does not hold: {}", self.rule)
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|violation| violation as _)
    }
}

/// The rule is broken unless `holds`.
fn ensure(holds: bool, rule: &'static str) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { rule, source: None }) }
}

/// What a cache is built for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// How much it holds, in `unit`.
    pub capacity: u64,
    /// What sizes are counted in: those of the accesses that it will be asked for.
    pub unit: Unit,
    /// The lists, for policies that [have some to choose](Row::has_lists).
    pub lists: ListKind,
    /// The value of `arc.move_threshold`, per cent; `None` is its default.
    pub move_threshold: Option<u64>,
    /// Whether the production policy counts its bookkeeping within the capacity, as the daemon does. To
    /// be compared with others it must not; in blocks it cannot.
    pub overhead: Overhead,
}

impl Setup {
    /// A cache of `capacity` blocks, with lists in exact order.
    pub const fn blocks(capacity: u64) -> Self {
        let (unit, lists, overhead) = (Unit::Blocks, ListKind::Single, Overhead::Ignored);
        Setup { capacity, unit, lists, move_threshold: None, overhead }
    }

    /// A cache of `capacity` bytes, with lists in exact order.
    pub const fn bytes(capacity: u64) -> Self {
        Setup { unit: Unit::Bytes, ..Setup::blocks(capacity) }
    }
}

/// One policy that can be had by name.
pub struct Row {
    /// As it is asked for: `s3-fifo`.
    pub name: &'static str,
    /// As tables write it: `S3-FIFO`.
    pub title: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Whether [`Setup::lists`] makes a difference.
    pub has_lists: bool,
    /// An empty cache, and the trace that it will be asked for, from the start.
    pub build: fn(&Setup, &Trace) -> Box<dyn Policy>,
}

/// The policy of that name, in either spelling, whatever the case.
pub fn find(name: &str) -> Option<&'static Row> {
    POLICIES.iter().find(|row| [row.name, row.title].iter().any(|own| own.eq_ignore_ascii_case(name)))
}

/// The cache of the daemon that made a recording, with the settings and the limit that it had; none for
/// any other trace. It is to be asked in [`Unit::Bytes`], and then hits what the daemon hit.
pub fn as_recorded(trace: &Trace) -> Option<Box<dyn Policy>> {
    let recorded = trace.recorded().filter(|recorded| !recorded.is_converted())?;
    Some(Box::new(arcwell::Arcwell::recorded(recorded, trace)))
}

/// OpenZFS's rules in another manner than that of its row: for tests that must tell its old faults.
pub fn openzfs(setup: &Setup, trace: &Trace, rules: Rules) -> Box<dyn Policy> {
    Box::new(openzfs::OpenZfs::new(setup, trace.unique(), rules))
}

/// The blocks that a trace requests, one after another.
fn requested(trace: &Trace) -> impl Iterator<Item = u32> {
    let requests = trace.accesses(Unit::Blocks).filter(|access| access.act == Act::Read);
    requests.map(|access| access.block)
}

/// All policies, the plain ones first and the oracles last.
pub static POLICIES: &[Row] = &[
    Row {
        name: "lru",
        title: "LRU",
        about: "who was not asked for longest goes first",
        source: "Denning, CACM 1968",
        has_lists: false,
        build: |setup, trace| Box::new(lru::Lru::new(setup.capacity, trace.unique())),
    },
    Row {
        name: "fifo",
        title: "FIFO",
        about: "who came first goes first",
        source: "Belady, IBM Systems Journal 1966",
        has_lists: false,
        build: |setup, trace| Box::new(fifo::Fifo::new(setup.capacity, trace.unique())),
    },
    Row {
        name: "clock",
        title: "CLOCK",
        about: "FIFO; whoever was asked for since gets another round",
        source: "Corbató, MIT Project MAC M-384, 1968",
        has_lists: false,
        build: |setup, trace| Box::new(clock::Clock::new(setup.capacity, trace.unique())),
    },
    Row {
        name: "2q",
        title: "2Q",
        about: "a place among the old is earned by coming back after leaving",
        source: "Johnson and Shasha, VLDB 1994",
        has_lists: false,
        build: |setup, trace| Box::new(two_q::TwoQ::new(setup.capacity, trace.unique())),
    },
    Row {
        name: "lirs",
        title: "LIRS",
        about: "keeps what has the shortest distance between its last two uses",
        source: "Jiang and Zhang, SIGMETRICS 2002",
        has_lists: false,
        build: |setup, trace| Box::new(lirs::Lirs::new(setup.capacity, trace.unique())),
    },
    Row {
        name: "s3-fifo",
        title: "S3-FIFO",
        about: "a small queue sifts newcomers before a large one takes them",
        source: "Yang et al., SOSP 2023",
        has_lists: false,
        build: |setup, trace| Box::new(s3_fifo::S3Fifo::new(setup.capacity, trace.unique())),
    },
    Row {
        name: "sieve",
        title: "SIEVE",
        about: "CLOCK whose spared blocks keep their place",
        source: "Zhang et al., NSDI 2024",
        has_lists: false,
        build: |setup, trace| Box::new(sieve::Sieve::new(setup.capacity, trace.unique())),
    },
    Row {
        name: "w-tinylfu",
        title: "W-TinyLFU",
        about: "a newcomer must have been asked for more often than whom it replaces",
        source: "Einziger, Friedman and Manes, ACM ToS 2017",
        has_lists: false,
        build: |setup, trace| Box::new(tiny_lfu::TinyLfu::new(setup.capacity, trace.unique())),
    },
    Row {
        name: "arc",
        title: "ARC",
        about: "used once lately against used often, in the proportion that lately paid",
        source: "Megiddo and Modha, FAST 2003, Figure 4",
        has_lists: false,
        build: |setup, trace| Box::new(arc::Figure4::new(setup.capacity, trace.unique(), arc::Target::Real)),
    },
    Row {
        name: "arc-int",
        title: "ARC-int",
        about: "ARC whose target moves in whole blocks",
        source: "Megiddo and Modha, FAST 2003, as often implemented",
        has_lists: false,
        build: |setup, trace| Box::new(arc::Figure4::new(setup.capacity, trace.unique(), arc::Target::Whole)),
    },
    Row {
        name: "segmap",
        title: "segmap",
        about: "a window of mapped pages in front of the free cachelist, as Solaris had it",
        source: "Mauro and McDougall, Solaris Internals, 2006",
        has_lists: false,
        build: |setup, trace| Box::new(segmap::Segmap::new(setup.capacity, trace.unique(), false)),
    },
    Row {
        name: "segmap-freebehind",
        title: "segmap-freebehind",
        about: "segmap; what is read in sequence does not stay",
        source: "Mauro and McDougall, Solaris Internals, 2006",
        has_lists: false,
        build: |setup, trace| Box::new(segmap::Segmap::new(setup.capacity, trace.unique(), true)),
    },
    Row {
        name: "openzfs",
        title: "OpenZFS",
        about: "ARC with shorter ghosts and smaller steps, as OpenZFS has it",
        source: "OpenZFS, module/zfs/arc.c, August 2026",
        has_lists: false,
        build: |setup, trace| openzfs(setup, trace, Rules::default()),
    },
    Row {
        name: "arcwell",
        title: "Arcwell",
        about: "the cache of the daemon: ARC, or inter-reference recency where that finds more",
        source: "crate arcwell-arc, arc.policy=adaptive",
        has_lists: true,
        build: |setup, trace| Box::new(arcwell::Arcwell::new(setup, trace, production::Policy::Adaptive)),
    },
    Row {
        name: "arcwell-arc",
        title: "Arcwell-ARC",
        about: "the cache of the daemon, held to the rule of ARC",
        source: "crate arcwell-arc, arc.policy=arc",
        has_lists: true,
        build: |setup, trace| Box::new(arcwell::Arcwell::new(setup, trace, production::Policy::Arc)),
    },
    Row {
        name: "opt",
        title: "OPT",
        about: "the farthest next use goes first; every block must come in",
        source: "Belady, IBM Systems Journal 1966",
        has_lists: false,
        build: |setup, trace| {
            Box::new(opt::Opt::new(setup.capacity, trace.unique(), requested(trace), opt::Entry::Forced))
        },
    },
    Row {
        name: "opt-bypass",
        title: "OPT-bypass",
        about: "OPT; a block need not come in",
        source: "Belady, IBM Systems Journal 1966",
        has_lists: false,
        build: |setup, trace| {
            Box::new(opt::Opt::new(setup.capacity, trace.unique(), requested(trace), opt::Entry::Free))
        },
    },
];
