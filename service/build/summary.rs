//! The table of contents: the parts and pages that `docs/README.md` lists.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

/// File with the table of contents, relative to `book/`.
const INDEX: &str = "docs/README.md";

/// Page of the documentation.
pub(crate) struct Entry {
    /// Source file, relative to the root of the repository.
    pub(crate) file: String,
    /// Path of the page in the service.
    pub(crate) path: String,
    /// Title in the table of contents.
    pub(crate) title: String,
}

/// Part of the table of contents.
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) entries: Vec<Entry>,
}

/// Table of contents.
pub(crate) struct Summary {
    index: Entry,
    pub(crate) parts: Vec<Part>,
    paths: BTreeMap<String, String>,
}

impl Summary {
    /// Reads the table of contents. Each second-level heading begins a part, and each list item that begins with a
    /// link to a Markdown file is a page.
    pub(crate) fn read(book: &Path) -> Result<Self, Box<dyn Error>> {
        let source = book.join(INDEX);
        println!("cargo::rerun-if-changed={}", source.display());
        let text = fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        let index = Entry { file: INDEX.to_owned(), path: "/docs/".to_owned(), title: "Documentation".to_owned() };
        let mut parts: Vec<Part> = Vec::new();
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                parts.push(Part { title: title.trim().to_owned(), entries: Vec::new() });
            } else if let (Some(part), Some((title, target))) = (parts.last_mut(), link_of(line)) {
                let file = resolve(INDEX, target);
                part.entries.push(Entry { path: path_of(&file), file, title: title.to_owned() });
            }
        }
        let mut paths = BTreeMap::from([(index.file.clone(), index.path.clone())]);
        for entry in parts.iter().flat_map(|part| &part.entries) {
            let earlier = paths.insert(entry.file.clone(), entry.path.clone());
            if earlier.is_some() {
                return Err(format!("{INDEX} lists {} twice", entry.file).into());
            }
        }
        Ok(Self { index, parts, paths })
    }

    /// Returns all pages in their order. The first page is the table of contents itself.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        std::iter::once(&self.index).chain(self.parts.iter().flat_map(|part| &part.entries))
    }

    /// Returns the path of the page that is rendered from this file, if there is one.
    pub(crate) fn path(&self, file: &str) -> Option<&str> {
        self.paths.get(file).map(String::as_str)
    }
}

/// Returns the title and the target of a list item that begins with a link.
fn link_of(line: &str) -> Option<(&str, &str)> {
    let (title, rest) = line.strip_prefix("* [")?.split_once("](")?;
    let (target, _) = rest.split_once(')')?;
    target.strip_suffix(".md").map(|_| (title, target))
}

/// Returns the path of a linked file, relative to the root of the repository. `from` is the file that contains the
/// link.
pub(crate) fn resolve(from: &str, target: &str) -> String {
    let mut segments: Vec<&str> = from.split('/').collect();
    segments.pop();
    for segment in target.split('/') {
        match segment {
            "." | "" => {}
            ".." => drop(segments.pop()),
            name => segments.push(name),
        }
    }
    segments.join("/")
}

/// Returns the path of the page for a file, for example `/docs/tls` for `docs/tls.md`, and `/docs/tests` for
/// `tests/README.md`.
fn path_of(file: &str) -> String {
    let stem = file.strip_suffix(".md").unwrap_or(file);
    let stem = stem.strip_suffix("/README").unwrap_or(stem);
    match stem.strip_prefix("docs/") {
        Some(name) => format!("/docs/{name}"),
        None if stem == "README" => "/docs/baton".to_owned(),
        None => format!("/docs/{}", stem.to_lowercase()),
    }
}
