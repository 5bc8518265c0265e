//! One lock and the chain under it: what every kind of list is made of.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Listed, Place, Sighting};
use crate::slab::{Chain, End, Linked, Links, Slab};

/// A block's place in a chain. The links lie here and not in the header, because a header is under
/// its shard's lock and a block's neighbours belong to other shards.
#[derive(Debug, Default)]
pub(crate) struct Node {
    links: Links,
    place: Place,
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
#[derive(Debug, Default)]
pub(super) struct Sublist {
    row: Mutex<Row>,
    bytes: AtomicU64,
    len: AtomicUsize,
}

impl Sublist {
    pub(super) fn insert(&self, place: Place, bytes: u64) -> u32 {
        let row = &mut *self.row.lock();
        let node = row.nodes.insert(Node { links: Links::default(), place });
        row.chain.push(&mut row.nodes, node);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.len.store(row.chain.len(), Ordering::Relaxed);
        node
    }

    pub(super) fn remove(&self, node: u32, bytes: u64) {
        let row = &mut *self.row.lock();
        row.chain.unlink(&mut row.nodes, node);
        row.nodes.remove(node);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.len.store(row.chain.len(), Ordering::Relaxed);
    }

    pub(super) fn look(&self, from: End, want: usize, seen: &mut Sighting) {
        let row = &*self.row.lock();
        let nodes = row.chain.walk(&row.nodes, from).take(want);
        seen.extend(nodes.map(|node| Listed { node, place: row.nodes[node].place }));
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}
