//! How a model is run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::models::engines;
use crate::sync::{Fault, break_on_purpose};

/// Schedules of either sort, where `ARCWELL_SCHEDULES` does not say otherwise.
const SCHEDULES: usize = 300;

/// A fault is looked for until it is found, but no longer than this many rounds of both.
const ROUNDS_OF_FAULT: usize = 30;

/// How often a schedule changes priorities.
const DEPTH: usize = 3;

fn schedules() -> usize {
    let told = std::env::var("ARCWELL_SCHEDULES").ok();
    told.map_or(SCHEDULES, |count| count.parse().expect("ARCWELL_SCHEDULES is a number"))
}

fn run_under<S: Scheduler + 'static>(scheduler: S, program: fn()) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.max_steps = MaxSteps::FailAfter(200_000);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || {
        engines::bury();
        program();
    });
}

fn run(program: fn(), schedules: usize) {
    run_under(RandomScheduler::new(schedules), program);
    run_under(PctScheduler::new(DEPTH, schedules), program);
}

/// Runs a program as it is, and then with each of the faults, which it has to find.
pub(super) fn check(program: fn(), faults: &[Fault]) {
    println!("as it is");
    run(program, schedules());
    for &fault in faults {
        println!("from here on {fault:?} is looked for, and to be found");
        break_on_purpose(Some(fault));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            (0..ROUNDS_OF_FAULT).for_each(|_| run(program, SCHEDULES));
        }));
        break_on_purpose(None);
        assert!(outcome.is_err(), "{fault:?} was not found");
    }
}
