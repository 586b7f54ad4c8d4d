//! Finds references in comments and documentation that lead nowhere: numbers of rules, which no page defines any more,
//! and names of missing pages.

use std::collections::BTreeSet;
use std::path::Path;

use crate::sources::root;

/// Folders that contain only generated or recorded files.
const PASSED_OVER: &[&str] = &[".git", "target", "node_modules", "corpus"];
/// Extensions of files with comments or prose.
const READ: &[&str] = &["rs", "md", "toml", "sh", "java", "py", "ts"];
/// Words that have the form of a rule number but are none.
const NO_RULES: &[&str] = &["S3"];

/// A reference that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Location of the reference: `path:line`.
    pub place: String,
    /// Text of the reference: the rule number or the name of the page.
    pub name: String,
}

/// Returns all references in the repository that lead nowhere.
///
/// # Errors
///
/// If a file cannot be read.
pub fn nowhere() -> std::io::Result<Vec<Reference>> {
    let mut files = Vec::new();
    walk(&root(), "", &mut files)?;
    let pages: BTreeSet<&str> =
        files.iter().filter(|(path, _)| is_page(path)).filter_map(|(path, _)| path.rsplit('/').next()).collect();
    let mut found = Vec::new();
    for (path, text) in &files {
        let prose = is_page(path);
        for (number, line) in text.lines().enumerate() {
            let said = if prose { Some(line) } else { comment(line) };
            let Some(said) = said else { continue };
            let names = rules(said).chain(missing(said, &pages));
            found.extend(names.map(|name| Reference { place: format!("{path}:{}", number + 1), name }));
        }
    }
    Ok(found)
}

/// Returns whether this is the name of a page, and not only its extension.
fn is_page(name: &str) -> bool {
    name.strip_suffix(".md").is_some_and(|name| !name.is_empty())
}

fn walk(folder: &Path, path: &str, files: &mut Vec<(String, String)>) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let inner = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        if entry.file_type()?.is_dir() {
            if !PASSED_OVER.contains(&name.as_str()) {
                walk(&entry.path(), &inner, files)?;
            }
        } else if name.rsplit_once('.').is_some_and(|(_, ending)| READ.contains(&ending)) {
            files.push((inner, std::fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}

/// Returns the comment in a line of code, if there is one.
fn comment(line: &str) -> Option<&str> {
    let from = |mark: &str| line.find(mark).and_then(|at| line.get(at..));
    from("//").filter(|said| !said.contains("://")).or_else(|| line.trim_start().strip_prefix('#'))
}

/// Returns the rule numbers in a text: a capital letter with one or two digits, which may be followed by a point and up
/// to three more digits.
pub fn rules(said: &str) -> impl Iterator<Item = String> {
    said.split(|letter: char| !letter.is_ascii_alphanumeric() && !"._-/".contains(letter))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| is_rule(word) && !NO_RULES.contains(word))
        .map(str::to_owned)
}

fn is_rule(word: &str) -> bool {
    let Some((letter, number)) = word.split_at_checked(1) else { return false };
    let digits = |text: &str, most: usize| {
        !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    "SDNRCHML".contains(letter)
        && match number.split_once('.') {
            Some((whole, part)) => digits(whole, 2) && digits(part, 3),
            None => digits(number, 2),
        }
}

/// Returns the names of pages in a text that are not in the repository.
fn missing(said: &str, pages: &BTreeSet<&str>) -> impl Iterator<Item = String> {
    said.split(|letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| is_page(word) && !pages.contains(word))
        .map(str::to_owned)
}
