//! `cargo bench -p arcwell-bench --bench memory -- --help`: resident memory against the limit.

use std::process::ExitCode;

fn main() -> ExitCode {
    arcwell_bench::enter(Some("memory"))
}
