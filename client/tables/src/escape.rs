//! Escaping of text for a terminal. Names, reasons and payloads may contain control characters that a terminal
//! interprets, or characters that change what is displayed.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns true for characters that a terminal interprets instead of displaying them: control characters (including
/// ESC and DEL), changes of text direction, and line separators.
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

/// Escapes a text for one line. Line breaks and tabs become `\n`, `\r` and `\t`. Other characters that a terminal
/// interprets become escapes such as `\u{1b}`.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false, as_people_write)
}

/// Escapes each line of a text like [`line()`], but keeps line breaks and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'), as_people_write)
}

/// Returns equivalent JSON in which characters that a terminal would interpret are written as JSON escapes.
pub fn json(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |c| matches!(c, '\n' | '\t'),
        |shown, c| match c {
            // A raw carriage return can only be whitespace between tokens, because within a string it is already
            // escaped.
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
    fn only_terminal_control_characters_are_escaped() {
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
