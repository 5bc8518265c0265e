//! What the index takes and how fast it is: one test that holds it to its memory, and figures, printed.
//!
//! `cargo test --release -p arcwell-l2arc --lib -- index::figures --ignored --nocapture --test-threads=1`

use std::hint::black_box;

use super::tests::{clear, clear_all, entry, fill, key};
use super::*;
use crate::layout::{Table, TableEntry, UNIT};

/// Bytes of memory that the process holds.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Seconds of processors' time that the process has used.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs one of the ignored tests in a process of its own, where nothing else takes memory.
fn alone(test: &str) {
    let program = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(program);
    let status = command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]).status();
    assert!(status.unwrap().success(), "{test}");
}

#[test]
fn ten_million_blocks_take_twenty_bytes_each_at_most() {
    alone("index::figures::memory_of_many");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn memory_of_many() {
    for count in [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000] {
        let before = resident();
        let index = Index::new();
        fill(&index, 0..count);
        let (len, taken, counted) = (index.len(), (resident() - before) as f64, index.bytes() as f64);
        println!(
            "{count} blocks: {:.2} bytes each resident, {:.2} counted",
            taken / len as f64,
            counted / len as f64
        );
        // Some are lost to a shared tag.
        assert!(len <= count && len > count - count / 5000);
        if count == 10_000_000 {
            assert!(taken <= 20.0 * len as f64, "{taken} bytes for {len} entries");
        }
        // L5. What the process takes beside the index comes in here, too.
        assert!((taken - counted).abs() < 0.01 * taken + 1e6, "resident {taken}, counted {counted}");
        assert_eq!(clear_all(&index), len);
        let left = resident() - before;
        println!("    {left} bytes are left of it when all are removed, {} counted", index.bytes());
        assert!(left < 2 << 20, "{left} bytes are left");
        drop(index);
    }
}

fn blocks() -> u64 {
    std::env::var("INDEX_BLOCKS").map_or(10_000_000, |blocks| blocks.parse().unwrap())
}

fn time(what: &str, count: u64, act: impl FnOnce()) {
    let started = cpu();
    act();
    let seconds = cpu() - started;
    println!("{what}: {:.0} ns each, {:.2} M/s", seconds * 1e9 / count as f64, count as f64 / seconds / 1e6);
}

#[test]
#[ignore = "prints figures"]
fn speed() {
    let count = blocks();
    let index = Index::new();
    time("hash of a key", count, || _ = (0..count).map(|number| black_box(key(number).hash())).max());
    time("put", count, || fill(&index, 0..count));
    // Not in the order in which they came.
    let any = |number: u64| number.wrapping_mul(7_777_777) % count;
    for _ in 0..2 {
        let hits = |number| assert!(black_box(index.get(key(any(number)))).is_some());
        time("get, hit", count, || (0..count).for_each(hits));
        let misses = |number: &u64| black_box(index.get(key(*number))).is_some();
        time("get, miss", count, || {
            assert!((count..2 * count).filter(misses).count() < count as usize / 1000)
        });
    }
    time("remove and put", count, || {
        (0..count).for_each(|number| {
            index.remove(key(any(number)));
            index.put(key(any(number)), entry(number));
        });
    });
    time("remove_device, of eight", count, || _ = index.remove_device(3));
    time("remove", count, || clear(&index, (0..count).map(any)));
}

/// What a rebuild does of a processor's work: tables decoded, entries put. Blocks of 8 KiB in segments of 8 MiB.
#[test]
#[ignore = "prints figures"]
fn rebuild() {
    const EACH: u64 = 1016;
    const AHEAD: usize = 12;
    let index = Index::new();
    let tables = blocks() / EACH;
    let row = |number: u64| TableEntry {
        key: key(number),
        checksum: number,
        offset: (number % EACH * 8192) as u32,
        len: 8192,
        is_metadata: false,
        is_frequent: false,
        is_tombstone: false,
    };
    let encoded: Vec<Vec<u8>> = (0..tables)
        .map(|table| {
            let entries: Vec<TableEntry> = (table * EACH..(table + 1) * EACH).map(row).collect();
            let mut bytes = vec![0; Table::bytes_for(entries.len())];
            let table = Table { device: 7, sequence: table, payload: (EACH * 8192) as u32, entries };
            table.encode(&mut bytes).unwrap();
            assert!(bytes.len().is_multiple_of(UNIT));
            bytes
        })
        .collect();
    let decode = |bytes: &Vec<u8>| Table::decode(bytes, 7).unwrap();
    let count = tables * EACH;
    time("decode", count, || assert!(encoded.iter().all(|bytes| black_box(decode(bytes)).device == 7)));
    time("decode and put", count, || {
        for (number, bytes) in encoded.iter().enumerate() {
            let rows = decode(bytes).entries;
            for (place, row) in rows.iter().enumerate() {
                // Several ahead, so that memory is waited for once for all of them.
                if let Some(later) = rows.get(place + AHEAD) {
                    index.prefetch(later.key);
                }
                let offset = number as u64 * (8 << 20) + u64::from(row.offset);
                index.put(
                    row.key,
                    Entry { checksum: row.checksum, device: 0, offset, len: row.len, ..entry(1) },
                );
            }
        }
    });
    println!("{} entries, {} MiB", index.len(), index.bytes() >> 20);
}
