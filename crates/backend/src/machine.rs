//! How much memory the machine has, and how much of it is ours.
//!
//! Reading and understanding are apart: what `/proc` and `/sys` say is parsed by pure functions. The
//! control group that binds is the one with the lowest limit on the way up to the root, whether it is
//! version 2 or the memory controller of version 1.

use std::path::{Path, PathBuf};

use arcwell_base::error::{Error, Result};

/// The memory of the machine, of this process's control group, and of this process; in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineMemory {
    /// Physical memory.
    pub total: u64,
    /// What could be had without swapping.
    pub available: u64,
    /// The control group that binds first, where there is one.
    pub group: Option<GroupMemory>,
    /// What this process has resident.
    pub resident: u64,
}

/// The memory of a control group; in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupMemory {
    /// What its processes may use together.
    pub limit: u64,
    /// What they use now.
    pub used: u64,
}

impl MachineMemory {
    /// Asks the machine.
    ///
    /// # Errors
    /// When `/proc` is not there or says nothing of use.
    pub fn read() -> Result<MachineMemory> {
        let info = text("/proc/meminfo")?;
        let field = |name| {
            parse_kib(&info, name).ok_or_else(|| {
                Error::invalid("read memory information", format!("/proc/meminfo has no line '{name}'"))
            })
        };
        let total = field("MemTotal:")?;
        Ok(MachineMemory {
            total,
            available: field("MemAvailable:")?,
            group: group(&text("/proc/self/cgroup").unwrap_or_default(), total),
            resident: parse_kib(&text("/proc/self/status")?, "VmRSS:").unwrap_or(0),
        })
    }
}

fn text(path: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Error::new("read", error).about(Path::new(path)))
}

/// The value of a line such as `MemTotal:  16384 kB`, in bytes.
fn parse_kib(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Where a control group's files may be found, and what they are called.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Hierarchy {
    root: PathBuf,
    group: PathBuf,
    limit: &'static str,
    used: &'static str,
}

/// The hierarchies that may limit memory, from `/proc/self/cgroup`.
fn parse_groups(text: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let group = PathBuf::from(path.trim_start_matches('/'));
        if number == "0" && controllers.is_empty() {
            let root = PathBuf::from("/sys/fs/cgroup");
            found.push(Hierarchy { root, group, limit: "memory.max", used: "memory.current" });
        } else if controllers.split(',').any(|controller| controller == "memory") {
            let root = PathBuf::from("/sys/fs/cgroup/memory");
            let (limit, used) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
            found.push(Hierarchy { root, group, limit, used });
        }
    }
    found
}

/// A limit as the files write it: a number, or `max`.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The binding one of all groups on the way up; limits above the machine's memory bind nothing.
fn group(groups: &str, total: u64) -> Option<GroupMemory> {
    let read = |path: PathBuf| parse_limit(&std::fs::read_to_string(path).ok()?);
    parse_groups(groups)
        .iter()
        .flat_map(|hierarchy| {
            // Inside a container the path may name a group outside; its root is then all there is.
            hierarchy.group.ancestors().filter_map(move |group| {
                let dir = hierarchy.root.join(group);
                let limit = read(dir.join(hierarchy.limit))?;
                Some(GroupMemory { limit, used: read(dir.join(hierarchy.used)).unwrap_or(0) })
            })
        })
        .filter(|group| group.limit < total)
        .min_by_key(|group| group.limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_kilobytes_are_read() {
        let info = "MemTotal:       16303428 kB\nMemFree:   1 kB\nMemAvailable:    8000 kB\n";
        assert_eq!(parse_kib(info, "MemAvailable:"), Some(8000 * 1024));
        assert_eq!(parse_kib(info, "SwapTotal:"), None);
        assert_eq!(parse_kib("MemTotal: much kB", "MemTotal:"), None);
    }

    #[test]
    fn both_versions_of_control_groups_are_known() {
        let both = "12:pids:/x\n4:cpu,memory:/docker/abc\n0::/system.slice/arcwell.service\n";
        let found = parse_groups(both);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].group, Path::new("docker/abc"));
        assert_eq!(found[0].limit, "memory.limit_in_bytes");
        assert_eq!(found[1].group, Path::new("system.slice/arcwell.service"));
        assert_eq!(found[1].limit, "memory.max");
        assert!(parse_groups("nonsense").is_empty());
        assert_eq!((parse_limit("max\n"), parse_limit("4096\n")), (None, Some(4096)));
    }

    #[test]
    fn this_machine_can_be_read() {
        let memory = MachineMemory::read().unwrap();
        assert!(memory.total > memory.available && memory.available > 0 && memory.resident > 0);
        assert!(memory.group.is_none_or(|group| group.limit < memory.total));
    }
}
