//! Replays on all CPUs: each is one pass over a trace that all of them share, on one thread.

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use arcwell::{Error, Result};
use arcwell_sim::policy::Policy;
use arcwell_sim::replay::{Tally, replay};
use arcwell_sim::trace::{Trace, Unit};
use indicatif::ProgressBar;
use rustix::time::{ClockId, clock_gettime};

/// One replay that is to be done.
pub(super) struct Run<'a> {
    /// Makes the cache, when its turn comes: not all of them are in memory at once.
    pub(super) build: Box<dyn Fn() -> Box<dyn Policy> + Sync + 'a>,
    /// What it is asked for.
    pub(super) trace: &'a Trace,
    /// What its capacity is counted in.
    pub(super) unit: Unit,
}

/// What came of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// What was hit.
    pub(super) tally: Tally,
    /// The time of one CPU that it took, with the making of the cache.
    pub(super) cpu: Duration,
}

/// Does all runs, at most `threads` at once, and gives what came of them in their order. The bar is moved
/// on by every access.
pub(super) fn all(runs: &[Run<'_>], threads: usize, bar: &ProgressBar) -> Result<Vec<Measured>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = runs.get(place) else { return done };
            done.push((place, one(run, bar)));
        }
    };
    let mut done = thread::scope(|scope| {
        let start = |_| thread::Builder::new().name("arcwell-sim".to_owned()).spawn_scoped(scope, work);
        let started: std::result::Result<Vec<_>, _> =
            (0..threads.clamp(1, runs.len().max(1))).map(start).collect();
        let started = started.map_err(|e| {
            // Those that run shall find nothing more to do.
            next.store(runs.len(), Ordering::Relaxed);
            Error::new("start a thread", e)
        })?;
        let join = |thread: thread::ScopedJoinHandle<'_, Vec<_>>| {
            thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
        };
        Ok::<_, Error>(started.into_iter().flat_map(join).collect::<Vec<_>>())
    })?;
    done.sort_unstable_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, measured)| measured).collect())
}

fn one(run: &Run<'_>, bar: &ProgressBar) -> Measured {
    let start = cpu_time();
    let mut before = 0;
    let tally = replay(&mut *(run.build)(), run.trace, run.unit, |now| {
        bar.inc((now - before) as u64);
        before = now;
    });
    Measured { tally, cpu: cpu_time().saturating_sub(start) }
}

/// What this thread has used of a CPU so far.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arcwell_sim::policy::{Setup, find};
    use arcwell_sim::trace::Request;

    #[test]
    fn what_comes_out_is_in_order_however_many_threads_there_are() {
        let trace = &Trace::of("x", (0..5000_u64).map(|place| Request::of(place * place % 613))).unwrap();
        let lru = find("lru").unwrap();
        let run = |size: u64| -> Run<'_> {
            let build = Box::new(move || (lru.build)(&Setup::blocks(size), trace));
            Run { build, trace, unit: Unit::Blocks }
        };
        let runs: Vec<_> = (1..40).map(run).collect();
        let hits = |threads| -> Vec<u64> {
            let bar = ProgressBar::hidden();
            let hits = all(&runs, threads, &bar).unwrap().iter().map(|run| run.tally.hits).collect();
            assert_eq!(bar.position(), 39 * 5000);
            hits
        };
        let alone = hits(1);
        assert!(alone.is_sorted() && alone[0] < alone[38], "LRU hits more in a larger cache: {alone:?}");
        assert_eq!(hits(7), alone);
        assert_eq!(hits(1000), alone);
    }

    #[test]
    fn nothing_to_do_is_done() {
        assert_eq!(all(&[], 4, &ProgressBar::hidden()).unwrap(), []);
    }
}
