//! Lists and maps in the schemas of requests, and bodies full of their smallest entries.

use std::fmt;
use std::fmt::Write as _;

use serde_json::Value;

/// Maximum depth, which ends recursive schemas.
const DEPTH_MAX: usize = 14;

/// One step from a schema to a nested one.
#[derive(Debug, Clone)]
enum Step {
    /// To the schema of a member.
    Member(String),
    /// To one of several schemas.
    Variant(usize),
    /// To the entries of a list with this maximum.
    Entries { max: Option<usize> },
    /// To the values of a map with this maximum.
    Values { max: Option<usize> },
}

/// List or map of a request, by the path to its entries.
pub(crate) struct List {
    way: Vec<Step>,
    /// Number of the entries' variant.
    entry: usize,
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.way {
            match step {
                Step::Member(name) => write!(f, ".{name}")?,
                Step::Variant(at) => write!(f, "<{at}>")?,
                Step::Entries { .. } => f.write_str("[]")?,
                Step::Values { .. } => f.write_str("{}")?,
            }
        }
        write!(f, " entry {}", self.entry)
    }
}

/// The schema, with a reference resolved.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => resolved(document, document.pointer(&reference[1..]).unwrap()),
        None => schema,
    }
}

fn variants(schema: &Value) -> Option<&Vec<Value>> {
    ["oneOf", "anyOf"].iter().find_map(|name| schema[*name].as_array())
}

fn is_of(schema: &Value, kind: &str) -> bool {
    let found = &schema["type"];
    found == kind || found.as_array().is_some_and(|kinds| kinds.iter().any(|found| found == kind))
}

fn count(value: &Value) -> Option<usize> {
    value.as_u64().map(|count| usize::try_from(count).unwrap())
}

/// Every list and map of this schema, for each variant of its entries.
pub(crate) fn lists(document: &Value, schema: &Value) -> Vec<List> {
    let mut found = Vec::new();
    walk(document, schema, &mut Vec::new(), &mut found);
    found
}

fn walk(document: &Value, schema: &Value, way: &mut Vec<Step>, found: &mut Vec<List>) {
    let schema = resolved(document, schema);
    if way.len() > DEPTH_MAX {
        return;
    }
    let mut enter = |step: Step, inner: &Value, is_list: bool| {
        way.push(step);
        if is_list {
            let entries = smallest(document, inner).len();
            found.extend((0..entries).map(|entry| List { way: way.clone(), entry }));
        }
        walk(document, inner, way, found);
        way.pop();
    };
    for (at, variant) in variants(schema).into_iter().flatten().enumerate() {
        enter(Step::Variant(at), variant, false);
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        enter(Step::Member(name.clone()), member, false);
    }
    if is_of(schema, "array") {
        enter(Step::Entries { max: count(&schema["maxItems"]) }, &schema["items"], true);
    }
    if schema["additionalProperties"].is_object() {
        enter(Step::Values { max: count(&schema["maxProperties"]) }, &schema["additionalProperties"], true);
    }
}

/// The smallest values of a schema as JSON, one for each of its variants.
fn smallest(document: &Value, schema: &Value) -> Vec<String> {
    let schema = resolved(document, schema);
    if let Some(variants) = variants(schema) {
        return variants.iter().flat_map(|variant| smallest(document, variant)).collect();
    }
    let one = if !schema["const"].is_null() {
        schema["const"].to_string()
    } else if let Some(words) = schema["enum"].as_array() {
        words[0].to_string()
    } else if is_of(schema, "object") {
        object(document, schema, None)
    } else if is_of(schema, "array") {
        "[]".to_owned()
    } else if is_of(schema, "integer") || is_of(schema, "number") {
        schema["minimum"].as_i64().unwrap_or(0).to_string()
    } else if is_of(schema, "boolean") {
        "false".to_owned()
    } else if is_of(schema, "string") {
        match schema["format"].as_str() {
            Some("uuid") => r#""00000000-0000-0000-0000-000000000000""#.to_owned(),
            Some("date-time") => r#""2026-01-01T00:00:00Z""#.to_owned(),
            Some("duration") => r#""PT1S""#.to_owned(),
            _ => r#""""#.to_owned(),
        }
    } else {
        "0".to_owned()
    };
    vec![one]
}

/// An object with its required members and this one.
fn object(document: &Value, schema: &Value, with: Option<(&str, String)>) -> String {
    let required = schema["required"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap());
    let others = required.filter(|name| with.as_ref().is_none_or(|(with, _)| with != name));
    let mut members: Vec<String> =
        others.map(|name| format!(r#""{name}":{}"#, smallest(document, &schema["properties"][name])[0])).collect();
    if let Some((name, value)) = with {
        members.push(format!(r#""{name}":{value}"#));
    }
    format!("{{{}}}", members.join(","))
}

/// Choice of the list that fills a body, if several are nested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// None: each has one entry.
    Nothing,
    /// The outermost list. Lists in its entries have their maximum length.
    Outermost,
    /// The innermost list. The others have one entry.
    Innermost,
}

fn is_list(step: &Step) -> bool {
    matches!(step, Step::Entries { .. } | Step::Values { .. })
}

impl List {
    /// Whether each list on the path has a maximum.
    pub(crate) fn is_bounded(&self) -> bool {
        self.way.iter().all(|step| !matches!(step, Step::Entries { max: None } | Step::Values { max: None }))
    }

    /// A body of this schema with at most `room` bytes.
    pub(crate) fn body(&self, document: &Value, schema: &Value, fill: Fill, room: usize) -> String {
        // Leaves room for the members around the lists.
        self.value(document, schema, &self.way, fill, room.saturating_sub(512))
    }

    fn value(&self, document: &Value, schema: &Value, way: &[Step], fill: Fill, room: usize) -> String {
        let schema = resolved(document, schema);
        let Some((step, rest)) = way.split_first() else { return smallest(document, schema)[self.entry].clone() };
        let is_first = !self.way[..self.way.len() - way.len()].iter().any(is_list);
        let is_last = !rest.iter().any(is_list);
        let may_have = |max: &Option<usize>| match fill {
            Fill::Outermost if is_first => usize::MAX,
            Fill::Outermost => max.unwrap_or(usize::MAX),
            Fill::Innermost if is_last => usize::MAX,
            Fill::Innermost | Fill::Nothing => 1,
        };
        match step {
            Step::Variant(at) => self.value(document, &variants(schema).unwrap()[*at], rest, fill, room),
            Step::Member(name) => {
                let member = self.value(document, &schema["properties"][name], rest, fill, room);
                object(document, schema, Some((name, member)))
            }
            Step::Entries { max } => {
                let entry = self.value(document, &schema["items"], rest, fill, room);
                let count = (room / (entry.len() + 1)).min(may_have(max)).max(1);
                format!("[{}]", vec![entry; count].join(","))
            }
            Step::Values { max } => {
                let value = self.value(document, &schema["additionalProperties"], rest, fill, room);
                let (mut entries, mut at) = (format!(r#""0":{value}"#), 1);
                while at < may_have(max) && entries.len() + value.len() + 12 < room {
                    let _ = write!(entries, r#","{at:x}":{value}"#);
                    at += 1;
                }
                format!("{{{entries}}}")
            }
        }
    }
}
