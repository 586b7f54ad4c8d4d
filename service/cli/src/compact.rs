//! `baton compact`: reduces the size of a data directory, and returns free space to the disk.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use store_embedded::Embedded;

use super::{Done, Failed, Quiet, print_json, print_line};

/// Time between two updates of the progress. Our choice: short, because an update only reads the sizes of a few files.
const CHECK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(200);

/// Compact a data directory and return free space to the disk
///
/// Stop the service first: while it runs, it reuses free space but does not return it. Compacting needs as much free
/// disk space as the data occupies, and about ten seconds per gigabyte.
#[derive(Debug, Args)]
pub struct Compact {
    /// Data directory
    #[arg(long, env = "BATON_DATA_DIR", default_value = "baton-data", value_name = "DIR")]
    data_dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

impl Compact {
    pub(crate) async fn run(self) -> Done {
        let failed = |what: String| Failed::Other(1, format!("{}: {what}", self.data_dir.display()));
        if !self.data_dir.is_dir() {
            return Err(failed("the directory does not exist".to_owned()));
        }
        let size = || size_of(&self.data_dir).map_err(|error| failed(error.to_string()));
        let before = size()?;
        let mut progress = self.quiet.progress("compacting, size on disk", "bytes");
        let packing = Embedded::compact(&self.data_dir);
        tokio::pin!(packing);
        loop {
            tokio::select! {
                done = &mut packing => break done.map_err(|error| failed(error.to_string()))?,
                // The final size is unknown. The progress therefore shows only the current size on the disk.
                () = tokio::time::sleep(CHECK_INTERVAL) => progress.at(size().unwrap_or(before), None),
            }
        }
        drop(progress);
        let after = size()?;
        let returned = before.saturating_sub(after);
        if self.json {
            return print_json(&json!({ "bytesInUse": after, "bytesReturned": returned }));
        }
        print_line(&format!("{after} bytes in use; {returned} bytes returned to the disk"))
    }
}

/// Returns the total size of the files in a directory.
fn size_of(directory: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory)? {
        let (entry, metadata) = entry.and_then(|entry| entry.metadata().map(|metadata| (entry, metadata)))?;
        sum += if metadata.is_dir() { size_of(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}
