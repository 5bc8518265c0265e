//! One error type for all of Arcwell, and the one table that maps it to errno.
//!
//! An [`Error`] says what was being done (`operation`), to what (`subject`), and why it failed
//! (`cause`). The cause is kept as what it was, never turned into text.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use crate::key::{BlockKey, ObjectId};

/// The result of everything that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What failed, on what, and why. Small: it is passed by value through every layer.
#[derive(Debug)]
pub struct Error(Box<Parts>);

#[derive(Debug)]
struct Parts {
    operation: Cow<'static, str>,
    subject: Subject,
    cause: Cause,
}

/// What an operation was about.
#[derive(Debug, Clone, Default)]
pub enum Subject {
    /// Nothing in particular.
    #[default]
    None,
    /// One block.
    Block(BlockKey),
    /// One object.
    Object(ObjectId),
    /// A file, by the name it is known under.
    Path(PathBuf),
}

/// Why an operation failed.
#[derive(Debug)]
pub enum Cause {
    /// The operating system, or an origin that speaks its language, said so.
    Os(Errno),
    /// No answer within the time that was allowed. The origin may be gone: it is not empty.
    TimedOut(Duration),
    /// The file is no longer the one that was meant: it was replaced behind our back.
    Stale,
    /// The dataset, or the whole mount, may only be read.
    ReadOnly,
    /// A queue is full: there is more work under way than is allowed.
    Busy,
    /// Arcwell is being stopped.
    Stopping,
    /// What was asked for makes no sense; the text says what would.
    Invalid(String),
    /// A library's own error.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// An error of `operation` with no subject yet.
    pub fn new(operation: impl Into<Cow<'static, str>>, cause: impl Into<Cause>) -> Self {
        Error(Box::new(Parts { operation: operation.into(), subject: Subject::None, cause: cause.into() }))
    }

    /// The same error, said of `subject`.
    #[must_use]
    pub fn about(mut self, subject: impl Into<Subject>) -> Self {
        self.0.subject = subject.into();
        self
    }

    /// Bad input: `what` says what was wrong and what would be right.
    pub fn invalid(operation: impl Into<Cow<'static, str>>, what: impl Into<String>) -> Self {
        Error::new(operation, Cause::Invalid(what.into()))
    }

    /// Why it failed.
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// The errno that a program sees: the one table.
    pub fn errno(&self) -> Errno {
        match &self.0.cause {
            // A lost server is the origin's trouble: ENOTCONN would tell programs that the mount they
            // look at is dead, which it is not.
            Cause::Os(
                Errno::NOTCONN
                | Errno::CONNRESET
                | Errno::CONNABORTED
                | Errno::CONNREFUSED
                | Errno::SHUTDOWN
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::NOMEDIUM,
            ) => Errno::IO,
            Cause::Os(errno) => *errno,
            Cause::TimedOut(_) => Errno::TIMEDOUT,
            Cause::Stale => Errno::STALE,
            Cause::ReadOnly => Errno::ROFS,
            Cause::Busy => Errno::AGAIN,
            Cause::Invalid(_) => Errno::INVAL,
            Cause::Stopping | Cause::Other(_) => Errno::IO,
        }
    }

    /// Whether the origin answered that the thing does not exist: the only error that may be
    /// remembered as an absence.
    pub fn is_absence(&self) -> bool {
        matches!(self.0.cause, Cause::Os(Errno::NOENT))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { operation, subject, cause } = &*self.0;
        write!(f, "{operation}")?;
        match subject {
            Subject::None => {}
            Subject::Block(key) => write!(f, " {key:?}")?,
            Subject::Object(id) => write!(f, " {id:?}")?,
            Subject::Path(path) => write!(f, " {}", path.display())?,
        }
        write!(f, ": {cause}")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.cause {
            Cause::Os(errno) => Some(errno),
            Cause::Other(error) => Some(&**error),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Os(errno) => {
                // std's text is the familiar one ("No such file or directory"); its "(os error N)"
                // tail is of no use to a reader.
                let text = std::io::Error::from(*errno).to_string();
                f.write_str(text.split(" (os error").next().unwrap_or(&text))
            }
            Cause::TimedOut(after) => write!(f, "no answer within {after:?}"),
            Cause::Stale => f.write_str("the file was replaced behind our back"),
            Cause::ReadOnly => f.write_str("read-only"),
            Cause::Busy => f.write_str("too much work is under way"),
            Cause::Stopping => f.write_str("stopping"),
            Cause::Invalid(what) => f.write_str(what),
            Cause::Other(error) => write!(f, "{error}"),
        }
    }
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        Cause::Os(errno)
    }
}

impl From<std::io::Error> for Cause {
    fn from(error: std::io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => Cause::Os(errno),
            None => Cause::Other(Box::new(error)),
        }
    }
}

impl From<BlockKey> for Subject {
    fn from(key: BlockKey) -> Self {
        Subject::Block(key)
    }
}

impl From<ObjectId> for Subject {
    fn from(id: ObjectId) -> Self {
        Subject::Object(id)
    }
}

impl From<&Path> for Subject {
    fn from(path: &Path) -> Self {
        Subject::Path(path.to_owned())
    }
}

impl From<PathBuf> for Subject {
    fn from(path: PathBuf) -> Self {
        Subject::Path(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_one_line() {
        let error = Error::new("open", Errno::NOENT).about(Path::new("a/b"));
        assert_eq!(error.to_string(), "open a/b: No such file or directory");
        assert_eq!(error.errno(), Errno::NOENT);
        assert!(error.is_absence());
    }

    #[test]
    fn a_lost_server_is_an_io_error_and_keeps_its_cause() {
        let error = Error::new("lookup", Errno::NOTCONN);
        assert_eq!(error.errno(), Errno::IO);
        assert!(matches!(error.cause(), Cause::Os(Errno::NOTCONN)));
    }

    #[test]
    fn only_the_origins_own_word_is_an_absence() {
        for cause in [Cause::TimedOut(Duration::ZERO), Cause::Stale, Cause::Os(Errno::IO), Cause::Stopping] {
            assert!(!Error::new("lookup", cause).is_absence());
        }
    }
}
