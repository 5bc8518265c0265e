//! Sizes of caches as people ask for them: `1000,2000`, `64MiB..4GiB:7`, `1%,5%,20%`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use arcwell_base::ByteSize;

use crate::trace::Unit;

/// How many sizes one text may ask for.
pub const MAX_SIZES: usize = 1000;

/// The largest cache, in blocks or bytes: more than any machine has, and policies may add some such
/// numbers without overflow.
pub const MAX_SIZE: u64 = 1 << 60;

/// A list of sizes, all in blocks or all in bytes.
///
/// As text (`FromStr`), with commas between:
///
/// - `1000`: so many blocks, each of which counts one;
/// - `5%`: a share of the distinct blocks of the trace, which is a number of blocks;
/// - `512MiB`: bytes, with a suffix as [`ByteSize`] has them;
/// - `1000..64000:7`: so many sizes from one to another, each by the same factor larger than the one before.
#[derive(Clone, PartialEq, Debug)]
pub struct Sizes {
    parts: Vec<Part>,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Part {
    One(Amount),
    /// Two or more.
    Range(Amount, Amount, usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Amount {
    /// In the unit of the list.
    Fixed(u64),
    /// Of the distinct blocks, in per cent.
    Share(f64),
}

impl Sizes {
    /// What they are counted in.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The sizes for a trace of `unique` distinct blocks: ascending, each once, none 0.
    pub fn of(&self, unique: u32) -> Vec<u64> {
        let mut sizes = BTreeSet::new();
        for part in &self.parts {
            match *part {
                Part::One(amount) => sizes.extend([amount.of(unique)]),
                Part::Range(low, high, count) => sizes.extend(spread(low.of(unique), high.of(unique), count)),
            }
        }
        sizes.into_iter().collect()
    }
}

impl Amount {
    fn of(self, unique: u32) -> u64 {
        match self {
            Amount::Fixed(size) => size,
            Amount::Share(percent) => ((f64::from(unique) * percent / 100.0).round() as u64).max(1),
        }
    }
}

/// `count` sizes from `low` to `high`, both among them.
fn spread(low: u64, high: u64, count: usize) -> impl Iterator<Item = u64> {
    let last = count - 1;
    let factor = high as f64 / low as f64;
    (0..count).map(move |place| match place {
        0 => low,
        _ if place == last => high,
        _ => (low as f64 * factor.powf(place as f64 / last as f64)).round() as u64,
    })
}

/// A text that is no list of sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadSizes {
    given: String,
    expected: Expected,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Size,
    Limits,
    Share,
    Range,
    OneUnit,
    Fewer,
}

impl fmt::Display for BadSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not ", self.given)?;
        match self.expected {
            Expected::Size => {
                write!(f, "a size such as 1000 (blocks), 5% (of the distinct blocks) or 512MiB")
            }
            Expected::Limits => write!(f, "a size from 1 to {MAX_SIZE}"),
            Expected::Share => write!(f, "a share above 0% and up to 100%"),
            Expected::Range => {
                write!(f, "a range such as 1000..64000:7, upwards, of 2 to {MAX_SIZES} sizes")
            }
            Expected::OneUnit => write!(f, "all in blocks or all in bytes"),
            Expected::Fewer => write!(f, "a list of at most {MAX_SIZES} sizes"),
        }
    }
}

impl std::error::Error for BadSizes {}

/// What is expected in place of `given`.
fn bad(given: &str, expected: Expected) -> BadSizes {
    BadSizes { given: given.to_owned(), expected }
}

impl FromStr for Sizes {
    type Err = BadSizes;

    fn from_str(text: &str) -> Result<Self, BadSizes> {
        let mut sizes = Sizes { parts: Vec::new(), unit: Unit::Blocks };
        let mut count = 0;
        for given in text.split(',').map(str::trim) {
            let (part, unit) = part(given)?;
            if *sizes.parts.first().map_or(&unit, |_| &sizes.unit) != unit {
                return Err(bad(text, Expected::OneUnit));
            }
            count += if let Part::Range(.., count) = part { count } else { 1 };
            if count > MAX_SIZES {
                return Err(bad(text, Expected::Fewer));
            }
            sizes.unit = unit;
            sizes.parts.push(part);
        }
        Ok(sizes)
    }
}

fn part(given: &str) -> Result<(Part, Unit), BadSizes> {
    let Some((low, rest)) = given.split_once("..") else {
        let (amount, unit) = amount(given)?;
        return Ok((Part::One(amount), unit));
    };
    let not_a_range = || bad(given, Expected::Range);
    let (high, count) = rest.split_once(':').ok_or_else(not_a_range)?;
    let count = count.parse().ok().filter(|count| (2..=MAX_SIZES).contains(count));
    let count = count.ok_or_else(not_a_range)?;
    let ((low, unit), (high, same_unit)) = (amount(low)?, amount(high)?);
    if unit != same_unit {
        return Err(bad(given, Expected::OneUnit));
    }
    let is_upwards = match (low, high) {
        (Amount::Fixed(low), Amount::Fixed(high)) => low < high,
        (Amount::Share(low), Amount::Share(high)) => low < high,
        // Depends on the trace: what runs downwards is sorted then, as all sizes are.
        _ => true,
    };
    if is_upwards { Ok((Part::Range(low, high, count), unit)) } else { Err(not_a_range()) }
}

fn amount(given: &str) -> Result<(Amount, Unit), BadSizes> {
    if let Some(share) = given.strip_suffix('%') {
        let percent: f64 = share.parse().map_err(|_| bad(given, Expected::Size))?;
        let is_share = percent > 0.0 && percent <= 100.0;
        return if is_share {
            Ok((Amount::Share(percent), Unit::Blocks))
        } else {
            Err(bad(given, Expected::Share))
        };
    }
    let unit = if given.ends_with(|c: char| c.is_ascii_alphabetic()) { Unit::Bytes } else { Unit::Blocks };
    let size = match unit {
        Unit::Bytes => given.parse::<ByteSize>().ok().map(|ByteSize(bytes)| bytes),
        Unit::Blocks => given.parse().ok(),
    };
    match size {
        Some(size @ 1..=MAX_SIZE) => Ok((Amount::Fixed(size), unit)),
        Some(_) => Err(bad(given, Expected::Limits)),
        None => Err(bad(given, Expected::Size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{POLICIES, Setup};
    use crate::replay::replay;
    use crate::trace::{Request, Trace};

    fn sizes(text: &str, unique: u32) -> Vec<u64> {
        text.parse::<Sizes>().expect(text).of(unique)
    }

    #[test]
    fn sizes_are_ascending_and_each_once() {
        assert_eq!(sizes("2000,1000,2000, 30", 0), [30, 1000, 2000]);
        assert_eq!(sizes("1000..16000:5,4000", 0), [1000, 2000, 4000, 8000, 16000]);
        assert_eq!(sizes("1..3:9", 0), [1, 2, 3]);
    }

    #[test]
    fn shares_are_of_the_distinct_blocks_and_never_nothing() {
        assert_eq!(sizes("1%,5%,100%", 48_974), [490, 2449, 48_974]);
        assert_eq!(sizes("0.1%", 3), [1]);
        assert_eq!(sizes("1%..100%:3", 10_000), [100, 1000, 10_000]);
        assert_eq!(sizes("1000..10%:2", 100), [10, 1000]);
    }

    #[test]
    fn a_suffix_means_bytes() {
        let bytes: Sizes = "1KiB..1MiB:3,4096B".parse().expect("bytes");
        assert_eq!((bytes.unit(), bytes.of(7)), (Unit::Bytes, vec![1 << 10, 1 << 12, 1 << 15, 1 << 20]));
        assert_eq!("4096".parse::<Sizes>().map(|sizes| sizes.unit()), Ok(Unit::Blocks));
    }

    #[test]
    fn what_is_no_size_says_what_would_be() {
        for (text, part) in [
            ("", "a size such as"),
            ("1000,", "a size such as"),
            ("-5", "a size such as"),
            ("1.5", "a size such as"),
            ("3Q", "a size such as"),
            ("x%", "a size such as"),
            ("NaN%", "up to 100%"),
            ("0", "from 1 to"),
            ("0K", "from 1 to"),
            ("1152921504606846977", "from 1 to"),
            ("0%", "up to 100%"),
            ("101%", "up to 100%"),
            ("1..5", "a range such as"),
            ("1..5:1", "a range such as"),
            ("5..1:3", "a range such as"),
            ("5..5:3", "a range such as"),
            ("1..5:1001", "a range such as"),
            ("1..5:600,1..9:600", "at most 1000"),
            ("1000,1GiB", "all in blocks or all in bytes"),
            ("1%..1GiB:3", "all in blocks or all in bytes"),
        ] {
            let refusal = text.parse::<Sizes>().expect_err(text).to_string();
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }

    #[test]
    fn every_policy_can_be_as_large_as_any_size_or_as_small() {
        let requests = (0..300).map(|place| Request::of(place % 100).sized(1 + place as u32 % 7));
        let trace = Trace::of("all of it fits", requests).expect("it is small");
        for row in POLICIES {
            for unit in [Unit::Blocks, Unit::Bytes] {
                let setup = |capacity| Setup { unit, ..Setup::blocks(capacity) };
                let hits = |size| replay(&mut *(row.build)(&setup(size), &trace), &trace, unit, |_| ()).hits;
                assert!(hits(1) <= 200, "{}", row.name);
                assert_eq!(hits(MAX_SIZE), 200, "{}", row.name);
            }
        }
    }
}
