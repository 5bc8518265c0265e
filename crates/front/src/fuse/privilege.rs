//! The setgid bit of files that their group may not execute.
//!
//! Since Linux 6.2 a local file system clears it, as it clears all others, when the file is changed by
//! somebody who is neither privileged nor of the file's group. The kernel asks a FUSE server only for
//! setuid, and for setgid with group execution, so the rest is done here. The rule for `chmod` is the
//! same, which is why a mode that the kernel sends can be completed whatever it was sent for.

use std::sync::Arc;

use arcwell_base::Result;
use arcwell_base::origin::{Caller, FileType, SetAttr, Stat};
use arcwell_pool::Dataset;

const SETGID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o0010;
/// `CAP_FSETID` in a set of capabilities.
const FSETID: u64 = 1 << 4;

/// Adds to a change of attributes what it takes away.
pub(super) fn complete(dataset: &Arc<Dataset>, ino: u64, change: &mut SetAttr, caller: Caller) -> Result<()> {
    let takes_away = change.size.is_some() || change.uid.is_some() || change.gid.is_some();
    if caller.uid == 0 || !(takes_away || change.perm.is_some_and(is_concerned)) {
        return Ok(());
    }
    let stat = stat(dataset, ino)?;
    let perm = change.perm.unwrap_or(stat.perm);
    if is_lost(perm, &stat, caller) {
        change.perm = Some(perm & !SETGID);
    }
    Ok(())
}

/// Clears the bit of a file whose contents `caller` changes.
pub(super) fn clear_setgid(dataset: &Arc<Dataset>, ino: u64, caller: Caller) -> Result<()> {
    if caller.uid == 0 {
        return Ok(());
    }
    let stat = stat(dataset, ino)?;
    if is_lost(stat.perm, &stat, caller) {
        let change = SetAttr { perm: Some(stat.perm & !SETGID), ..SetAttr::default() };
        dataset.set_attr(ino, &change)?;
    }
    Ok(())
}

fn stat(dataset: &Arc<Dataset>, ino: u64) -> Result<Stat> {
    let known = dataset.cached_stat(ino).unwrap_or_else(|| dataset.stat(ino))?;
    Ok(known.stat)
}

fn is_concerned(perm: u16) -> bool {
    perm & (SETGID | GROUP_EXECUTE) == SETGID
}

fn is_lost(perm: u16, stat: &Stat, caller: Caller) -> bool {
    stat.kind == FileType::Regular
        && is_concerned(perm)
        && caller.gid != stat.gid
        // A caller who cannot be seen from here is left what the kernel left him.
        && std::fs::read_to_string(format!("/proc/{}/status", caller.pid))
            .is_ok_and(|status| !may_keep(&status, stat.gid))
}

/// Whether who has this `/proc/<pid>/status` is privileged or of group `gid`.
fn may_keep(status: &str, gid: u32) -> bool {
    let words = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().split_ascii_whitespace()
    };
    let capabilities = words("CapEff:").next().and_then(|word| u64::from_str_radix(word, 16).ok());
    capabilities.is_some_and(|set| set & FSETID != 0) || words("Groups:").any(|word| word.parse() == Ok(gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_privileged_and_the_group_keep_the_bit() {
        let status = "Name:\tcp\nGroups:\t4 1000 \nCapEff:\t0000000000000000\n";
        assert!(may_keep(status, 1000) && !may_keep(status, 100));
        assert!(may_keep("Groups:\t\nCapEff:\t0000000000000010\n", 100));
        assert!(!may_keep("", 0));
    }
}
