//! The benches as one program: `arcwell-bench cache`, `fuse` and `memory`.

use std::process::ExitCode;

fn main() -> ExitCode {
    arcwell_bench::enter(None)
}
