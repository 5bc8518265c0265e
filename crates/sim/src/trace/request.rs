//! One entry of a trace: as it is decoded, with its key, and as policies see it, with a number.

use arcwell_base::Kind;

/// What is done to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Act {
    /// Somebody asks for it: the only act that counts as a request, and the only one in most traces.
    #[default]
    Read,
    /// Prefetch looks whether it is there.
    Probe,
    /// It is put into the cache without a request: written, or read ahead of demand.
    Admit {
        /// Whether that was a guess of prefetch.
        is_guess: bool,
        /// Whether it may stay after its use.
        stays: bool,
    },
    /// It is no longer true.
    Remove,
}

/// One entry of a trace as its file tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// When, in microseconds of the trace's own clock; 0 where the format has no time.
    pub time: u64,
    /// Which block: equal keys are the same block, and nothing else is known of them.
    pub key: u64,
    /// Its bytes, at least 1; exactly 1 where the format has no sizes.
    pub size: u32,
    /// What it holds.
    pub kind: Kind,
    /// What is done to it.
    pub act: Act,
}

impl Request {
    /// Somebody reads block `key`, which is one unit large.
    pub const fn of(key: u64) -> Self {
        Request { time: 0, key, size: 1, kind: Kind::Data, act: Act::Read }
    }

    /// The same with a size. One of 0 becomes 1: a block that takes no room could never be evicted.
    pub const fn sized(self, bytes: u32) -> Self {
        Request { size: if bytes == 0 { 1 } else { bytes }, ..self }
    }

    /// The same at a time, in microseconds.
    pub const fn at(self, time: u64) -> Self {
        Request { time, ..self }
    }
}

/// One access, as policies see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The block's number in its trace, from 0 in order of first appearance.
    pub block: u32,
    /// Its size in units of the capacity: 1 where the capacity is in blocks.
    pub size: u32,
    /// What it holds.
    pub kind: Kind,
    /// What is done to it.
    pub act: Act,
}

/// Kind and act of an access in one byte: a column that most traces do without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark(u8);

impl Mark {
    /// A read of data, which is what an access is where there is no column of marks.
    pub(super) const PLAIN: Mark = Mark(0);

    const METADATA: u8 = 1;
    const GUESS: u8 = 1 << 1;
    const STAYS: u8 = 1 << 2;
    const ACT: u8 = 3 << 3;
    const PROBE: u8 = 1 << 3;
    const ADMIT: u8 = 2 << 3;
    const REMOVE: u8 = 3 << 3;

    pub(super) fn new(kind: Kind, act: Act) -> Mark {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let act = match act {
            Act::Read => 0,
            Act::Probe => Self::PROBE,
            Act::Admit { is_guess, stays } => {
                Self::ADMIT | flag(is_guess, Self::GUESS) | flag(stays, Self::STAYS)
            }
            Act::Remove => Self::REMOVE,
        };
        Mark(act | flag(kind == Kind::Metadata, Self::METADATA))
    }

    pub(super) fn kind(self) -> Kind {
        if self.0 & Self::METADATA == 0 { Kind::Data } else { Kind::Metadata }
    }

    pub(super) fn act(self) -> Act {
        match self.0 & Self::ACT {
            Self::PROBE => Act::Probe,
            Self::ADMIT => {
                Act::Admit { is_guess: self.0 & Self::GUESS != 0, stays: self.0 & Self::STAYS != 0 }
            }
            Self::REMOVE => Act::Remove,
            _ => Act::Read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_act_fits_its_own_byte() {
        let admits = [(false, false), (false, true), (true, false), (true, true)]
            .map(|(is_guess, stays)| Act::Admit { is_guess, stays });
        let mut seen = Vec::new();
        for kind in Kind::ALL {
            for act in [Act::Read, Act::Probe, Act::Remove].into_iter().chain(admits) {
                let mark = Mark::new(kind, act);
                assert_eq!((mark.kind(), mark.act()), (kind, act));
                assert!(!seen.contains(&mark), "{kind:?} {act:?} share a byte with another");
                seen.push(mark);
            }
        }
        assert_eq!(Mark::new(Kind::Data, Act::Read), Mark::PLAIN);
    }
}
