//! Comparison of JSON texts by content. White space, escapes and the order of an object's fields do not matter. Numbers
//! are equal only if they are written in the same way, because JSON parsers treat `1.0` and `1`, or numbers beyond
//! 2^53, differently.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Nesting depth beyond which values are compared as texts. Chosen: twice the limit for payloads.
const DEPTH_MAX: usize = 2 * crate::limits::PAYLOAD_DEPTH_MAX;

/// Returns `true` if two JSON texts have the same content. A text that is not JSON equals only itself.
pub fn same_json(one: &str, other: &str) -> bool {
    same(one.trim(), other.trim(), DEPTH_MAX)
}

/// Name and value of a field of an object.
pub(crate) type Member<'a> = (Vec<u8>, &'a str);

/// Returns the fields of an object, sorted by name. Fields of the same name keep their order. Returns `None` if the
/// text is not an object.
pub(crate) fn members(json: &str) -> Option<Vec<Member<'_>>> {
    let Members(mut members) = serde_json::from_str(json).ok()?;
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    Some(members)
}

fn same(one: &str, other: &str, depth: usize) -> bool {
    if one == other {
        return true;
    }
    let Some(depth) = depth.checked_sub(1) else { return false };
    match (one.as_bytes().first(), other.as_bytes().first()) {
        (Some(b'{'), Some(b'{')) => members(one).zip(members(other)).is_some_and(|(one, other)| {
            let is_same =
                |((name, one), (of, other)): (&Member<'_>, &Member<'_>)| name == of && same(one, other, depth);
            one.len() == other.len() && one.iter().zip(&other).all(is_same)
        }),
        (Some(b'['), Some(b'[')) => items(one).zip(items(other)).is_some_and(|(one, other)| {
            one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| same(one.get(), other.get(), depth))
        }),
        (Some(b'"'), Some(b'"')) => text(one).zip(text(other)).is_some_and(|(one, other)| one == other),
        _ => false,
    }
}

fn items(json: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json).ok()
}

/// Returns the content of a JSON string. Lone surrogates, which UTF-8 cannot represent, are encoded as in WTF-8.
fn text(json: &str) -> Option<Vec<u8>> {
    serde_json::from_str(json).ok().map(|Text(bytes)| bytes)
}

struct Text(Vec<u8>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl Visitor<'_> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(bytes.to_vec()))
            }
        }

        deserializer.deserialize_bytes(TextVisitor)
    }
}

struct Members<'a>(Vec<Member<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(name), value)) = map.next_entry::<Text, &RawValue>()? {
                    members.push((name, value.get()));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_escapes_and_member_order_do_not_matter() {
        for (one, other) in [
            ("1", " 1\n"),
            (r#"{"a":[1,{"b":null}]}"#, "{ \"a\" :\r\n\t[ 1 , { \"b\" : null } ] }"),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
            (r#""é/😀""#, r#""\u00E9\/\ud83d\ude00""#),
            (r#"{"é":1}"#, r#"{"\u00e9":1}"#),
            (r#"["\ud800","\n"]"#, r#"[ "\uD800" , "\u000a" ]"#),
            (r#"{"\ud800":1}"#, r#"{ "\uD800" : 1 }"#),
            (r#"{"a":1,"a":2}"#, r#"{ "a":1, "a":2 }"#),
        ] {
            assert!(same_json(one, other) && same_json(other, one), "{one} and {other}");
        }
    }

    #[test]
    fn all_other_differences_matter() {
        for (one, other) in [
            ("1", "1.0"),
            ("0", "-0"),
            ("9007199254740992", "9007199254740993"),
            ("1e400", "1e401"),
            ("1", "\"1\""),
            ("null", "false"),
            ("[]", "{}"),
            ("[1,2]", "[2,1]"),
            ("[1]", "[1,1]"),
            (r#"{"a":1}"#, r#"{"a":1,"b":1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#""\ud800""#, r#""\ud801""#),
            (r#""\ud800""#, "\"\u{fffd}\""),
            (r#""\ud800\u0020\udc00""#, r#""\ud800\udc00""#),
            (r#"" a""#, r#""a""#),
            (r#"{"a":" "}"#, r#"{"a":"  "}"#),
            ("{", " [ "),
        ] {
            assert!(!same_json(one, other) && !same_json(other, one), "{one} and {other}");
        }
    }

    #[test]
    fn deeply_nested_values_are_compared_as_text() {
        let nested = |levels: usize, inner: &str| format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(same_json(&nested(DEPTH_MAX - 1, "[1]"), &nested(DEPTH_MAX - 1, "[ 1 ]")));
        assert!(!same_json(&nested(DEPTH_MAX, "[1]"), &nested(DEPTH_MAX, "[ 1 ]")));
        let deep = nested(100_000, "");
        assert!(same_json(&deep, &deep));
        assert!(!same_json(&deep, &nested(100_000, " ")));
    }
}
