//! The recorded corpus: what worlds came to when it was recorded, held against what they come to now. See `corpus/README.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Record;

/// How many differences are told.
const TOLD_MAX: usize = 10;

/// Three digests, as they stand in a file: of the histories, of what was stored, of the answers.
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

/// Whether it is to be recorded anew.
pub fn is_written() -> bool {
    std::env::var_os("BATON_CORPUS").is_some_and(|value| value == "write")
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory");
    fs::write(path, text).expect("a file of the corpus can be written");
}

/// A file of the corpus; empty where it is about to be written for the first time.
fn recorded(name: &str) -> String {
    match fs::read_to_string(directory().join(name)) {
        Ok(text) => text,
        Err(_) if is_written() => String::new(),
        Err(error) => panic!("tests/corpus/{name}: {error}"),
    }
}

impl Corpus {
    /// What is recorded of this kind of worlds.
    ///
    /// # Panics
    ///
    /// Where nothing is, or a line of it is not a seed and its three digests.
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

    /// Holds the world of a seed against what is recorded of it, if anything is.
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

    /// Records anew where that is asked for.
    ///
    /// # Panics
    ///
    /// Where a world differs from what is recorded of it.
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
        let told = self.differences.iter().take(TOLD_MAX).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(
            found == 0,
            "{found} of {of} worlds of tests/corpus/{}.txt are not what they were:\n{told}\n{HOW}",
            self.kind
        );
    }
}

/// What to do about a difference.
pub const HOW: &str = "\
If nothing was to change, find out what did: write the world out at the commit before, too, and compare. If stored forms or answers \
were changed on purpose, record anew in that commit alone (BATON_CORPUS=write) and say so in it. See tests/corpus/README.md.";

/// Holds a text against the file of that name in the corpus, or writes it where that is asked for.
///
/// # Panics
///
/// Where they differ: with the first line in which they do.
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
        panic!("tests/corpus/{name}, line {line}, is not what it was.\nrecorded: {was}\nnow:      {is}\n{HOW}");
    }
}
