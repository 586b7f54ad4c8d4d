//! Golden files: bytes and texts that must stay readable forever. Files are added and never edited.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Returns the golden file `name`. With `BATON_GOLDEN=write`, a missing file is written first. An existing file is
/// never overwritten.
pub(crate) fn golden(name: &str, current: &[u8]) -> Vec<u8> {
    let path = path(name);
    let missing = !path.exists();
    if missing && std::env::var("BATON_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, current).unwrap();
    }
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; BATON_GOLDEN=write writes golden files that are missing", path.display())
    })
}
