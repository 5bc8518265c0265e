//! Changing files: one at a time each, and visible to those who fill the cache meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::MutexGuard;
use smallvec::SmallVec;

use super::Znode;

/// A change of one or several files that is under way. While it lives their sequences are odd.
pub(crate) struct Changing<'a> {
    changes: &'a AtomicU64,
    nodes: SmallVec<[(&'a Znode, MutexGuard<'a, ()>); 2]>,
}

impl<'a> Changing<'a> {
    /// Begins a change of all of `nodes`, waiting for other changes of them to end. They are locked
    /// in the order of their inode numbers, so that two changes never wait for each other; a node
    /// that is named twice is locked once. `changes` counts beginnings and ends in the dataset.
    pub(crate) fn begin(changes: &'a AtomicU64, nodes: &[&'a Arc<Znode>]) -> Self {
        changes.fetch_add(1, Ordering::AcqRel);
        let mut sorted: SmallVec<[&'a Arc<Znode>; 4]> = nodes.iter().copied().collect();
        sorted.sort_by_key(|node| (node.id, Arc::as_ptr(node) as usize));
        sorted.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let nodes = sorted
            .into_iter()
            .map(|node| {
                let guard = node.changing.lock();
                let _identity = node.identity.lock();
                node.sequence.fetch_add(1, Ordering::AcqRel);
                (&**node, guard)
            })
            .collect();
        Changing { changes, nodes }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        for (node, _) in &self.nodes {
            node.sequence.fetch_add(1, Ordering::AcqRel);
        }
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::directory;
    use super::*;

    #[test]
    fn the_sequence_is_odd_during_a_change() {
        let (a, b) = (directory(2, None), directory(3, None));
        let changes = AtomicU64::new(0);
        let before = a.sequence();
        let changing = Changing::begin(&changes, &[&b, &a, &a]);
        assert_eq!(a.sequence() % 2, 1);
        assert_eq!(b.sequence() % 2, 1);
        drop(changing);
        assert_eq!(a.sequence(), before + 2);
    }

    #[test]
    fn opposite_orders_do_not_deadlock() {
        let (a, b) = (directory(2, None), directory(3, None));
        let changes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..10_000).for_each(|_| drop(Changing::begin(&changes, &[&a, &b]))));
            scope.spawn(|| (0..10_000).for_each(|_| drop(Changing::begin(&changes, &[&b, &a]))));
        });
        assert_eq!(a.sequence(), 40_000);
    }
}
