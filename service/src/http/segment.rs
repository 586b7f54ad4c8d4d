//! What a segment of a path names. `.` and `..` are taken out of paths by clients, browsers and proxies, even percent-encoded, so
//! that nothing new may have such a name (`history::admit::check_name`). What has one already is named with a `~` behind it; and
//! what ends like that with one more.

/// The name that a decoded segment stands for.
pub(crate) fn named(segment: &str) -> &str {
    let is_dots = matches!(segment.trim_end_matches('~'), "." | "..");
    if is_dots { segment.strip_suffix('~').unwrap_or(segment) } else { segment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_named_with_a_tilde_and_everything_else_as_it_is() {
        for (segment, name) in [(".~", "."), ("..~", ".."), (".~~", ".~"), ("..~~~", "..~~")] {
            assert_eq!(named(segment), name);
        }
        for segment in ["", ".", "..", "...", "...~", "a~", "~", ".a~", "..a"] {
            assert_eq!(named(segment), segment);
        }
    }
}
