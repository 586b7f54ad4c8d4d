//! Names in path segments. Clients, browsers and proxies remove the segments `.` and `..` from paths, even if they are
//! percent-encoded. New items can therefore not have these names (`history::admit::check_name`). The path of an
//! existing item with such a name contains the name followed by `~`. To keep this unambiguous, a `~` is also appended
//! to the names `.~`, `..~`, `.~~` and so on.

/// Returns the name that a percent-decoded path segment stands for.
pub(crate) fn named(segment: &str) -> &str {
    let is_dots = matches!(segment.trim_end_matches('~'), "." | "..");
    if is_dots { segment.strip_suffix('~').unwrap_or(segment) } else { segment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_named_with_a_tilde_and_other_names_unchanged() {
        for (segment, name) in [(".~", "."), ("..~", ".."), (".~~", ".~"), ("..~~~", "..~~")] {
            assert_eq!(named(segment), name);
        }
        for segment in ["", ".", "..", "...", "...~", "a~", "~", ".a~", "..a"] {
            assert_eq!(named(segment), segment);
        }
    }
}
