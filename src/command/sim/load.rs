//! Reading a trace from its file, with a bar for whoever waits.

use std::fs::File;
use std::path::Path;

use arcwell::{Cause, Error};
use arcwell_sim::trace::{Options, Trace};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Failure;

/// Reads the trace in the file at `path`, all of it.
///
/// # Errors
/// Those of the file and of its format, and when nothing in it is a request.
pub(super) fn load(path: &Path, options: &Options) -> Result<Trace, Failure> {
    let failed = |cause: Cause| Error::new("read", cause).about(path);
    let file = File::open(path).map_err(|e| failed(e.into()))?;
    // As it is packed: how much comes out of it nobody knows before.
    let bytes = file.metadata().map_err(|e| failed(e.into()))?.len();
    let bar = bar(bytes, "{bytes} of {total_bytes}", format!("reading {}", path.display()))?;
    let trace = Trace::read(&path.to_string_lossy(), bar.wrap_read(file), options);
    bar.finish_and_clear();
    let trace = trace?;
    if trace.requests() == 0 {
        return Err(failed(Cause::Invalid("there is no request in it".to_owned())).into());
    }
    Ok(trace)
}

/// A bar of `length` steps; nothing where standard error is no terminal.
pub(super) fn bar(length: u64, amount: &str, message: String) -> Result<ProgressBar, Failure> {
    let style = ProgressStyle::with_template(&format!("{{msg}}  {{bar:30}}  {amount}  {{eta}}"))?;
    Ok(ProgressBar::new(length).with_style(style).with_message(message))
}
