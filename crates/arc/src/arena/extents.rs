//! Which runs of pages are free: pure bookkeeping, no memory is touched.
//!
//! A free run is *filled*, when the process holds memory for its pages, or *hollow*, when it is address
//! space alone. Neighbours of a sort are one run at once, so what is free is never in more pieces than
//! need be. Whoever wants pages gets the shortest run that is long enough, and the lowest of these: so
//! what is in use gathers at low addresses and long runs stay long.
//!
//! - **R1** No two runs overlap, and two that touch are of different sorts.
//! - **R2** Both indexes hold the same runs, and the counts are those of a recount.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Pages by number, from the beginning of the region.
pub(super) type Pages = Range<u32>;

/// Whether memory stands behind a free run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Hollow,
    Filled,
}

/// The free runs.
#[derive(Debug, Default)]
pub(super) struct Extents {
    /// End and sort, by start.
    by_start: BTreeMap<u32, (u32, Sort)>,
    /// Length and start, by sort.
    by_len: [BTreeSet<(u32, u32)>; 2],
    pages: [u64; 2],
}

/// How many runs are looked at for one that is aligned by chance.
const LOOKED_AT: usize = 8;

impl Extents {
    /// Free pages of a sort.
    pub(super) fn pages(&self, sort: Sort) -> u64 {
        self.pages[sort as usize]
    }

    /// The longest filled run, or the shortest.
    pub(super) fn extreme(&self, longest: bool) -> Option<Pages> {
        let filled = &self.by_len[Sort::Filled as usize];
        let found = if longest { filled.last() } else { filled.first() };
        found.map(|(len, start)| *start..start + len)
    }

    /// The run that fits `count` pages best, and the first place in it that is a multiple of `align`.
    pub(super) fn fit(&self, sort: Sort, count: u32, align: u32) -> Option<(Pages, u32)> {
        let fits = |(len, start): &(u32, u32)| {
            let at = start.next_multiple_of(align);
            (at - start + count <= *len).then(|| (*start..start + len, at))
        };
        let runs = &self.by_len[sort as usize];
        let sure = || runs.range((count + align - 1, 0)..).next().and_then(fits);
        runs.range((count, 0)..).take(if align == 1 { 1 } else { LOOKED_AT }).find_map(fits).or_else(sure)
    }

    /// A filled run, as long as possible but shorter than `count`, that has `count` pages together with
    /// the hollow runs around it; and these.
    pub(super) fn stretch(&self, count: u32) -> Option<(Pages, Pages, Pages)> {
        let filled = self.by_len[Sort::Filled as usize].range(..(count, 0)).rev();
        filled.take(LOOKED_AT).map(|(len, start)| (self.hollow_before(*start), *start..start + len)).find_map(
            |(before, run)| {
                let after = match self.by_start.get(&run.end) {
                    Some((end, Sort::Hollow)) => run.end..*end,
                    _ => run.end..run.end,
                };
                (after.end - before.start >= count).then_some((before, run, after))
            },
        )
    }

    fn hollow_before(&self, start: u32) -> Pages {
        match self.by_start.range(..start).next_back() {
            Some((before, (end, Sort::Hollow))) if *end == start => *before..start,
            _ => start..start,
        }
    }

    /// Adds a free run to its neighbours.
    pub(super) fn put(&mut self, run: Pages, sort: Sort) {
        if run.is_empty() {
            return;
        }
        self.pages[sort as usize] += u64::from(run.end - run.start);
        let Range { mut start, mut end } = run;
        if let Some((&before, &(its_end, its_sort))) = self.by_start.range(..end).next_back() {
            assert!(its_end <= start, "R1: {run:?} was free already: {before}..{its_end}");
            if its_end == start && its_sort == sort {
                self.forget(before..its_end, sort);
                start = before;
            }
        }
        if let Some(&(its_end, its_sort)) = self.by_start.get(&end)
            && its_sort == sort
        {
            self.forget(end..its_end, sort);
            end = its_end;
        }
        self.note(start..end, sort);
    }

    /// Takes `part` out of `run`, which is free.
    pub(super) fn cut(&mut self, run: Pages, part: Pages, sort: Sort) {
        debug_assert!(run.start <= part.start && part.end <= run.end && !part.is_empty());
        self.pages[sort as usize] -= u64::from(part.end - part.start);
        self.forget(run.clone(), sort);
        self.note(run.start..part.start, sort);
        self.note(part.end..run.end, sort);
    }

    fn note(&mut self, run: Pages, sort: Sort) {
        if !run.is_empty() {
            self.by_start.insert(run.start, (run.end, sort));
            self.by_len[sort as usize].insert((run.end - run.start, run.start));
        }
    }

    fn forget(&mut self, run: Pages, sort: Sort) {
        let was = self.by_start.remove(&run.start);
        debug_assert_eq!(was, Some((run.end, sort)));
        self.by_len[sort as usize].remove(&(run.end - run.start, run.start));
    }

    /// The free runs, lowest first.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Pages, Sort)> {
        self.by_start.iter().map(|(start, (end, sort))| (*start..*end, *sort))
    }

    /// Recounts: R1 and R2.
    ///
    /// # Errors
    /// What does not hold.
    pub(super) fn recount(&self) -> Result<(), String> {
        let (mut pages, mut runs) = ([0; 2], [0; 2]);
        let mut before: Option<(Pages, Sort)> = None;
        for (run, sort) in self.runs() {
            if run.is_empty()
                || before.is_some_and(|(b, s)| b.end > run.start || b.end == run.start && s == sort)
            {
                return Err(format!("R1: {run:?} overlaps or touches the run before"));
            }
            if !self.by_len[sort as usize].contains(&(run.end - run.start, run.start)) {
                return Err(format!("R2: {run:?} is not found by its length"));
            }
            pages[sort as usize] += u64::from(run.end - run.start);
            runs[sort as usize] += 1;
            before = Some((run, sort));
        }
        if pages != self.pages || runs != [self.by_len[0].len(), self.by_len[1].len()] {
            return Err(format!(
                "R2: {pages:?} pages in {runs:?} runs, but {:?} pages are counted",
                self.pages
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Extents {
        let mut extents = Extents::default();
        extents.put(0..1000, Sort::Hollow);
        extents
    }

    fn take(extents: &mut Extents, sort: Sort, count: u32, align: u32) -> Option<u32> {
        let (run, at) = extents.fit(sort, count, align)?;
        extents.cut(run, at..at + count, sort);
        extents.recount().unwrap();
        Some(at)
    }

    #[test]
    fn neighbours_become_one_run_whatever_the_order() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut extents = whole();
            assert_eq!(take(&mut extents, Sort::Hollow, 30, 1), Some(0));
            for third in order {
                extents.put(third * 10..third * 10 + 10, Sort::Filled);
                extents.recount().unwrap();
            }
            assert_eq!(extents.runs().collect::<Vec<_>>(), [(0..30, Sort::Filled), (30..1000, Sort::Hollow)]);
        }
    }

    #[test]
    fn the_shortest_run_that_fits_is_taken_then_the_lowest() {
        let mut extents = Extents::default();
        for run in [0..9, 20..25, 40..45, 60..67] {
            extents.put(run, Sort::Filled);
        }
        assert_eq!(take(&mut extents, Sort::Filled, 5, 1), Some(20));
        assert_eq!(take(&mut extents, Sort::Filled, 4, 1), Some(40));
        assert_eq!(take(&mut extents, Sort::Filled, 4, 16), Some(0));
        assert_eq!(take(&mut extents, Sort::Filled, 4, 16), Some(64).filter(|_| false));
        assert_eq!(take(&mut extents, Sort::Hollow, 1, 1), None);
        assert_eq!((extents.extreme(true), extents.extreme(false)), (Some(60..67), Some(44..45)));
    }

    #[test]
    fn a_filled_run_stretches_into_the_hollow_ones_around_it() {
        let mut extents = Extents::default();
        for (run, sort) in [(0..9, Sort::Filled), (20..24, Sort::Hollow), (24..30, Sort::Filled)] {
            extents.put(run, sort);
        }
        assert_eq!((extents.stretch(6), extents.stretch(11)), (None, None));
        assert_eq!(extents.stretch(10), Some((20..24, 24..30, 30..30)));
        extents.put(30..32, Sort::Hollow);
        assert_eq!(extents.stretch(11), Some((20..24, 24..30, 30..32)));
    }

    #[test]
    #[should_panic(expected = "R1")]
    fn pages_that_are_free_cannot_be_freed() {
        whole().put(10..20, Sort::Filled);
    }

    #[test]
    fn a_count_that_is_off_is_found() {
        let mut extents = whole();
        extents.pages[0] -= 1;
        assert!(extents.recount().unwrap_err().contains("R2"));
    }
}
