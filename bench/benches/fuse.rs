//! `cargo bench -p arcwell-bench --bench fuse -- --help`: CPU per operation through a FUSE mount.

use std::process::ExitCode;

fn main() -> ExitCode {
    arcwell_bench::enter(Some("fuse"))
}
