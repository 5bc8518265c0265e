//! What only a device in memory does: be large, count, go back, and crash.

use arcwell_base::vdev::Vdev;

use super::*;
use crate::vdev::{MemCounts, MemVdev};

#[test]
fn a_large_one_takes_memory_for_what_is_written() {
    let vdev = MemVdev::new(100 << 30);
    let data = noise(1, 8192);
    vdev.write((99 << 30) - 4096, &data).unwrap();
    assert_eq!(read(&vdev, (99 << 30) - 4096, 8192).unwrap()[..], data[..]);
    assert_eq!(read(&vdev, 5 << 30, 4096).unwrap()[..], [0; 4096]);
    assert_eq!(vdev.resident(), 128 << 10);
    vdev.discard((99 << 30) - 65536..99 << 30).unwrap();
    assert_eq!(read(&vdev, (99 << 30) - 4096, 4096).unwrap()[..], [0; 4096]);
    assert_eq!(vdev.resident(), 64 << 10, "a whole chunk went");
}

#[test]
fn what_is_asked_is_counted_and_what_is_refused_is_not() {
    let vdev = MemVdev::new(SMALLEST);
    vdev.write(0, &zeros(8192)).unwrap();
    read_all(&vdev, &[(0, 4096), (4096, 4096), (SMALLEST, 4096)]);
    vdev.write(100, &zeros(4096)).unwrap_err();
    vdev.flush().unwrap();
    vdev.discard(0..4096).unwrap();
    let counts =
        MemCounts { reads: 2, read_bytes: 8192, writes: 1, write_bytes: 8192, flushes: 1, discards: 1 };
    assert_eq!(vdev.counts(), counts);
}

#[test]
fn a_snapshot_comes_back_whatever_happened_since() {
    let vdev = MemVdev::new(SMALLEST);
    let data = noise(1, 256 << 10);
    vdev.write(0, &data).unwrap();
    let snapshot = vdev.snapshot();
    vdev.write(4096, &noise(2, 128 << 10)).unwrap();
    vdev.discard(65536..131072).unwrap();
    vdev.flush().unwrap();
    assert_ne!(read(&vdev, 0, data.len()).unwrap()[..], data[..]);
    vdev.restore(&snapshot);
    assert_eq!(read(&vdev, 0, data.len()).unwrap()[..], data[..]);
    // What was not flushed then is not flushed now.
    assert!((0..20).any(|seed| {
        vdev.restore(&snapshot);
        vdev.crash(seed) > 0
    }));
}

/// Old bytes, flushed; new ones over them; and then a crash. Says which of the 16 pages are old.
fn crashed(vdev: &MemVdev, seed: u64) -> Vec<bool> {
    let (old, new) = (noise(1, 65536), noise(2, 65536));
    vdev.write(0, &old).unwrap();
    vdev.flush().unwrap();
    vdev.write(0, &new).unwrap();
    vdev.write(65536, &new).unwrap();
    vdev.crash(seed);
    let now = read(vdev, 0, 131072).unwrap();
    for (page, bytes) in now[65536..].chunks(4096).enumerate() {
        assert!(bytes == &new[page * 4096..][..4096] || bytes.iter().all(|byte| *byte == 0));
    }
    let pages = now[..65536].chunks(4096).zip(old.chunks(4096).zip(new.chunks(4096)));
    pages
        .map(|(now, (old, new))| {
            assert!(now == old || now == new, "a page is the old one or the new one");
            now == old
        })
        .collect()
}

#[test]
fn a_crash_loses_some_of_what_was_not_flushed_and_nothing_else() {
    let lost = |seed| crashed(&MemVdev::new(SMALLEST), seed);
    let all: Vec<Vec<bool>> = (0..40).map(lost).collect();
    assert!(all.iter().any(|lost| lost.iter().all(|is_old| *is_old)), "all of it");
    assert!(all.iter().any(|lost| lost.iter().all(|is_old| !is_old)), "none of it");
    assert!(all.iter().any(|lost| lost[1..].contains(&!lost[0])), "some of it");
    assert_eq!(lost(17), all[17], "a seed's crash is always the same");
}

#[test]
fn what_was_flushed_or_is_durable_survives_any_crash() {
    let (flushed, durable) = (MemVdev::new(SMALLEST), MemVdev::new(SMALLEST).durable());
    let data = noise(3, 65536);
    for seed in 0..20 {
        flushed.write(0, &data).unwrap();
        flushed.flush().unwrap();
        assert_eq!(flushed.crash(seed), 0);
        durable.write(0, &data).unwrap();
        assert_eq!(durable.crash(seed), 0);
        for vdev in [&flushed, &durable] {
            assert_eq!(read(vdev, 0, 65536).unwrap()[..], data[..]);
        }
    }
}
