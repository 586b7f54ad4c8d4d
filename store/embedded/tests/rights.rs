//! Only the owner has access to the data directory. This is a separate test binary, because the umask applies to the
//! whole process.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use baton_store_embedded::{Embedded, Options};
use rustix::fs::Mode;
use rustix::process::umask;
use store::Store as _;
use support::{copy_directory, key, next, small};
use tempfile::TempDir;

/// Returns the permissions of the directory and of everything in it.
fn rights(path: &Path) -> Vec<(PathBuf, u32)> {
    let found = fs::metadata(path).unwrap();
    let mut rights = vec![(path.to_owned(), found.permissions().mode() & 0o7777)];
    if found.is_dir() {
        rights.extend(fs::read_dir(path).unwrap().flat_map(|entry| self::rights(&entry.unwrap().path())));
    }
    rights
}

fn check(directory: &Path, when: &str) {
    let found = rights(directory);
    assert!(found.len() >= 6, "{found:?}");
    for (path, mode) in found {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{} {when}: {mode:o}", path.display());
    }
}

async fn used(options: Options) {
    let directory = options.directory.clone();
    let store = Embedded::open(options).await.unwrap();
    for _ in 0..100 {
        next(&*store, &key("a")).await.unwrap();
    }
    check(&directory, "in use");
    store.close().await.unwrap();
}

#[tokio::test]
async fn only_the_owner_has_access_to_the_data_directory() {
    for mask in [0o000, 0o022, 0o777] {
        let scratch = TempDir::new().unwrap();
        let directory = scratch.path().join("data");
        let before = umask(Mode::from_raw_mode(mask));
        // Small segments and little memory cause checkpoints, spares and reused segments.
        used(Options { segment_bytes: 4096, memory_bytes: 32 << 10, ..small(&directory) }).await;
        Embedded::compact(&directory).await.unwrap();
        check(&directory, "compacted");

        let restored = scratch.path().join("restored");
        umask(before);
        copy_directory(&directory, &restored);
        for (path, _) in rights(&restored) {
            let mode = if path.is_dir() { 0o755 } else { 0o644 };
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        umask(Mode::from_raw_mode(mask));
        used(small(&restored)).await;
        check(&restored, "restored");

        let empty = scratch.path().join("empty");
        fs::create_dir(&empty).unwrap();
        fs::set_permissions(&empty, Permissions::from_mode(0o777)).unwrap();
        used(small(&empty)).await;
        umask(before);
    }
}
