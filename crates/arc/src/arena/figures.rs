//! Figures of the arena, printed: what churn leaves idle, what a buffer costs, how fast memory comes back.
//!
//! `cargo test --release -p arcwell-arc --lib -- arena::figures --ignored --nocapture --test-threads=1`

use std::time::Instant;

use super::buffer::Buffer;
use super::tests::{Churn, Dice, Lens, even, held_by_kernel, log};
use super::*;

const GIB: f64 = (1 << 30) as f64;

/// Seconds of processors' time that the process has used.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Bytes that the process holds beside the arena.
fn beside(arena: &Arena) -> f64 {
    let held = held_by_kernel(arena) as f64;
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * PAGE as f64 - held
}

/// Pages that the kernel had to fill for the process.
fn faults() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit(") ").next().unwrap().split(' ').nth(7).unwrap().parse().unwrap()
}

#[test]
#[ignore = "prints figures; ARENA_STEPS=100000000 takes ten minutes"]
fn churn() {
    let steps: usize = std::env::var("ARENA_STEPS").map_or(1_000_000, |steps| steps.parse().unwrap());
    for (name, lens) in [("even", even as Lens), ("log", log)] {
        let arena = Arena::new(4 << 30).unwrap();
        let mut churn = Churn::new(&arena, 512 << 20, lens);
        let (mut done, mut worst) = (0, f64::MAX);
        let (started, faulted) = (cpu(), faults());
        while done < steps {
            let next = done + (steps / 100).max(1);
            while done < next {
                done += churn.step();
            }
            let held = held_by_kernel(&arena);
            assert!(held <= arena.resident());
            worst = worst.min(arena.payload() as f64 / held as f64);
        }
        let (seconds, faulted) = (cpu() - started, faults() - faulted);
        arena.validate().unwrap();
        let central = arena.central.lock();
        let end = central.extents.runs().last().map_or(0, |(run, _)| run.start);
        println!(
            "churn {name}, {done} steps: payload at least {:.2} % of resident, {:.2} cpu us a step, \
             {:.1} % of pages filled anew, {} free runs, {:.2} times the address space",
            worst * 100.0,
            seconds * 1e6 / done as f64,
            faulted * 100.0 / churn.pages() as f64,
            central.extents.runs().count(),
            f64::from(end) / central.used() as f64,
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
            let work = || {
                let mut place = arena.alloc(len).unwrap();
                for _ in 0..pairs {
                    // SAFETY: it was given for this length, and is not used any more.
                    unsafe { arena.free(place, len) };
                    place = std::hint::black_box(arena.alloc(len).unwrap());
                }
                // SAFETY: as above.
                unsafe { arena.free(place, len) };
            };
            let started = cpu();
            std::thread::scope(|scope| (0..count).for_each(|_| drop(scope.spawn(work))));
            let ns = (cpu() - started) * 1e9 / f64::from(pairs) / count as f64;
            println!("pairs of {len} B, {count} threads: {ns:.1} cpu ns a pair");
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
        let (mut dice, started) = (Dice(7), cpu());
        let rounds = 1_000_000 / count;
        for _ in 0..rounds {
            for _ in 0..count {
                let place = in_use.swap_remove(dice.roll(in_use.len()));
                // SAFETY: it was given for this length, and is forgotten.
                unsafe { arena.free(place, len) };
            }
            in_use.extend((0..count).map(|_| arena.alloc(len).unwrap()));
        }
        let ns = (cpu() - started) * 1e9 / (rounds * count) as f64;
        println!("{count} of {len} B given back and {count} taken: {ns:.1} cpu ns a pair");
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
        let (before, beside_before) = (held_by_kernel(&arena), beside(&arena));
        let started = Instant::now();
        let mut at = 0;
        buffers.retain(|_| (at += 1, at % one_in == 0).1);
        arena.give_back();
        let seconds = started.elapsed().as_secs_f64();
        let after = held_by_kernel(&arena);
        println!(
            "{name}: {:.2} GiB of {:.2} back at {:.1} GiB/s ({:.2} payload left); filled at {:.1} GiB/s; \
             bookkeeping of the holes: {:.1} MiB",
            (before - after) as f64 / GIB,
            before as f64 / GIB,
            (before - after) as f64 / GIB / seconds,
            arena.payload() as f64 / GIB,
            2.0 / filled,
            (beside(&arena) - beside_before) / (1 << 20) as f64,
        );
    }
}

#[test]
#[ignore = "prints figures"]
fn copies() {
    const BLOCKS: usize = 1 << 17;
    let arena = Arena::new(4 << 30).unwrap();
    let region = Region::reserve(BLOCKS * 8192).unwrap();
    region.want_huge(0..region.len(), false);
    let places: Vec<_> = (0..BLOCKS).map(|_| arena.alloc(8192).unwrap()).collect();
    // SAFETY: both lie where only this thread writes.
    let (ours, plain): (Vec<_>, Vec<_>) =
        unsafe { (0..BLOCKS).map(|at| (arena.bytes(places[at]), region.base().add(at * 8192))).collect() };
    let mut out = vec![0; 8192];
    for block in ours.iter().chain(&plain) {
        // SAFETY: each block has 8192 bytes.
        unsafe { block.write_bytes(1, 8192) };
    }
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    println!("{}", rollup.lines().find(|line| line.starts_with("AnonHuge")).unwrap());
    for round in 1..=3 {
        for (name, blocks) in [("arena", &ours), ("pages of 4 KiB", &plain)] {
            let (mut dice, started) = (Dice(round), cpu());
            for _ in 0..500_000 {
                // SAFETY: as above.
                unsafe {
                    blocks[dice.roll(BLOCKS)]
                        .copy_to_nonoverlapping(std::ptr::NonNull::from(&mut out[0]), 8192)
                };
                std::hint::black_box(&mut out);
            }
            println!("copies of 8 KiB, {name}: {:.0} cpu ns", (cpu() - started) * 1e9 / 500_000.0);
        }
    }
}

#[test]
#[ignore = "prints figures; takes two minutes"]
fn holes() {
    let arena = Arena::new(1 << 30).unwrap();
    let mut buffers: Vec<_> = (0..8192).map(|_| Buffer::new(&arena, 8192).unwrap()).collect();
    buffers.iter_mut().for_each(|buffer| buffer.fill(1));
    let mut at = 0;
    buffers.retain(|_| (at += 1, at % 2 == 0).1);
    arena.give_back();
    for (name, huge) in [("as the arena leaves them", false), ("if the chunks were marked", true)] {
        if huge {
            arena.region.want_huge(0..128 << 20, true);
        }
        let before = held_by_kernel(&arena);
        std::thread::sleep(std::time::Duration::from_secs(60));
        println!("holes {name}: {before} B, and {} a minute later", held_by_kernel(&arena));
    }
}
