//! Compression, seen by its first bytes and undone while reading.
//!
//! What is unpacked is never held as a whole, and no packing gets more than a fixed amount of memory
//! for its window: a small file that unpacks to very much is only slow.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;

/// Log2 of the bytes that a zstd window may have: what the `zstd` program allows unless asked.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Bytes that unpacking xz may use: its strongest preset needs a quarter of that.
const XZ_MEMORY: u64 = 256 << 20;

/// How a trace is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// Zstandard (RFC 8878), one frame or several.
    Zstd,
    /// Gzip (RFC 1952), one member or several.
    Gzip,
    /// The .xz container, one stream or several.
    Xz,
}

impl Packing {
    /// How many first bytes [`Packing::of`] looks at.
    pub const HEAD: usize = 6;

    /// The packing of what begins with `head`.
    pub fn of(head: &[u8]) -> Packing {
        match head {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            // A third byte of 8 says deflate, the only method that there is.
            [0x1f, 0x8b, 8, ..] => Packing::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
            _ => Packing::Plain,
        }
    }

    /// What `input` holds once it is unpacked, and how it was packed.
    ///
    /// # Errors
    ///
    /// Those of `input` itself; damage shows later, as an error of the reader that is given.
    pub fn undo<'a>(input: impl Read + 'a) -> io::Result<(Box<dyn Read + 'a>, Packing)> {
        let mut input = BufReader::with_capacity(64 << 10, input);
        let mut head = Vec::with_capacity(Packing::HEAD);
        input.by_ref().take(Packing::HEAD as u64).read_to_end(&mut head)?;
        let packing = Packing::of(&head);
        let whole = io::Cursor::new(head).chain(input);
        Ok((packing.unpack(whole)?, packing))
    }

    fn unpack<'a>(self, input: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Packing::Plain => Box::new(input),
            Packing::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(input)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Box::new(decoder)
            }
            Packing::Gzip => Box::new(MultiGzDecoder::new(input)),
            Packing::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
                Box::new(XzDecoder::new_stream(input, stream))
            }
        })
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Packing::Plain => "plain bytes",
            Packing::Zstd => "zstd",
            Packing::Gzip => "gzip",
            Packing::Xz => "xz",
        })
    }
}
