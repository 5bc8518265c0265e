//! The benches as one program: `arcwell-bench fuse` and `arcwell-bench memory`.

use std::process::ExitCode;

fn main() -> ExitCode {
    arcwell_bench::enter(None)
}
