//! Queues of blocks: what every policy is made of.
//!
//! A block is a small number, so a queue is links in an array: no hashing, no allocation after the
//! start, sixteen bytes a block for all queues of a policy together. A block is on one of them at
//! most. The ends are called old and new, because that is what the papers' heads and tails are.

use super::{Broken, ensure};

/// What `list` says of a block that is on no queue.
const NOWHERE: u8 = u8::MAX;

/// A block's place, or (behind the blocks) the anchor that closes a queue's ring.
#[derive(Clone, Copy)]
struct Node {
    older: u32,
    newer: u32,
    size: u32,
    list: u8,
    mark: u8,
}

/// `N` queues over the blocks of one trace, with the sum of the sizes on each.
pub(super) struct Chains<const N: usize> {
    nodes: Vec<Node>,
    blocks: u32,
    sums: [u64; N],
}

impl<const N: usize> Chains<N> {
    /// Empty queues for blocks with numbers below `blocks`.
    pub(super) fn new(blocks: u32) -> Self {
        let nowhere = Node { older: 0, newer: 0, size: 0, list: NOWHERE, mark: 0 };
        let mut nodes = vec![nowhere; blocks as usize + N];
        for anchor in blocks..blocks + N as u32 {
            nodes[anchor as usize] = Node { older: anchor, newer: anchor, ..nowhere };
        }
        Chains { nodes, blocks, sums: [0; N] }
    }

    /// The queue that holds the block.
    pub(super) fn list(&self, block: u32) -> Option<usize> {
        let list = self.nodes[block as usize].list;
        (list != NOWHERE).then_some(list as usize)
    }

    /// Whether any queue holds the block.
    pub(super) fn holds(&self, block: u32) -> bool {
        self.nodes[block as usize].list != NOWHERE
    }

    /// The size that the block was queued with.
    pub(super) fn size(&self, block: u32) -> u32 {
        self.nodes[block as usize].size
    }

    /// The sum of the sizes on a queue.
    pub(super) fn sum(&self, list: usize) -> u64 {
        self.sums[list]
    }

    /// Whether nothing is on a queue.
    pub(super) fn is_empty(&self, list: usize) -> bool {
        self.oldest(list).is_none()
    }

    /// The policy's own few bits about a queued block: 0 when it is queued.
    pub(super) fn mark(&self, block: u32) -> u8 {
        self.nodes[block as usize].mark
    }

    /// Sets these bits.
    pub(super) fn set_mark(&mut self, block: u32, mark: u8) {
        self.nodes[block as usize].mark = mark;
    }

    /// Puts a block that is on no queue at the new end of one, unmarked.
    pub(super) fn push(&mut self, list: usize, block: u32, size: u32) {
        let anchor = self.blocks + list as u32;
        self.link(block, self.nodes[anchor as usize].older, anchor, list, size);
    }

    /// Puts a block that is on no queue at the old end of one, unmarked: it is the next to go.
    pub(super) fn push_oldest(&mut self, list: usize, block: u32, size: u32) {
        let anchor = self.blocks + list as u32;
        self.link(block, anchor, self.nodes[anchor as usize].newer, list, size);
    }

    fn link(&mut self, block: u32, older: u32, newer: u32, list: usize, size: u32) {
        debug_assert!(!self.holds(block), "block {block} is queued already");
        self.nodes[block as usize] = Node { older, newer, size, list: list as u8, mark: 0 };
        self.nodes[older as usize].newer = block;
        self.nodes[newer as usize].older = block;
        self.sums[list] += u64::from(size);
    }

    /// Takes a queued block off its queue.
    pub(super) fn remove(&mut self, block: u32) {
        let Node { older, newer, size, list, .. } = self.nodes[block as usize];
        self.nodes[older as usize].newer = newer;
        self.nodes[newer as usize].older = older;
        self.nodes[block as usize].list = NOWHERE;
        self.sums[list as usize] -= u64::from(size);
    }

    /// Takes a queued block to the new end of a queue, with its size and unmarked.
    pub(super) fn renew(&mut self, list: usize, block: u32) {
        self.remove(block);
        self.push(list, block, self.size(block));
    }

    /// Gives a queued block another size, in its place.
    pub(super) fn resize(&mut self, block: u32, size: u32) {
        let node = &mut self.nodes[block as usize];
        let sum = &mut self.sums[node.list as usize];
        *sum = *sum - u64::from(node.size) + u64::from(size);
        node.size = size;
    }

    /// The block at the old end of a queue.
    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        self.newer(self.blocks + list as u32)
    }

    /// The next block of the same queue on the way to its new end.
    pub(super) fn newer(&self, block: u32) -> Option<u32> {
        let newer = self.nodes[block as usize].newer;
        (newer < self.blocks).then_some(newer)
    }

    /// Takes the block at the old end off a queue.
    pub(super) fn pop(&mut self, list: usize) -> Option<u32> {
        let oldest = self.oldest(list)?;
        self.remove(oldest);
        Some(oldest)
    }

    /// Walks all queues and recounts.
    pub(super) fn validate(&self) -> Result<(), Broken> {
        let mut seen = 0;
        for list in 0..N {
            let mut sum = 0;
            let mut before = self.blocks + list as u32;
            while let Some(block) = self.newer(before) {
                let node = &self.nodes[block as usize];
                ensure(node.list as usize == list, "a block is on the queue that it names")?;
                ensure(node.older == before, "the links of a queue go both ways")?;
                sum += u64::from(node.size);
                seen += 1;
                ensure(seen <= self.blocks, "a queue is no circle of blocks")?;
                before = block;
            }
            ensure(sum == self.sums[list], "the sizes on a queue add up")?;
        }
        let queued = (0..self.blocks).filter(|&block| self.holds(block)).count();
        ensure(queued == seen as usize, "a block that names a queue is on it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_leave_in_the_order_that_they_came_unless_renewed() {
        let mut chains = Chains::<2>::new(4);
        for block in 0..3 {
            chains.push(0, block, 10 + block);
        }
        chains.push_oldest(0, 3, 1);
        chains.renew(0, 0);
        chains.renew(1, 2);
        assert_eq!(chains.sum(0), 1 + 11 + 10);
        chains.validate().unwrap();
        assert_eq!(std::iter::from_fn(|| chains.pop(0)).collect::<Vec<_>>(), [3, 1, 0]);
        assert_eq!((chains.list(2), chains.list(0)), (Some(1), None));
        assert_eq!((chains.sum(0), chains.sum(1)), (0, 12));
        chains.validate().unwrap();
    }

    #[test]
    fn the_check_sees_what_is_wrong() {
        let spoil = |spoil: fn(&mut Chains<2>)| {
            let mut chains = Chains::<2>::new(3);
            chains.push(0, 0, 5);
            chains.push(0, 1, 6);
            spoil(&mut chains);
            chains.validate()
        };
        assert!(spoil(|_| ()).is_ok());
        assert!(spoil(|chains| chains.sums[0] += 1).is_err());
        assert!(spoil(|chains| chains.nodes[1].list = 1).is_err());
        assert!(spoil(|chains| chains.nodes[1].older = 2).is_err());
        assert!(spoil(|chains| chains.nodes[1].newer = 0).is_err());
        assert!(spoil(|chains| chains.nodes[2].list = 0).is_err());
    }
}
