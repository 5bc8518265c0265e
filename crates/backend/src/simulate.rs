//! Slow storage, simulated: an origin that takes as long as a disk, a server or an object store.
//!
//! Every operation waits for one of the profile's slots, takes the first-byte latency and then as long
//! as its bytes take, and sleeps while it holds the slot. What it costs is decided beforehand by
//! [`Profile`] alone; the origin below is assumed to be fast, and its own time is on top.
//!
//! A disk has one arm: one operation at a time, and a read or write that goes on where the last one
//! ended needs no seek. A network link is shared by all operations in flight; an object store's
//! streams have their bandwidth each.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc as Shared;
use std::time::{Duration, Instant};

use arcwell_base::error::Result;
use arcwell_base::origin::{FileId, Origin};
use parking_lot::{Condvar, Mutex};

use crate::layer::{Call, Layer, Layered, Operation};

/// How slow an origin is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The word for it.
    pub name: &'static str,
    /// Time until the first byte, or until the answer of what moves none.
    pub latency: Duration,
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// Operations at a time.
    pub in_flight: usize,
    /// Whether all operations in flight share the bandwidth.
    pub link: Link,
    /// Whether an access that continues the last one of its kind has no latency.
    pub access: AccessCost,
}

/// Whose the bandwidth is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// All operations in flight share it.
    Shared,
    /// Every operation has it for itself.
    PerStream,
}

/// What the latency is paid for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessCost {
    /// Every operation.
    Uniform,
    /// Every operation but those that continue where the last one ended.
    Seek,
}

impl Profile {
    /// A hard disk: one arm.
    pub const HDD: Profile = Profile {
        name: "hdd",
        latency: Duration::from_millis(8),
        bytes_per_second: 150_000_000,
        in_flight: 1,
        link: Link::Shared,
        access: AccessCost::Seek,
    };

    /// A file server in the same building.
    pub const NFS: Profile = Profile {
        name: "nfs",
        latency: Duration::from_millis(1),
        bytes_per_second: 110_000_000,
        in_flight: 16,
        link: Link::Shared,
        access: AccessCost::Uniform,
    };

    /// An object store.
    pub const S3: Profile = Profile {
        name: "s3",
        latency: Duration::from_millis(20),
        bytes_per_second: 90_000_000,
        in_flight: 64,
        link: Link::PerStream,
        access: AccessCost::Uniform,
    };

    /// All that have a name.
    pub const ALL: [Profile; 3] = [Profile::HDD, Profile::NFS, Profile::S3];

    /// How long so many bytes take.
    fn transfer(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second.max(1) as f64)
    }
}

/// A word that names no profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownProfile(String);

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Profile::ALL.map(|profile| profile.name).join(", ");
        write!(f, "'{}' cannot be simulated; one of {names} can", self.0)
    }
}

impl std::error::Error for UnknownProfile {}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> std::result::Result<Profile, UnknownProfile> {
        let found = Profile::ALL.into_iter().find(|profile| profile.name == text);
        found.ok_or_else(|| UnknownProfile(text.to_owned()))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// An origin made slow.
pub type Simulated = Layered<Slowness>;

/// The layer of [`Simulated`].
#[derive(Debug)]
pub struct Slowness {
    profile: Profile,
    busy: Mutex<Busy>,
    freed: Condvar,
}

#[derive(Debug)]
struct Busy {
    slots: usize,
    /// Where the arm stands: behind this byte of this file.
    arm: Option<(FileId, u64)>,
    /// Until when the shared link is taken.
    link_until: Instant,
    #[cfg(test)]
    slots_seen: usize,
}

impl Layered<Slowness> {
    /// Makes `inner` as slow as `profile` says.
    pub fn new(inner: Shared<dyn Origin>, profile: Profile) -> Simulated {
        Layered::around(inner, Slowness::new(profile))
    }
}

impl Slowness {
    fn new(profile: Profile) -> Slowness {
        let busy = Busy {
            slots: 0,
            arm: None,
            link_until: Instant::now(),
            #[cfg(test)]
            slots_seen: 0,
        };
        Slowness { profile, busy: Mutex::new(busy), freed: Condvar::new() }
    }

    fn take_slot(&self) -> Slot<'_> {
        let mut busy = self.busy.lock();
        while busy.slots >= self.profile.in_flight.max(1) {
            self.freed.wait(&mut busy);
        }
        busy.slots += 1;
        #[cfg(test)]
        {
            busy.slots_seen = busy.slots_seen.max(busy.slots);
        }
        Slot(self)
    }

    /// The latency of a call, from where the arm stands.
    fn latency(&self, call: Call) -> Duration {
        let continues = self.profile.access == AccessCost::Seek
            && is_transfer(call.operation)
            && call.file.is_some_and(|file| self.busy.lock().arm == Some((file, call.offset)));
        if continues { Duration::ZERO } else { self.profile.latency }
    }

    /// Moves the arm and says how long the bytes take, counted from now.
    fn transfer(&self, call: Call, bytes: u64) -> Duration {
        let alone = self.profile.transfer(bytes);
        let mut busy = self.busy.lock();
        let moves_bytes = is_transfer(call.operation);
        busy.arm = call.file.filter(|_| moves_bytes).map(|file| (file, call.offset.saturating_add(bytes)));
        match self.profile.link {
            Link::PerStream => alone,
            Link::Shared => {
                let now = Instant::now();
                busy.link_until = busy.link_until.max(now) + alone;
                busy.link_until - now
            }
        }
    }
}

/// A place among the operations in flight, until it is dropped.
struct Slot<'a>(&'a Slowness);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.busy.lock().slots -= 1;
        self.0.freed.notify_one();
    }
}

fn is_transfer(operation: Operation) -> bool {
    matches!(operation, Operation::Read | Operation::Write)
}

impl Layer for Slowness {
    fn around<T>(&self, call: Call, make: impl FnOnce() -> Result<(T, u64)>) -> Result<(T, u64)> {
        if matches!(call.operation, Operation::Hold | Operation::Watch) {
            // These keep something of ours; the storage is not asked.
            return make();
        }
        let _slot = self.take_slot();
        let latency = self.latency(call);
        if !latency.is_zero() {
            std::thread::sleep(latency);
        }
        let made = make();
        let bytes = made.as_ref().map_or(0, |(_, bytes)| *bytes);
        let transfer = self.transfer(call, bytes);
        if !transfer.is_zero() {
            std::thread::sleep(transfer);
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ino: u64, offset: u64) -> Call {
        Call { operation: Operation::Read, file: Some(FileId { ino, generation: 0 }), offset }
    }

    #[test]
    fn profiles_are_read_by_name() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let error = "floppy".parse::<Profile>().unwrap_err();
        assert_eq!(error.to_string(), "'floppy' cannot be simulated; one of hdd, nfs, s3 can");
    }

    #[test]
    fn a_disk_seeks_unless_it_goes_on_where_it_was() {
        let disk = Slowness::new(Profile::HDD);
        assert_eq!(disk.latency(read(1, 0)), Profile::HDD.latency);
        disk.transfer(read(1, 0), 4096);
        assert_eq!(disk.latency(read(1, 4096)), Duration::ZERO);
        assert_eq!(disk.latency(read(1, 0)), Profile::HDD.latency);
        assert_eq!(disk.latency(read(2, 4096)), Profile::HDD.latency);
        let stat = Call { operation: Operation::Stat, ..read(1, 4096) };
        disk.transfer(stat, 0);
        assert_eq!(disk.latency(read(1, 4096)), Profile::HDD.latency, "the arm has left");
        let server = Slowness::new(Profile::NFS);
        server.transfer(read(1, 0), 4096);
        assert_eq!(server.latency(read(1, 4096)), Profile::NFS.latency);
    }

    #[test]
    fn a_shared_link_is_used_by_one_after_the_other() {
        let second = Profile::NFS.bytes_per_second;
        let server = Slowness::new(Profile::NFS);
        assert!(server.transfer(read(1, 0), second) >= Duration::from_millis(999));
        assert!(server.transfer(read(2, 0), second) > Duration::from_millis(1500));
        let store = Slowness::new(Profile::S3);
        for ino in 0..9 {
            assert_eq!(store.transfer(read(ino, 0), Profile::S3.bytes_per_second), Duration::from_secs(1));
        }
    }

    #[test]
    fn no_more_operations_are_in_flight_than_there_are_slots() {
        let profile = Profile { latency: Duration::from_millis(1), in_flight: 3, ..Profile::NFS };
        let slow = Slowness::new(profile);
        std::thread::scope(|scope| {
            for ino in 0..12 {
                let slow = &slow;
                scope.spawn(move || slow.around(read(ino, 0), || Ok(((), 0))).unwrap());
            }
        });
        let busy = slow.busy.lock();
        assert_eq!((busy.slots, busy.slots_seen.min(3)), (0, busy.slots_seen));
        assert!(busy.slots_seen > 0);
    }
}
