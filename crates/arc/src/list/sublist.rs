//! One lock and the chain under it: what every kind of list is made of that is not of pages.
//!
//! A walk remembers the last few blocks that it has seen, and goes on behind the last of them that is still here.
//! If none is, it begins again at the end from which it came: from the tail, that is where it stood if they were
//! evicted; else it meets some blocks again. It never looks at more blocks than there were when it began.

use arcwell_base::lock::Mutex;

use super::stand::{A_TURN, AT_ONCE, RowStand};
use super::{Listed, Sighting, Stand};
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

impl Row {
    fn listed(&self, node: u32) -> Listed {
        Listed { place: u64::from(node) + 1, number: self.nodes[node].number }
    }

    /// The node of a block that was seen, if it is still here. One that has left and come back has another node,
    /// but for a rare chance: then the walk goes on from where it stands now.
    fn find(&self, listed: Listed) -> Option<u32> {
        let node = u32::try_from(listed.place.checked_sub(1)?).ok()?;
        let is_it = self.nodes.get(node)?.number == listed.number && self.chain.has(&self.nodes, node);
        is_it.then_some(node)
    }
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
        let node = row.nodes.insert_elsewhere(Node { links: Links::default(), number });
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
        seen.extend(nodes.map(|node| row.listed(node)));
    }

    /// Goes on with a walk.
    fn go_on(&self, from: End, stand: &mut RowStand, want: usize, seen: &mut Sighting) {
        let row = &*self.row.lock();
        let left = stand.left.unwrap_or(row.chain.len());
        let last = stand.trail.iter().rev().find_map(|&listed| row.find(listed));
        let next = match last {
            Some(node) => row.chain.next(&row.nodes, node, from),
            None => row.chain.end(from),
        };
        let (known, want) = (seen.len(), want.min(left));
        let nodes = row.chain.walk_from(&row.nodes, next, from).take(want);
        seen.extend(nodes.map(|node| row.listed(node)));
        let met = &seen[known..];
        stand.left = Some(if met.len() < want { 0 } else { left - met.len() });
        stand.pass(met);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}

/// Goes on with a walk through `count` sublists, a few blocks of each in turn: up to so many, to where they are to go.
pub(super) fn go_on_in_turn<'a>(
    count: usize,
    sublist: impl Fn(usize) -> &'a Sublist,
    from: End,
    stand: &mut Stand,
    (want, seen): (usize, &mut Sighting),
) -> bool {
    let a_turn = if count == 1 { AT_ONCE } else { A_TURN };
    stand.rows.resize(count, RowStand::default());
    for _ in 0..count {
        let turn = stand.turn % count;
        stand.turn = turn + 1;
        let row = &mut stand.rows[turn];
        if row.left != Some(0) {
            sublist(turn).go_on(from, row, want.min(a_turn), seen);
            return true;
        }
    }
    false
}
