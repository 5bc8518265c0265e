//! Flash behind a real mount: made, warm after a restart, and no hindrance when it is not to be had.

use std::fs;

use crate::bed::{Bed, big, can_mount, wait_until};
use rustix::process::Signal;

const SMALL: [&str; 6] = ["--coherence", "exclusive", "--recordsize", "4K", "-o", "l2arc.segment_size=64K"];

fn mount(bed: &Bed, device: &str) -> String {
    bed.mount(&[&SMALL[..], &["--cache", device]].concat()).fine()
}

#[test]
fn a_clean_restart_is_warm() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    let said = mount(&bed, "l2:64M");
    let path = bed.path("l2");
    assert!(said.contains(&format!("device     {}", path.display())), "{said}");
    let read = || assert_eq!(fs::read(bed.mountpoint().join("sub/big")).unwrap(), big());
    read();
    let line = bed.run(&["cache", "label", "l2"]).refused();
    assert!(line.contains("in use by another instance"), "{line}");
    bed.end_by(Signal::TERM);
    bed.assert_clean();
    let label = bed.run(&["cache", "label", "l2"]).fine();
    assert!(label.contains("a cache device of pool ") && label.contains("segments   of 64 KiB"), "{label}");
    mount(&bed, "l2");
    wait_until("the tables are read", || bed.stat("l2.rebuilt_blocks") > 90);
    read();
    assert!(bed.stat("l2.hits") > 90 && bed.stat("pool.fill_blocks") < 10);
    assert!(bed.run(&["cache", "list"]).fine().contains("/l2: "));
    bed.run(&["cache", "remove", "l2"]).fine();
    assert_eq!(bed.run(&["cache", "list"]).fine(), "");
    read();
    bed.run(&["umount", "mnt"]).fine();
}

#[test]
fn a_device_that_is_not_to_be_had_is_said_and_keeps_nobody_from_the_files() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new();
    fs::write(bed.path("letters"), "dear ghost\n".repeat(2_000_000)).unwrap();
    let before = fs::read(bed.path("letters")).unwrap();
    for (device, why) in [("missing", ":SIZE makes one"), ("letters", "not Arcwell's")] {
        let said = mount(&bed, device);
        assert!(said.contains("without the cache device") && said.contains(why), "{said}");
        assert_eq!(fs::read(bed.mountpoint().join("sub/big")).unwrap(), big());
        let status = bed.run(&["status"]).fine();
        assert!(status.contains("ABSENT: ") && status.contains(why), "{status}");
        let line = bed.run(&["cache", "add", device]).refused();
        assert!(line.contains(why), "{line}");
        bed.run(&["cache", "remove", device]).fine();
        bed.run(&["umount", "mnt"]).fine();
        bed.assert_clean();
    }
    assert!(fs::read(bed.path("letters")).unwrap() == before, "nothing foreign is touched");
    let line = bed.mount(&["--cache", "origin/l2:64M"]).refused();
    assert!(line.ends_with("it lies in what is to be cached; name another"), "{line}");
    mount(&bed, "l2:64M");
    bed.run(&["cache", "add", "--force", "letters"]).fine();
    bed.run(&["umount", "mnt"]).fine();
    assert!(fs::read(bed.path("letters")).unwrap() != before);
}
