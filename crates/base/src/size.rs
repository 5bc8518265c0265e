//! Bytes and durations as people write them: `4GiB`, `128K`, `1.5s`, `200ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes that is read and printed with a binary unit.
///
/// Units are powers of 1024, written `K`, `KB` or `KiB` (any case) up to `T`; without a unit the
/// number is bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct ByteSize(pub u64);

/// Why a size or duration could not be read; the text names what was given and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadQuantity {
    given: String,
    expected: &'static str,
}

impl fmt::Display for BadQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not {}", self.given, self.expected)
    }
}

impl std::error::Error for BadQuantity {}

const SIZE_EXPECTED: &str = "a size such as 512, 128K, 64MiB or 4GiB";
const TIME_EXPECTED: &str = "a duration such as 500ms, 1s, 1.5s, 2m or 1h";

impl FromStr for ByteSize {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || BadQuantity { given: text.to_owned(), expected: SIZE_EXPECTED };
        let (number, unit) = split_unit(text);
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(bad()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(1 << shift).map(ByteSize).ok_or_else(bad);
        }
        let value = positive(number).ok_or_else(bad)? * (1u64 << shift) as f64;
        if value < u64::MAX as f64 { Ok(ByteSize(value.round() as u64)) } else { Err(bad()) }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut unit = 0;
        while unit + 1 < UNITS.len() && self.0 >> (10 * (unit + 1)) > 0 {
            unit += 1;
        }
        let value = self.0 as f64 / (1u64 << (10 * unit)) as f64;
        let digits = if value.fract() == 0.0 { 0 } else { 1 };
        let text = format!("{value:.digits$} {}", UNITS[unit]);
        f.pad(&text)
    }
}

/// Reads a duration: a number with `ms`, `s` (or nothing), `m` or `h`.
///
/// # Errors
/// [`BadQuantity`] when the number or the unit is not one.
pub fn parse_duration(text: &str) -> Result<Duration, BadQuantity> {
    let bad = || BadQuantity { given: text.to_owned(), expected: TIME_EXPECTED };
    let (number, unit) = split_unit(text);
    let scale = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    let seconds = positive(number).ok_or_else(bad)? * scale;
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn positive(number: &str) -> Option<f64> {
    number.parse::<f64>().ok().filter(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("512", 512), ("128K", 131_072), ("4GiB", 4 << 30), ("1.5m", 1_572_864), ("2 TiB", 2 << 40)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn bad_sizes_say_what_was_expected() {
        for text in ["", "K", "4Q", "-1", "1e3", "99999999999T", "nan", "1..2"] {
            let error = text.parse::<ByteSize>().unwrap_err();
            assert!(error.to_string().contains("is not a size such as"), "{text}: {error}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert!(parse_duration("1 day").is_err());
    }

    proptest! {
        #[test]
        fn whole_bytes_survive(bytes: u64) {
            prop_assert_eq!(bytes.to_string().parse(), Ok(ByteSize(bytes)));
        }
    }
}
