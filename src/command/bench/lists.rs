//! The kinds of lists that the benches compare: one row each.

use arcwell::ListKind;

use crate::Failure;

/// A kind of lists.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) name: &'static str,
    pub(super) kind: ListKind,
    /// The lines that whoever holds a list's lock writes to, strewn over memory.
    pub(super) strewn: Option<Strewn>,
}

/// Lines that lie anywhere behind a lock: threads write to the same ones now and then, though each holds
/// the lock only while the others do not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strewn {
    /// The name of the lock.
    pub(super) lock: &'static str,
    /// How many there are, about.
    pub(super) count: u32,
    /// How many of them are written to each time that the lock is held, on the mean.
    pub(super) writes: usize,
}

/// The nodes of a chain, five to a line. Taking one off writes to it and to its two neighbours; putting one
/// on, to it alone, as the one that was at the head goes with the lock.
const NODES: Option<Strewn> = Some(Strewn { lock: "arc.sublist", count: 4096, writes: 2 });

/// All kinds, the one that the others are compared with first.
pub(super) const KINDS: &[Lists] = &[
    Lists { name: "single", kind: ListKind::Single, strewn: NODES },
    Lists { name: "multilist", kind: ListKind::Multilist, strewn: NODES },
    Lists { name: "pages", kind: ListKind::Pages, strewn: None },
];

/// The row of a name.
pub(super) fn named(text: &str) -> Result<&'static Lists, Failure> {
    let names = || KINDS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    let row = KINDS.iter().find(|row| row.name == text);
    Ok(row.ok_or_else(|| format!("'{text}' is not one of {}", names()))?)
}
