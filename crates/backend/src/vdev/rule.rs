//! Which call meets which fault: pure.

use std::ops::Range;
use std::time::Duration;

use rustix::io::Errno;

/// What a device writes as a whole even when it loses power, or so it is said.
pub(super) const SECTOR: usize = 512;

/// A sort of call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// A range that is read.
    Read,
    /// A write.
    Write,
    /// A flush. It has no range, and lies within every one.
    Flush,
    /// A discard.
    Discard,
}

/// What of a torn write reaches the device, in sectors of 512 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// What lies wholly within the first so many bytes.
    Prefix(u64),
    /// About every other sector, chosen by this seed.
    Sectors(u64),
}

/// What becomes of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Pass,
    Delay(Duration),
    Fail(Errno),
    Tear(Kept, Option<Errno>),
    /// Of a write what lies in this range, of a flush all.
    Lose(Range<u64>),
    Misdirect(u64),
    Flip {
        bits: u32,
        seed: u64,
        range: Range<u64>,
    },
}

/// Which calls meet which fault: all of a sort, unless it is narrowed.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Empty: all.
    calls: Vec<Call>,
    range: Range<u64>,
    every: u64,
    times: u64,
    fate: Fate,
    /// How many calls it has fitted so far.
    fitted: u64,
}

impl Rule {
    fn new(calls: &[Call], fate: Fate) -> Rule {
        Rule { calls: calls.to_vec(), range: 0..u64::MAX, every: 1, times: u64::MAX, fate, fitted: 0 }
    }

    /// These calls (none named: all) fail with this error and are not passed on.
    pub fn fail(calls: &[Call], errno: Errno) -> Rule {
        Rule::new(calls, Fate::Fail(errno))
    }

    /// These calls (none named: all) take so much longer.
    pub fn delay(calls: &[Call], time: Duration) -> Rule {
        Rule::new(calls, Fate::Delay(time))
    }

    /// Of a write only a part reaches the device. It is then reported to have failed with `then`, or to be done.
    pub fn tear(kept: Kept, then: Option<Errno>) -> Rule {
        Rule::new(&[Call::Write], Fate::Tear(kept, then))
    }

    /// A write does not reach the device and is reported as done. Narrowed to a range, that keeps what it
    /// holds (in sectors), and the rest of the write reaches the device.
    pub fn lose() -> Rule {
        Rule::new(&[Call::Write], Fate::Lose(0..u64::MAX))
    }

    /// A flush does not reach the device and is reported as done.
    pub fn lose_flush() -> Rule {
        Rule::new(&[Call::Flush], Fate::Lose(0..u64::MAX))
    }

    /// A write goes to a place so many bytes further on, from the device's end on at its start, and is
    /// reported as done.
    pub fn misdirect(by: u64) -> Rule {
        Rule::new(&[Call::Write], Fate::Misdirect(by))
    }

    /// In what is read so many bits are turned, within the range that the rule is narrowed to; which, `seed`
    /// decides, anew at each read. The same bit may be turned twice, that is, not at all.
    pub fn flip(bits: u32, seed: u64) -> Rule {
        Rule::new(&[Call::Read], Fate::Flip { bits, seed, range: 0..u64::MAX })
    }

    /// Only calls that touch this range.
    #[must_use]
    pub fn within(mut self, range: Range<u64>) -> Rule {
        if let Fate::Lose(own) | Fate::Flip { range: own, .. } = &mut self.fate {
            *own = range.clone();
        }
        self.range = range;
        self
    }

    /// Only every `n`th call that fits.
    #[must_use]
    pub fn every(self, n: u64) -> Rule {
        Rule { every: n.max(1), ..self }
    }

    /// Only the first `times` that it would hold.
    #[must_use]
    pub fn times(self, times: u64) -> Rule {
        Rule { times, ..self }
    }

    /// What it makes of a call, which it counts.
    pub(super) fn turn(&mut self, call: Call, range: &Range<u64>) -> Fate {
        let is_sort = self.calls.is_empty() || self.calls.contains(&call);
        // A range of no bytes touches nothing.
        let touches = range.start.max(self.range.start) < range.end.min(self.range.end);
        if !is_sort || !touches {
            return Fate::Pass;
        }
        self.fitted += 1;
        let is_turn = self.fitted.is_multiple_of(self.every) && self.fitted / self.every <= self.times;
        if is_turn { self.fate.clone() } else { Fate::Pass }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_holds_for_its_calls_and_range_at_its_turn_alone() {
        let mut rule = Rule::fail(&[Call::Read], Errno::IO).within(4096..8192).every(2).times(2);
        let mut fails = |call, range: Range<u64>| rule.turn(call, &range) != Fate::Pass;
        assert!(
            !fails(Call::Write, 0..8192) && !fails(Call::Read, 0..4096) && !fails(Call::Read, 8192..9000)
        );
        let turns: Vec<bool> = (0..6).map(|_| fails(Call::Read, 0..4097)).collect();
        assert_eq!(turns, [false, true, false, true, false, false]);
    }

    #[test]
    fn a_flush_lies_within_every_range() {
        let mut rule = Rule::fail(&[], Errno::IO).within(4096..8192);
        assert_eq!(rule.turn(Call::Flush, &(0..u64::MAX)), Fate::Fail(Errno::IO));
    }
}
