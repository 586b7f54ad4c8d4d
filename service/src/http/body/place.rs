//! Finds the position of an error in a JSON text, such as `decisions[2].input`.

use std::fmt::Write as _;
use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::Error;

/// Maximum depth of a position. Source: `serde_json`, which parses no deeper values.
const DEPTH_MAX: usize = 128;

/// One step of a position: into a member of an object, or into an item of an array. A member has the range of its name
/// in the text, once that is known.
enum WayStep {
    Member(Option<Range<usize>>),
    Item(usize),
}

/// Returns the position of an error in the text. The position is empty if the error concerns the whole text.
pub(super) fn place(text: &[u8], error: &Error) -> String {
    // The line and column of an error are the position at which the parser stopped: after a rejected scalar, before an
    // unexpected object, or inside an unexpected array. If the text is not valid JSON, this position is after the
    // rejected byte.
    let lines = text.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let is_same = |other: Error| (other.line(), other.column()) == (error.line(), error.column());
    let is_no_json = history::read_json::<IgnoredAny>(text).is_err_and(is_same);
    let column = error.column().saturating_sub(usize::from(is_no_json));
    let read = lines.map(<[u8]>::len).sum::<usize>() + column;
    let (mut way, mut too_deep, mut at): (Vec<WayStep>, usize, usize) = (Vec::new(), 0, 0);
    let mut is_entered = true;
    while let Some(&byte) = text.get(at).filter(|_| at < read) {
        let end = if byte == b'"' { end_of_string(text, at) } else { at + 1 };
        match byte {
            b'{' | b'[' if way.len() == DEPTH_MAX => too_deep += 1,
            b'}' | b']' if too_deep > 0 => too_deep -= 1,
            b'{' => way.push(WayStep::Member(None)),
            b'[' => way.push(WayStep::Item(0)),
            b'}' | b']' => drop(way.pop()),
            b',' | b'"' if too_deep > 0 => {}
            _ => match way.last_mut() {
                Some(WayStep::Item(index)) if byte == b',' => *index += 1,
                Some(WayStep::Member(name)) if byte == b',' => *name = None,
                Some(WayStep::Member(name @ None)) if byte == b'"' => *name = Some(at..end),
                _ => {}
            },
        }
        is_entered = byte != b'[' && (is_entered || !byte.is_ascii_whitespace());
        at = end;
    }
    // The last byte that the parser has read is `[`. If an object or array follows, the parser has rejected this item
    // before entering it. Otherwise, the parser has rejected the array itself, right after its opening bracket. After
    // `[[`, both are possible, and the inner array is assumed to be the rejected value.
    if !is_entered && too_deep == 0 && !matches!(text.get(read), Some(b'{' | b'[')) {
        way.pop();
    }
    written(text, way)
}

/// Returns the end of the string that begins at `begin`. The end is the position after the closing quote.
fn end_of_string(text: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    loop {
        match text.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return at + 1,
            Some(_) => at += 1,
            None => return text.len(),
        }
    }
}

fn written(text: &[u8], way: Vec<WayStep>) -> String {
    let mut place = String::new();
    for step in way {
        match step {
            WayStep::Member(name) => {
                let name = name.and_then(|name| history::read_json::<String>(text.get(name)?).ok());
                let dot = if place.is_empty() || name.is_none() { "" } else { "." };
                place.extend([dot, &name.unwrap_or_default()]);
            }
            WayStep::Item(index) => drop(write!(place, "[{index}]")),
        }
    }
    place
}

#[cfg(test)]
mod tests;
