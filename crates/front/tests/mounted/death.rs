//! Ends of mounts: asked for, forced, by others, and by the death of the daemon.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arcwell_front::fuse::{MountOptions, Mounted, Unmounted, detach_stale, mounted_at};
use arcwell_pool::Coherence;
use rustix::io::Errno;

use super::place::{Place, can_mount, dataset};

/// Tells the test binary that it is the daemon that shall die: `origin:mountpoint`.
const DAEMON: &str = "ARCWELL_TEST_DAEMON";

/// Not a test by itself: the process that the next test kills.
#[test]
fn serve_until_killed() {
    let Ok(places) = std::env::var(DAEMON) else { return };
    let (origin, mountpoint) = places.split_once(':').unwrap();
    let (_pool, dataset) = dataset(Path::new(origin), Coherence::Exclusive);
    let mounted = Mounted::new(dataset, &MountOptions::new(mountpoint)).unwrap();
    println!("\nready");
    std::io::stdout().flush().unwrap();
    mounted.wait(None);
}

#[test]
fn what_a_dead_daemon_left_is_taken_off() {
    if !can_mount() {
        return;
    }
    let (origin, mountpoint) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(origin.path().join("f"), "text").unwrap();
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "death::serve_until_killed", "--nocapture"])
        .env(DAEMON, format!("{}:{}", origin.path().display(), mountpoint.path().display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"));
    assert_eq!(fs::read_to_string(mountpoint.path().join("f")).unwrap(), "text");
    assert!(mounted_at(mountpoint.path()).unwrap().unwrap().is_arcwell());
    assert!(!detach_stale(mountpoint.path()).unwrap(), "it was alive");

    daemon.kill().unwrap();
    daemon.wait().unwrap();
    // Attributes the kernel still knows; for names it has to ask.
    let error = fs::read_dir(mountpoint.path()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::NOTCONN.raw_os_error()));
    assert!(mounted_at(mountpoint.path()).unwrap().is_some());

    // The next mount cleans up by itself.
    let (pool, dataset) = dataset(origin.path(), Coherence::Exclusive);
    let mounted = Mounted::new(dataset, &MountOptions::new(mountpoint.path())).unwrap();
    assert_eq!(fs::read_to_string(mountpoint.path().join("f")).unwrap(), "text");
    assert_eq!(mounted.unmount_and_join().unwrap(), Unmounted::Clean);
    assert!(mounted_at(mountpoint.path()).unwrap().is_none());
    assert!(!detach_stale(mountpoint.path()).unwrap());
    pool.stop();
}

#[test]
fn a_mount_in_use_is_torn_off() {
    let Some(mut place) = Place::new() else { return };
    fs::write(place.path("f"), "text").unwrap();
    let held = File::open(place.path("f")).unwrap();
    assert_eq!(place.end(), Unmounted::Detached);
    assert!(held.metadata().is_err() || held.sync_all().is_err());
    assert!(mounted_at(&place.path("")).unwrap().is_none());
}

#[test]
fn a_mount_that_others_take_off_ends() {
    let Some(mut place) = Place::new() else { return };
    assert!(!place.mounted().wait(Some(Duration::from_millis(10))));
    rustix::mount::unmount(place.path(""), rustix::mount::UnmountFlags::empty()).unwrap();
    assert!(place.mounted().wait(None));
    assert_eq!(place.end(), Unmounted::Clean);
}

#[test]
fn bad_mountpoints_are_refused_and_nothing_is_left() {
    let Some(place) = Place::new() else { return };
    let again = Mounted::new(Arc::clone(&place.dataset), &MountOptions::new(place.path("")));
    assert!(again.unwrap_err().to_string().contains("already mounted"));

    let full = tempfile::tempdir().unwrap();
    fs::write(full.path().join("f"), "").unwrap();
    let refused = Mounted::new(Arc::clone(&place.dataset), &MountOptions::new(full.path()));
    assert!(refused.unwrap_err().to_string().contains("not empty"));
    let file = Mounted::new(Arc::clone(&place.dataset), &MountOptions::new(full.path().join("f")));
    assert_eq!(file.unwrap_err().errno(), Errno::NOTDIR);
    let absent = Mounted::new(Arc::clone(&place.dataset), &MountOptions::new(full.path().join("g")));
    assert_eq!(absent.unwrap_err().errno(), Errno::NOENT);
    assert!(mounted_at(full.path()).unwrap().is_none());
}

#[test]
fn a_directory_is_mounted_on_itself() {
    if !can_mount() {
        return;
    }
    let origin = tempfile::tempdir().unwrap();
    fs::write(origin.path().join("f"), "text").unwrap();
    let (pool, dataset) = dataset(origin.path(), Coherence::Exclusive);
    let mut options = MountOptions::new(origin.path());
    options.over = true;
    let mounted = Mounted::new(dataset, &options).unwrap();
    assert_eq!(fs::read_to_string(origin.path().join("f")).unwrap(), "text");
    fs::write(origin.path().join("g"), "more").unwrap();
    assert_eq!(mounted.unmount_and_join().unwrap(), Unmounted::Clean);
    assert_eq!(fs::read_to_string(origin.path().join("g")).unwrap(), "more");
    pool.stop();
}

#[test]
fn a_foreign_change_reaches_programs() {
    let Some(place) = Place::with(Coherence::Timeout, |_| {}) else { return };
    let (path, origin) = (place.path("f"), place.origin("f"));
    fs::write(&path, "old").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    fs::write(&origin, "changed").unwrap();
    // It has to be seen after some time; only a mount that never sees it fails.
    let end = Instant::now() + Duration::from_secs(30);
    while fs::read_to_string(&path).unwrap() != "changed" {
        assert!(Instant::now() < end, "the change was never seen");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), 7);
}
