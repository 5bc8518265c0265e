//! Axes: from values to places in a drawing, and the values that are written beside them.

use arcwell_base::ByteSize;

use crate::trace::Unit;

/// Marks beside an axis at most: more would run into each other.
const MAX_TICKS: usize = 9;

/// Sizes, on a scale where a factor is a distance.
pub(super) struct SizeAxis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl SizeAxis {
    /// From the least of `sizes` at `from` to the largest at `to`. One size alone is in the middle.
    pub(super) fn new(sizes: &[u64], from: f64, to: f64) -> SizeAxis {
        let low = sizes.iter().min().map_or(1.0, |&size| size.max(1) as f64);
        let high = sizes.iter().max().map_or(1.0, |&size| size.max(1) as f64);
        let (low, high) = if low < high { (low, high) } else { (low / 2.0, high * 2.0) };
        SizeAxis { low, high, from, to }
    }

    /// Where a size lies.
    pub(super) fn place(&self, size: u64) -> f64 {
        let share = (size.max(1) as f64 / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    /// Round sizes along the axis; where there is no round one, its ends.
    pub(super) fn ticks(&self, unit: Unit) -> Vec<u64> {
        let candidates = match unit {
            Unit::Blocks => [decades(&[1, 2, 5]), decades(&[1, 3]), decades(&[1])],
            Unit::Bytes => [1, 2, 4].map(|step| (0..64).step_by(step).map(|shift| 1 << shift).collect()),
        };
        let within = |size: &u64| (self.low..=self.high).contains(&(*size as f64));
        let inside = candidates.map(|sizes: Vec<u64>| sizes.into_iter().filter(within).collect::<Vec<_>>());
        let [.., coarsest] = &inside;
        let coarsest = coarsest.iter().copied().step_by(coarsest.len().div_ceil(MAX_TICKS).max(1)).collect();
        let ticks = inside.iter().find(|ticks| ticks.len() <= MAX_TICKS).cloned().unwrap_or(coarsest);
        if ticks.len() >= 2 { ticks } else { vec![self.low.ceil() as u64, self.high as u64] }
    }
}

/// Multiples of all powers of ten.
fn decades(factors: &[u64]) -> Vec<u64> {
    (0..19).flat_map(|power| factors.iter().map(move |factor| factor * 10_u64.pow(power))).collect()
}

/// Where the marks of a ratio stand, in per cent from 0 up to the first mark that is not below `highest`.
pub(super) fn percents(highest: f64) -> Vec<u32> {
    let highest = highest.clamp(0.0, 100.0);
    let step = match highest {
        ..=0.5 => 1,
        ..=8.0 => 2,
        ..=20.0 => 5,
        ..=50.0 => 10,
        _ => 20,
    };
    let count = (highest / f64::from(step)).ceil().max(1.0) as u32;
    (0..=count).map(|place| place * step).collect()
}

/// A size as it is written beside the axis.
pub(super) fn size(size: u64, unit: Unit) -> String {
    match unit {
        Unit::Blocks => grouped(size),
        Unit::Bytes => ByteSize(size).to_string(),
    }
}

/// A number with a comma after every three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let is_group = |place: usize| place > 0 && (digits.len() - place).is_multiple_of(3);
    let digit = |(place, digit)| [is_group(place).then_some(','), Some(digit)];
    digits.chars().enumerate().flat_map(digit).flatten().collect()
}

/// Places for labels of the height `gap`, as near as can be to where they belong, between `top` and
/// `bottom`, none over another. `wanted` goes downwards, and so does what is returned.
pub(super) fn apart(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut places = Vec::with_capacity(wanted.len());
    let mut next = top;
    for place in wanted {
        let place = place.max(next);
        places.push(place);
        next = place + gap;
    }
    // What was pushed over the edge pushes back.
    let mut last = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(last);
        last = *place - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_a_distance() {
        let axis = SizeAxis::new(&[100, 1000, 10_000], 50.0, 250.0);
        let places = [100, 1000, 10_000].map(|size| axis.place(size).round());
        assert_eq!(places, [50.0, 150.0, 250.0]);
        assert_eq!(SizeAxis::new(&[7], 0.0, 10.0).place(7), 5.0);
    }

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = |low, high, unit| SizeAxis::new(&[low, high], 0.0, 1.0).ticks(unit);
        assert_eq!(ticks(250, 15_000, Unit::Blocks), [500, 1000, 2000, 5000, 10_000]);
        assert_eq!(ticks(1, 100_000, Unit::Blocks).len(), 6);
        assert_eq!(ticks(101, 199, Unit::Blocks), [101, 199]);
        assert_eq!(ticks(1 << 20, 4 << 20, Unit::Bytes), [1 << 20, 2 << 20, 4 << 20]);
        assert_eq!(ticks(1 << 20, 1 << 30, Unit::Bytes).len(), 6);
        for high in 1..60 {
            for unit in [Unit::Blocks, Unit::Bytes] {
                let ticks = ticks(1, 1 << high, unit);
                assert!((2..=MAX_TICKS).contains(&ticks.len()) && ticks.is_sorted(), "2^{high}: {ticks:?}");
            }
        }
    }

    #[test]
    fn percents_reach_the_highest() {
        for (highest, last) in [(0.0, 1), (3.1, 4), (17.1, 20), (44.0, 50), (61.0, 80), (100.0, 100)] {
            let marks = percents(highest);
            assert_eq!((marks[0], marks.last()), (0, Some(&last)), "{highest}");
        }
    }

    #[test]
    fn numbers_are_in_groups_of_three() {
        let all = [0, 999, 1000, 52_000, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "999", "1,000", "52,000", "1,234,567"]);
    }

    #[test]
    fn labels_stand_apart_and_stay_inside() {
        assert_eq!(apart(&[10.0, 50.0], 10.0, 0.0, 100.0), [10.0, 50.0]);
        assert_eq!(apart(&[48.0, 50.0, 52.0], 10.0, 0.0, 100.0), [48.0, 58.0, 68.0]);
        assert_eq!(apart(&[95.0, 96.0, 97.0], 10.0, 0.0, 100.0), [80.0, 90.0, 100.0]);
        assert_eq!(apart(&[-5.0], 10.0, 0.0, 100.0), [0.0]);
    }
}
