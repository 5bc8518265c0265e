//! Notices: what is sent, and that this machine's kernel heeds it.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use arcwell_backend::{DirOptions, DirOrigin, MemoryIdentities};
use arcwell_base::clock::SystemClock;
use arcwell_pool::{Coherence, Dataset, Pool, PoolConfig, Properties};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use crate::fuse::device::Debt;
use crate::fuse::{MountOptions, Mounted, Unmounted};

const ROOT: u64 = 77;

/// A device whose other end is ours.
fn device() -> (Arc<Device>, OwnedFd) {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    (Arc::new(Device::new(theirs)), ours)
}

fn message(ours: &OwnedFd) -> Vec<u8> {
    let mut buffer = vec![0; 4096];
    let length = rustix::io::read(ours, &mut buffer[..]).unwrap();
    buffer.truncate(length);
    buffer
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

fn candidate(ino: u64) -> PruneCandidate {
    PruneCandidate { ino, parent: ROOT, name: "name".into() }
}

#[test]
fn notices_have_the_kernels_form_and_repeats_are_left_out() {
    let (device, ours) = device();
    let notices = Notices::new(device, ROOT);
    let kernel = Kernel(Arc::clone(&notices));
    kernel.invalidate_node(5);
    kernel.invalidate_node(5);
    kernel.invalidate_node(ROOT);
    kernel.invalidate_name(ROOT, OsStr::new("ab"));
    kernel.prune(&[candidate(8), candidate(ROOT), candidate(9)]);
    let sender = Arc::clone(&notices);
    let thread = std::thread::spawn(move || sender.run());

    let node = |node| (u64::from(2u32) << 32 | 40, [node, 0, 0]);
    for (head, body) in [node(5), node(1)] {
        let words = words(&message(&ours));
        assert_eq!((words[0], words[1]), (head, 0));
        assert_eq!(words[2..], body);
    }
    let name = message(&ours);
    assert_eq!(words(&name[..32]), [u64::from(3u32) << 32 | 35, 0, 1, 2]);
    assert_eq!(&name[32..], b"ab\0");
    assert_eq!(words(&message(&ours)), [u64::from(9u32) << 32 | 48, 0, 2, 0, 8, 9]);

    notices.stop();
    thread.join().unwrap();
    kernel.invalidate_node(6);
    assert!(notices.queue.lock().notices.is_empty());
}

#[test]
fn what_overflows_is_counted_and_prunes_are_hints() {
    let (device, _ours) = device();
    let kernel = Kernel(Notices::new(device, ROOT));
    for ino in 0..QUEUE_MAX as u64 + 10 {
        kernel.invalidate_node(1000 + ino);
    }
    assert_eq!(kernel.0.dropped(), 10);
    kernel.0.stop();
    let (device, _ours) = self::device();
    let kernel = Kernel(Notices::new(device, ROOT));
    for _ in 0..PRUNES_MAX + 10 {
        kernel.prune(&[candidate(8)]);
    }
    assert_eq!(kernel.0.queue.lock().notices.len(), PRUNES_MAX);
    assert_eq!(kernel.0.dropped(), 0);
}

#[test]
fn a_debt_that_is_dropped_is_paid_with_an_error() {
    let (device, ours) = device();
    drop(Debt::new(Arc::clone(&device), 9));
    let words = words(&message(&ours));
    assert_eq!(words, [u64::from(-5i32 as u32) << 32 | 16, 9]);
    assert_eq!(Debt::new(device, 10).settle(), 10);
}

#[test]
fn pieces_beyond_what_the_system_takes_arrive_all_the_same() {
    let (device, ours) = device();
    let byte = [7u8];
    assert!(device.reply_pieces(3, 3000, std::iter::repeat_n(&byte[..], 3000)));
    assert_eq!(message(&ours).len(), 3016);
}

/// A mounted scratch directory of 300 files, all of them known to the kernel.
fn mount(origin: &std::path::Path, mountpoint: &std::path::Path) -> (Arc<Pool>, Arc<Dataset>, Mounted) {
    let pool = Pool::new(PoolConfig {
        id: 1,
        arc: arcwell_pool::CacheConfig::new(16 << 20),
        identities: Arc::new(MemoryIdentities::default()),
        clock: Arc::new(SystemClock::default()),
    });
    let properties = Properties { coherence: Coherence::Exclusive, ..Properties::default() };
    let source = DirOrigin::open(origin, DirOptions::default()).unwrap();
    let dataset = pool.add_dataset("test", Arc::new(source), properties).unwrap();
    let mounted = Mounted::new(Arc::clone(&dataset), &MountOptions::new(mountpoint)).unwrap();
    for number in 0..300 {
        std::fs::write(mountpoint.join(format!("{number}")), "").unwrap();
    }
    (pool, dataset, mounted)
}

#[test]
fn the_kernel_lets_go_when_asked_to() {
    if let Err(error) = std::fs::File::options().read(true).write(true).open("/dev/fuse") {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no FUSE in CI: {error}");
        println!("SKIPPED: /dev/fuse cannot be opened: {error}");
        return;
    }
    // By number where this kernel can, and by name as with older ones.
    for cannot_prune in [false, true] {
        let (origin, mountpoint) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (pool, dataset, mounted) = mount(origin.path(), mountpoint.path());
        mounted.notices.cannot_prune.store(cannot_prune, Ordering::Relaxed);
        assert!(dataset.znodes() > 300);
        let candidates: Vec<PruneCandidate> = std::fs::read_dir(origin.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| PruneCandidate {
                ino: std::os::unix::fs::DirEntryExt::ino(&entry),
                parent: dataset.root_ino(),
                name: entry.file_name(),
            })
            .collect();
        Kernel(Arc::clone(&mounted.notices)).prune(&candidates);
        let end = Instant::now() + Duration::from_secs(60);
        while dataset.znodes() > 10 {
            assert!(Instant::now() < end, "the kernel holds on to {} nodes", dataset.znodes());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(std::fs::read_dir(mountpoint.path()).unwrap().count(), 300);
        assert_eq!(mounted.unmount_and_join().unwrap(), Unmounted::Clean);
        pool.stop();
    }
}
