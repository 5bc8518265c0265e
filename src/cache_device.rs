//! A cache device as people name it: the path of a file or block device, and for a file that is to be made its size.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use arcwell::vdev::{FileVdev, OpenHow};
use arcwell::{ByteSize, Error, Result};

/// `PATH` or `PATH:SIZE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheDevice {
    /// The file or block device.
    pub(crate) path: PathBuf,
    /// What was said of its size.
    pub(crate) size: Option<ByteSize>,
}

impl FromStr for CacheDevice {
    type Err = Infallible;

    /// What follows the last colon is a size if it reads as one: else the colon is the path's own.
    fn from_str(text: &str) -> std::result::Result<CacheDevice, Infallible> {
        let sized = text.rsplit_once(':').and_then(|(path, size)| Some((path, size.parse().ok()?)));
        Ok(match sized {
            Some((path, size)) if !path.is_empty() => CacheDevice { path: path.into(), size: Some(size) },
            _ => CacheDevice { path: text.into(), size: None },
        })
    }
}

impl CacheDevice {
    /// The same with a path that holds wherever this process is.
    ///
    /// # Errors
    /// When nobody knows where it is.
    pub(crate) fn absolute(self) -> Result<CacheDevice> {
        let path = std::path::absolute(&self.path)
            .map_err(|e| Error::new("find the cache device", e).about(&*self.path))?;
        Ok(CacheDevice { path, ..self })
    }

    /// Checks what was said of the size. Touches nothing.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub(crate) fn check(&self) -> Result<()> {
        let complaint = self.complaint();
        complaint.map_or(Ok(()), |line| Err(Error::invalid("--cache", line).about(&*self.path)))
    }

    /// Opens and locks it; a file that is not there is made, if its size was said.
    ///
    /// # Errors
    /// As [`CacheDevice::check`]; that there is none; the device's.
    pub(crate) fn open(&self) -> Result<FileVdev> {
        self.check()?;
        if self.size.is_none() && !self.path.exists() {
            let line = format!("there is no such file; {}:SIZE makes one", self.path.display());
            return Err(Error::invalid("--cache", line).about(&*self.path));
        }
        FileVdev::open(&self.path, OpenHow { create: self.size.map(|size| size.0), ..OpenHow::default() })
    }

    fn complaint(&self) -> Option<String> {
        let said = match std::fs::metadata(&self.path) {
            Err(_) => return None,
            Ok(found) if found.is_file() => ByteSize(found.len()),
            Ok(_) => {
                return self.size.map(|_| "it is no file: its size is its own, and not to be said".into());
            }
        };
        let is_other = self.size.is_some_and(|size| said.0 > 0 && size != said);
        is_other.then(|| format!("it is there, and has {said}: leave the size out"))
    }
}

/// A cache device that could not be had.
#[derive(Clone, Debug)]
pub(crate) struct RefusedDevice {
    /// Its path.
    pub(crate) path: PathBuf,
    /// Why not.
    pub(crate) why: String,
}

impl fmt::Display for RefusedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "without the cache device {}: {}", self.path.display(), self.why)
    }
}

/// Opens a device only to look at it.
///
/// # Errors
/// The device's.
pub(crate) fn look_at(path: &Path) -> Result<FileVdev> {
    FileVdev::open(path, OpenHow { read_only: true, ..OpenHow::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_what_reads_as_one() {
        let device = |text: &str| text.parse::<CacheDevice>().unwrap();
        let of = |path: &str, size: Option<u64>| CacheDevice { path: path.into(), size: size.map(ByteSize) };
        assert_eq!(device("/fast/l2:20GiB"), of("/fast/l2", Some(20 << 30)));
        assert_eq!(device("/dev/nvme0n1"), of("/dev/nvme0n1", None));
        assert_eq!(device("/odd:name"), of("/odd:name", None));
        assert_eq!(device("/odd:name:1M"), of("/odd:name", Some(1 << 20)));
        assert_eq!(device(":1M"), of(":1M", None));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("l2");
        let refused = |text: String| text.parse::<CacheDevice>().unwrap().open().unwrap_err().to_string();
        let name = path.display();
        assert!(refused(format!("{name}")).ends_with(":SIZE makes one"));
        let made = format!("{name}:32M").parse::<CacheDevice>().unwrap().open().unwrap();
        drop(made);
        assert!(refused(format!("{name}:64M")).contains("it is there, and has 32 MiB: leave the size out"));
        assert!(refused(format!("{}:64M", folder.path().display())).contains("its size is its own"));
        assert!(format!("{name}").parse::<CacheDevice>().unwrap().open().is_ok());
    }
}
