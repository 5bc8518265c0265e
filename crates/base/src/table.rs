//! One row declares a tunable or a statistic; all else is printed from it.
//!
//! [`tunables!`](crate::tunables) makes a struct of live values, [`kstats!`](crate::kstats) a struct
//! of counters and gauges. Configuration file, command line, control socket, `stat` columns,
//! Prometheus names and the manual's pages are printed from their rows, so that none of them can
//! tell another story.
//!
//! Reading a tunable is one relaxed load. Counters are spread over cache lines by thread
//! ([`Counter`]); reading sums them.

mod counter;
mod kstat;
mod tunable;

pub use counter::{Counter, Gauge};
pub use kstat::{KstatForm, KstatRow, Kstats, Sample};
pub use tunable::{BadSetting, Form, Setting, TunableRow, Tunables};
