//! The bench `cache`: our cache beside others, in memory and without anything around it.
//!
//! Every peer of a work is a process of its own, and all are filled before the first run. Then they take
//! turns: in each turn every peer runs once, right after the floor was measured, and each turn begins with
//! another peer. Idle ones hold their memory: see `--peers` and `--entries` for smaller machines.

pub mod drive;
pub mod floor;
pub mod machine;
pub mod ours;
pub mod peer;
pub mod row;
pub mod seat;
pub mod theirs;
pub mod work;

use clap::builder::PossibleValuesParser;

use crate::Result;
use crate::cache::drive::Order;
use crate::cache::ours::LISTS;
use crate::cache::peer::Name;
use crate::cache::row::{Row, Sample};
use crate::cache::seat::{Seat, spelled};
use crate::cache::work::{Size, VALUE, Work};
use crate::report::print_json;

/// Our cache in memory beside others
#[derive(Debug, clap::Args)]
pub struct Options {
    /// One JSON object a line: the middle of the repeats
    #[arg(long)]
    json: bool,

    /// What is asked of the caches
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Work::ALL)]
    works: Vec<Work>,

    /// Who takes part
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Name::ALL)]
    peers: Vec<Name>,

    /// Our kinds of lists
    #[arg(long, value_delimiter = ',', default_values_t = LISTS.iter().map(|(name, _)| (*name).to_owned()),
          value_parser = PossibleValuesParser::new(LISTS.iter().map(|(name, _)| *name)))]
    lists: Vec<String>,

    /// Threads that ask at once
    #[arg(long, value_delimiter = ',', default_values = ["1", "2", "8", "32"],
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,

    /// Turns of each peer
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,

    /// Keys a call in the additional row of ours in A1; 1 leaves it out
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,

    #[command(flatten)]
    size: Size,
}

/// A row in the making: who sits where, and how many keys a call it takes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    seat: usize,
    batch: usize,
}

/// Runs the bench.
///
/// # Errors
/// When a peer ends or gives wrong bytes; when there is not enough memory for all of them.
pub fn run(options: &Options) -> Result<()> {
    machine::tell();
    if !options.json {
        Row::print_heading();
    }
    options.works.iter().try_for_each(|work| options.run_work(*work))
}

impl Options {
    fn run_work(&self, work: Work) -> Result<()> {
        let sitting = self.sitting(work);
        // Whatever their allocators lose comes on top of the values.
        let payload = u64::from(self.size.entries) * VALUE as u64;
        machine::has_memory((sitting.len() as u64 + 1) * payload / 2 * 3)?;
        // A cheap operation says what it costs in half of the requests.
        let size = Size { ops: self.size.ops.div_ceil(2), ..self.size };
        let work_of_floor = if work == Work::A2 { Work::A2 } else { Work::A1 };
        let lists = String::new();
        let mut floor = Seat::start(drive::Options { peer: Name::Floor, lists, work: work_of_floor, size })?;
        let mut seats = sitting.into_iter().map(Seat::start).collect::<Result<Vec<Seat>>>()?;
        floor.wait_until_ready()?;
        seats.iter_mut().try_for_each(Seat::wait_until_ready)?;

        let entries = self.entries(work, &seats);
        for threads in self.threads.iter().map(|threads| usize::from(*threads)) {
            let mut samples: Vec<Vec<Sample>> = entries.iter().map(|_| Vec::new()).collect();
            for turn in 0..usize::from(self.repeat) {
                take_turn(turn, threads, &entries, &mut floor, &mut seats, &mut samples)?;
            }
            for (entry, samples) in entries.iter().zip(&samples) {
                self.report(work, threads, *entry, &seats[entry.seat], samples)?;
            }
        }
        Ok(())
    }

    /// Who takes part in a work: ours once for each kind of lists.
    fn sitting(&self, work: Work) -> Vec<drive::Options> {
        let with =
            |peer, lists: &str| drive::Options { peer, lists: lists.to_owned(), work, size: self.size };
        let of = |peer: &Name| match peer {
            Name::Arcwell => self.lists.iter().map(|lists| with(Name::Arcwell, lists)).collect(),
            other => vec![with(*other, "")],
        };
        self.peers.iter().flat_map(of).collect()
    }

    fn entries(&self, work: Work, seats: &[Seat]) -> Vec<Entry> {
        let singly = (0..seats.len()).map(|seat| Entry { seat, batch: 1 });
        let has_batches = |seat: &usize| seats[*seat].options.peer == Name::Arcwell;
        let at_once =
            (0..seats.len()).filter(has_batches).map(|seat| Entry { seat, batch: self.batch.into() });
        singly.chain(at_once.filter(|entry| work == Work::A1 && entry.batch > 1)).collect()
    }

    fn report(
        &self,
        work: Work,
        threads: usize,
        entry: Entry,
        seat: &Seat,
        samples: &[Sample],
    ) -> Result<()> {
        let work = match entry.batch {
            1 => spelled(&work),
            batch => format!("{}x{batch}", spelled(&work)),
        };
        let row = Row::of(work, spelled(&seat.options.peer), &seat.options.lists, threads, samples);
        match row {
            Some(row) if self.json => print_json(&row)?,
            Some(row) => row.print(),
            None => {}
        }
        Ok(())
    }
}

/// Lets everybody run once, each turn from another one on.
fn take_turn(
    turn: usize,
    threads: usize,
    entries: &[Entry],
    floor: &mut Seat,
    seats: &mut [Seat],
    samples: &mut [Vec<Sample>],
) -> Result<()> {
    let mut quick = None;
    for place in 0..entries.len() {
        let place = (place + turn) % entries.len();
        let Entry { seat, batch } = entries[place];
        let below = floor.run(Order { threads, batch: 1 })?.cpu_ns;
        let outcome = seats[seat].run(Order { threads, batch })?;
        if seats[seat].options.peer == Name::Quick {
            quick = Some(outcome.cpu_ns);
        }
        samples[place].push(Sample { outcome, floor: below, quick: None });
    }
    for sample in samples.iter_mut().filter_map(|samples| samples.last_mut()) {
        sample.quick = quick;
    }
    Ok(())
}
