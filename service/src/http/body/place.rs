//! Where in a JSON text an error is, as people write it: `decisions[2].input`.

use std::fmt::Write as _;
use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::Error;

/// How deep a place may be: what is deeper is read by nothing that looks at it. Source: `serde_json`.
const DEPTH_MAX: usize = 128;

/// One step down: to a member of an object, once it is known where its name is written, or to an item of an array.
enum WayStep {
    Member(Option<Range<usize>>),
    Item(usize),
}

/// The place that an error is about, in the text that was read. Empty where that is all of it.
pub(super) fn place(text: &[u8], error: &Error) -> String {
    // The reader stopped at the end of what it was not content with, or in front of an object or in an array that it did not expect.
    // What is no JSON at all it has looked at, too.
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
    // In front of an object or an array, or in an array that nobody wants to enter. Of `[[` the inner one is taken to be meant.
    if !is_entered && too_deep == 0 && !matches!(text.get(read), Some(b'{' | b'[')) {
        way.pop();
    }
    written(text, way)
}

/// Behind the text that begins here, with its quotes.
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
