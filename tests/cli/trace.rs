//! Recordings of a real mount: whole whatever ends them, and equal to what the daemon counted.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};

use arcwell::key::{Kind, ObjectId};
use arcwell::record::{Decoder, Event, Name, Record};
use arcwell_sim::policy;
use arcwell_sim::replay::replay;
use arcwell_sim::trace::{Options, Trace, Unit};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bed::{Bed, Said, big, can_mount, wait_until};

/// A recording under way, into the bed's `recording`.
struct Running {
    child: Child,
}

/// Starts one, and waits until it records.
fn start(bed: &Bed, more: &[&str]) -> Running {
    let file = bed.path("recording");
    let _ = fs::remove_file(&file);
    let mut command = bed.command();
    command.args(["trace", "record", "-o", "recording"]).args(more);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the recording begins", || file.exists());
    Running { child }
}

impl Running {
    /// What it said when it was over, by itself.
    fn ended(self) -> Said {
        self.child.wait_with_output().unwrap().into()
    }

    /// The same after Ctrl-C.
    fn interrupted(self) -> Said {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        self.ended()
    }
}

/// The bytes of a whole recording.
fn unpacked(bed: &Bed) -> Vec<u8> {
    zstd::decode_all(File::open(bed.path("recording")).unwrap()).unwrap()
}

fn events(bed: &Bed) -> Vec<Record> {
    let mut decoder = Decoder::default();
    decoder.feed(&unpacked(bed));
    let records = std::iter::from_fn(|| decoder.next().unwrap()).collect();
    decoder.finish().unwrap();
    records
}

/// Hits and misses, by who asked and for what, as the daemon names them.
const COUNTERS: [&str; 8] = [
    "arc.demand_data_hits",
    "arc.demand_data_misses",
    "arc.demand_metadata_hits",
    "arc.demand_metadata_misses",
    "arc.prefetch_data_hits",
    "arc.prefetch_data_misses",
    "arc.prefetch_metadata_hits",
    "arc.prefetch_metadata_misses",
];

fn counted(bed: &Bed) -> [u64; 8] {
    let all: Value = serde_json::from_str(&bed.run(&["stat", "--json"]).fine()).unwrap();
    COUNTERS.map(|name| all[name].as_u64().unwrap())
}

fn recorded(records: &[Record]) -> [u64; 8] {
    let mut counts = [0; 8];
    for record in records {
        if let Event::Lookup { kind, is_guess, hit, .. } = &record.event {
            let of_data = *kind == Kind::Data;
            counts[4 * usize::from(*is_guess) + 2 * usize::from(!of_data) + usize::from(hit.is_none())] += 1;
        }
    }
    counts
}

/// Reads again and again, writes, lists, removes.
fn work(mnt: &Path) {
    for _ in 0..5 {
        assert_eq!(fs::read(mnt.join("sub/big")).unwrap(), big());
        assert_eq!(fs::read_dir(mnt.join("sub")).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(mnt.join("hello")).unwrap(), "hello, ghost\n");
        fs::write(mnt.join("new"), "through").unwrap();
        assert_eq!(fs::read_to_string(mnt.join("new")).unwrap(), "through");
        fs::remove_file(mnt.join("new")).unwrap();
        assert!(!mnt.join("new").exists());
    }
}

#[test]
fn a_recording_holds_what_the_daemon_counted() {
    if !can_mount() {
        return;
    }
    for coherence in ["exclusive", "notify", "timeout"] {
        let bed = Bed::new();
        bed.mount(&["--coherence", coherence]).fine();
        let before = counted(&bed);
        let running = start(&bed, &[]);
        work(&bed.mountpoint());
        let after = counted(&bed);
        let said = running.interrupted().fine();
        let records = events(&bed);
        let difference: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(recorded(&records)[..], difference, "{coherence}: {COUNTERS:?}");
        assert!(difference[0] > 0 && difference[1] > 0 && difference[2] > 0, "{difference:?}");
        let requests: u64 = difference[..4].iter().sum();
        let hits = difference[0] + difference[2];
        let size = bed.path("recording").metadata().unwrap().len();
        let expected = format!(
            "recorded {} events: {requests} requests, {hits} hits ({:.1} %), 0 events lost; {} in recording\n",
            records.len(),
            hits as f64 * 100.0 / requests as f64,
            arcwell::ByteSize(size),
        );
        assert_eq!(said, expected);
        bed.run(&["umount", "mnt"]).fine();
        bed.assert_clean();
    }
}

#[test]
fn an_unmount_and_a_time_end_a_recording_wholly() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    bed.mount(&["--coherence", "exclusive"]).fine();
    let running = start(&bed, &["--for", "300ms", "--dataset", "mnt"]);
    work(&bed.mountpoint());
    assert!(running.ended().fine().contains(" 0 events lost"));
    assert!(recorded(&events(&bed))[0] > 0);
    let running = start(&bed, &[]);
    let before = counted(&bed);
    work(&bed.mountpoint());
    let after = counted(&bed);
    bed.run(&["umount", "mnt"]).fine();
    assert!(running.ended().fine().starts_with("recorded "));
    let difference: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(recorded(&events(&bed))[..], difference);
    bed.assert_clean();
}

#[test]
fn a_recording_goes_on_as_far_as_a_daemon_that_is_killed() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    bed.mount(&["--coherence", "exclusive"]).fine();
    let running = start(&bed, &[]);
    work(&bed.mountpoint());
    std::thread::sleep(std::time::Duration::from_millis(200));
    bed.end_by(Signal::KILL);
    assert!(running.ended().refused().starts_with("the daemon hung up: "));
    assert!(recorded(&events(&bed))[0] > 0);
    bed.run(&["umount", "mnt"]).fine();
}

#[test]
fn names_are_recorded_when_they_are_asked_for_and_only_then() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    bed.mount(&["--coherence", "exclusive"]).fine();
    for (more, is_plain) in [(&["--names"][..], true), (&[], false)] {
        let running = start(&bed, more);
        work(&bed.mountpoint());
        running.interrupted().fine();
        let bytes = unpacked(&bed);
        assert_eq!(bytes.windows(5).any(|window| window == b"hello"), is_plain);
        let named = events(&bed).into_iter().filter_map(|record| match record.event {
            Event::Object { parent, name, .. } => Some((parent, name)),
            _ => None,
        });
        let (roots, others): (Vec<_>, Vec<_>) = named.partition(|(parent, _)| *parent == ObjectId(0));
        assert_eq!(roots.len(), 1);
        assert!(others.len() >= 3, "hello, sub, sub/big: {others:?}");
        assert!(others.iter().all(|(_, name)| matches!(name, Name::Plain(_)) == is_plain));
    }
    bed.run(&["umount", "mnt"]).fine();
}

#[test]
fn what_cannot_be_recorded_is_refused_in_one_line() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    let record =
        |output: &str, more: &[&str]| bed.run(&[&["trace", "record", "-o", output], more].concat()).refused();
    assert_eq!(record("x", &[]), "nothing is mounted; see arcwell mount --help");
    bed.mount(&["--coherence", "exclusive"]).fine();
    let name = bed.status()["datasets"][0]["name"].as_str().unwrap().to_owned();
    let mnt = bed.mountpoint();
    assert_eq!(
        record("x", &["--dataset", "other"]),
        format!("--dataset: there is no dataset 'other', but {name} at {}", mnt.display())
    );
    assert_eq!(record("no/such", &[]), "record to no/such: No such file or directory");
    assert_eq!(record("/dev/full", &[]), "record to /dev/full: No space left on device");
    let running = start(&bed, &["--dataset", &name]);
    // What lies there is not touched by a recording that is refused.
    fs::write(bed.path("kept"), "kept").unwrap();
    assert_eq!(
        record("kept", &[]),
        format!("record: a recording of dataset '{name}' is under way: one at a time")
    );
    assert_eq!(fs::read_to_string(bed.path("kept")).unwrap(), "kept");
    running.interrupted().fine();
    assert!(bed.run(&["trace", "record", "-o", "x", "--for", "1ms"]).fine().starts_with("recorded "));
    bed.run(&["umount", "mnt"]).fine();
}

#[test]
fn a_recording_replayed_hits_what_the_daemon_hit() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    // Twenty files of 4 MiB in 32 MiB: half of the reads fall on four of them, and two at a time are read.
    for number in 0..20 {
        fs::write(bed.origin().join(format!("f{number}")), vec![number; 4 << 20]).unwrap();
    }
    let set = ["--coherence", "exclusive", "--recordsize", "64K"];
    bed.run(&[&["mount", "origin", "mnt", "--state", "state", "--arc-max", "32M"][..], &set].concat()).fine();
    let running = start(&bed, &[]);
    let mnt = bed.mountpoint();
    std::thread::scope(|scope| {
        for seed in 0..2u64 {
            let mnt = &mnt;
            scope.spawn(move || {
                let mut random = seed;
                let mut below = |limit: u64| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (random >> 33) % limit
                };
                for _ in 0..4000 {
                    let file = if below(2) == 0 { below(4) } else { below(20) };
                    let file =
                        File::options().read(true).write(true).open(mnt.join(format!("f{file}"))).unwrap();
                    let offset = below(64) * (64 << 10);
                    match below(40) {
                        0 => drop(fs::read_dir(mnt).unwrap().count()),
                        1 => file.write_all_at(&[1; 5000], offset).unwrap(),
                        _ => file.read_exact_at(&mut [0; 8192], offset).unwrap(),
                    }
                }
            });
        }
    });
    let line = running.interrupted().fine();
    assert!(line.contains(" 0 events lost"), "{line}");
    bed.run(&["umount", "mnt"]).fine();
    let file = File::open(bed.path("recording")).unwrap();
    let trace = Trace::read("recording", file, &Options::default()).unwrap();
    let recorded = trace.recorded().unwrap();
    let mut cache = policy::as_recorded(&trace).unwrap();
    let replayed = replay(&mut *cache, &trace, Unit::Bytes, |_| ());
    let hits = recorded.hits;
    eprintln!("{} requests, {hits} hits, replayed {}", replayed.requests, replayed.hits);
    assert!(hits > replayed.requests / 4 && hits < replayed.requests * 9 / 10, "no test");
    assert!(hits.abs_diff(replayed.hits) * 200 <= replayed.requests, "{hits} became {}", replayed.hits);
}

#[test]
fn a_recording_is_converted_and_the_input_is_never_lost() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    bed.mount(&["--coherence", "exclusive"]).fine();
    let running = start(&bed, &[]);
    work(&bed.mountpoint());
    running.interrupted().fine();
    bed.run(&["umount", "mnt"]).fine();
    let [requests, others] = {
        let trace =
            Trace::read("x", File::open(bed.path("recording")).unwrap(), &Options::default()).unwrap();
        [trace.requests(), trace.len() as u64 - trace.requests()]
    };
    let said = bed.run(&["trace", "convert", "recording", "out.csv.zst"]).fine();
    let left_out = format!("; {others} entries are not requests and were left out");
    assert_eq!(said, format!("wrote {requests} entries as csv{left_out}\n"));
    let again =
        bed.run(&["trace", "convert", "out.csv.zst", "keys", "--to", "be-i64", "--limit", "5"]).fine();
    assert_eq!(again, "wrote 5 entries as be-i64\n");
    assert_eq!(fs::read(bed.path("keys")).unwrap().len(), 40);
    let refused = |words: &[&str]| bed.run(&[&["trace", "convert"], words].concat()).refused();
    let names = "lbn, u32, be-i64, csv, oracleGeneral, arcwell";
    assert_eq!(
        refused(&["recording", "keys"]),
        format!(
            "convert to keys: its name does not say which format to write; say with --to, one of {names}"
        )
    );
    assert_eq!(refused(&["recording", "x", "--to", "lis"]), format!("--to: 'lis' is not one of {names}"));
    assert_eq!(refused(&["none", "x.csv"]), "read none: No such file or directory");
    assert_eq!(refused(&["recording", "no/x.csv"]), "convert to no/x.csv: No such file or directory");
    // Keys of eight bytes do not fit: what lay there stays, and nothing lies beside it.
    fs::write(bed.path("kept.u32"), "kept").unwrap();
    let before = fs::read_dir(bed.path("")).unwrap().count();
    assert!(refused(&["recording", "kept.u32"]).contains("does not fit u32"));
    assert_eq!(fs::read_to_string(bed.path("kept.u32")).unwrap(), "kept");
    assert_eq!(fs::read_dir(bed.path("")).unwrap().count(), before);
    // Onto itself: read to the end before it is replaced.
    assert!(
        bed.run(&["trace", "convert", "recording", "recording", "--to", "arcwell"])
            .fine()
            .starts_with("wrote ")
    );
    let trace = Trace::read("x", File::open(bed.path("recording")).unwrap(), &Options::default()).unwrap();
    assert_eq!(trace.requests(), requests);
}
