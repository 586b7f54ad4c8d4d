//! The recorded corpus: digests of worlds at the time of recording, compared with the same worlds now. See
//! `corpus/README.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Record;

/// Maximum number of differences in a message.
const SHOWN_MAX: usize = 10;

/// Digests of the histories, the stored data and the responses, as in a file.
type Digests = [String; 3];

const WHAT: [&str; 3] = ["histories", "stored bytes", "answers"];

/// The corpus of worlds of one kind.
pub struct Corpus {
    kind: &'static str,
    recorded: BTreeMap<u64, Digests>,
    seen: BTreeMap<u64, Digests>,
    differences: Vec<String>,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Returns whether the corpus is to be recorded again.
pub fn is_written() -> bool {
    std::env::var_os("BATON_CORPUS").is_some_and(|value| value == "write")
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory");
    fs::write(path, text).expect("a file of the corpus can be written");
}

/// Returns a file of the corpus, or an empty text if it is about to be written for the first time.
fn recorded(name: &str) -> String {
    match fs::read_to_string(directory().join(name)) {
        Ok(text) => text,
        Err(_) if is_written() => String::new(),
        Err(error) => panic!("tests/corpus/{name}: {error}"),
    }
}

impl Corpus {
    /// Reads the recorded digests of this kind of worlds.
    ///
    /// # Panics
    ///
    /// If there are none, or if a line is not a seed with its three digests.
    pub fn of(kind: &'static str) -> Self {
        let read = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            let [seed, histories, stored, answers] = words.as_slice() else { return None };
            Some((seed.parse().ok()?, [histories, stored, answers].map(|digest| (*digest).to_owned())))
        };
        let recorded: BTreeMap<_, _> = recorded(&format!("{kind}.txt"))
            .lines()
            .skip(1)
            .map(|line| read(line).unwrap_or_else(|| panic!("tests/corpus/{kind}.txt: `{line}` is no line of it")))
            .collect();
        assert!(is_written() || !recorded.is_empty(), "tests/corpus/{kind}.txt has no line");
        Self { kind, recorded, seen: BTreeMap::new(), differences: Vec::new() }
    }

    /// Compares the world of a seed with its record, if there is one.
    pub fn hold(&mut self, seed: u64, record: &Record) {
        let digests = record.digests();
        if let Some(recorded) = self.recorded.get(&seed)
            && *recorded != digests
        {
            let pairs = recorded.iter().zip(&digests).zip(WHAT);
            let said = pairs.map(|((was, is), what)| format!("{what} {}", if was == is { "same" } else { "CHANGED" }));
            let mut difference = format!("seed {seed}: {}", said.collect::<Vec<_>>().join(", "));
            if self.differences.is_empty() && !is_written() {
                let path = directory().join("../../target/corpus").join(format!("{}-{seed}.txt", self.kind));
                write(&path, &record.text());
                write!(difference, "; written out to {}", path.display()).expect("memory takes it");
            }
            self.differences.push(difference);
        }
        self.seen.insert(seed, digests);
    }

    /// Ends the comparison. Writes the corpus instead if that is requested.
    ///
    /// # Panics
    ///
    /// If a world differs from its record.
    pub fn end(mut self) {
        if is_written() {
            self.recorded.append(&mut self.seen);
            let mut text = "seed histories stored answers\n".to_owned();
            for (seed, [histories, stored, answers]) in &self.recorded {
                writeln!(text, "{seed} {histories} {stored} {answers}").expect("memory takes it");
            }
            return write(&directory().join(format!("{}.txt", self.kind)), &text);
        }
        let (found, of) = (self.differences.len(), self.seen.len());
        let shown = self.differences.iter().take(SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(found == 0, "{found} of {of} worlds differ from tests/corpus/{}.txt:\n{shown}\n{HOW}", self.kind);
    }
}

/// Advice in the error message for a world that differs.
pub const HOW: &str = "\
If nothing should have changed, find the cause: write the world out at the previous commit as well, and compare. \
If stored forms or responses were changed on purpose, record the corpus again in that commit \
(BATON_CORPUS=write) and say so in its message. See tests/corpus/README.md.";

/// Compares a text with the file of that name in the corpus, or writes the file if that is requested.
///
/// # Panics
///
/// If they differ. The message contains the first line that differs.
pub fn hold_text(name: &str, text: &str) {
    let path = directory().join(name);
    if is_written() {
        return write(&path, text);
    }
    let recorded = recorded(name);
    let longest = recorded.lines().count().max(text.lines().count());
    let end = std::iter::repeat("(nothing)");
    let pairs = recorded.lines().chain(end.clone()).zip(text.lines().chain(end)).take(longest);
    if let Some((number, (was, is))) = pairs.enumerate().find(|(_, (was, is))| was != is) {
        let line = number + 1;
        panic!("tests/corpus/{name} differs in line {line}.\nrecorded: {was}\nnow:      {is}\n{HOW}");
    }
}
