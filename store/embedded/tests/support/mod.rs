//! Code that the tests share: a load whose acknowledged commits can be checked. The load runs in this process or in a
//! process to be killed.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use baton_store_embedded::faults::FaultAction;
use baton_store_embedded::{Embedded, Options};
use bytes::Bytes;
use store::{Cas, Expect, Head, HeadKey, PartKey, Row, Store};

pub const RUN: [u8; 16] = [7; 16];
pub const WRITERS: u64 = 16;

/// Returns options with small limits, which cause frequent checkpoints and new segments.
pub fn small(directory: &Path) -> Options {
    Options {
        memory_bytes: 256 << 10,
        log_bytes: 512 << 10,
        segment_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        ..Options::new(directory)
    }
}

pub fn key(workflow_id: &str) -> HeadKey {
    HeadKey { domain: Arc::from("crash"), workflow_id: Arc::from(workflow_id) }
}

/// Returns a head whose content is determined by its key and version.
pub fn head(key: &HeadKey, version: u64) -> Head {
    let line = format!("{} at {version};", key.workflow_id);
    Head {
        run: RUN,
        version,
        body: Bytes::from(line.repeat(1 + usize::try_from(version % 60).unwrap())),
        due: Some(1000 + version),
        row: Some(Row {
            workflow_type: Arc::from("crash"),
            status: Arc::from(if version.is_multiple_of(3) { "stuck" } else { "open" }),
            flagged: version.is_multiple_of(3),
            started_at: 1,
            closed_at: None,
            tags: vec![format!("v{version}")],
            why: None,
        }),
        expires_at: None,
    }
}

pub fn chunk(key: &HeadKey, version: u64) -> (PartKey, Bytes) {
    (PartKey::Chunk { last: version }, Bytes::from(format!("events of {} up to {version}", key.workflow_id)))
}

/// Commits the next version of a key, with its chunk.
pub async fn next(store: &dyn Store, key: &HeadKey) -> Result<u64, store::Error> {
    let found = store.load(key).await?;
    let version = found.as_ref().map_or(0, |head| head.version) + 1;
    let expect = found.map_or(Expect::Absent, |head| Expect::Exactly { run: head.run, version: head.version });
    let answer = store.commit(key, expect, &head(key, version), &[chunk(key, version)]).await?;
    assert_eq!(answer, Cas::Won, "{key:?} has one writer");
    Ok(version)
}

/// Number of packs per run. Each version replaces one of them.
const PACKS: u64 = 7;

fn pack(key: &HeadKey, version: u64) -> (PartKey, Bytes) {
    let line = format!("payloads of {} at {version};", key.workflow_id);
    // Some packs are short, so they do not stay in the log.
    let times = 10 + 180 * usize::try_from(version % 3).unwrap();
    (PartKey::Pack { op: version % PACKS }, Bytes::from(line.repeat(times)))
}

/// Commits the next version of a key, with its chunk and a pack.
async fn next_with_pack(store: &dyn Store, key: &HeadKey) -> Result<u64, store::Error> {
    let found = store.load(key).await?;
    let version = found.as_ref().map_or(0, |head| head.version) + 1;
    let expect = found.map_or(Expect::Absent, |head| Expect::Exactly { run: head.run, version: head.version });
    let parts = [chunk(key, version), pack(key, version)];
    assert_eq!(store.commit(key, expect, &head(key, version), &parts).await?, Cas::Won, "{key:?} has one writer");
    Ok(version)
}

async fn check_packs(store: &dyn Store, key: &HeadKey, version: u64) {
    for version in (version.saturating_sub(PACKS) + 1)..=version {
        let (part, bytes) = pack(key, version);
        let found = store.parts(key, RUN, &[part]).await.unwrap();
        assert!(found == [Some(bytes)], "{key:?}: the pack of version {version}");
    }
}

/// Checks that a key has at least the acknowledged version, complete with all its chunks and its index entries.
pub async fn check(store: &dyn Store, key: &HeadKey, acknowledged: u64) -> u64 {
    let found = store.load(key).await.unwrap();
    let version = found.as_ref().map_or(0, |head| head.version);
    assert!(version >= acknowledged, "{key:?}: version {acknowledged} was acknowledged, {version} is there");
    if let Some(found) = found {
        assert_eq!(found, head(key, version));
        let chunks = store.chunks(key, RUN, 0, usize::MAX).await.unwrap();
        let expected: Vec<_> = (1..=version).map(|version| (version, chunk(key, version).1)).collect();
        assert!(chunks == expected, "{key:?}: {} chunks of {version}", chunks.len());
    }
    version
}

/// Commits that a killed process has acknowledged.
#[derive(Default)]
pub struct Acknowledged(pub BTreeMap<u64, u64>);

impl Acknowledged {
    /// Opens the store, compares its content with the acknowledged commits, and returns it without closing it.
    pub async fn check(&mut self, directory: &Path) -> Arc<Embedded> {
        let store = Embedded::open(small(directory)).await.expect("opens after a crash");
        let due = store.due(0, u64::MAX, None, 1000).await.unwrap();
        let mut expected_due = Vec::new();
        for writer in 0..WRITERS {
            let key = key(&writer.to_string());
            let acknowledged = self.0.get(&writer).copied().unwrap_or(0);
            let version = check(&*store, &key, acknowledged).await;
            check_packs(&*store, &key, version).await;
            if version > 0 {
                self.0.insert(writer, version);
                expected_due.push(store::Due { at: 1000 + version, key });
            }
        }
        expected_due.sort_by_key(|due| (due.at, due.key.clone()));
        let mut found_due = due;
        found_due.sort_by_key(|due| (due.at, due.key.clone()));
        assert_eq!(found_due, expected_due);
        let query = store::ListQuery { domain: Arc::from("crash"), ..store::ListQuery::default() };
        let counted = store.count(&query, u64::MAX).await.unwrap();
        // Counts with conditions for which no numbers are stored examine the rows.
        let by_row = store::ListQuery { started_from: Some(0), ..query.clone() };
        assert_eq!(counted, store.count(&by_row, u64::MAX).await.unwrap(), "numbers and rows must agree");
        let by_type = store::ListQuery { workflow_type: Some("crash".to_owned()), ..query };
        assert_eq!(counted, store.count(&by_type, u64::MAX).await.unwrap(), "entries and rows must agree");
        store
    }
}

/// Runs the process to be killed: commits from 16 tasks until it is killed, and prints each acknowledged commit.
pub async fn hammer() {
    let Ok(directory) = std::env::var("BATON_HAMMER") else {
        return;
    };
    let options = small(Path::new(&directory));
    let faults = Arc::clone(&options.faults);
    let store = Embedded::open(options).await.unwrap();
    if let Ok(archive) = std::env::var("BATON_SHIP_TO") {
        baton_store_archive::ship(&store, baton_store_archive::ShipTo::new(archive.as_str())).await.unwrap();
    }
    if let Ok(point) = std::env::var("BATON_ABORT_AT") {
        faults.at(&point, FaultAction::Abort);
    }
    let out = Arc::new(Mutex::new(std::io::stdout()));
    writeln!(out.lock().unwrap(), "\nready").unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (store, out) = (Arc::clone(&store), Arc::clone(&out));
        tasks.spawn(async move {
            let key = key(&writer.to_string());
            loop {
                let version = next_with_pack(&*store, &key).await.unwrap();
                writeln!(out.lock().unwrap(), "ack {writer} {version}").unwrap();
            }
        });
    }
    tasks.join_all().await;
}

/// A process that runs the test `hammer` of this binary.
pub struct Hammer {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Hammer {
    pub fn start(directory: &Path, abort_at: Option<&str>) -> Self {
        Self::shipping(directory, abort_at, None)
    }

    pub fn shipping(directory: &Path, abort_at: Option<&str>, archive: Option<&Path>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hammer", "--nocapture", "--test-threads=1"]).env("BATON_HAMMER", directory);
        if let Some(archive) = archive {
            command.env("BATON_SHIP_TO", archive);
        }
        if let Some(point) = abort_at {
            command.env("BATON_ABORT_AT", point);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line.trim() != "ready" {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "the process ended before it was ready");
        }
        Self { child, out }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Reads the acknowledged commits until the process has ended, ignoring an incomplete last line.
    pub fn acknowledged(mut self, into: &mut Acknowledged) -> u64 {
        let count = self.read_acknowledged(u64::MAX, into);
        self.child.wait().unwrap();
        count
    }

    /// Reads up to `most` acknowledged commits.
    pub fn read_acknowledged(&mut self, most: u64, into: &mut Acknowledged) -> u64 {
        let mut count = 0;
        let mut line = String::new();
        while count < most && self.out.read_line(&mut line).unwrap() > 0 {
            if let Some(rest) = line.strip_suffix('\n').and_then(|line| line.strip_prefix("ack ")) {
                let (writer, version) = rest.split_once(' ').unwrap();
                let newest = into.0.entry(writer.parse().unwrap()).or_default();
                *newest = (*newest).max(version.parse().unwrap());
                count += 1;
            }
            line.clear();
        }
        count
    }
}

/// A reproducible pseudo-random sequence (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (number ^ (number >> 31)) % below
    }
}

/// Returns the log's segments, oldest first.
pub fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(directory.join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "log"))
        .collect();
    found.sort();
    found
}

/// Returns the segment that was written last, if any.
pub fn newest_segment(directory: &Path) -> Option<PathBuf> {
    segments(directory).into_iter().rev().find(|path| data_end(path) > 0)
}

/// Returns the end of a segment's frames, where its zeros begin.
pub fn data_end(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 1).next_multiple_of(8))
}

pub fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_directory(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// Changes the content of a file.
pub fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}
