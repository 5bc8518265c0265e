//! Taking on a caller's identity for one creating call.
//!
//! A new file belongs to who asked for it, and the kernel's own rules about setgid directories,
//! default ACLs and umask are the right ones; so the thread *becomes* the caller for one system call
//! instead of repairing owner and mode afterwards. Everything here is the thread's own: user and
//! group by `setfsuid` and `setfsgid`, capabilities by `capset`, supplementary groups by the raw
//! system call, the umask after one `unshare(CLONE_FS)` per thread.
//!
//! Leaving root loses the capabilities to pass by permissions. The kernel in front of us has judged
//! the caller's access already (with his supplementary groups, which are not told to us), so those to
//! reach a directory and to make a device are taken back; those that would change what the caller may
//! *make* (`CAP_FSETID`, `CAP_CHOWN`) are not.
//!
//! A daemon that is not root creates under its own name; only the umask is the caller's.
//!
//! Where `unshare` is refused (some sandboxes), the umask is the whole process's: creating calls then
//! go one at a time, and other code of the process must not create files meanwhile.

use std::cell::Cell;

use arcwell_base::origin::Caller;
use nix::sched::CloneFlags;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, Gid};

/// Held around every creating call of threads that share the process's umask.
static SHARED_UMASK: Mutex<()> = Mutex::new(());

thread_local! {
    static HAS_OWN_UMASK: Cell<Option<bool>> = const { Cell::new(None) };
}

/// The identity of a caller, worn by this thread until the guard is dropped.
pub(super) struct Assumed {
    umask: Mode,
    before: Option<Before>,
    groups: Option<Vec<Gid>>,
    _alone: Option<MutexGuard<'static, ()>>,
}

struct Before {
    uid: nix::unistd::Uid,
    gid: nix::unistd::Gid,
    capabilities: CapabilitySets,
}

impl Assumed {
    /// Becomes the caller, to create something with these permission bits.
    pub(super) fn new(caller: Caller, perm: u16) -> Result<Assumed, Errno> {
        let alone = (!owns_umask()).then(|| SHARED_UMASK.lock());
        let umask = rustix::process::umask(Mode::from_raw_mode(caller.umask & 0o777));
        // From here on, dropping the guard undoes whatever was done.
        let mut assumed = Assumed { umask, before: None, groups: None, _alone: alone };
        if rustix::process::geteuid().is_root() {
            if perm & 0o2000 != 0 && caller.uid != 0 {
                assumed.take_groups(caller.pid)?;
            }
            assumed.take_ids(caller)?;
        }
        Ok(assumed)
    }

    /// Supplementary groups decide one thing only: whether a file may be created setgid in a
    /// directory of that group. They are asked from `/proc`; unknown means none.
    fn take_groups(&mut self, pid: u32) -> Result<(), Errno> {
        let before = rustix::process::getgroups()?;
        let status = match pid {
            0 => String::new(),
            pid => std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(),
        };
        rustix::thread::set_thread_groups(&parse_groups(&status))?;
        self.groups = Some(before);
        Ok(())
    }

    fn take_ids(&mut self, caller: Caller) -> Result<(), Errno> {
        let capabilities = rustix::thread::capabilities(None)?;
        let uid = nix::unistd::Uid::from_raw(caller.uid);
        let gid = nix::unistd::Gid::from_raw(caller.gid);
        let before = Before {
            gid: nix::unistd::setfsgid(gid),
            uid: nix::unistd::setfsuid(uid),
            capabilities: CapabilitySets { ..capabilities },
        };
        let switched = before.uid != uid;
        self.before = Some(before);
        // These calls report nothing; the only way to see a refusal is to ask again.
        if nix::unistd::setfsgid(gid) != gid || nix::unistd::setfsuid(uid) != uid {
            return Err(Errno::PERM);
        }
        if switched {
            let reach = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::MKNOD;
            let mut now = rustix::thread::capabilities(None)?;
            now.effective |= reach & capabilities.effective;
            rustix::thread::set_capabilities(None, now)?;
        }
        Ok(())
    }
}

impl Drop for Assumed {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            nix::unistd::setfsuid(before.uid);
            nix::unistd::setfsgid(before.gid);
            let restored = rustix::thread::set_capabilities(None, before.capabilities);
            debug_assert!(restored.is_ok(), "a thread may always have back what it is permitted");
        }
        if let Some(groups) = self.groups.take()
            && let Err(error) = rustix::thread::set_thread_groups(&groups)
        {
            tracing::error!(%error, "supplementary groups could not be restored");
        }
        rustix::process::umask(self.umask);
    }
}

/// Whether this thread has a umask of its own; sees to it at the first call.
fn owns_umask() -> bool {
    HAS_OWN_UMASK.with(|own| match own.get() {
        Some(owns) => owns,
        None => {
            let owns = nix::sched::unshare(CloneFlags::CLONE_FS).is_ok();
            own.set(Some(owns));
            owns
        }
    })
}

/// The `Groups:` line of `/proc/<pid>/status`.
fn parse_groups(status: &str) -> Vec<Gid> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    line.split_ascii_whitespace()
        .filter_map(|word| word.parse::<u32>().ok())
        .filter(|&gid| gid != u32::MAX)
        .map(Gid::from_raw)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_status() {
        let groups = parse_groups("Name:\tcat\nUid:\t0\t0\nGroups:\t4 24 1000 \nNStgid:\t1\n");
        assert_eq!(groups.iter().map(|gid| gid.as_raw()).collect::<Vec<_>>(), [4, 24, 1000]);
        assert!(parse_groups("").is_empty());
    }

    #[test]
    fn the_thread_is_itself_again_afterwards() {
        let status = || {
            let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let kept = ["Uid:", "Gid:", "Groups:", "Cap", "Umask:"];
            text.lines()
                .filter(|line| kept.iter().any(|k| line.starts_with(k)))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let before = status();
        let caller = Caller { uid: 4321, gid: 1234, umask: 0o027, pid: std::process::id() };
        let worn = Assumed::new(caller, 0o2755).unwrap();
        let during = status();
        assert!(during.contains(&"Umask:\t0027".to_owned()), "{during:?}");
        if rustix::process::geteuid().is_root() {
            let uid = during.iter().find(|line| line.starts_with("Uid:")).unwrap();
            assert!(uid.ends_with("\t4321"), "{uid}");
        }
        drop(worn);
        assert_eq!(status(), before);
    }

    #[test]
    fn every_thread_wears_its_own_umask() {
        if std::thread::spawn(|| !owns_umask()).join().unwrap() {
            eprintln!("SKIPPED every_thread_wears_its_own_umask: unshare is refused here");
            return;
        }
        let together = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for umask in [0o011, 0o077] {
                let together = &together;
                scope.spawn(move || {
                    let _worn = Assumed::new(Caller { uid: 0, gid: 0, umask, pid: 0 }, 0o600);
                    together.wait();
                    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
                    assert!(status.contains(&format!("Umask:\t{umask:04o}\n")), "{status}");
                    together.wait();
                });
            }
        });
    }
}
