//! What is said of a simulation: a table for a person, an object for a program.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use arcwell::ByteSize;
use arcwell_sim::curve::Curves;
use arcwell_sim::policy;
use arcwell_sim::replay::{Tally, replay};
use arcwell_sim::trace::{Trace, Unit};
use serde_json::{Value, json};

use super::Measured;
use crate::grid::{Align, Grid};

/// One trace and what came out.
pub(super) struct Report {
    /// The table.
    pub(super) curves: Curves,
    file: PathBuf,
    format: Option<&'static str>,
    /// Bytes of its requests, where its blocks have any.
    bytes: Option<u64>,
    /// Bytes of every block, where that was said.
    block: Option<u64>,
    /// CPU seconds: by size, then by policy.
    seconds: Vec<f64>,
    recorded: Option<Recorded>,
}

/// What a recording tells of the daemon that made it.
struct Recorded {
    hits: u64,
    lost: u64,
    replayed: u64,
}

impl Report {
    /// Of `trace` in the file at `path`: what the caches hit, and how long that took.
    ///
    /// A recording is replayed once more, as it was: what then is hit tells how far a replay can be trusted.
    pub(super) fn new(
        path: &Path,
        trace: &Trace,
        block: Option<u64>,
        curves: Curves,
        measured: &[Measured],
    ) -> Report {
        let bytes = match block {
            Some(block) => Some(trace.requests().saturating_mul(block)),
            None => trace.has_sizes().then(|| trace.requested_bytes()),
        };
        let recorded =
            trace.recorded().zip(policy::as_recorded(trace)).map(|(recorded, mut cache)| Recorded {
                hits: recorded.hits,
                lost: recorded.lost,
                replayed: replay(&mut *cache, trace, Unit::Bytes, |_| ()).hits,
            });
        let seconds = measured.iter().map(|measured| measured.cpu.as_secs_f64()).collect();
        let format = trace.format().map(|format| format.name());
        Report { curves, file: path.to_owned(), format, bytes, block, seconds, recorded }
    }

    /// The lines for a person.
    pub(super) fn text(&self) -> String {
        let Curves { trace, requests, unique, .. } = &self.curves;
        let mut text = format!("{trace}: {requests} requests of {unique} blocks");
        // Writing to a String cannot fail.
        let _ = match self.bytes {
            Some(bytes) => writeln!(text, ", {}", ByteSize(bytes)),
            None => writeln!(text),
        };
        if let Some(Recorded { hits, lost, replayed }) = self.recorded {
            let percent = |hits: u64| 100.0 * hits as f64 / *requests as f64;
            let _ = writeln!(
                text,
                "recorded: the daemon hit {hits} ({:.2} %), a replay with its settings hits {replayed} \
                 ({:.2} %), {lost} events lost",
                percent(hits),
                percent(replayed),
            );
        }
        text += &self.table("hits, %", Tally::hit_ratio);
        // Where all blocks are of one size, bytes say the same once more.
        if self.block.is_none() && self.bytes.is_some() {
            text += &self.table("bytes of hits, %", Tally::byte_hit_ratio);
        }
        text
    }

    fn table(&self, heading: &str, ratio: fn(&Tally) -> f64) -> String {
        let Curves { unit, sizes, policies, rows, .. } = &self.curves;
        let mut headings = vec![("SIZE", Align::Right)];
        headings.extend(policies.iter().map(|title| (title.as_str(), Align::Right)));
        let mut grid = Grid::new(&headings);
        for (size, row) in sizes.iter().zip(rows) {
            let size = match unit {
                Unit::Blocks => size.to_string(),
                Unit::Bytes => ByteSize(*size).to_string(),
            };
            let ratios = row.iter().map(|tally| format!("{:.2}", 100.0 * ratio(tally)));
            grid.row([size].into_iter().chain(ratios).collect::<Vec<_>>());
        }
        format!("\n{heading}\n{}\n", grid.lines().join("\n"))
    }

    fn json(&self) -> Value {
        let Curves { trace, requests, unique, unit, sizes, policies, rows } = &self.curves;
        let tallies = sizes.iter().zip(rows).flat_map(|(size, row)| {
            row.iter().zip(policies).map(move |(tally, policy)| (size, policy, tally))
        });
        let run = |((size, policy, tally), seconds): ((&u64, &String, &Tally), &f64)| {
            let hit_bytes = match self.block {
                Some(block) => Some(tally.hits.saturating_mul(block)),
                None => self.bytes.map(|_| tally.hit_bytes),
            };
            json!({
                "size": size,
                "policy": policy,
                "hits": tally.hits,
                "hit_ratio": tally.hit_ratio(),
                "hit_bytes": hit_bytes,
                "byte_hit_ratio": hit_bytes.map(|_| tally.byte_hit_ratio()),
                "cpu_seconds": seconds,
            })
        };
        let recorded = self.recorded.as_ref().map(|recorded| {
            json!({ "hits": recorded.hits, "replayed_hits": recorded.replayed, "lost_events": recorded.lost })
        });
        json!({
            "trace": trace,
            "file": self.file.to_string_lossy(),
            "format": self.format,
            "requests": requests,
            "unique": unique,
            "bytes": self.bytes,
            "block": self.block,
            "unit": match unit { Unit::Blocks => "blocks", Unit::Bytes => "bytes" },
            "recorded": recorded,
            "runs": tallies.zip(&self.seconds).map(run).collect::<Vec<_>>(),
        })
    }
}

/// The object for a program.
pub(super) fn json(reports: &[Report]) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "traces": reports.iter().map(Report::json).collect::<Vec<_>>(),
    })
}
