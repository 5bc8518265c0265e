//! One lock and the chain under it: what every kind of list is made of.

use arcwell_base::lock::Mutex;

use super::{Listed, Sighting};
use crate::slab::{Chain, End, Linked, Links, Slab};
use crate::sync::plain::{AtomicU64, AtomicUsize, Ordering};

/// A block's place in a chain. The links lie here and not in the header: a header is under a lock of its
/// own, and whoever unlinks a block changes its neighbours.
#[derive(Debug, Default)]
pub(crate) struct Node {
    links: Links,
    number: u32,
}

impl Linked for Node {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[derive(Debug, Default)]
struct Row {
    chain: Chain,
    nodes: Slab<Node>,
}

/// A chain of blocks with its own lock. The sums are changed under the lock and read without it.
#[derive(Debug)]
pub(super) struct Sublist {
    row: Mutex<Row>,
    bytes: AtomicU64,
    len: AtomicUsize,
}

impl Default for Sublist {
    fn default() -> Self {
        let row = Mutex::named("arc.sublist");
        Sublist { row, bytes: AtomicU64::new(0), len: AtomicUsize::new(0) }
    }
}

impl Sublist {
    pub(super) fn insert(&self, number: u32, bytes: u64) -> u64 {
        let row = &mut *self.row.lock();
        let node = row.nodes.insert(Node { links: Links::default(), number });
        row.chain.push(&mut row.nodes, node);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.len.store(row.chain.len(), Ordering::Relaxed);
        u64::from(node) + 1
    }

    pub(super) fn remove(&self, place: u64, bytes: u64) {
        let node = (place - 1) as u32;
        let row = &mut *self.row.lock();
        row.chain.unlink(&mut row.nodes, node);
        row.nodes.remove(node);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.len.store(row.chain.len(), Ordering::Relaxed);
    }

    pub(super) fn look(&self, from: End, want: usize, seen: &mut Sighting) {
        let row = &*self.row.lock();
        let nodes = row.chain.walk(&row.nodes, from).take(want);
        seen.extend(nodes.map(|node| Listed { place: u64::from(node) + 1, number: row.nodes[node].number }));
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}
