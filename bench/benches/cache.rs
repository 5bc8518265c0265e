//! `cargo bench -p arcwell-bench --bench cache -- --help`: our cache beside others, in one run.

use std::process::ExitCode;

fn main() -> ExitCode {
    arcwell_bench::enter(Some("cache"))
}
