//! Other people's text, for a terminal: names, reasons and payloads may have characters in them that a terminal takes for
//! orders, or that show something else than what is there. Owns which those are, and how they are written instead.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal does anything with it but show it: control characters (ESC and DEL among them), what changes the
/// direction of what follows, and separators of lines.
fn is_order(c: char) -> bool {
    let is_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_direction || matches!(c, '\u{2028}' | '\u{2029}')
}

fn escaped(text: &str, is_left: impl Fn(char) -> bool, write: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let is_plain = |c: char| !is_order(c) || is_left(c);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_plain(c) { shown.push(c) } else { write(&mut shown, c) }
    }
    Cow::Owned(shown)
}

fn as_people_write(shown: &mut String, c: char) {
    match c {
        '\n' | '\r' | '\t' => shown.extend(c.escape_default()),
        c => shown.extend(c.escape_unicode()),
    }
}

/// Shows a text on one line: line breaks and tabs are written as `\n`, `\r` and `\t`, and what else a terminal would obey as
/// `\u{1b}`.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false, as_people_write)
}

/// Shows a text of several lines, as [`line()`] does each of them; tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'), as_people_write)
}

/// The same JSON, with what a terminal would obey written as JSON escapes.
pub fn json(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |c| matches!(c, '\n' | '\t'),
        |shown, c| match c {
            // Outside of a string, for within it stands escaped.
            '\r' => shown.push(' '),
            c => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_instead_and_all_else_stays() {
        for (text, shown) in [
            ("größe 漢 👩‍🚀 \"q\" \\", "größe 漢 👩‍🚀 \"q\" \\"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{1b}]0;owned\u{7}", "\\u{1b}]0;owned\\u{7}"),
            ("\u{9b}31m\u{9d}0;x\u{9c}", "\\u{9b}31m\\u{9d}0;x\\u{9c}"),
            ("a\u{202e}b\u{2069}c\u{200f}d\u{61c}", "a\\u{202e}b\\u{2069}c\\u{200f}d\\u{61c}"),
            ("a\nb\rc\td\u{7f}\u{8}\0", "a\\nb\\rc\\td\\u{7f}\\u{8}\\u{0}"),
            ("a\u{2028}b", "a\\u{2028}b"),
        ] {
            assert_eq!(line(text), shown);
        }
        assert_eq!(lines("a\n\tb\r\u{1b}"), "a\n\tb\\r\\u{1b}");
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({ "a\u{9b}": "\u{1b}[2J\u{202e}\r\n\t\u{7f}\u{2028}é👩‍🚀" });
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap(), format!("\r\n{value}\r")] {
            let shown = json(&text);
            assert!(!shown.chars().any(|c| is_order(c) && c != '\n'), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
