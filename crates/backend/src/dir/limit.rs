//! How many descriptors may be open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is assumed where the system sets no limit.
const UNLIMITED: u64 = 1 << 20;
/// More than this is never needed: the table costs memory, too.
const DESCRIPTORS_MAX: u64 = 1 << 16;
/// What the rest of a process needs at least: the state's files, sockets, and walks that are on
/// their way. Without it a full table would lock out the control socket, and even the unmounting.
const OTHERS_MIN: u64 = 48;
/// With fewer, not even the tests run.
const DESCRIPTORS_MIN: u64 = 16;

/// Raises the soft limit of open files to the hard one, and says what is in force then. For `main`
/// to call before anything is opened; a library does not change its program's limits unasked.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED)
}

/// How many descriptors one origin keeps under the limit in force: a quarter is left to others, and
/// [`OTHERS_MIN`] at least.
pub(super) fn descriptors_allowed() -> usize {
    share(getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED))
}

fn share(limit: u64) -> usize {
    limit.saturating_sub(OTHERS_MIN.max(limit / 4)).clamp(DESCRIPTORS_MIN, DESCRIPTORS_MAX) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_left_to_others() {
        assert_eq!((share(1024), share(20_000)), (768, 15_000));
        assert_eq!((share(64), share(100)), (16, 52), "a daemon needs some itself");
        assert_eq!((share(4), share(1 << 30)), (16, 1 << 16));
    }
}
