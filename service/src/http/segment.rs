//! Names in path segments. Clients, browsers and proxies remove `.` and `..` from paths, even percent-encoded, so no
//! new item may have such a name (`history::admit::check_name`). An existing one is addressed with an appended `~`.
//! Names that already look like that get one more.

/// Returns the name that a decoded segment represents.
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
