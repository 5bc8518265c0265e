//! Formats of one line an entry: those of the papers on ARC and LIRS, and plain block numbers.

use super::super::input::Input;
use super::super::{Cause, Request};
use super::Decode;
use super::number::{decimal, decimal_or_hex};

/// How many requests one line of a `lis` trace may stand for: 512 MiB in blocks of 512 bytes.
pub const MAX_RUN: u64 = 1 << 20;

/// `start_block blocks ignored request`: a line asks for `blocks` blocks, one after another.
///
/// Source: the traces that came with Megiddo & Modha, "ARC: A Self-Tuning, Low Overhead Replacement
/// Cache", FAST 2003.
#[derive(Default)]
pub(super) struct Runs {
    /// The next block of the line that was read last, and how many there are still.
    next: u64,
    left: u64,
}

const RUN: &str = "'start_block blocks ignored request' with 1 to 2^20 blocks";

impl Runs {
    fn parse(line: &[u8]) -> Option<(u64, u64)> {
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let (start, blocks) = (decimal(fields.next()?)?, decimal(fields.next()?)?);
        let is_whole = fields.next().is_some() && fields.next().is_some() && fields.next().is_none();
        let is_allowed = (1..=MAX_RUN).contains(&blocks) && start.checked_add(blocks).is_some();
        (is_whole && is_allowed).then_some((start, blocks))
    }
}

impl Decode for Runs {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause> {
        while self.left == 0 {
            let Some(line) = input.line()? else { return Ok(None) };
            if line.trim_ascii().is_empty() {
                continue;
            }
            (self.next, self.left) = Self::parse(line).ok_or_else(|| Cause::entry(RUN, line))?;
        }
        let key = self.next;
        (self.next, self.left) = (self.next + 1, self.left - 1);
        Ok(Some(Request::of(key)))
    }
}

/// One block number a line; `*` divides parts of the trace and means nothing else.
///
/// Source: the traces that came with Jiang & Zhang, "LIRS", SIGMETRICS 2002.
pub(super) struct Lirs;

impl Decode for Lirs {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause> {
        while let Some(line) = input.line()? {
            match line.trim_ascii() {
                [] | b"*" => {}
                line => {
                    let key = decimal(line).ok_or_else(|| Cause::entry("a block number or '*'", line))?;
                    return Ok(Some(Request::of(key)));
                }
            }
        }
        Ok(None)
    }
}

/// One block number a line, decimal or hexadecimal.
pub(super) struct Numbers;

const NUMBER: &str = "a block number, decimal or after 0x";

impl Decode for Numbers {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Request>, Cause> {
        while let Some(line) = input.line()? {
            let line = line.trim_ascii();
            if !line.is_empty() {
                let key = decimal_or_hex(line).ok_or_else(|| Cause::entry(NUMBER, line))?;
                return Ok(Some(Request::of(key)));
            }
        }
        Ok(None)
    }
}
