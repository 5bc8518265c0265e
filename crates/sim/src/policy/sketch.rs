//! How often a block was asked for lately, in four bits: the count-min sketch of TinyLFU.
//!
//! G. Einziger, R. Friedman and B. Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM
//! Transactions on Storage 13(4), 2017, section 3: counters up to 15, all halved when ten times as many
//! requests were counted as the cache has blocks. Without the paper's doorkeeper: it saves memory, which
//! is no concern here. And each request adds to all counters of its block, not to the lowest alone:
//! that is nearer to what others measure.

/// Counters of which each word holds sixteen; a block has one in each of its four words.
pub(super) struct Sketch {
    words: Vec<u64>,
    /// Requests counted since the counters were last halved, about.
    counted: u64,
    period: u64,
}

/// The lowest bit of each counter.
const ONES: u64 = 0x1111_1111_1111_1111;
const MOST: u64 = 15;
const ROWS: u32 = 4;

impl Sketch {
    /// For a cache of about `entries` blocks.
    pub(super) fn new(entries: u64) -> Self {
        let width = entries.max(4).next_power_of_two();
        Sketch { words: vec![0; width as usize], counted: 0, period: 10 * entries.max(1) }
    }

    /// Where the block's counter of a row is: the word and the shift.
    fn place(&self, block: u32, row: u32) -> (usize, u32) {
        let hash = mix(u64::from(block) << 2 | u64::from(row));
        let word = (hash >> 8) as usize & (self.words.len() - 1);
        (word, (row * 4 + (hash as u32 & 3)) * 4)
    }

    fn read(&self, (word, shift): (usize, u32)) -> u64 {
        self.words[word] >> shift & MOST
    }

    /// How often the block was counted: 0 to 15, seldom too high, never too low but for the halving.
    pub(super) fn estimate(&self, block: u32) -> u64 {
        (0..ROWS).map(|row| self.read(self.place(block, row))).min().unwrap_or(0)
    }

    /// Counts one request.
    pub(super) fn count(&mut self, block: u32) {
        let places = [0, 1, 2, 3].map(|row| self.place(block, row));
        let mut has_room = false;
        for (word, shift) in places {
            if self.read((word, shift)) < MOST {
                self.words[word] += 1 << shift;
                has_room = true;
            }
        }
        self.counted += u64::from(has_room);
        if self.counted >= self.period {
            self.counted /= 2;
            for word in &mut self.words {
                *word = *word >> 1 & !(ONES << 3);
            }
        }
    }
}

/// The finishing step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): neighbours go far apart.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_never_too_low_and_stop_at_fifteen() {
        let mut sketch = Sketch::new(1000);
        for block in 0..60 {
            for _ in 0..block {
                sketch.count(block);
            }
        }
        for block in 0..60 {
            assert!(sketch.estimate(block) >= u64::from(block).min(MOST), "block {block}");
        }
        let exact = (0..60).filter(|&block| sketch.estimate(block) == u64::from(block).min(MOST)).count();
        assert!(exact > 55, "only {exact} of 60 are exact in a sketch that is nearly empty");
    }

    #[test]
    fn a_full_period_halves_everything() {
        let mut sketch = Sketch::new(100);
        for _ in 0..12 {
            sketch.count(7);
        }
        let mut others = (1000..).take(5000);
        while sketch.estimate(7) >= 12 {
            sketch.count(others.next().unwrap());
        }
        assert_eq!(sketch.estimate(7), 6);
    }
}
