//! Each fault does what it says, and where no rule holds nothing is done.

use std::sync::Arc as Shared;
use std::time::Duration;

use arcwell_base::vdev::Vdev;
use rustix::io::Errno;

use super::*;
use crate::vdev::{Call, FaultCounts, FaultyVdev, Kept, MemVdev, Rule};

fn faulty() -> (Shared<MemVdev>, FaultyVdev) {
    let memory = Shared::new(MemVdev::new(SMALLEST));
    memory.write(0, &noise(1, 65536)).unwrap();
    (memory.clone(), FaultyVdev::new(memory))
}

/// Which of the sectors of a range hold `new` rather than `old`.
fn sectors(vdev: &dyn Vdev, offset: u64, old: &[u8], new: &[u8]) -> Vec<bool> {
    let now = read(vdev, offset, old.len()).unwrap();
    let both = old.chunks(512).zip(new.chunks(512));
    now.chunks(512)
        .zip(both)
        .map(|(now, (old, new))| {
            assert!(now == old || now == new);
            now == new
        })
        .collect()
}

#[test]
fn chosen_reads_of_a_batch_fail_and_the_others_succeed() {
    let (memory, vdev) = faulty();
    vdev.add(Rule::fail(&[Call::Read], Errno::IO).within(4096..8192));
    let outcomes = read_all(&vdev, &[(0, 4096), (4096, 4096), (8192, 4096), (0, 8192), (8292, 4096)]);
    let errors: Vec<Option<Errno>> =
        outcomes.iter().map(|outcome| outcome.as_ref().err().map(|error| error.errno())).collect();
    assert_eq!(errors, [None, Some(Errno::IO), None, Some(Errno::IO), Some(Errno::INVAL)]);
    assert_eq!(outcomes[2].as_ref().unwrap()[..], noise(1, 65536)[8192..12288]);
    assert_eq!(memory.counts().reads, 2, "those that fail do not reach the device");
    vdev.write(4096, &zeros(4096)).unwrap();
    vdev.heal();
    assert_eq!(read(&vdev, 4096, 4096).unwrap()[..], zeros(4096)[..]);
    assert_eq!(vdev.counts(), FaultCounts { calls: 7, failed: 2, ..FaultCounts::default() });
}

#[test]
fn one_that_has_vanished_fails_at_everything_until_it_is_healed() {
    let (memory, vdev) = faulty();
    let before = memory.counts();
    vdev.vanish();
    assert_eq!(read(&vdev, 0, 4096).unwrap_err().errno(), Errno::NODEV);
    assert_eq!(vdev.write(0, &zeros(4096)).unwrap_err().errno(), Errno::NODEV);
    assert_eq!(vdev.flush().unwrap_err().errno(), Errno::NODEV);
    assert_eq!(vdev.discard(0..4096).unwrap_err().errno(), Errno::NODEV);
    assert_eq!(memory.counts(), before);
    vdev.heal();
    assert_eq!(read(&vdev, 0, 65536).unwrap()[..], noise(1, 65536)[..]);
    assert_eq!(vdev.counts().failed, 4);
}

#[test]
fn a_torn_write_keeps_a_prefix_or_some_sectors() {
    let (memory, vdev) = faulty();
    let (old, new) = (noise(1, 65536), noise(2, 16384));
    vdev.add(Rule::tear(Kept::Prefix(5000), None).times(1));
    vdev.write(4096, &new).unwrap();
    let kept = sectors(&*memory, 4096, &old[4096..20480], &new);
    assert_eq!(kept, (0..32).map(|sector| sector < 9).collect::<Vec<_>>());
    vdev.add(Rule::tear(Kept::Sectors(5), Some(Errno::IO)).times(1));
    assert_eq!(vdev.write(32768, &new).unwrap_err().errno(), Errno::IO);
    let kept = sectors(&*memory, 32768, &old[32768..49152], &new);
    assert!(kept.contains(&true) && kept.contains(&false), "{kept:?}");
    vdev.write(32768, &new).unwrap();
    assert_eq!(read(&vdev, 32768, 16384).unwrap()[..], new[..], "both rules have had their turn");
    assert_eq!(vdev.counts().torn, 2);
}

#[test]
fn a_lost_write_is_reported_as_done_and_a_range_keeps_its_bytes() {
    let (memory, vdev) = faulty();
    let (old, new) = (noise(1, 65536), noise(2, 8192));
    vdev.add(Rule::lose().within(4096..6144));
    vdev.write(0, &new).unwrap();
    let kept = sectors(&*memory, 0, &old[..8192], &new);
    assert_eq!(kept, (0..16).map(|sector| !(8..12).contains(&sector)).collect::<Vec<_>>());
    vdev.heal();
    vdev.add(Rule::lose());
    vdev.write(16384, &new).unwrap();
    assert_eq!(read(&*memory, 16384, 8192).unwrap()[..], old[16384..24576]);
    assert_eq!(vdev.counts().lost, 2);
}

#[test]
fn a_lost_flush_leaves_all_to_the_crash() {
    let (memory, vdev) = faulty();
    vdev.flush().unwrap();
    vdev.add(Rule::lose_flush());
    vdev.write(0, &noise(2, 65536)).unwrap();
    vdev.flush().unwrap();
    let snapshot = memory.snapshot();
    let lost: usize = (0..20)
        .map(|seed| {
            memory.restore(&snapshot);
            memory.crash(seed)
        })
        .sum();
    assert!(lost > 0);
}

#[test]
fn a_misdirected_write_goes_elsewhere_from_the_end_on_at_the_start() {
    let (memory, vdev) = faulty();
    let (old, new) = (noise(1, 65536), noise(2, 4096));
    vdev.add(Rule::misdirect(8192));
    vdev.write(4096, &new).unwrap();
    assert_eq!(read(&*memory, 4096, 4096).unwrap()[..], old[4096..8192]);
    assert_eq!(read(&*memory, 12288, 4096).unwrap()[..], new[..]);
    vdev.write(SMALLEST - 4096, &new).unwrap();
    assert_eq!(read(&*memory, 4096, 4096).unwrap()[..], new[..]);
    assert_eq!(vdev.counts().misdirected, 2);
}

#[test]
fn a_frozen_range_shows_its_old_bytes_until_it_is_healed() {
    let (_, vdev) = faulty();
    let (old, new) = (noise(1, 65536), noise(2, 16384));
    vdev.freeze(5000..9000).unwrap();
    vdev.write(0, &new).unwrap();
    let seen = read(&vdev, 0, 16384).unwrap();
    assert_eq!(
        (&seen[..4096], &seen[4096..12288], &seen[12288..]),
        (&new[..4096], &old[4096..12288], &new[12288..])
    );
    read(&vdev, 12288, 4096).unwrap();
    assert_eq!(vdev.counts().stale, 1);
    vdev.heal();
    assert_eq!(read(&vdev, 0, 16384).unwrap()[..], new[..]);
}

#[test]
fn flipped_bits_lie_in_their_range_and_nothing_is_changed_on_the_device() {
    let (_, vdev) = faulty();
    let old = noise(1, 65536);
    vdev.add(Rule::flip(1, 9).within(8192..8200));
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20 {
        let now = read(&vdev, 4096, 8192).unwrap();
        let wrong: Vec<usize> = (0..8192).filter(|at| now[*at] != old[4096 + at]).collect();
        assert_eq!(wrong.len(), 1);
        assert!((4096..4104).contains(&wrong[0]), "{wrong:?}");
        seen.insert((wrong[0], now[wrong[0]]));
    }
    assert!(seen.len() > 3, "not always the same bit");
    read(&vdev, 0, 4096).unwrap();
    assert_eq!(vdev.counts().flipped, 20);
    vdev.heal();
    assert_eq!(read(&vdev, 0, 65536).unwrap()[..], old[..]);
}

#[test]
fn a_delay_is_one_for_a_batch_and_hinders_no_other_fault() {
    let (_, vdev) = faulty();
    let time = Duration::from_millis(30);
    vdev.add(Rule::delay(&[Call::Read], time));
    vdev.add(Rule::fail(&[], Errno::IO).every(2));
    let begun = std::time::Instant::now();
    let outcomes = read_all(&vdev, &[(0, 4096), (0, 4096)]);
    assert!(begun.elapsed() >= time);
    assert!(outcomes[0].is_ok() && outcomes[1].is_err());
    assert_eq!((vdev.counts().delayed, vdev.counts().failed), (2, 1));
}
