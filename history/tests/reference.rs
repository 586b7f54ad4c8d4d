//! Reference in `docs/decisions-and-events.md`, generated from the schemas and doc comments of the types.
//!
//! `BATON_DOCS=write cargo test -p baton-history --features schema --test reference` regenerates it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot continue has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use baton_history::event::NAMED_WHEN_READ;
use baton_history::{Decision, Event, EventKind};
use serde_json::{Map, Value};

/// Markers before and after the generated part.
const BEGIN: &str = "<!-- Generated from the code; see history/tests/reference.rs. -->\n";

/// One sample of each decision.
const DECISIONS: &[&str] = &[
    concat!(
        r#"{"type":"ScheduleActivity","activityId":"charge","activityType":"charge-card","taskList":"PCI","#,
        r#""input":{"order":42},"timeouts":{"startToClose":"PT1M"},"retry":{"maximumAttempts":5}}"#,
    ),
    r#"{"type":"CancelActivity","activityId":"charge"}"#,
    r#"{"type":"StartTimer","timerId":"reminder","after":"P14D"}"#,
    r#"{"type":"CancelTimer","timerId":"reminder"}"#,
    r#"{"type":"RecordMarker","name":"chosen-carrier","details":"ups"}"#,
    concat!(
        r#"{"type":"StartChild","workflowId":"invoice-42","workflowType":"invoice","input":{"order":42},"#,
        r#""childPolicy":"abandon"}"#,
    ),
    r#"{"type":"SignalExternal","workflowId":"warehouse","name":"reserve","input":{"order":42}}"#,
    r#"{"type":"CancelExternal","workflowId":"invoice-42","reason":"the order was withdrawn"}"#,
    r#"{"type":"SucceedWorkflow","result":{"receipt":"r-17"}}"#,
    r#"{"type":"FailWorkflow","reason":"card-declined","details":{"order":42}}"#,
    r#"{"type":"CancelWorkflow","details":"the customer thought again"}"#,
    r#"{"type":"ContinueAsNew","input":{"month":13}}"#,
];

/// The unusual payload of the golden files, and its replacement in the docs.
const PAYLOADS: (&str, &str) = (r#"{"b": 1.50, "a": [1e2, "é"]}"#, r#"{"order":42}"#);

struct Reference {
    definitions: Map<String, Value>,
    /// Types that tables refer to and that have no table yet.
    named: BTreeSet<String>,
}

impl Reference {
    fn of<T: schemars::JsonSchema>() -> (Self, Vec<Value>) {
        let mut schema = serde_json::to_value(schemars::schema_for!(T)).unwrap();
        let definitions = schema["$defs"].as_object().cloned().unwrap_or_default();
        let variants = schema["oneOf"].take();
        (Self { definitions, named: BTreeSet::new() }, variants.as_array().cloned().unwrap())
    }

    fn definition(&self, schema: &Value) -> Option<(&str, &Value)> {
        let name = schema["$ref"].as_str()?.strip_prefix("#/$defs/")?;
        self.definitions.get_key_value(name).map(|(name, schema)| (name.as_str(), schema))
    }

    /// Returns the name and description of a variant, and the schema with its fields.
    fn variant<'a>(&'a self, variant: &'a Value) -> (&'a str, &'a str, &'a Value) {
        let name = variant["properties"]["type"]["const"].as_str().unwrap();
        let fields = self.definition(variant).map_or(variant, |(_, schema)| schema);
        (name, variant["description"].as_str().or(fields["description"].as_str()).unwrap_or_default(), fields)
    }

    /// Returns the type of a field in a few words.
    fn kind(&mut self, schema: &Value) -> String {
        if let Some((name, definition)) = self.definition(schema) {
            let name = name.to_owned();
            if let Some(simple) = simple(definition) {
                return simple;
            }
            self.named.insert(name.clone());
            return format!("[`{name}`](#{})", name.to_lowercase());
        }
        if let Some(simple) = simple(schema) {
            return simple;
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(options) = schema[key].as_array() {
                if let Some(words) = constants(schema) {
                    return words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
                }
                let options: Vec<_> = options.iter().filter(|option| option["type"] != "null").cloned().collect();
                return options.iter().map(|option| self.kind(option)).collect::<Vec<_>>().join(" or ");
            }
        }
        if of_type(schema) == ["array"] {
            let items = schema["items"].clone();
            return format!("array of {}", self.kind(&items));
        }
        if let Some(fields) = schema["properties"].as_object() {
            let required = required(schema);
            let mark = |name: &String| if required.contains(name.as_str()) { "" } else { "?" };
            let fields: Vec<_> = fields.keys().map(|name| format!("{name}{}", mark(name))).collect();
            return format!("`{{{}}}`", fields.join(", "));
        }
        "any JSON".to_owned()
    }

    /// Returns a table of the fields of an object.
    fn table(&mut self, schema: &Value) -> String {
        let fields = schema["properties"].as_object().cloned().unwrap_or_default();
        let required = required(schema);
        let mut rows = String::new();
        let mut fields: Vec<_> = fields.iter().filter(|(name, _)| *name != "type").collect();
        // Required fields come first.
        fields.sort_by_key(|(name, _)| !required.contains(name.as_str()));
        for (name, field) in fields {
            let presence = if required.contains(name.as_str()) { "" } else { "?" };
            let kind = self.kind(field);
            let described = field["description"].as_str().unwrap_or_default();
            writeln!(rows, "| `{name}{presence}` | {kind} | {} |", plain(described)).unwrap();
        }
        if rows.is_empty() { String::new() } else { format!("| field | type | description |\n|---|---|---|\n{rows}\n") }
    }

    /// Returns the tables of all types that tables refer to, recursively.
    fn shapes(&mut self, done: &mut BTreeSet<String>) -> String {
        let mut text = String::new();
        while let Some(name) = self.named.pop_first() {
            if !done.insert(name.clone()) {
                continue;
            }
            let definition = self.definitions[&name].clone();
            let described = plain(definition["description"].as_str().unwrap_or_default());
            writeln!(text, "### {name}\n\n{}\n", wrapped(&described)).unwrap();
            match constants(&definition) {
                Some(words) => {
                    writeln!(text, "| value | description |\n|---|---|").unwrap();
                    for (word, what) in words {
                        writeln!(text, "| `{word}` | {} |", plain(what)).unwrap();
                    }
                    text.push('\n');
                }
                None => text += &self.table(&definition),
            }
        }
        text
    }
}

/// Returns the JSON types that a value may have, except `null`.
fn of_type(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).filter(|it| *it != "null").collect(),
        Value::String(it) => vec![it.as_str()],
        _ => Vec::new(),
    }
}

/// Returns the description of a type that needs no table.
fn simple(schema: &Value) -> Option<String> {
    let of_type = of_type(schema);
    let is_duration = schema["pattern"].as_str().is_some_and(|it| it.starts_with("^P"))
        || (of_type == ["string", "number"] && schema["examples"].is_array());
    let words = match (of_type.as_slice(), schema["format"].as_str()) {
        _ if is_duration => "duration",
        (["string"], Some("uuid")) => "UUID",
        (["string"], Some("date-time")) => "time",
        (["string"], _) if schema["const"].is_string() => return None,
        (["string"], _) if schema["enum"].is_array() => return None,
        (["string"], _) => "text",
        (["integer" | "number"], _) => "number",
        (["boolean"], _) => "`true` or `false`",
        _ => return None,
    };
    Some(words.to_owned())
}

/// Returns the values of an enumeration with their descriptions.
fn constants(schema: &Value) -> Option<Vec<(&str, &str)>> {
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| Some((word.as_str()?, ""))).collect();
    }
    let options = schema["oneOf"].as_array()?;
    options.iter().map(|it| Some((it["const"].as_str()?, it["description"].as_str().unwrap_or_default()))).collect()
}

fn required(schema: &Value) -> BTreeSet<&str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Formats a description for a table cell: on one line, and without rustdoc links.
fn plain(described: &str) -> String {
    described.replace('\n', " ").replace('|', "\\|").replace("[`", "`").replace("`]", "`")
}

/// Breaks a paragraph into lines of at most 120 characters.
fn wrapped(paragraph: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > 120 {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text += word;
        width += length;
    }
    text
}

/// Returns the golden file of an event without rarely used attributes.
fn example(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/json");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    let text = text.trim().replace(PAYLOADS.0, PAYLOADS.1);
    let text = text.replace(r#","requestKey":"ffffffffffffffff""#, "");
    let text = if name == "WorkflowStarted" { text.replace(r#""id":300"#, r#""id":1"#) } else { text };
    let event: Event = serde_json::from_str(&text).unwrap();
    assert_eq!(event.kind.name(), name);
    text
}

/// Returns a sentence about the effect of each event.
fn effects() -> BTreeMap<&'static str, &'static str> {
    let mut effects = BTreeMap::new();
    for name in EventKind::NAMES {
        let event: Event = serde_json::from_str(&example(name)).unwrap();
        effects.insert(*name, if event.kind.schedules_decider() { " A turn follows." } else { "" });
    }
    effects
}

fn reference() -> String {
    let mut text = String::new();
    let mut done = BTreeSet::new();
    text += "## All decisions\n\n`?` marks a field that may be absent. Decisions with unknown fields are refused.\n\n";
    let (mut decisions, variants) = Reference::of::<Decision>();
    let names: Vec<_> = variants.iter().map(|variant| decisions.variant(variant).0).collect();
    assert_eq!(names, Decision::NAMES);
    for (variant, example) in variants.iter().zip(DECISIONS) {
        let (name, described, fields) = decisions.variant(variant);
        let fields = fields.clone();
        assert_eq!(serde_json::from_str::<Decision>(example).unwrap().name(), name);
        let described = wrapped(&plain(described));
        writeln!(text, "### {name}\n\n{described}\n\n```json\n{example}\n```\n").unwrap();
        text += &decisions.table(&fields);
    }
    let intro = "Every event has `id` (1, 2, 3, …), `timestamp` and `type`. If a request has an idempotency key, the \
                 first event that it records also has `requestKey`. If credentials are configured, `by` is [the name \
                 of the caller's credential](access.md#callers-in-events). `?` marks a field that may be absent. *A \
                 turn follows* means that the service schedules a turn after the event, if the run has no waiting \
                 turn.";
    writeln!(text, "## All events\n\n{}\n", wrapped(intro)).unwrap();
    let (mut events, variants) = Reference::of::<Event>();
    let names: Vec<_> = variants.iter().map(|variant| events.variant(variant).0).collect();
    assert_eq!(names, EventKind::NAMES);
    let effects = effects();
    for variant in &variants {
        let (name, described, fields) = events.variant(variant);
        let fields = fields.clone();
        let effect = effects[name];
        let described = wrapped(&format!("{}{effect}", plain(described)));
        writeln!(text, "### {name}\n\n{described}\n\n```json\n{}\n```\n", example(name)).unwrap();
        text += &events.table(&fields);
    }
    text += "## Shapes and causes\n\n";
    text += &decisions.shapes(&mut done);
    text += &events.shapes(&mut done);
    text.truncate(text.trim_end().len());
    text + "\n"
}

#[test]
fn the_reference_in_the_docs_matches_the_code() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/decisions-and-events.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (guide, found) = page.split_once(BEGIN).expect("the page has a generated part");
    let expected = format!("\n{}", reference());
    if std::env::var("BATON_DOCS").is_ok_and(|value| value == "write") {
        std::fs::write(&path, format!("{guide}{BEGIN}{expected}")).unwrap();
    } else {
        let differs = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
        assert!(
            found == expected,
            "docs/decisions-and-events.md differs from the code, first at {differs:?}; \
             `BATON_DOCS=write cargo test -p baton-history --features schema --test reference` writes it"
        );
    }
}

/// The examples of the guide are copied by readers, so they must be valid.
#[test]
fn decisions_in_the_guides_can_be_read() {
    let mut read = 0;
    for page in ["deciders.md", "model.md"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
        let page = std::fs::read_to_string(path).unwrap();
        for block in page.split("```json\n").skip(1) {
            let (text, _) = block.split_once("```").unwrap();
            let body: Value = serde_json::from_str(text).unwrap();
            for decision in body["decisions"].as_array().into_iter().flatten() {
                serde_json::from_value::<Decision>(decision.clone()).unwrap();
                read += 1;
            }
        }
    }
    assert!(read >= 3, "the guides show decisions");
}

/// A stored form is only tested if a sample uses it.
#[test]
fn samples_cover_present_and_absent_attributes() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/json");
    let files = std::fs::read_dir(folder).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let samples: Vec<Map<String, Value>> = files.map(|text| serde_json::from_str(&text).unwrap()).collect();
    let (events, variants) = Reference::of::<Event>();
    let mut missing = Vec::new();
    for variant in &variants {
        let (name, _, fields) = events.variant(variant);
        let of_kind: Vec<_> = samples.iter().filter(|sample| sample["type"] == name).collect();
        let required = required(fields);
        for (attribute, schema) in fields["properties"].as_object().into_iter().flatten() {
            let with = of_kind.iter().filter(|sample| sample.contains_key(attribute)).count();
            // This field is added when the event is read, and is not stored.
            if attribute == "activityId" && NAMED_WHEN_READ.contains(&name) {
                continue;
            }
            // Fields with a default are always written.
            let may_be_absent = !required.contains(attribute.as_str()) && schema.get("default").is_none();
            if with == 0 || (may_be_absent && with == of_kind.len()) {
                missing.push(format!("{name}.{attribute}: {with} of {}", of_kind.len()));
            }
        }
    }
    assert!(missing.is_empty(), "golden/json lacks samples: {missing:#?}");
}
