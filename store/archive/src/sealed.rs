//! Small files with a checksum ("sealed" files). They are written atomically, and consist of a line with the kind of
//! file, the version of its format and the checksum, followed by JSON. This module also writes the files of an archive
//! that are not sealed.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use store::Error;
use store_embedded::faults::Faults;
use store_embedded::files::{storage_error, sync_directory};
use store_embedded::private;

use crate::FORM;

/// Returns the hexadecimal form of a digest.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Writes files of an archive. Tests can inject faults.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    pub(crate) faults: Arc<Faults>,
}

impl Files {
    pub(crate) fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        if let Err((possible, error)) = self.faults.before_write(bytes.len()) {
            file.write_all(bytes.get(..possible).unwrap_or_default())?;
            return Err(error);
        }
        file.write_all(bytes)
    }

    pub(crate) fn sync(&self, file: &File) -> io::Result<()> {
        self.faults.before_sync()?;
        file.sync_data()
    }

    /// Writes a file atomically and durably. Only the owner of the file has access.
    pub(crate) fn write_whole(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = Path::new(&new);
        let mut file = private::create(new)?;
        self.write(&mut file, bytes)?;
        self.faults.before_sync()?;
        file.sync_all()?;
        self.faults.point("archive: renamed")?;
        std::fs::rename(new, path)?;
        path.parent().map_or(Ok(()), sync_directory)
    }

    /// Writes a value as a file with a checksum.
    pub(crate) fn write_sealed(&self, directory: &Path, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let path = directory.join(name);
        let failed = |error: io::Error| storage_error(&error, "write", &path);
        self.write_whole(&path, &seal(name, value)?).map_err(failed)
    }
}

/// Returns the beginning of the first line of a file of this name.
fn beginning(name: &str) -> String {
    format!("baton {}, format ", name.to_lowercase())
}

/// Encodes a value as the content of the file of this name, with a checksum.
pub(crate) fn seal(name: &str, value: &impl Serialize) -> Result<Bytes, Error> {
    let failed = |error: serde_json::Error| Error::Failed { why: format!("cannot write `{name}`: {error}") };
    let body = serde_json::to_vec(value).map_err(failed)?;
    let mut bytes = format!("{}{FORM}, sha256 {}\n", beginning(name), hex(&sha256(&body))).into_bytes();
    bytes.extend_from_slice(&body);
    Ok(bytes.into())
}

/// Decodes the content of the file of this name, and checks the checksum. `shown` is the name of the file in error
/// messages.
pub(crate) fn unseal<T: DeserializeOwned>(name: &str, shown: &str, bytes: &[u8]) -> Result<T, Error> {
    let corrupt = |what: &str| Error::Corrupt { what: format!("`{shown}` {what}") };
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, body) = bytes.split_at(end);
    let line = String::from_utf8_lossy(line);
    let Some((format, digest)) = line.strip_prefix(&beginning(name)).and_then(|rest| rest.split_once(", sha256 "))
    else {
        return Err(corrupt(&format!("does not begin with `{}`", beginning(name).trim_end())));
    };
    if format != FORM.to_string() {
        return Err(corrupt(&format!(
            "has format {format}, but this version of Baton reads format {FORM}: use the version that wrote it"
        )));
    }
    let body = body.get(1..).unwrap_or_default();
    if hex(&sha256(body)) != digest {
        return Err(corrupt("is truncated or was changed: its checksum is wrong"));
    }
    serde_json::from_slice(body).map_err(|error| corrupt(&format!("cannot be read: {error}")))
}

/// Reads a file with a checksum from a directory. Returns `None` if the file does not exist.
pub(crate) fn read_sealed<T: DeserializeOwned>(directory: &Path, name: &str) -> Result<Option<T>, Error> {
    let path = directory.join(name);
    match std::fs::read(&path) {
        Ok(bytes) => unseal(name, &path.display().to_string(), &bytes).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(storage_error(&error, "read", &path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_is_decoded_and_any_change_is_detected() {
        let scratch = tempfile::TempDir::new().unwrap();
        let files = Files::default();
        assert_eq!(read_sealed::<Vec<u64>>(scratch.path(), "NEWEST").unwrap(), None);
        files.write_sealed(scratch.path(), "NEWEST", &vec![1, 2]).unwrap();
        assert_eq!(read_sealed::<Vec<u64>>(scratch.path(), "NEWEST").unwrap(), Some(vec![1, 2]));
        let path = scratch.path().join("NEWEST");
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(&path, changed).unwrap();
            assert!(read_sealed::<Vec<u64>>(scratch.path(), "NEWEST").is_err(), "byte {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(read_sealed::<Vec<u64>>(scratch.path(), "NEWEST").is_err(), "cut at {at}");
        }
        let newer = String::from_utf8(whole).unwrap().replace("format 1", "format 2");
        std::fs::write(&path, newer).unwrap();
        let message = read_sealed::<Vec<u64>>(scratch.path(), "NEWEST").unwrap_err().to_string();
        assert!(message.contains("format 2, but this version of Baton reads format 1"), "{message}");
    }
}
