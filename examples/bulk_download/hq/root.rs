//! The directory that is served. Files are opened relative to its descriptor, by a library that never resolves a
//! path, nor a symbolic link on the way, to anything outside.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::request::Refusal;

pub struct Root(Dir);

impl Root {
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        Dir::open_ambient_dir(directory, ambient_authority())
            .map(Self)
            .with_context(|| format!("cannot serve the directory {}", directory.display()))
    }

    /// Opens a regular file. It blocks, as files do.
    pub fn file(&self, path: &Path) -> Result<File, Refusal> {
        // A pipe is not to be opened: that waits for its writer.
        if !self.0.metadata(path).map_err(refusal)?.is_file() {
            return Err(Refusal::NotFound);
        }
        Ok(self.0.open(path).map_err(refusal)?.into_std())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn refusal(error: std::io::Error) -> Refusal {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => Refusal::NotFound,
        ErrorKind::PermissionDenied => Refusal::Forbidden,
        _ => Refusal::Unreadable,
    }
}
