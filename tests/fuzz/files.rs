//! Fuzz target for damaged files of the embedded store: its log, and the file `FORMAT`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use store::{Expect, Head, HeadKey, PartKey, Store};
use store_embedded::{Embedded, Options};

/// Number of commits in the files.
const COMMITS: u64 = 20;

fn options(directory: &Path) -> Options {
    Options { segment_bytes: 64 << 10, log_bytes: 1 << 20, ..Options::new(directory) }
}

fn key(number: u64) -> HeadKey {
    HeadKey { domain: "default".into(), workflow_id: format!("w{number}").into() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Files of a store as a power failure leaves them: the commits are in the log but not yet in the tables.
static FILES: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let directory = tempfile::TempDir::new().expect("a directory");
    runtime().block_on(async {
        let store = Embedded::open(options(directory.path())).await.expect("an empty directory");
        for number in 0..COMMITS {
            let head = Head {
                run: [7; 16],
                version: 1,
                body: Bytes::from(vec![b'h'; 300]),
                due: Some(number),
                row: None,
                expires_at: None,
            };
            let parts = [(PartKey::Chunk { last: 4 }, Bytes::from_static(b"events"))];
            store.commit(&key(number), Expect::Absent, &head, &parts).await.expect("a commit");
        }
        let copied = read_all(directory.path(), directory.path());
        store.close().await.expect("an end");
        copied
    })
});

fn read_all(root: &Path, directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(directory).expect("a directory").flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(read_all(root, &path));
        } else if let (Ok(name), Ok(bytes)) = (path.strip_prefix(root), std::fs::read(&path)) {
            found.push((name.to_owned(), bytes));
        }
    }
    found
}

/// Target `file`. The first byte of the input chooses a file, the next four an offset, and the other bytes replace the
/// content from that offset on. Without further bytes the file is truncated at the offset.
pub(super) fn file(input: &[u8]) {
    let Some((&[which, a, b, c, d], bytes)) = input.split_first_chunk::<5>() else { return };
    // The tables are files of redb, whose damage is out of scope.
    let is_ours = |path: &Path| path.starts_with("log") || path == Path::new("FORMAT");
    let count = FILES.iter().filter(|(path, _)| is_ours(path)).count().max(1);
    let chosen = FILES.iter().filter(|(path, _)| is_ours(path)).nth(usize::from(which) % count);
    let Some((chosen, _)) = chosen else { return };
    let directory = tempfile::TempDir::new().expect("a directory");
    for (name, content) in FILES.iter() {
        let path = directory.path().join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("a directory");
        }
        let mut content = content.clone();
        if name == chosen {
            let at = u32::from_be_bytes([a, b, c, d]) as usize % content.len().max(1);
            if bytes.is_empty() {
                content.truncate(at);
            }
            for (byte, new) in content.iter_mut().skip(at).zip(bytes) {
                *byte = *new;
            }
        }
        std::fs::write(path, content).expect("room for a file");
    }
    runtime().block_on(async {
        // Either opening reports the damage, or each head that can be read has its original content.
        let Ok(store) = Embedded::open(options(directory.path())).await else { return };
        let store: Arc<dyn Store> = store;
        for number in 0..COMMITS {
            if let Ok(Some(head)) = store.load(&key(number)).await {
                assert_eq!((head.version, head.body.len()), (1, 300), "what nobody wrote");
            }
        }
        drop(store.close().await);
    });
}
