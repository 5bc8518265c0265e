//! One peer in a process of its own: it is filled and warmed, then runs as often as it is told.
//!
//! Orders come as lines of JSON on standard input, and each is answered with one line. A process of
//! its own, since what one cache leaves behind in the allocator would be counted as another's memory.
//!
//! CPU time is the sum of the threads' own clocks, around the requests alone: none of these caches works
//! in threads of its own. A sixteenth of the requests of each thread comes first and is checked byte by
//! byte, another warms the processor's caches, and then the clocks run.

use std::io::{BufRead, Write};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::cache::peer::{Name, Peer, Resident};
use crate::cache::work::{Load, Requests, Size, VALUE, Work};
use crate::cpu::CpuClock;
use crate::daemon::memory_of;

/// What the process of a peer is told on its command line.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Which peer it is
    #[arg(long)]
    pub peer: Name,

    /// The kind of lists, for ours
    #[arg(long, default_value = "")]
    pub lists: String,

    /// What is asked of it
    #[arg(long)]
    pub work: Work,

    /// How much
    #[command(flatten)]
    pub size: Size,
}

/// The hidden command that is such a process.
pub const COMMAND: &str = "cache-peer";

/// A run to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Threads that ask at once.
    pub threads: usize,
    /// Keys a call; 1 asks for each by itself.
    pub batch: usize,
}

/// What a run gave.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Of all threads, for one request.
    pub cpu_ns: f64,
    /// Requests a second on the wall.
    pub wall_ops: f64,
    /// Requests that were found, of those for keys that come again.
    pub hit_ratio: f64,
    /// Values in the cache after it.
    pub entries: u64,
    /// Resident memory since before the cache was made, less what the values have, for each value.
    pub overhead_bytes: f64,
}

/// Is such a process until there are no more orders.
///
/// # Errors
/// Bad orders; a cache that gives bytes which are not those that were put in.
pub fn serve(options: &Options) -> Result<()> {
    let load = Load::new(options.work, options.size);
    let mut requests = Requests::new(&load)?;
    // Drawn once before memory is looked at: the requests' own pages are not the cache's.
    requests.draw();
    let before = memory_of(std::process::id(), "VmRSS")?;
    options.peer.enter(&options.lists, &load, Stage { load: &load, requests, before })
}

/// Where a peer plays.
#[derive(Debug)]
pub struct Stage<'a> {
    load: &'a Load,
    requests: Requests,
    /// Resident memory before the cache was made.
    before: u64,
}

impl Stage<'_> {
    /// Fills a cache and obeys the orders.
    ///
    /// # Errors
    /// As [`serve`].
    pub fn play(mut self, peer: &impl Peer) -> Result<()> {
        self.fill(peer)?;
        let mut answers = std::io::stdout().lock();
        writeln!(answers, "{READY}")?;
        for line in std::io::stdin().lock().lines() {
            let order: Order = serde_json::from_str(&line?)?;
            let ran = run(peer, self.load, self.requests.draw(), order)?;
            peer.settle();
            let outcome = self.weigh(&ran, peer.resident())?;
            writeln!(answers, "{}", serde_json::to_string(&outcome)?)?;
        }
        Ok(())
    }

    /// All that fits, or twice as many requests as there are keys; a scan comes into a full cache.
    fn fill(&mut self, peer: &impl Peer) -> Result<()> {
        if self.load.work.fits() {
            (0..self.load.entries).for_each(|key| peer.insert(key, self.load.value(key)));
            return Ok(());
        }
        let mut asked = 0;
        while asked < 2 * self.load.keys as usize {
            run(peer, self.load, self.requests.draw(), Order { threads: 1, batch: 1 })?;
            peer.settle();
            asked += self.load.ops;
        }
        if self.load.work == Work::C {
            self.requests.begin_scan();
        }
        Ok(())
    }

    fn weigh(&self, ran: &Ran, resident: Resident) -> Result<Outcome> {
        let grown = memory_of(std::process::id(), "VmRSS")? as f64 - self.before as f64;
        let count = ran.requests.max(1) as f64;
        Ok(Outcome {
            cpu_ns: ran.cpu.as_nanos() as f64 / count,
            wall_ops: count / ran.wall.as_secs_f64(),
            hit_ratio: ran.tally.hits as f64 / ran.tally.asked.max(1) as f64,
            entries: resident.entries,
            overhead_bytes: (grown - resident.bytes as f64) / resident.entries.max(1) as f64,
        })
    }
}

/// What a process says when it is filled and waits for orders.
pub const READY: &str = "ready";

/// Requests for keys that come again, and how many were found.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    asked: u64,
    hits: u64,
}

/// What all threads of a run did while the clocks ran.
#[derive(Debug)]
struct Ran {
    requests: usize,
    tally: Tally,
    cpu: Duration,
    wall: Duration,
}

/// What one of them did.
struct Part {
    requests: usize,
    tally: Tally,
    cpu: Duration,
    start: Instant,
    end: Instant,
}

fn run(peer: &impl Peer, load: &Load, requests: &[u32], order: Order) -> Result<Ran> {
    let each = requests.len().div_ceil(order.threads.max(1)).max(1);
    let shares: Vec<&[u32]> = requests.chunks(each).collect();
    let barrier = Barrier::new(shares.len());
    let parts: Vec<Part> = std::thread::scope(|scope| {
        let start = |keys| {
            let barrier = &barrier;
            scope.spawn(move || run_thread(peer, load, keys, order.batch, barrier))
        };
        let threads: Vec<_> = shares.into_iter().map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked")?)
            .collect::<Result<_>>()
    })?;
    let (first, last) = (parts.iter().map(|part| part.start).min(), parts.iter().map(|part| part.end).max());
    let (first, last) = first.zip(last).ok_or("nothing was asked")?;
    Ok(Ran {
        requests: parts.iter().map(|part| part.requests).sum(),
        tally: Tally {
            asked: parts.iter().map(|part| part.tally.asked).sum(),
            hits: parts.iter().map(|part| part.tally.hits).sum(),
        },
        cpu: parts.iter().map(|part| part.cpu).sum(),
        wall: last - first,
    })
}

/// Where values are copied to: at a page in all processes, or the copying of the same bytes would take
/// now more and now less time, by where this lies to what is copied.
#[repr(align(4096))]
struct Target([u8; VALUE]);

fn run_thread(peer: &impl Peer, load: &Load, keys: &[u32], batch: usize, barrier: &Barrier) -> Result<Part> {
    let (checked, rest) = keys.split_at(keys.len() / 16);
    let (warming, timed) = rest.split_at(keys.len() / 16);
    let mut out = Box::new(Target([0; VALUE]));
    let out = &mut out.0;
    let is_right = check(peer, load, checked, out);
    ask(peer, load, warming, batch, out);
    // Whoever found wrong bytes meets the others here all the same: they wait for it.
    barrier.wait();
    is_right?;
    let clock = CpuClock::of_this_thread();
    let (start, before) = (Instant::now(), clock.now()?);
    let tally = ask(peer, load, timed, batch, out);
    let cpu = clock.now()?.saturating_sub(before);
    Ok(Part { requests: timed.len(), tally, cpu, start, end: Instant::now() })
}

/// The requests as they are timed.
fn ask(peer: &impl Peer, load: &Load, keys: &[u32], batch: usize, out: &mut [u8]) -> Tally {
    let mut tally = Tally { asked: keys.len() as u64, hits: 0 };
    match load.work {
        Work::A1 if batch > 1 => {
            for keys in keys.chunks(batch) {
                tally.hits += peer.copy_many(keys, out);
            }
        }
        Work::A1 => {
            for key in keys {
                tally.hits += u64::from(peer.copy(*key, out));
                std::hint::black_box(&mut *out);
            }
        }
        Work::A2 => {
            for key in keys {
                tally.hits += u64::from(peer.touch(*key));
            }
        }
        Work::B | Work::C | Work::D => {
            tally.asked = 0;
            for key in keys {
                let is_there = peer.touch(*key);
                if !is_there {
                    peer.insert(*key, load.value(*key));
                }
                let comes_again = *key < load.keys;
                tally.asked += u64::from(comes_again);
                tally.hits += u64::from(comes_again && is_there);
            }
        }
    }
    tally
}

/// The same requests with a look at every byte.
fn check(peer: &impl Peer, load: &Load, keys: &[u32], out: &mut [u8]) -> Result<()> {
    for key in keys {
        let value = load.value(*key);
        let length = value.len().min(out.len());
        if !peer.copy(*key, &mut out[..length]) {
            peer.insert(*key, value);
        } else if out[..length] != value[..length] {
            return Err(format!("the value of {key} is not the one that was put in").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { entries: 64, keys: 512, ops: 3200 };

    /// Holds even keys, and gives the values of the keys after them if it is told to.
    struct Half<'a>(&'a Load, u32);

    impl Peer for Half<'_> {
        fn copy(&self, key: u32, out: &mut [u8]) -> bool {
            out.copy_from_slice(&self.0.value(key + self.1)[..out.len()]);
            self.touch(key)
        }

        fn touch(&self, key: u32) -> bool {
            key.is_multiple_of(2)
        }

        fn insert(&self, _key: u32, _value: &[u8]) {}

        fn resident(&self) -> Resident {
            Resident { entries: 1, bytes: 1 }
        }
    }

    fn ran(work: Work, order: Order, off_by: u32) -> Result<Ran> {
        let load = Load::new(work, SIZE);
        let mut requests = Requests::new(&load)?;
        if work == Work::C {
            requests.begin_scan();
        }
        run(&Half(&load, off_by), &load, requests.draw(), order)
    }

    #[test]
    fn hits_are_counted_on_what_comes_again_and_outside_of_the_warming() {
        for (work, timed, asked) in [(Work::A1, 2800, 2800), (Work::A2, 2800, 2800), (Work::C, 2800, 1400)] {
            for order in [Order { threads: 1, batch: 1 }, Order { threads: 4, batch: 8 }] {
                let ran = ran(work, order, 0).unwrap();
                assert_eq!((ran.requests, ran.tally.asked), (timed, asked), "{work:?} {order:?}");
                assert!((asked / 4..asked * 3 / 4).contains(&ran.tally.hits), "{work:?}: {ran:?}");
                assert!(ran.cpu > Duration::ZERO && ran.wall > Duration::ZERO);
            }
        }
    }

    #[test]
    fn foreign_bytes_are_found() {
        let failure = ran(Work::A1, Order { threads: 2, batch: 1 }, 1).unwrap_err();
        assert!(failure.to_string().contains("is not the one that was put in"), "{failure}");
    }
}
