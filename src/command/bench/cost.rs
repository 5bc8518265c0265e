//! What waiting costs on this machine, measured on one CPU alone.
//!
//! One CPU cannot see a cache line come from another. But the line is not in its own caches, and must
//! be asked for over the same wires as memory: so a load from memory stands for the transfer.

use std::hint::{black_box, spin_loop};
use std::io;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::load::{Bound, Random};
use super::model::Costs;

/// More than the caches of a CPU hold, bytes.
const BEYOND_CACHES: usize = 128 << 20;

/// Loads or turns of a measurement: few enough to be done before anybody else gets the CPU.
const TURNS: u32 = 1 << 12;

/// Measurements, of which the quickest counts: what else the machine did only adds.
const REPEAT: usize = 50;

/// How parking_lot waits before it sleeps: pauses in three rounds, then turns given away.
const PAUSES: u32 = 2 + 4 + 8;
const YIELDS: u32 = 7;

/// Measures on one CPU.
///
/// # Errors
/// When the CPU is not ours.
pub(super) fn measure(cpu: usize) -> io::Result<Costs> {
    let _bound = Bound::to(&[cpu])?;
    Ok(Costs {
        transfer_ns: load_from_memory(),
        spin_ns: f64::from(PAUSES) * quickest(spin_loop),
        yield_ns: quickest(thread::yield_now),
        switch_ns: in_turn(|_| thread::yield_now()),
        yields: YIELDS,
        sleep_ns: in_turn(|other| {
            other.unpark();
            thread::park();
        }),
    })
}

fn quickest(deed: impl Fn()) -> f64 {
    best(|| (0..TURNS).for_each(|_| deed()))
}

/// The time of one of the turns that `all` does, ns.
fn best(mut all: impl FnMut()) -> f64 {
    let timed = |_| {
        let start = Instant::now();
        all();
        start.elapsed().as_nanos() as f64 / f64::from(TURNS)
    };
    (0..REPEAT).map(timed).fold(f64::INFINITY, f64::min)
}

/// A cache line that says where the next one is.
#[derive(Clone)]
#[repr(align(64))]
struct Line(u32);

/// A load that cannot begin before the one before it has ended.
fn load_from_memory() -> f64 {
    let count = (BEYOND_CACHES / size_of::<Line>()) as u32;
    let mut lines: Vec<Line> = (0..count).map(Line).collect();
    let mut random = Random::new(0);
    // One ring through all lines (Sattolo's shuffle).
    for last in (1..count).rev() {
        let other = NonZeroU32::new(last).map_or(0, |end| random.below(end));
        let next = lines[last as usize].0;
        lines[last as usize].0 = lines[other as usize].0;
        lines[other as usize].0 = next;
    }
    let mut at = 0;
    let ns = best(|| (0..TURNS).for_each(|_| at = lines[at as usize].0));
    black_box(at);
    ns
}

/// Two threads that give way to each other: what one of the turns takes, ns.
fn in_turn(give_way: impl Fn(&thread::Thread) + Sync) -> f64 {
    let rounds = u64::from(TURNS / 2);
    let play = |turn: &AtomicU64, mine: u64, other: &thread::Thread| {
        for round in 0..rounds {
            while turn.load(Ordering::Acquire) < 2 * round + mine {
                give_way(other);
            }
            turn.store(2 * round + mine + 1, Ordering::Release);
        }
        other.unpark();
    };
    let first = thread::current();
    best(|| {
        let turn = AtomicU64::new(0);
        thread::scope(|scope| {
            let second = scope.spawn(|| play(&turn, 1, &first));
            play(&turn, 0, second.thread());
        });
    })
}
