//! `arcwell trace convert`: writes a trace in another format.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use arcwell::{Cause, Error};
use arcwell_sim::trace::{self, Columns, Format, Options, Requests, WRITTEN};
use indicatif::{ProgressBar, ProgressStyle};
use tempfile::{Builder, NamedTempFile};
use zstd::stream::write::Encoder;

use crate::{Failure, say};

/// The level of compression: a trace is written once and read often.
const LEVEL: i32 = 9;

/// Write a trace in another format
///
/// Formats other than arcwell and csv have keys alone, or keys, sizes and times; what a format does not
/// have is left out, and requests are all that is left of a recording.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace, packed by zstd, gzip, xz or not at all
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Where to write it; packed by zstd if it ends in .zst
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// What IN is written in; without it, what its name or its first bytes look like
    #[arg(short, long)]
    format: Option<Format>,

    /// What to write, of lbn, u32, be-i64, csv, oracleGeneral and arcwell; without it, what the name of OUT
    /// says
    #[arg(short, long, value_name = "FORMAT", value_parser = written)]
    to: Option<Format>,

    /// Columns of a csv trace, as for arcwell sim
    #[arg(long, value_name = "SPEC")]
    columns: Option<Columns>,

    /// Read so many requests and no more
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let format = self.to.map_or_else(|| by_name(&self.output), Ok)?;
        let unread = |e: io::Error| Error::new("read", e).about(&*self.input);
        let file = File::open(&self.input).map_err(unread)?;
        let bar = ProgressBar::new(file.metadata().map_err(unread)?.len())
            .with_style(ProgressStyle::with_template("{bar:30}  {bytes} of {total_bytes}  {eta}")?);
        let options = Options {
            format: self.format,
            columns: self.columns.clone().unwrap_or_default(),
            limit: self.limit,
        };
        let mut requests = Requests::open(&self.input.to_string_lossy(), bar.wrap_read(file), &options)?;
        let mut out = beside(&self.output)?;
        let written = if self.output.extension().is_some_and(|ending| ending == "zst") {
            let unwritten = |e: io::Error| failed(e, &self.output);
            let mut packed = Encoder::new(&mut out, LEVEL).map_err(unwritten)?;
            let written = trace::write(format, &mut packed, &mut requests)?;
            packed.finish().map_err(unwritten)?;
            written
        } else {
            trace::write(format, &mut out, &mut requests)?
        };
        out.persist(&self.output).map_err(|e| failed(e.error, &self.output))?;
        bar.finish_and_clear();
        let left_out = match written.left_out {
            0 => String::new(),
            count => format!("; {count} entries are not requests and were left out"),
        };
        say(&format_args!("wrote {} entries as {format}{left_out}", written.entries))?;
        Ok(())
    }
}

/// A new file in the folder of `path`, to be moved there when it is whole.
fn beside(path: &Path) -> Result<NamedTempFile, Error> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(failed(Cause::Invalid("there is something that is no file".to_owned()), path));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Else the error would speak of the new file, which nobody asked for.
    fs::metadata(folder).map_err(|e| failed(e, path))?;
    let mut builder = Builder::new();
    // As any new file: what the umask leaves.
    builder.prefix(".arcwell-").permissions(Permissions::from_mode(0o666));
    builder.tempfile_in(folder).map_err(|e| failed(e, path))
}

fn failed(cause: impl Into<Cause>, path: &Path) -> Error {
    Error::new("convert to", cause).about(path)
}

/// A format that can be written.
fn written(name: &str) -> Result<Format, Failure> {
    let format = WRITTEN.into_iter().find(|format| format.name() == name);
    format.ok_or_else(|| format!("'{name}' is not one of {}", names()).into())
}

fn by_name(path: &Path) -> Result<Format, Error> {
    let by_name = Format::guess(&path.to_string_lossy(), &[]).ok();
    by_name.filter(|format| WRITTEN.contains(format)).ok_or_else(|| {
        let what = format!("its name does not say which format to write; say with --to, one of {}", names());
        failed(Cause::Invalid(what), path)
    })
}

fn names() -> String {
    WRITTEN.map(Format::name).join(", ")
}
