//! Files of runs that go from one service to another: JSON Lines, which people and `jq` can read. A first line that
//! says what it is; a line for each run, and below it one for each of its events, byte for byte as the service stores
//! them; and a last line with how many there are and a digest of what stands above it, by which a file is found that
//! was cut short or changed. An event with a line break, which a payload may have between its tokens, is a JSON string
//! in an object of its own: `{"text":"…"}`.

use std::borrow::Cow;
use std::io::{BufRead, Read as _, Write};

use history::event::NAMED_WHEN_READ;
use history::limits::IMPORTED_BYTES_MAX;
use history::{ImportedRun, Timestamp};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::credential::hex;

/// What the first line says that it is.
const WHAT: &str = "runs";

/// The format of what this module writes, and the newest that it reads. Format 1 has no events as strings.
const FORMAT: u32 = 2;

/// The longest line. Ours: an event has one payload, of 256 KiB at most, and the rest of it is names.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What some reader takes for the end of a line.
const LINE_BREAKS: [char; 2] = ['\n', '\r'];

/// How many runs are read, or sent, at once. Ours: the service sees to many small ones together, and each may be large.
pub(super) const AT_ONCE: usize = 8;

/// What stands around the events in a request.
const AROUND: usize = r#"{"events":[]}"#.len();

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FirstLine {
    baton: String,
    format: u32,
    /// The domain that the runs are of.
    pub(super) domain: String,
    exported_at: Timestamp,
}

/// Of a first line, whatever its format, what says whether the rest can be read.
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

/// An event that has line breaks.
#[derive(Serialize, Deserialize)]
struct TextLine<'a> {
    text: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct LastLine {
    end: Counts,
}

/// What the last line says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Runs in the file.
    pub(super) runs: u64,
    /// Their events.
    pub(super) events: u64,
    /// Runs that were asked for and are not in the file, as they are open.
    pub(super) open: u64,
    sha256: String,
}

/// Writes such a file.
pub(super) struct FileWriter<W> {
    out: W,
    sum: Sha256,
    /// What is written so far.
    pub(super) counts: Counts,
}

impl<W: Write> FileWriter<W> {
    pub(super) fn begin(out: W, domain: &str, now: Timestamp) -> std::io::Result<Self> {
        let mut file = Self { out, sum: Sha256::new(), counts: Counts::default() };
        let first = FirstLine { baton: WHAT.to_owned(), format: FORMAT, domain: domain.to_owned(), exported_at: now };
        file.line(&serde_json::to_string(&first)?)?;
        Ok(file)
    }

    /// Writes a line, which has no line break.
    fn line(&mut self, text: &str) -> std::io::Result<()> {
        for bytes in [text.as_bytes(), b"\n"] {
            self.sum.update(bytes);
            self.out.write_all(bytes)?;
        }
        Ok(())
    }

    /// A run as the service describes it; its events follow.
    pub(super) fn run(&mut self, description: &RawValue) -> std::io::Result<()> {
        self.counts.runs += 1;
        // It is for people, and what breaks lines in JSON only separates its tokens.
        self.line(&serde_json::to_string(&RunLine { run: description })?.replace(LINE_BREAKS, " "))
    }

    /// An event, as it is stored: what the service adds to it for readers is left out, so that services of all
    /// versions take it and the file stays the same.
    pub(super) fn event(&mut self, event: &RawValue) -> std::io::Result<()> {
        self.counts.events += 1;
        let stored = as_stored(event).map_or(Cow::Borrowed(event.get()), Cow::Owned);
        match &*stored {
            text if text.contains(LINE_BREAKS) => self.line(&serde_json::to_string(&TextLine { text: text.into() })?),
            text => self.line(text),
        }
    }

    /// Writes the last line.
    pub(super) fn end(mut self) -> std::io::Result<(W, Counts)> {
        let mut counts = self.counts.clone();
        counts.sha256 = hex(&self.sum.clone().finalize());
        let last = serde_json::to_string(&LastLine { end: counts.clone() })?;
        self.line(&last)?;
        self.out.flush()?;
        Ok((self.out, counts))
    }
}

/// The members of a JSON object in their order, with their values byte for byte.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// The text of an event without the name that was added to it; `None` if none was, or if it is no event.
fn as_stored(event: &RawValue) -> Option<String> {
    let Members(members) = serde_json::from_str(event.get()).ok()?;
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

/// A run of a file.
#[derive(Debug)]
pub(super) struct FileRun {
    /// Where it begins.
    pub(super) line: u64,
    /// Its events.
    pub(super) events: Vec<Box<RawValue>>,
    bytes: usize,
}

impl FileRun {
    /// Whether a service would take it over, as far as that can be told here.
    pub(super) fn check(&self, now: Timestamp) -> Result<ImportedRun, BadFile> {
        let line = self.line;
        ImportedRun::from_json(self.events.iter().map(|event| event.get()), now)
            .map_err(|fault| BadFile::Run { line, why: fault.to_string() })
    }
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadFile {
    #[error("it cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("it is no file of runs: line 1 is not what `baton export` writes")]
    Foreign,
    #[error(
        "it is of format {found}, and this program reads up to {FORMAT}: use the version that wrote it, or a newer one"
    )]
    Newer { found: u32 },
    #[error("line {line} has more than {LINE_BYTES_MAX} bytes")]
    LongLine { line: u64 },
    #[error("line {line} is not what may stand there: {what}")]
    Line { line: u64, what: String },
    #[error("it was cut short: its last line, with the counts, is missing after line {line}; export it again")]
    CutShort { line: u64 },
    #[error("it was changed: the last line says {said}, and above it stands {found}; export it again")]
    Changed { said: String, found: String },
    #[error("the run of line {line} has more than {IMPORTED_BYTES_MAX} bytes, which no service takes over")]
    LargeRun { line: u64 },
    #[error("the run of line {line} cannot be taken over: {why}")]
    Run { line: u64, why: String },
}

/// Reads a file, from its first line to its last.
pub(super) struct FileReader<R> {
    input: R,
    line: u64,
    sum: Sha256,
    counts: Counts,
    /// A line that begins the next run.
    begun: Option<u64>,
    is_over: bool,
}

/// What a line is.
enum Line {
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

    /// The next line, without its end; `None` where there is none that is whole.
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

    fn next_line(&mut self) -> Result<Line, BadFile> {
        let Some(text) = self.text()? else { return Err(BadFile::CutShort { line: self.line - 1 }) };
        let bad = |line, error: serde_json::Error| BadFile::Line { line, what: error.to_string() };
        if text.starts_with(r#"{"end":"#) {
            let last: LastLine = serde_json::from_str(&text).map_err(|error| bad(self.line, error))?;
            return Ok(Line::Last(last.end));
        }
        self.sum(&text);
        if text.starts_with(r#"{"run":"#) {
            serde_json::from_str::<RunLine<'_>>(&text).map_err(|error| bad(self.line, error))?;
            self.counts.runs += 1;
            return Ok(Line::Run);
        }
        self.counts.events += 1;
        let text = if text.starts_with(r#"{"text":"#) {
            let TextLine { text } = serde_json::from_str(&text).map_err(|error| bad(self.line, error))?;
            text.into_owned()
        } else {
            text
        };
        RawValue::from_string(text).map(Line::Event).map_err(|error| bad(self.line, error))
    }

    /// The next run; `None` after the last one, once the file was found to be whole.
    pub(super) fn next_run(&mut self) -> Result<Option<FileRun>, BadFile> {
        let Some(mut run) = self.begin_run()? else { return Ok(None) };
        loop {
            match self.next_line()? {
                Line::Event(event) => {
                    run.bytes += event.get().len() + 1;
                    if run.bytes + AROUND > IMPORTED_BYTES_MAX {
                        return Err(BadFile::LargeRun { line: run.line });
                    }
                    run.events.push(event);
                }
                Line::Run => {
                    self.begun = Some(self.line);
                    return Ok(Some(run));
                }
                Line::Last(said) => {
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
                Line::Run => self.line,
                Line::Event(_) => {
                    return Err(BadFile::Line { line: self.line, what: "an event before the first run".to_owned() });
                }
                Line::Last(said) => {
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
                format!("{} runs with {} events and the digest {}", counts.runs, counts.events, counts.sha256)
            };
            return Err(BadFile::Changed { said: shown(said), found: shown(&found) });
        }
        let mut rest = [0];
        if self.input.read(&mut rest)? > 0 {
            return Err(BadFile::Line { line: self.line + 1, what: "something after the last line".to_owned() });
        }
        Ok(())
    }

    /// What was read.
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }
}

#[cfg(test)]
mod tests;
