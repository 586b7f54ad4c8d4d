//! Files of exported runs. They are in JSON Lines format, so that people and tools such as `jq` can read them:
//!
//! * a first line with the format
//! * for each run, a line with its description, and a line for each event, exactly as stored
//! * a last line with counts and a digest of all lines above, by which a truncated or changed file is detected
//!
//! A payload may contain line breaks between its JSON tokens. An event with such a payload is written as a JSON
//! string in an object: `{"text":"…"}`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{BufRead, Read as _, Write};

use history::event::NAMED_WHEN_READ;
use history::limits::IMPORTED_BYTES_MAX;
use history::{ImportedRun, Timestamp};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// Contents of the file, which the first line names.
const WHAT: &str = "runs";

/// Format number of files that this program writes. The program also reads files of earlier formats. In format 1, no
/// event is written as a JSON string.
const FORMAT: u32 = 2;

/// Maximum length of a line in bytes. Our choice: many times the size of an event, which has one payload of at most
/// 256 KiB and some names.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Characters that some readers treat as line breaks.
const LINE_BREAKS: [char; 2] = ['\n', '\r'];

/// Number of runs that are read or sent concurrently. Our choice: small runs are processed faster together, but each
/// run may be large and is held in memory.
pub(super) const AT_ONCE: usize = 8;

/// Number of bytes that an import request has in addition to its events.
const AROUND: usize = r#"{"events":[]}"#.len();

/// First line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FirstLine {
    baton: String,
    format: u32,
    /// Domain to which the runs belong.
    pub(super) domain: String,
    exported_at: Timestamp,
}

/// Members of the first line that exist in all formats. They determine whether this program can read the file.
#[derive(Deserialize)]
struct Format {
    baton: String,
    format: u32,
}

#[derive(Serialize, Deserialize)]
struct RunLine<'a> {
    #[serde(borrow)]
    run: &'a RawValue,
}

/// Line with an event whose JSON contains line breaks.
#[derive(Serialize, Deserialize)]
struct TextLine<'a> {
    text: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct LastLine {
    end: Counts,
}

/// Last line of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Number of runs in the file.
    pub(super) runs: u64,
    /// Number of events of these runs.
    pub(super) events: u64,
    /// Number of runs that were selected for export but are missing because they are open.
    pub(super) open: u64,
    sha256: String,
}

/// Writer of a file of exported runs.
pub(super) struct FileWriter<W> {
    out: W,
    sum: Sha256,
    /// Number of runs and events written so far.
    pub(super) counts: Counts,
}

impl<W: Write> FileWriter<W> {
    pub(super) fn begin(out: W, domain: &str, now: Timestamp) -> std::io::Result<Self> {
        let mut file = Self { out, sum: Sha256::new(), counts: Counts::default() };
        let first = FirstLine { baton: WHAT.to_owned(), format: FORMAT, domain: domain.to_owned(), exported_at: now };
        file.line(&serde_json::to_string(&first)?)?;
        Ok(file)
    }

    /// Writes a line. The text must not contain line breaks.
    fn line(&mut self, text: &str) -> std::io::Result<()> {
        for bytes in [text.as_bytes(), b"\n"] {
            self.sum.update(bytes);
            self.out.write_all(bytes)?;
        }
        Ok(())
    }

    /// Writes the description of a run. The run's events must follow.
    pub(crate) fn run(&mut self, description: &RawValue) -> std::io::Result<()> {
        self.counts.runs += 1;
        // Line breaks in this JSON occur only between tokens, so replacing them by spaces does not change its meaning.
        self.line(&serde_json::to_string(&RunLine { run: description })?.replace(LINE_BREAKS, " "))
    }

    /// Writes an event in its stored form, without the member that the service adds to its responses. Services of all
    /// versions accept this form, and the file does not depend on the version of the exporting service.
    pub(super) fn event(&mut self, event: &RawValue) -> std::io::Result<()> {
        self.counts.events += 1;
        let stored = as_stored(event).map_or(Cow::Borrowed(event.get()), Cow::Owned);
        match &*stored {
            text if text.contains(LINE_BREAKS) => self.line(&serde_json::to_string(&TextLine { text: text.into() })?),
            text => self.line(text),
        }
    }

    /// Writes the last line, and returns the output and the counts.
    pub(super) fn end(mut self) -> std::io::Result<(W, Counts)> {
        let mut counts = self.counts.clone();
        counts.sha256 = hex(&self.sum.clone().finalize());
        let last = serde_json::to_string(&LastLine { end: counts.clone() })?;
        self.line(&last)?;
        self.out.flush()?;
        Ok((self.out, counts))
    }
}

/// Members of a JSON object in their original order, with unchanged values.
struct EventMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for EventMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = EventMembers<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(EventMembers(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Returns an event without the member that the service adds to its responses. Returns `None` if the event has no such
/// member, or if the JSON value is not an event.
fn as_stored(event: &RawValue) -> Option<String> {
    let EventMembers(members) = serde_json::from_str(event.get()).ok()?;
    let is_named = |(name, value): &(String, &RawValue)| {
        name == "type" && NAMED_WHEN_READ.iter().any(|kind| value.get() == format!("\"{kind}\""))
    };
    if !members.iter().any(is_named) || members.iter().all(|(name, _)| name != "activityId") {
        return None;
    }
    let mut stored = String::with_capacity(event.get().len());
    for (name, value) in members.iter().filter(|(name, _)| name != "activityId") {
        stored.push(if stored.is_empty() { '{' } else { ',' });
        stored.push_str(&serde_json::to_string(name).ok()?);
        stored.push(':');
        stored.push_str(value.get());
    }
    stored.push('}');
    Some(stored)
}

/// Run that was read from a file.
#[derive(Debug)]
pub(super) struct FileRun {
    /// Line number of the run's description.
    pub(super) line: u64,
    /// Events of the run.
    pub(super) events: Vec<Box<RawValue>>,
    bytes: usize,
}

impl FileRun {
    /// Checks whether a service would import the run. Makes all checks for which no service is needed.
    pub(super) fn check(&self, now: Timestamp) -> Result<ImportedRun, BadFile> {
        let line = self.line;
        ImportedRun::from_json(self.events.iter().map(|event| event.get()), now)
            .map_err(|fault| BadFile::Run { line, why: fault.to_string() })
    }
}

/// Reason why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadFile {
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("not a file of `baton export`: line 1 is not its header")]
    Foreign,
    #[error(
        "the file has format {found}, but this program reads only formats up to {FORMAT}: use the version that \
        wrote it, or a newer one"
    )]
    Newer { found: u32 },
    #[error("line {line} has more than {LINE_BYTES_MAX} bytes")]
    LongLine { line: u64 },
    #[error("line {line} is invalid: {what}")]
    Line { line: u64, what: String },
    #[error("the file is truncated: the last line, with the counts, is missing after line {line}; export it again")]
    CutShort { line: u64 },
    #[error("the file was changed: the last line lists {said}, but the file contains {found}; export it again")]
    Changed { said: String, found: String },
    #[error("the run in line {line} has more than {IMPORTED_BYTES_MAX} bytes, the maximum for an import")]
    LargeRun { line: u64 },
    #[error("the run in line {line} cannot be imported: {why}")]
    Run { line: u64, why: String },
}

/// Reader of a file of exported runs.
pub(super) struct FileReader<R> {
    input: R,
    line: u64,
    sum: Sha256,
    counts: Counts,
    /// Line number of the next run's description; `None` if that line has not been read yet.
    begun: Option<u64>,
    is_over: bool,
}

/// Parsed line of a file.
enum FileLine {
    Run,
    Event(Box<RawValue>),
    Last(Counts),
}

impl<R: BufRead> FileReader<R> {
    pub(super) fn begin(input: R) -> Result<(Self, FirstLine), BadFile> {
        let (sum, counts) = (Sha256::new(), Counts::default());
        let mut reader = Self { input, line: 0, sum, counts, begun: None, is_over: false };
        let text = match reader.text() {
            Ok(Some(text)) => text,
            Ok(None) | Err(BadFile::LongLine { .. } | BadFile::Line { .. }) => return Err(BadFile::Foreign),
            Err(error) => return Err(error),
        };
        let format: Format = serde_json::from_str(&text).map_err(|_| BadFile::Foreign)?;
        if format.baton != WHAT {
            return Err(BadFile::Foreign);
        }
        if format.format > FORMAT {
            return Err(BadFile::Newer { found: format.format });
        }
        let first = serde_json::from_str(&text).map_err(|_| BadFile::Foreign)?;
        reader.sum(&text);
        Ok((reader, first))
    }

    /// Returns the next line without its line break. Returns `None` if there is no further complete line.
    fn text(&mut self) -> Result<Option<String>, BadFile> {
        let mut bytes = Vec::new();
        let most = u64::try_from(LINE_BYTES_MAX + 1).unwrap_or(u64::MAX);
        (&mut self.input).take(most).read_until(b'\n', &mut bytes)?;
        self.line += 1;
        if bytes.pop_if(|byte| *byte == b'\n').is_none() {
            let is_long = bytes.len() > LINE_BYTES_MAX;
            return if is_long { Err(BadFile::LongLine { line: self.line }) } else { Ok(None) };
        }
        String::from_utf8(bytes).map(Some).map_err(|_| BadFile::Line { line: self.line, what: "not UTF-8".to_owned() })
    }

    fn sum(&mut self, text: &str) {
        self.sum.update(text.as_bytes());
        self.sum.update(b"\n");
    }

    fn next_line(&mut self) -> Result<FileLine, BadFile> {
        let Some(text) = self.text()? else { return Err(BadFile::CutShort { line: self.line - 1 }) };
        let bad = |line, error: serde_json::Error| BadFile::Line { line, what: error.to_string() };
        if text.starts_with(r#"{"end":"#) {
            let last: LastLine = serde_json::from_str(&text).map_err(|error| bad(self.line, error))?;
            return Ok(FileLine::Last(last.end));
        }
        self.sum(&text);
        if text.starts_with(r#"{"run":"#) {
            serde_json::from_str::<RunLine<'_>>(&text).map_err(|error| bad(self.line, error))?;
            self.counts.runs += 1;
            return Ok(FileLine::Run);
        }
        self.counts.events += 1;
        let text = if text.starts_with(r#"{"text":"#) {
            let TextLine { text } = serde_json::from_str(&text).map_err(|error| bad(self.line, error))?;
            text.into_owned()
        } else {
            text
        };
        RawValue::from_string(text).map(FileLine::Event).map_err(|error| bad(self.line, error))
    }

    /// Returns the next run. After the last run, verifies the counts and the digest of the file, and returns `None`.
    pub(super) fn next_run(&mut self) -> Result<Option<FileRun>, BadFile> {
        let Some(mut run) = self.begin_run()? else { return Ok(None) };
        loop {
            match self.next_line()? {
                FileLine::Event(event) => {
                    run.bytes += event.get().len() + 1;
                    if run.bytes + AROUND > IMPORTED_BYTES_MAX {
                        return Err(BadFile::LargeRun { line: run.line });
                    }
                    run.events.push(event);
                }
                FileLine::Run => {
                    self.begun = Some(self.line);
                    return Ok(Some(run));
                }
                FileLine::Last(said) => {
                    self.must_be_whole(&said)?;
                    return Ok(Some(run));
                }
            }
        }
    }

    fn begin_run(&mut self) -> Result<Option<FileRun>, BadFile> {
        if self.is_over {
            return Ok(None);
        }
        let begun = match self.begun.take() {
            Some(line) => line,
            None => match self.next_line()? {
                FileLine::Run => self.line,
                FileLine::Event(_) => {
                    return Err(BadFile::Line { line: self.line, what: "an event before the first run".to_owned() });
                }
                FileLine::Last(said) => {
                    self.must_be_whole(&said)?;
                    return Ok(None);
                }
            },
        };
        Ok(Some(FileRun { line: begun, events: Vec::new(), bytes: 0 }))
    }

    fn must_be_whole(&mut self, said: &Counts) -> Result<(), BadFile> {
        self.is_over = true;
        let sha256 = hex(&self.sum.clone().finalize());
        let found = Counts { sha256, open: said.open, ..self.counts.clone() };
        if found != *said {
            let shown = |counts: &Counts| {
                format!("{} runs with {} events and digest {}", counts.runs, counts.events, counts.sha256)
            };
            return Err(BadFile::Changed { said: shown(said), found: shown(&found) });
        }
        let mut rest = [0];
        if self.input.read(&mut rest)? > 0 {
            return Err(BadFile::Line { line: self.line + 1, what: "unexpected data after the last line".to_owned() });
        }
        Ok(())
    }

    /// Returns the number of runs and events read so far.
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Formats a digest in hexadecimal.
fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
