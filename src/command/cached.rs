//! `arcwell cached`: how much of a path is held.

use std::path::{Path, PathBuf};

use arcwell::ByteSize;

use crate::grid::{Align, Grid};
use crate::locate;
use crate::{Failure, say};

/// Show how much of a file or directory is in the cache
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A path inside a mount
    path: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (client, path) = locate::inside(&self.path)?;
        let cached = client.cached(&path)?;
        if self.json {
            say(&serde_json::to_string(&cached)?)?;
            return Ok(());
        }
        let columns =
            [("PATH", Align::Left), ("SIZE", Align::Right), ("CACHED", Align::Right), ("%", Align::Right)];
        let mut grid = Grid::new(&columns);
        for row in &cached.rows {
            grid.row(cells(&row.path.0, row.bytes, row.bytes_cached));
        }
        grid.row(cells(&path, cached.bytes, cached.bytes_cached));
        grid.print()?;
        let (held, blocks, files) = (cached.blocks_cached, cached.blocks, cached.files);
        say(&format_args!("{held} of {blocks} blocks of {files} files"))?;
        Ok(())
    }
}

fn cells(path: &Path, bytes: u64, cached: u64) -> [String; 4] {
    let share = if bytes == 0 { 100.0 } else { cached as f64 * 100.0 / bytes as f64 };
    [
        path.display().to_string(),
        ByteSize(bytes).to_string(),
        ByteSize(cached).to_string(),
        format!("{share:.0}"),
    ]
}
