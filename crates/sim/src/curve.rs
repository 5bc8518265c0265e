//! What a simulation found out: hits by size and policy, and the table of them for other programs.

use std::fmt::{self, Write};

use crate::replay::Tally;
use crate::trace::{Trace, Unit};

/// The columns of [`Curves::csv`].
pub const CSV_HEADER: &str = "trace,requests,unique,size,policy,hits";

/// What some policies did at some sizes with one trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Curves {
    /// What the trace is called.
    pub trace: String,
    /// Its requests.
    pub requests: u64,
    /// Its distinct blocks.
    pub unique: u32,
    /// What sizes are counted in.
    pub unit: Unit,
    /// Sizes of caches, ascending.
    pub sizes: Vec<u64>,
    /// Policies, as tables write them.
    pub policies: Vec<String>,
    /// What was hit: a row a size, in it a tally for each policy.
    pub rows: Vec<Vec<Tally>>,
}

impl Curves {
    /// Of `trace`, which is to be called `name`, with no row yet.
    pub fn new(name: &str, trace: &Trace, unit: Unit, policies: Vec<String>) -> Curves {
        let (requests, unique) = (trace.requests(), trace.unique());
        Curves {
            trace: name.to_owned(),
            requests,
            unique,
            unit,
            sizes: Vec::new(),
            policies,
            rows: Vec::new(),
        }
    }

    /// Adds what the policies did at `size`, which is above those before.
    pub fn push(&mut self, size: u64, row: Vec<Tally>) {
        debug_assert_eq!(row.len(), self.policies.len());
        debug_assert!(self.sizes.last().is_none_or(|last| *last < size));
        self.sizes.push(size);
        self.rows.push(row);
    }

    /// One policy's line: hit ratios, 0 to 1, by size.
    pub fn line(&self, policy: usize) -> impl Iterator<Item = (u64, f64)> {
        self.sizes.iter().zip(&self.rows).map(move |(size, row)| (*size, row[policy].hit_ratio()))
    }

    /// Its rows as comma-separated values, a line each, below [`CSV_HEADER`].
    pub fn csv(&self) -> impl fmt::Display {
        fmt::from_fn(|f| {
            let Curves { trace, requests, unique, .. } = self;
            for (size, row) in self.sizes.iter().zip(&self.rows) {
                for (policy, tally) in self.policies.iter().zip(row) {
                    field(f, trace)?;
                    write!(f, ",{requests},{unique},{size},")?;
                    field(f, policy)?;
                    writeln!(f, ",{}", tally.hits)?;
                }
            }
            Ok(())
        })
    }
}

/// A text as one field, in quotes where it must be (RFC 4180).
fn field(out: &mut impl Write, text: &str) -> fmt::Result {
    if text.contains([',', '"', '\n', '\r']) {
        write!(out, "\"{}\"", text.replace('"', "\"\""))
    } else {
        out.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Request;

    fn hits(hits: u64) -> Tally {
        Tally { requests: 4, hits, ..Tally::default() }
    }

    fn curves(name: &str) -> Curves {
        let trace = Trace::of("x", [1, 2, 1, 3].map(Request::of)).expect("it is small");
        let mut curves = Curves::new(name, &trace, Unit::Blocks, ["LRU", "ARC"].map(str::to_owned).to_vec());
        curves.push(1, vec![hits(0), hits(1)]);
        curves.push(20, vec![hits(1), hits(2)]);
        curves
    }

    #[test]
    fn rows_are_by_size_then_by_policy() {
        let csv = curves("x").csv().to_string();
        assert_eq!(csv, "x,4,3,1,LRU,0\nx,4,3,1,ARC,1\nx,4,3,20,LRU,1\nx,4,3,20,ARC,2\n");
        assert_eq!(CSV_HEADER.split(',').count(), csv.lines().next().unwrap_or_default().split(',').count());
    }

    #[test]
    fn a_name_cannot_make_more_columns() {
        let csv = curves("a,\"b\"").csv().to_string();
        assert!(csv.starts_with("\"a,\"\"b\"\"\",4,3,1,LRU,0\n"), "{csv}");
    }

    #[test]
    fn a_line_is_one_policys() {
        assert_eq!(curves("x").line(1).collect::<Vec<_>>(), [(1, 0.25), (20, 0.5)]);
    }
}
