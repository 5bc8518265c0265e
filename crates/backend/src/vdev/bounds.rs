//! What a device of any sort may be asked for: whole units, from memory that begins at one, within it.

use arcwell_base::error::{Error, Result};

/// Where a device ends and what its offsets, lengths and addresses are multiples of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// The device's length.
    pub(super) bytes: u64,
    /// A power of two.
    pub(super) unit: u32,
}

impl Bounds {
    /// Whether `memory` can be moved to or from `offset`.
    pub(super) fn check(self, operation: &'static str, offset: u64, memory: &[u8]) -> Result<()> {
        if !memory.is_empty() && !memory.as_ptr().addr().is_multiple_of(self.unit as usize) {
            let what = format!("memory at {:p} does not begin at a multiple of {}", memory, self.unit);
            return Err(Error::invalid(operation, what));
        }
        self.check_range(operation, offset, memory.len() as u64)
    }

    /// Whether a range is one of whole units within the device.
    pub(super) fn check_range(self, operation: &'static str, offset: u64, length: u64) -> Result<()> {
        let unit = u64::from(self.unit);
        if !offset.is_multiple_of(unit) || !length.is_multiple_of(unit) {
            let what = format!("{length} bytes at {offset} are no multiples of {unit}");
            return Err(Error::invalid(operation, what));
        }
        if offset.checked_add(length).is_none_or(|end| end > self.bytes) {
            let what = format!("{length} bytes at {offset} are not within the {} of the device", self.bytes);
            return Err(Error::invalid(operation, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_within_or_not_aligned_is_refused_and_all_else_is_not() {
        let bounds = Bounds { bytes: 1 << 20, unit: 4096 };
        let check = |offset, length| bounds.check_range("ask", offset, length).is_ok();
        assert!(check(0, 1 << 20) && check((1 << 20) - 4096, 4096) && check(1 << 20, 0));
        assert!(!check(0, (1 << 20) + 4096) && !check(1 << 20, 4096));
        assert!(!check(512, 4096) && !check(0, 512));
        assert!(!check(u64::MAX - 4095, 4096) && !check(4096, u64::MAX - 4095));
    }

    #[test]
    fn memory_begins_at_a_multiple_of_the_unit() {
        let bounds = Bounds { bytes: 1 << 20, unit: 512 };
        let memory = super::super::aligned::Aligned::zeros(1024);
        bounds.check("ask", 0, &memory[512..]).unwrap();
        let error = bounds.check("ask", 0, &memory[8..520]).unwrap_err();
        assert!(error.to_string().contains("multiple of 512"), "{error}");
        bounds.check("ask", 0, &memory[8..8]).unwrap();
    }
}
