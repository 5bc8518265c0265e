//! One pass over a trace: what a cache would have hit.

use crate::policy::Policy;
use crate::trace::{Access, Act, Trace, Unit};

/// How many accesses lie between two reports of progress.
pub const STEP: usize = 1 << 16;

/// What was asked for, and how much of it was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Requests: the accesses that read.
    pub requests: u64,
    /// Those whose block was in the cache.
    pub hits: u64,
    /// Bytes of the requests, as the trace has them, whatever the capacity was counted in.
    pub bytes: u64,
    /// Bytes of the hits.
    pub hit_bytes: u64,
}

impl Tally {
    /// Hits among the requests: 0 to 1, and 0 where there are no requests.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.requests)
    }

    /// Bytes of hits among the bytes of requests: 0 to 1, and 0 where there are none.
    pub fn byte_hit_ratio(&self) -> f64 {
        ratio(self.hit_bytes, self.bytes)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Asks `policy`, which must be as it was built for this trace, for all of it, with sizes in `unit`.
///
/// `progress` is told the number of accesses that are done, every [`STEP`] and at the end.
pub fn replay(policy: &mut dyn Policy, trace: &Trace, unit: Unit, mut progress: impl FnMut(usize)) -> Tally {
    let mut tally = Tally::default();
    let mut done = 0;
    while done < trace.len() {
        let end = trace.len().min(done + STEP);
        trace.part(done..end, Unit::Bytes).for_each(|access| one(policy, access, unit, &mut tally));
        done = end;
        progress(done);
    }
    tally
}

/// One access, given with its bytes.
#[inline]
fn one(policy: &mut dyn Policy, access: Access, unit: Unit, tally: &mut Tally) {
    let bytes = u64::from(access.size);
    let access = match unit {
        Unit::Blocks => Access { size: 1, ..access },
        Unit::Bytes => access,
    };
    if access.act != Act::Read {
        return policy.note(access);
    }
    let hit = policy.request(access);
    tally.requests += 1;
    tally.hits += u64::from(hit);
    tally.bytes += bytes;
    tally.hit_bytes += if hit { bytes } else { 0 };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Broken;
    use crate::trace::Request;

    /// Hits every second request, and remembers what it was given.
    #[derive(Default)]
    struct Diary {
        requested: Vec<u32>,
        noted: Vec<Act>,
    }

    impl Policy for Diary {
        fn request(&mut self, access: Access) -> bool {
            self.requested.push(access.size);
            self.requested.len().is_multiple_of(2)
        }

        fn note(&mut self, access: Access) {
            self.noted.push(access.act);
        }

        fn validate(&self) -> Result<(), Broken> {
            Ok(())
        }
    }

    #[test]
    fn only_reads_are_requests_and_bytes_are_counted_in_either_unit() {
        let removed = Request { act: Act::Remove, ..Request::of(1) };
        let reads = [5, 6, 7, 8].map(|size| Request::of(1).sized(size));
        let trace = Trace::of("diary", [removed].into_iter().chain(reads)).unwrap();
        for (unit, sizes) in [(Unit::Blocks, [1, 1, 1, 1]), (Unit::Bytes, [5, 6, 7, 8])] {
            let mut diary = Diary::default();
            let tally = replay(&mut diary, &trace, unit, |_| ());
            assert_eq!(tally, Tally { requests: 4, hits: 2, bytes: 26, hit_bytes: 14 });
            assert_eq!((diary.requested, diary.noted), (sizes.to_vec(), vec![Act::Remove]));
            assert_eq!((tally.hit_ratio(), tally.byte_hit_ratio()), (0.5, 14.0 / 26.0));
        }
    }

    #[test]
    fn progress_is_told_at_each_step_and_at_the_end() {
        let trace = Trace::of("long", (0..2 * STEP as u64 + 3).map(|key| Request::of(key % 9))).unwrap();
        let mut told = Vec::new();
        replay(&mut Diary::default(), &trace, Unit::Blocks, |done| told.push(done));
        assert_eq!(told, [STEP, 2 * STEP, 2 * STEP + 3]);
    }

    #[test]
    fn nothing_has_a_ratio_of_nothing() {
        let trace = Trace::of("empty", []).unwrap();
        let tally = replay(&mut Diary::default(), &trace, Unit::Blocks, |_| ());
        assert_eq!((tally.hit_ratio(), tally.byte_hit_ratio()), (0.0, 0.0));
    }
}
