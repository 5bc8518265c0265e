//! Figures of the arena, printed: what churn leaves idle, what a buffer costs, how fast memory comes back.
//!
//! `cargo test --release -p arcwell-arc --lib -- arena::figures --ignored --nocapture --test-threads=1`

use std::time::Instant;

use super::tests::{Churn, Dice, even, held_by_kernel, log};
use super::*;

const GIB: f64 = (1 << 30) as f64;

/// Seconds of processors' time that the process has used.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn threads(count: usize, act: impl Fn(u64) + Sync) -> f64 {
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 1..=count as u64 {
            let act = &act;
            scope.spawn(move || act(thread));
        }
    });
    started.elapsed().as_secs_f64()
}

#[test]
#[ignore = "prints figures; minutes"]
fn churn() {
    let steps: usize = std::env::var("ARENA_STEPS").map_or(100_000_000, |steps| steps.parse().unwrap());
    type Lens = fn(&mut Dice) -> usize;
    for (name, lens) in [("even", even as Lens), ("log", log)] {
        let arena = Arena::new(4 << 30).unwrap();
        let started = cpu();
        let mut churn = Churn::new(&arena, 512 << 20, lens);
        let (mut done, mut worst) = (0, f64::MAX);
        while done < steps {
            let next = done + (steps / 100).max(1);
            while done < next {
                done += churn.step();
            }
            let held = held_by_kernel(&arena);
            assert!(held <= arena.resident());
            worst = worst.min(arena.payload() as f64 / held as f64);
        }
        let central = arena.central.lock();
        let (runs, used) = (central.extents.runs().count(), central.used());
        let end = central.extents.runs().last().map_or(0, |(run, _)| run.start);
        let filled = central.filled_pages as f64 / central.taken_pages as f64;
        println!(
            "churn {name}: payload at least {:.2} % of resident, {done} steps, {:.2} us each, {:.1} % of pages were new; \
             {runs} free runs, address space {:.2} x",
            worst * 100.0,
            (cpu() - started) * 1e6 / done as f64,
            filled * 100.0,
            f64::from(end) / used as f64,
        );
    }
}

#[test]
#[ignore = "prints figures"]
fn pairs() {
    const PAIRS: u32 = 5_000_000;
    for len in [100, 1000, 4096, 8192, 131_072, 1 << 20] {
        for count in [1, 2, 8] {
            let arena = Arena::new(16 << 30).unwrap();
            let in_use: Vec<_> =
                (0..(1_usize << 30) / len.max(4096)).map(|_| Buffer::new(&arena, len).unwrap()).collect();
            let pairs = if len > 200_000 { PAIRS / 10 } else { PAIRS };
            let seconds = threads(count, |_| {
                let mut place = arena.alloc(len).unwrap();
                for _ in 0..pairs {
                    // SAFETY: it was given for this length, and is not used any more.
                    unsafe { arena.free(place, len) };
                    place = std::hint::black_box(arena.alloc(len).unwrap());
                }
                // SAFETY: as above.
                unsafe { arena.free(place, len) };
            });
            let cpus = count.min(std::thread::available_parallelism().map_or(1, usize::from));
            println!(
                "pairs of {len} B, {count} threads: {:.1} cpu ns a pair",
                seconds * 1e9 * cpus as f64 / f64::from(pairs) / count as f64
            );
            drop(in_use);
        }
    }
}

#[test]
#[ignore = "prints figures"]
fn batches() {
    for (len, count) in [(8192, 16), (8192, 64), (8192, 256), (131_072, 16)] {
        let arena = Arena::new(16 << 30).unwrap();
        let mut in_use: Vec<_> = (0..(1_usize << 30) / len).map(|_| arena.alloc(len).unwrap()).collect();
        let (mut dice, started) = (Dice(7), Instant::now());
        let rounds = 1_000_000 / count;
        for _ in 0..rounds {
            for _ in 0..count {
                let place = in_use.swap_remove(dice.roll(in_use.len()));
                // SAFETY: it was given for this length, and is forgotten.
                unsafe { arena.free(place, len) };
            }
            in_use.extend((0..count).map(|_| arena.alloc(len).unwrap()));
        }
        let ns = started.elapsed().as_secs_f64() * 1e9 / (rounds * count) as f64;
        println!("{count} of {len} B given back and {count} taken: {ns:.1} ns a pair");
    }
}

#[test]
#[ignore = "prints figures"]
fn giving_back() {
    for (name, len, one_in) in [
        ("all of 8 KiB", 8192, 1_000_000),
        ("half of 8 KiB, scattered", 8192, 2),
        ("half of 1 MiB, scattered", 1 << 20, 2),
        ("nine of ten of 500 B", 500, 10),
    ] {
        let arena = Arena::new(16 << 30).unwrap();
        let filled = Instant::now();
        let mut buffers: Vec<_> = (0..(2_usize << 30) / len)
            .map(|_| {
                let mut buffer = Buffer::new(&arena, len).unwrap();
                buffer.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
                buffer
            })
            .collect();
        let filled = filled.elapsed().as_secs_f64();
        let before = held_by_kernel(&arena);
        let started = Instant::now();
        let mut at = 0;
        buffers.retain(|_| (at += 1, at % one_in == 0).1);
        arena.give_back();
        let seconds = started.elapsed().as_secs_f64();
        let after = held_by_kernel(&arena);
        println!(
            "{name}: {:.2} GiB of {:.2} back at {:.1} GiB/s ({:.2} payload left); filled at {:.1} GiB/s",
            (before - after) as f64 / GIB,
            before as f64 / GIB,
            (before - after) as f64 / GIB / seconds,
            arena.payload() as f64 / GIB,
            2.0 / filled,
        );
    }
}
