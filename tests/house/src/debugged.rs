//! Finds Rust's `Debug` output in messages for operators and users: `{:?}` in format strings, and `?value` in calls of
//! `tracing` macros.
//!
//! `Debug` output is allowed in texts for programmers: in tests, assertions and panics, and in the testing modules of
//! the kits and the store.

use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use crate::sources::{CRATES, Sources, root};

/// Parts of the paths of files whose messages only programmers read.
const FOR_PROGRAMMERS: &[&str] = &["/tests", "/testing", "/conformance", "history/src/scene.rs"];
/// Macros whose messages only programmers read.
const ASSERTIONS: &[&str] =
    &["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne", "panic", "unreachable"];
/// Macros of `tracing`, whose arguments may have the form `?value`.
const TRACING: &[&str] = &[
    "trace",
    "debug",
    "info",
    "warn",
    "error",
    "event",
    "span",
    "trace_span",
    "debug_span",
    "info_span",
    "warn_span",
    "error_span",
];

/// Returns the places in the product's sources at which a message contains `Debug` output, as `path:line`.
///
/// # Errors
///
/// If a file cannot be read or is not Rust.
pub fn lines() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    for (folder, _) in CRATES {
        read(&root(), &format!("{folder}/src"), &mut files)?;
    }
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    Ok(of(&Sources::of("product", &files)?))
}

/// Returns the places in these sources at which a message contains `Debug` output.
pub fn of(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources.files.values() {
        let mut messages = Messages { path: &file.path, found: &mut found };
        file.items.iter().for_each(|item| messages.visit_item(item));
    }
    found
}

fn read(root: &Path, folder: &str, files: &mut Vec<(String, String)>) -> std::io::Result<()> {
    let mut names: Vec<_> = fs::read_dir(root.join(folder))?.collect::<Result<_, _>>()?;
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if FOR_PROGRAMMERS.iter().any(|part| path.contains(part)) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            read(root, &path, files)?;
        } else if Path::new(&path).extension().is_some_and(|extension| extension == "rs") {
            files.push((path, fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}

struct Messages<'a> {
    path: &'a str,
    found: &'a mut Vec<String>,
}

impl Messages<'_> {
    /// Searches the arguments of the macro `name`, and of macro calls within them.
    fn scan(&mut self, name: Option<&str>, tokens: TokenStream) {
        let is_one_of = |names: &[&str]| name.is_some_and(|name| names.contains(&name));
        if is_one_of(ASSERTIONS) {
            return;
        }
        let takes_fields = is_one_of(TRACING);
        let (mut may_begin, mut called, mut inner) = (true, None, None);
        for token in tokens {
            let is_debugged = match &token {
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    text.starts_with(['"', 'r']) && (text.contains(":?}") || text.contains(":#?}"))
                }
                TokenTree::Punct(punct) => punct.as_char() == '?' && may_begin && takes_fields,
                _ => false,
            };
            if is_debugged {
                self.found.push(format!("{}:{}", self.path, token.span().start().line));
            }
            may_begin = matches!(&token, TokenTree::Punct(punct) if matches!(punct.as_char(), ',' | '='));
            (called, inner) = match token {
                TokenTree::Ident(ident) => (Some(ident.to_string()), None),
                TokenTree::Punct(punct) if punct.as_char() == '!' => (None, called),
                TokenTree::Group(group) => {
                    self.scan(inner.as_deref(), group.stream());
                    (None, None)
                }
                _ => (None, None),
            };
        }
    }
}

impl Visit<'_> for Messages<'_> {
    fn visit_macro(&mut self, call: &syn::Macro) {
        let name = call.path.segments.last().map(|segment| segment.ident.to_string());
        self.scan(name.as_deref(), call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &syn::Attribute) {
        // Searches the message in an attribute `#[error("…")]` of `thiserror`.
        if let syn::Meta::List(list) = &attribute.meta
            && list.path.is_ident("error")
        {
            self.scan(None, list.tokens.clone());
        }
    }
}
