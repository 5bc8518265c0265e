//! The kinds of lists that the benches compare: one row each.

use arcwell::ListKind;

use crate::Failure;

/// A kind of lists.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) name: &'static str,
    pub(super) kind: ListKind,
    /// The lines that every hit writes to, beside those of locks and of the block itself.
    pub(super) lines: SharedLines,
}

/// Lines of memory of which every hit writes to one.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedLines {
    /// How many there are.
    pub(super) count: u32,
    /// How often a hit writes to its one.
    pub(super) writes: f64,
}

/// Each hit counts itself as a user of the block's shard, and then no longer.
const OF_SHARDS: SharedLines = SharedLines { count: 64, writes: 2.0 };

/// All kinds, the one that the others are compared with first.
pub(super) const KINDS: &[Lists] = &[
    Lists { name: "single", kind: ListKind::Single, lines: OF_SHARDS },
    Lists { name: "multilist", kind: ListKind::Multilist, lines: OF_SHARDS },
];

/// The row of a name.
pub(super) fn named(text: &str) -> Result<&'static Lists, Failure> {
    let names = || KINDS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    let row = KINDS.iter().find(|row| row.name == text);
    Ok(row.ok_or_else(|| format!("'{text}' is not one of {}", names()))?)
}
