//! `arcwell prime`: loads paths into the cache before anybody asks for them.

use std::path::PathBuf;

use arcwell::ByteSize;
use arcwell_front::control::PrimeProgress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::locate;
use crate::{Failure, say};

/// Load files and directories into the cache, recursively
///
/// Ctrl-C stops it; what was loaded stays.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Paths inside a mount
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        // Every path is looked up before the first is loaded: a typing mistake costs no waiting.
        for (client, paths) in locate::by_daemon(&self.paths)? {
            let bar = bar()?;
            let done = client.prime(&paths, |progress| {
                show(&bar, progress);
                true
            });
            bar.finish_and_clear();
            let done = done?;
            say(&format_args!("primed {} files, {}", done.files_done, ByteSize(done.bytes_done)))?;
        }
        Ok(())
    }
}

fn bar() -> Result<ProgressBar, Failure> {
    let template = "{bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}  {wide_msg}";
    Ok(ProgressBar::new(0).with_style(ProgressStyle::with_template(template)?))
}

fn show(bar: &ProgressBar, progress: &PrimeProgress) {
    bar.set_length(progress.bytes_total);
    bar.set_position(progress.bytes_done);
    let path = progress.path.0.display();
    bar.set_message(format!("{}/{} files, {path}", progress.files_done, progress.files_total));
}
