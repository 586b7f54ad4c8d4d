//! Parses requests into JSON values. Only members that the operation has are kept, and only as many list entries as can
//! be used. Without these limits, a request could take much more memory than its size. Each small member of a map takes
//! hundreds of bytes, and a request of 1 MiB can contain a hundred thousand members. `shape.rs` checks the parsed
//! values.

use std::fmt;

use history::bounded::take;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::shape::{Field, Shape, is_attributes_of};

/// Memory of an object with a few members, in bytes. Our choice: the size of one `BTreeMap` node, which has space for
/// eleven names and values.
const OBJECT_BYTES: usize = 640;

/// Parses a request with these fields. A value of the wrong kind is kept, but without its content, so that `shape.rs`
/// can report it.
pub(super) fn request(fields: &'static [Field], bytes: &[u8]) -> serde_json::Result<Map<String, Value>> {
    let text = std::str::from_utf8(bytes).map_err(serde_json::Error::custom)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let members = reader.deserialize_map(GroupVisitor(fields))?;
    reader.end()?;
    Ok(members)
}

struct GroupVisitor(&'static [Field]);

impl<'de> Visitor<'de> for GroupVisitor {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a structure")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
        group(self.0, members)
    }
}

/// Parses the members of a structure. If a member is duplicated, the last one is used.
fn group<'de, A: MapAccess<'de>>(fields: &'static [Field], mut members: A) -> Result<Map<String, Value>, A::Error> {
    let mut read = Map::new();
    while let Some(name) = members.next_key::<String>()? {
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            members.next_value::<IgnoredAny>()?;
            continue;
        };
        if read.is_empty() {
            take(OBJECT_BYTES)?;
        }
        read.insert(name, members.next_value_seed(ValueReader(field.shape))?);
    }
    Ok(read)
}

/// Deserializer of a value of this shape.
struct ValueReader(&'static Shape);

impl<'de> DeserializeSeed<'de> for ValueReader {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueReader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        if let Shape::List { of, read: max, .. } = self.0 {
            while read.len() < *max {
                take(size_of::<Value>())?;
                let Some(entry) = entries.next_element_seed(ValueReader(of))? else {
                    read.shrink_to_fit();
                    return Ok(Value::Array(read));
                };
                read.push(entry);
            }
            read.shrink_to_fit();
        }
        while entries.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        match self.0 {
            Shape::Group(fields) => group(fields, members).map(Value::Object),
            Shape::Decision(fields) => {
                let mut decision = group(fields, members)?;
                // Attributes of other types of decisions are removed. They may precede the type in the request, so they
                // can be removed only after all members were read.
                let kind = decision.get("decisionType").and_then(Value::as_str).unwrap_or_default().to_owned();
                decision.retain(|name, _| name == "decisionType" || is_attributes_of(name, &kind));
                Ok(Value::Object(decision))
            }
            _ => {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Value::Object(Map::new()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::swf::operations::Operation;

    fn read(operation: &str, text: &str) -> serde_json::Result<Value> {
        let fields = Operation::named(operation).unwrap().fields();
        request(fields, text.as_bytes()).map(Value::Object)
    }

    #[test]
    fn members_that_the_operation_has_are_kept() {
        let text = r#" {"domain":"d","nope":[{"a":1}],"taskList":{"name":"l","of":{"x":[]}},"taskList":{"name":"m"}} "#;
        let expected = json!({ "domain": "d", "taskList": { "name": "m" } });
        assert_eq!(read("PollForActivityTask", text).unwrap(), expected);
    }

    #[test]
    fn a_value_of_another_kind_is_kept_without_its_content() {
        let text = concat!(
            r#"{"domain":[1,[2]],"taskList":[{"name":"l"}],"identity":{"a":1},"#,
            r#""maximumPageSize":-1.5,"reverseOrder":null}"#
        );
        let expected = json!({
            "domain": [], "taskList": [], "identity": {}, "maximumPageSize": -1.5, "reverseOrder": null,
        });
        assert_eq!(read("PollForDecisionTask", text).unwrap(), expected);
    }

    #[test]
    fn a_decision_has_the_attributes_of_its_type() {
        let decision = json!({
            "cancelTimerDecisionAttributes": { "timerId": "t" },
            "startTimerDecisionAttributes": { "timerId": "t" },
            "decisionType": "StartTimer",
        });
        let text = json!({ "taskToken": "t", "decisions": [decision, 1, null, {}] }).to_string();
        let kept = json!({ "decisionType": "StartTimer", "startTimerDecisionAttributes": { "timerId": "t" } });
        let expected = json!({ "taskToken": "t", "decisions": [kept, 1, null, {}] });
        assert_eq!(read("RespondDecisionTaskCompleted", &text).unwrap(), expected);
    }

    #[test]
    fn a_list_keeps_one_entry_more_than_its_limit() {
        for (operation, member, max) in [
            ("RespondDecisionTaskCompleted", "decisions", history::limits::DECISIONS_MAX),
            ("StartWorkflowExecution", "tagList", history::limits::TAGS_MAX),
            ("TagResource", "tags", history::limits::DOMAIN_TAGS_MAX),
            ("UntagResource", "tagKeys", history::limits::DOMAIN_TAGS_MAX),
        ] {
            for (found, kept) in [(max, max), (max + 1, max + 1), (max + 2, max + 1), (3 * max, max + 1)] {
                let text = json!({ member: vec![json!(null); found] }).to_string();
                assert_eq!(read(operation, &text).unwrap()[member].as_array().unwrap().len(), kept);
            }
        }
    }

    #[test]
    fn text_that_is_not_one_object_is_refused() {
        for text in ["", "[]", "1", "{}{}", r#"{"domain":}"#, r#"{"nope":[1,}"#, r#"{"domain":"d""#] {
            assert!(read("DescribeDomain", text).is_err(), "{text}");
        }
    }
}
