//! Traces: a load as a list of accesses.
//!
//! # Rooms, in the order in which a trace comes in
//!
//! - [`Packing`]: a compressed file is seen by its first bytes and unpacked while it is read.
//! - `input`: a window over the bytes, which gives lines and fixed records.
//! - [`Format`]: what formats there are, and which one a file is likely to be in.
//! - [`Requests`]: decodes any of them into [`Request`]s, one after another; one file of `decode` for
//!   each kind of format.
//! - [`Trace`]: all of it in memory, as columns, with small numbers for keys.
//! - [`write()`]: encodes requests again, which is `arcwell trace convert`.
//!
//! # Limits
//!
//! What comes in is a stranger's. A line or record is at most as long as the window, one line of a
//! run-length format stands for at most [`MAX_RUN`] requests, a trace has at most [`MAX_ACCESSES`], and
//! no packing may use more memory than its usual strongest setting needs. Beyond that is an error that
//! says where.

mod decode;
mod error;
mod format;
mod input;
mod load;
mod packing;
mod request;
mod write;

pub use decode::{BadColumns, Column, Columns, MAX_RUN, Options, Recorded, Requests};
pub use error::{Cause, Error, Place};
pub use format::{BadFormat, Format, stem};
pub use load::{Accesses, MAX_ACCESSES, Trace, Unit};
pub use packing::Packing;
pub use request::{Access, Act, Request};
pub use write::{WRITTEN, WriteError, Written, write};
