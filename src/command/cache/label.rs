//! `arcwell cache label`: what lies on a device, without changing it.

use std::path::PathBuf;

use arcwell::{ByteSize, Label, Level2};

use crate::{Failure, cache_device, say};

/// Show what a file or block device holds, and for which pool; changes nothing
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file or block device
    path: PathBuf,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let label = Level2::label(&cache_device::look_at(&self.path)?)?;
        let state = match label {
            Label::Blank => "blank",
            Label::Ours { .. } => "arcwell",
            Label::Foreign => "foreign",
            Label::Newer(_) => "newer",
            Label::Damaged => "damaged",
        };
        if self.json {
            let path = self.path.display().to_string();
            let json = match label {
                Label::Ours { pool, device, bytes, segment } => serde_json::json!({
                    "path": path, "label": state, "pool": uuid(pool), "device": uuid(device.0), "bytes": bytes,
                    "segment": segment,
                }),
                _ => serde_json::json!({ "path": path, "label": state }),
            };
            return Ok(say(&json)?);
        }
        let line = match label {
            Label::Blank => "nothing".to_owned(),
            Label::Ours { pool, device, bytes, segment } => format!(
                "a cache device of pool {}\n  device     {}\n  size       {}\n  segments   of {}",
                uuid(pool),
                uuid(device.0),
                ByteSize(bytes),
                ByteSize(segment)
            ),
            Label::Foreign => "something that is not Arcwell's".to_owned(),
            Label::Newer(format) => format!("a cache device of a later version (format {format})"),
            Label::Damaged => "a cache device whose label is damaged".to_owned(),
        };
        Ok(say(&format_args!("{}: {line}", self.path.display()))?)
    }
}

/// An id as a state directory's `pool.toml` writes it.
fn uuid(id: u128) -> String {
    format!("{:?}", arcwell::identity::DatasetId(id))
}
