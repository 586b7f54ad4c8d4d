//! Finds unresolved merge conflicts in all text files of the repository.

use std::fs;
use std::io;
use std::path::Path;

/// Folders with generated files.
const MADE: &[&str] = &[".git", "target", "node_modules", "baton-data"];

/// Number of characters at the beginning of a conflict marker. Source: git-merge(1), "How conflicts are presented".
const SIGNS: usize = 7;

/// Returns the lines of a folder's files that are conflict markers, as `path:line`.
///
/// # Errors
///
/// If a folder or a file cannot be read.
pub fn conflicts(folder: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    scan(folder, "", &mut found)?;
    found.sort();
    Ok(found)
}

fn scan(folder: &Path, name: &str, found: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(name))? {
        let entry = entry?;
        // Files whose names are not UTF-8 are skipped, because the repository contains none.
        let Ok(inner) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type()?;
        if MADE.contains(&inner.as_str()) {
            continue;
        }
        let inner = if name.is_empty() { inner } else { format!("{name}/{inner}") };
        if kind.is_dir() {
            scan(folder, &inner, found)?;
        } else if kind.is_file()
            && let Ok(text) = String::from_utf8(fs::read(folder.join(&inner))?)
        {
            let lines = text.lines().zip(1..).filter(|(line, _)| is_conflict(line));
            found.extend(lines.map(|(_, number)| format!("{inner}:{number}")));
        }
    }
    Ok(())
}

/// Returns whether a line is a conflict marker: `<<<<<<< ours`, `||||||| before`, `=======`, `>>>>>>> theirs`.
#[must_use]
pub fn is_conflict(line: &str) -> bool {
    let is_named = ["<", "|", ">"].iter().any(|sign| {
        let rest = line.strip_prefix(&sign.repeat(SIGNS));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    });
    is_named || line.trim_end() == "=".repeat(SIGNS)
}
