//! What can be set of a dataset, with the words that are allowed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use arcwell_base::Kind;

/// A word that is not one of those allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadWord {
    given: String,
    allowed: &'static [&'static str],
}

impl fmt::Display for BadWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not one of {}", self.given, self.allowed.join(", "))
    }
}

impl std::error::Error for BadWord {}

/// Declares a property whose values are words.
macro_rules! words {
    ($(#[$outer:meta])* $name:ident { $( #[doc = $doc:literal] $variant:ident = $word:literal, )* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $( #[doc = $doc] $variant, )*
        }

        impl $name {
            /// The words that are allowed.
            pub const WORDS: &'static [&'static str] = &[$( $word ),*];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $( $name::$variant => $word, )* })
            }
        }

        impl FromStr for $name {
            type Err = BadWord;

            fn from_str(text: &str) -> Result<Self, BadWord> {
                match text {
                    $( $word => Ok($name::$variant), )*
                    _ => Err(BadWord { given: text.to_owned(), allowed: Self::WORDS }),
                }
            }
        }
    };
}

words! {
    /// Which kinds of blocks something applies to (`primarycache`, `secondarycache`, `prefetch`).
    CacheMode {
        /// Data and metadata.
        All = "all",
        /// Metadata alone.
        Metadata = "metadata",
        /// Neither.
        None = "none",
    }
}

words! {
    /// How foreign changes of the origin are noticed.
    Coherence {
        /// Nobody else writes to the origin: nothing is asked twice.
        Exclusive = "exclusive",
        /// The origin tells (inotify); what it cannot tell of is asked for as under `timeout`.
        Notify = "notify",
        /// Asked again once `attr_timeout` has passed, and whenever a file is opened.
        Timeout = "timeout",
    }
}

impl CacheMode {
    /// Whether blocks of this kind are meant.
    pub fn covers(self, kind: Kind) -> bool {
        match self {
            CacheMode::All => true,
            CacheMode::Metadata => kind == Kind::Metadata,
            CacheMode::None => false,
        }
    }
}

/// The properties of a dataset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Properties {
    /// What the memory tier keeps.
    pub primarycache: CacheMode,
    /// What the flash tier keeps of it.
    pub secondarycache: CacheMode,
    /// Bytes a block for objects that are first seen from now on: a power of two, 512 B to 16 MiB.
    pub recordsize: u32,
    /// How foreign changes are noticed.
    pub coherence: Coherence,
    /// How long attributes and names are believed where they have to be asked for again.
    pub attr_timeout: Duration,
    /// Whether writing is refused.
    pub readonly: bool,
    /// What is read ahead.
    pub prefetch: CacheMode,
    /// The most bytes that one stream is read ahead.
    pub readahead_max: u64,
}

/// The smallest record size.
pub const RECORDSIZE_MIN: u32 = 512;
/// The largest record size.
pub const RECORDSIZE_MAX: u32 = 16 << 20;

impl Default for Properties {
    fn default() -> Self {
        Properties {
            primarycache: CacheMode::All,
            secondarycache: CacheMode::All,
            recordsize: 128 << 10,
            coherence: Coherence::Timeout,
            attr_timeout: Duration::from_secs(1),
            readonly: false,
            prefetch: CacheMode::All,
            readahead_max: 16 << 20,
        }
    }
}

impl Properties {
    /// Checks what a type cannot: the record size.
    ///
    /// # Errors
    /// A line that says what is allowed.
    pub fn check(&self) -> arcwell_base::Result<()> {
        let size = self.recordsize;
        if size.is_power_of_two() && (RECORDSIZE_MIN..=RECORDSIZE_MAX).contains(&size) {
            return Ok(());
        }
        let what = format!("{size} bytes is not a power of two between 512 B and 16 MiB");
        Err(arcwell_base::Error::invalid("recordsize", what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_word_names_the_right_ones() {
        let error = "some".parse::<CacheMode>().unwrap_err();
        assert_eq!(error.to_string(), "'some' is not one of all, metadata, none");
        assert_eq!("notify".parse(), Ok(Coherence::Notify));
    }

    #[test]
    fn record_sizes_are_powers_of_two_in_range() {
        for (recordsize, allowed) in
            [(512, true), (131_072, true), (3000, false), (256, false), (32 << 20, false)]
        {
            let properties = Properties { recordsize, ..Properties::default() };
            assert_eq!(properties.check().is_ok(), allowed, "{recordsize}");
        }
    }
}
