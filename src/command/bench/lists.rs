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

/// A block that leaves its list and comes back changes the sums of bytes and blocks of its sublist each time.
/// Sublists are eight where the cache is large enough.
const ONE_LIST: SharedLines = SharedLines { count: 1, writes: 4.0 };
const SUBLISTS: SharedLines = SharedLines { count: 8, writes: 4.0 };

/// A hit writes to the block's header, and to what is its thread's own.
const NONE: SharedLines = SharedLines { count: 1, writes: 0.0 };

/// All kinds, the one that the others are compared with first.
pub(super) const KINDS: &[Lists] = &[
    Lists { name: "single", kind: ListKind::Single, lines: ONE_LIST },
    Lists { name: "multilist", kind: ListKind::Multilist, lines: SUBLISTS },
    Lists { name: "pages", kind: ListKind::Pages, lines: NONE },
];

/// The row of a name.
pub(super) fn named(text: &str) -> Result<&'static Lists, Failure> {
    let names = || KINDS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    let row = KINDS.iter().find(|row| row.name == text);
    Ok(row.ok_or_else(|| format!("'{text}' is not one of {}", names()))?)
}
