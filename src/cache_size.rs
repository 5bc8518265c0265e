//! How much memory the cache takes, and why: said to the person who mounts.

use std::fmt;
use std::str::FromStr;

use arcwell::size::ByteSize;
use arcwell::{Error, MachineMemory};

/// The smallest cache that is worth a mount.
pub(crate) const SMALLEST: u64 = 16 << 20;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// As the machine allows.
    Auto,
    /// So many bytes.
    Bytes(u64),
}

/// Why a size could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadSize(String);

impl fmt::Display for BadSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not auto or a size such as 512M or 4GiB", self.0)
    }
}

impl std::error::Error for BadSize {}

impl FromStr for Asked {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        match (text, text.parse::<ByteSize>()) {
            ("auto", _) => Ok(Asked::Auto),
            (_, Ok(size)) => Ok(Asked::Bytes(size.0)),
            (_, Err(_)) => Err(BadSize(text.to_owned())),
        }
    }
}

/// A size, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The limit of the cache.
    pub(crate) bytes: u64,
    /// Why, for a person.
    pub(crate) reason: String,
}

/// Chooses the size of the cache. `name` is that of the flag or tunable that asks.
///
/// # Errors
/// When what was asked for is more than there is, or too little to be of use.
pub(crate) fn choose(asked: Asked, name: &str, memory: &MachineMemory) -> Result<Chosen, Error> {
    match asked {
        Asked::Auto => Ok(automatic(memory)),
        Asked::Bytes(bytes) => check(bytes, name, memory),
    }
}

/// The smaller of half of what is available and half of what the cgroup may use.
fn automatic(memory: &MachineMemory) -> Chosen {
    let available = ByteSize(memory.available);
    let (bytes, reason) = match memory.group {
        Some(group) if group.limit < memory.available => {
            (group.limit / 2, format!("half of the {} that this cgroup may use", ByteSize(group.limit)))
        }
        _ => (memory.available / 2, format!("half of {available} available memory")),
    };
    match bytes < SMALLEST {
        true => Chosen { bytes: SMALLEST, reason: format!("the least; {available} memory are available") },
        false => Chosen { bytes, reason },
    }
}

fn check(bytes: u64, name: &str, memory: &MachineMemory) -> Result<Chosen, Error> {
    let refuse = |why: String| Err(Error::invalid(name.to_owned(), format!("{} {why}", ByteSize(bytes))));
    if bytes < SMALLEST {
        return refuse(format!("is too small: at least {} are needed", ByteSize(SMALLEST)));
    }
    if bytes > memory.total {
        return refuse(format!("is more than this machine's memory, {}", ByteSize(memory.total)));
    }
    match memory.group {
        Some(group) if bytes > group.limit => {
            refuse(format!("is more than this cgroup may use, {}", ByteSize(group.limit)))
        }
        _ => Ok(Chosen { bytes, reason: "as asked".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arcwell_backend::machine::GroupMemory;

    fn memory(limit: Option<u64>) -> MachineMemory {
        let group = limit.map(|limit| GroupMemory { limit, used: 0 });
        MachineMemory { total: 32 << 30, available: 24 << 30, group, resident: 0 }
    }

    #[test]
    fn auto_takes_half_of_the_tighter_bound() {
        let free = choose(Asked::Auto, "--arc-max", &memory(None)).unwrap();
        assert_eq!((free.bytes, free.reason.as_str()), (12 << 30, "half of 24 GiB available memory"));
        let caged = choose(Asked::Auto, "--arc-max", &memory(Some(4 << 30))).unwrap();
        assert_eq!(
            (caged.bytes, caged.reason.as_str()),
            (2 << 30, "half of the 4 GiB that this cgroup may use")
        );
        assert_eq!(choose(Asked::Auto, "--arc-max", &memory(Some(1 << 20))).unwrap().bytes, SMALLEST);
        assert_eq!(choose(Asked::Auto, "--arc-max", &memory(Some(30 << 30))).unwrap().bytes, 12 << 30);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_bound() {
        for (bytes, limit, line) in [
            (64 << 30, None, "--arc-max: 64 GiB is more than this machine's memory, 32 GiB"),
            (5 << 30, Some(4 << 30), "--arc-max: 5 GiB is more than this cgroup may use, 4 GiB"),
            (1 << 20, None, "--arc-max: 1 MiB is too small: at least 16 MiB are needed"),
        ] {
            let error = choose(Asked::Bytes(bytes), "--arc-max", &memory(limit)).unwrap_err();
            assert_eq!(error.to_string(), line);
        }
        assert_eq!(
            choose(Asked::Bytes(4 << 30), "--arc-max", &memory(Some(4 << 30))).unwrap().reason,
            "as asked"
        );
    }
}
