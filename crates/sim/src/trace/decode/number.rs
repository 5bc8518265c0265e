//! Numbers in text.

/// A whole number in decimal digits and nothing else.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    digits(text, 10)
}

/// A whole number in decimal, or in hexadecimal after `0x`.
pub(super) fn decimal_or_hex(text: &[u8]) -> Option<u64> {
    match text {
        [b'0', b'x' | b'X', hex @ ..] => digits(hex, 16),
        _ => decimal(text),
    }
}

fn digits(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, &byte| {
        let digit = char::from(byte).to_digit(radix)?;
        number.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    })
}

/// A time in seconds, with or without a fraction, in microseconds; the largest number where it is too
/// large.
pub(super) fn microseconds(text: &[u8]) -> Option<u64> {
    let dot = text.iter().position(|&byte| byte == b'.');
    let (whole, fraction) = text.split_at(dot.unwrap_or(text.len()));
    let fraction = fraction.get(1..).unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let places = fraction.iter().map(|digit| u64::from(digit - b'0')).chain(std::iter::repeat(0));
    let fraction = places.take(6).fold(0, |micros, digit| micros * 10 + digit);
    Some(decimal(whole)?.saturating_mul(1_000_000).saturating_add(fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal_or_hex(b"0xffFF"), Some(65535));
        for bad in [&b""[..], b"18446744073709551616", b"-1", b"+1", b"1 ", b"0x1", b"1e3"] {
            assert_eq!(decimal(bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!(decimal_or_hex(b"0x"), None);
        assert_eq!(decimal_or_hex(b"0x1ffffffffffffffff"), None);
    }

    #[test]
    fn seconds_have_six_places() {
        assert_eq!(microseconds(b"12"), Some(12_000_000));
        assert_eq!(microseconds(b"12.5"), Some(12_500_000));
        assert_eq!(microseconds(b"0.1234567"), Some(123_456));
        assert_eq!(microseconds(b"18446744073709551615.1"), Some(u64::MAX));
        assert_eq!(microseconds(b".5"), None);
        assert_eq!(microseconds(b"1.x"), None);
    }
}
