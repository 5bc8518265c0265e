//! A file that is there whole, or not at all.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use arcwell::{Cause, Error, Result};
use tempfile::{Builder, NamedTempFile};

/// Where a picture is to be.
#[derive(Debug)]
pub(super) struct Picture(PathBuf);

impl Picture {
    /// A picture at `path`, of which nothing is there before [`Picture::finish`].
    ///
    /// # Errors
    /// When it could not be put there: better now than after the work.
    pub(super) fn new(path: &Path) -> Result<Picture> {
        let picture = Picture(path.to_owned());
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(picture.failed(Cause::Invalid("there is something that is no file".to_owned())));
        }
        picture.beside()?;
        Ok(picture)
    }

    /// Puts it there.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn finish(self, text: &str) -> Result<()> {
        let mut file = self.beside()?;
        file.write_all(text.as_bytes()).map_err(|e| self.failed(e))?;
        file.persist(&self.0).map_err(|e| self.failed(e.error))?;
        Ok(())
    }

    /// A new file in the same folder, which goes away if nothing comes of it.
    fn beside(&self) -> Result<NamedTempFile> {
        let folder =
            self.0.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Else the error would speak of the new file, which nobody asked for.
        fs::metadata(folder).map_err(|e| self.failed(e))?;
        let mut builder = Builder::new();
        // As any new file: what the umask leaves.
        builder.prefix(".arcwell-").permissions(Permissions::from_mode(0o666));
        builder.tempfile_in(folder).map_err(|e| self.failed(e))
    }

    fn failed(&self, cause: impl Into<Cause>) -> Error {
        Error::new("draw", cause).about(&*self.0)
    }
}
