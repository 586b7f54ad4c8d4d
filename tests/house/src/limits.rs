//! Documented limits. There is one row for each bound that a caller or an operator can reach. `docs/limits.md` is
//! generated from the rows and from the constants in the sources.

pub mod constants;
pub mod internal;
pub mod rows;
pub mod written;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

pub use constants::{Constants, Place, Value};
pub use written::Unit;

/// Width of a line of prose. Source: the width of the other pages.
const WIDTH: usize = 120;

/// Advice in the error message for a constant that is in neither list.
const WHAT_TO_DO: &str = "is in no list of limits. If a caller or an operator can meet it, add a row with the \
                          test that tries it at its edge to `tests/house/src/limits/rows/`, and run \
                          `BATON_DOCS=write cargo test -p baton-tests-house`. If it bounds only the inside of \
                          the service or of a kit, add it to a group of `tests/house/src/limits/internal.rs`";

/// Rows of one subject.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Heading.
    pub title: &'static str,
    /// Rows of the table.
    pub rows: &'static [Row],
    /// Paragraphs below the table, in Markdown.
    pub notes: &'static [&'static str],
}

/// A row of a table: one limit.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Bounded quantity, as a short phrase.
    pub what: &'static str,
    /// Scope of the limit: request, connection, run, domain, process.
    pub per: &'static str,
    /// Constant with the value: `path/to/file.rs NAME`.
    pub constant: &'static str,
    /// Constant with the lowest allowed value, if the row is a range. May be a number instead.
    pub least: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Effect of exceeding the limit: status and error code, or a short phrase.
    pub beyond: &'static str,
    /// Option or setting that changes the value.
    pub option: &'static str,
    /// Path of the file that contains the test.
    pub tried_in: &'static str,
    /// Name of the test function that tries the limit at its edge.
    pub test: &'static str,
    /// Part of the limit that the test does not cover.
    pub partly: &'static str,
    /// Reason why there is no test.
    pub why: &'static str,
}

/// Default values of a row.
pub const ROW: Row = Row {
    what: "",
    per: "",
    constant: "",
    least: "",
    unit: Unit::Count,
    beyond: "",
    option: "",
    tried_in: "",
    test: "",
    partly: "",
    why: "",
};

/// Constants with a common reason why no caller and no operator can reach them.
#[derive(Debug, Clone, Copy)]
pub struct Internal {
    /// Reason why the constants are not on the page.
    pub reason: &'static str,
    /// Constants, in the form `path/to/file.rs NAME`.
    pub constants: &'static [&'static str],
}

/// Returns the errors in the rows and lists, such as constants that are in no list, and tests that do not exist.
#[must_use]
pub fn problems(sections: &[Section], internal: &[Internal], constants: &Constants, root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    let mut listed = BTreeSet::new();
    for row in sections.iter().flat_map(|section| section.rows) {
        listed.extend(Place::parse(row.constant));
        listed.extend(Place::parse(row.least));
        problems.extend(row.test_problem(root).map(|problem| format!("`{}`: {problem}", row.what)));
    }
    for group in internal {
        for text in group.constants {
            match Place::parse(text) {
                Some(place) if !constants.has(&place) => {
                    problems.push(format!("{place}: no such constant; change or remove its entry in `internal`"));
                }
                Some(place) if !listed.insert(place.clone()) => {
                    problems.push(format!("{place}: it is listed twice; keep the row, or the entry in `internal`"));
                }
                Some(_) => {}
                None => problems.push(format!("`{text}`: expected `path/to/file.rs NAME`")),
            }
        }
    }
    let forgotten = constants.maxima().filter(|place| !listed.contains(place));
    problems.extend(forgotten.map(|place| format!("{place} {WHAT_TO_DO}")));
    problems
}

/// Returns the text of the page.
///
/// # Errors
///
/// If a constant is missing or not understood, or does not fit its unit.
pub fn page(sections: &[Section], constants: &Constants) -> Result<String, String> {
    let mut page = String::from(rows::BEGIN);
    for section in sections {
        let _ = write!(page, "\n## {}\n\n| Limit | Value | Per | Beyond it |\n|---|---|---|---|\n", section.title);
        for row in section.rows {
            let _ = writeln!(page, "| {} | {} | {} | {} |", row.what, row.value(constants)?, row.per, row.beyond);
        }
        for note in section.notes {
            let _ = write!(page, "\n{}\n", wrapped(note));
        }
    }
    Ok(page)
}

impl Row {
    /// Returns the text of the value, with its range and option.
    fn value(&self, constants: &Constants) -> Result<String, String> {
        let highest = self.one(self.constant, constants)?;
        let value = match self.least {
            "" => highest,
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("{number} to {highest}"),
            place => format!("{} to {highest}", self.one(place, constants)?),
        };
        Ok(if self.option.is_empty() { value } else { format!("{value} ({})", self.option) })
    }

    fn one(&self, text: &str, constants: &Constants) -> Result<String, String> {
        let place = Place::parse(text)
            .ok_or_else(|| format!("`{}`: expected `path/to/file.rs NAME`, found `{text}`", self.what))?;
        let value = constants.value(&place)?;
        written::write(value, self.unit).ok_or_else(|| format!("{place}: a time needs `Unit::Time`"))
    }

    fn test_problem(&self, root: &Path) -> Option<String> {
        if self.test.is_empty() {
            let problem = "no test; name the one that tries the limit at its edge, or say why there is none";
            return self.why.is_empty().then(|| problem.to_owned());
        }
        let (path, name) = (self.tried_in, self.test);
        match std::fs::read_to_string(root.join(path)) {
            Err(error) => Some(format!("{path}: {error}")),
            Ok(text) if text.contains(&format!("fn {name}(")) => None,
            Ok(_) => Some(format!("{path} has no test `{name}`; name the one that tries the limit at its edge")),
        }
    }
}

/// Wraps a paragraph at the maximum width.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}
