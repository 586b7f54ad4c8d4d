//! Named schemas of the `OpenAPI` document. They are converted to a form that client generators understand:
//!
//! * one map for request and response schemas
//! * enumerations as plain lists of values
//! * unions of named variants with a discriminator

use std::collections::{BTreeMap, BTreeSet};

use schemars::Schema;
use serde_json::{Map, Value, json};

/// Path of the named schemas in the `OpenAPI` document.
const SCHEMAS: &str = "#/components/schemas/";

/// Temporary path of the response schemas, until they are merged with the request schemas.
const ANSWERS: &str = "#/components/answers/";

/// Member that distinguishes the variants of a union.
const TAG: &str = "type";

/// Suffix for the name of a response schema that differs from the request schema of the same name.
const OF_ANSWERS: &str = "Output";

/// Simplifies a schema. Replaces the schema `true` by an empty one, and converts an enumeration to a list of values.
pub(crate) fn plain(schema: &mut Schema) {
    if schema.as_bool() == Some(true) {
        *schema = Schema::from(Map::new());
    }
    let Some(members) = schema.as_object_mut() else { return };
    // The value `true` is the default of `additionalProperties`, so the member can be omitted.
    if members.get("additionalProperties") == Some(&Value::Bool(true)) {
        members.remove("additionalProperties");
    }
    let Some((words, meanings)) = members.get("oneOf").and_then(Value::as_array).and_then(|all| enumeration(all))
    else {
        return;
    };
    let own = members.get("description").and_then(Value::as_str);
    let description: Vec<&str> = own.into_iter().chain([meanings.as_str()]).filter(|part| !part.is_empty()).collect();
    let description = description.join("\n\n");
    members.remove("oneOf");
    members.insert("type".to_owned(), "string".into());
    members.insert("enum".to_owned(), words.into());
    members.insert("description".to_owned(), description.into());
}

/// Returns the values of an enumeration, and a text with the descriptions of the values.
fn enumeration(variants: &[Value]) -> Option<(Vec<Value>, String)> {
    let (mut words, mut meanings) = (Vec::new(), Vec::new());
    for variant in variants {
        let of_variant = match (variant.get("const"), variant.get("enum").and_then(Value::as_array)) {
            (Some(word), _) => vec![word.clone()],
            (None, Some(words)) => words.clone(),
            (None, None) => return None,
        };
        if let (Some(meaning), [Value::String(word)]) = (variant.get("description"), of_variant.as_slice()) {
            meanings.push(format!("* `{word}`: {}", meaning.as_str().unwrap_or_default()));
        }
        words.extend(of_variant);
    }
    Some((words, meanings.join("\n")))
}

/// Merges request and response schemas into one map. Updates the references in `users`, the parts of the document that
/// refer to schemas. Removes schemas to which `users` do not refer.
pub(crate) fn combine<const N: usize>(
    requests: Map<String, Value>,
    answers: Map<String, Value>,
    users: [&mut Value; N],
) -> Map<String, Value> {
    let differing = differing(&requests, &answers);
    let moved = |reference: &str| {
        let name = reference.strip_prefix(ANSWERS)?;
        let suffix = if differing.contains(name) { OF_ANSWERS } else { "" };
        Some(format!("{SCHEMAS}{name}{suffix}"))
    };
    let mut schemas = requests;
    for (name, mut schema) in answers {
        redirect(&mut schema, &moved);
        let suffix = if differing.contains(&name) { OF_ANSWERS } else { "" };
        schemas.insert(format!("{name}{suffix}"), schema);
    }
    name_variants(&mut schemas);
    let (mut used, mut next) = (BTreeSet::new(), Vec::new());
    for user in users {
        redirect(user, &moved);
        next.extend(references(user));
    }
    while let Some(name) = next.pop() {
        if let Some(schema) = schemas.get(&name).filter(|_| used.insert(name)) {
            next.extend(references(schema));
        }
    }
    schemas.retain(|name, _| used.contains(name));
    schemas
}

/// Returns the names of schemas that differ between requests and responses. A schema also differs if it refers to a
/// schema that differs.
fn differing(requests: &Map<String, Value>, answers: &Map<String, Value>) -> BTreeSet<String> {
    let beside = |reference: &str| reference.strip_prefix(ANSWERS).map(|name| format!("{SCHEMAS}{name}"));
    let mut differing = BTreeSet::new();
    let mut equal: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (name, schema) in requests {
        let Some(mut other) = answers.get(name).cloned() else { continue };
        redirect(&mut other, &beside);
        if other == *schema {
            equal.insert(name, references(schema));
        } else {
            differing.insert(name.clone());
        }
    }
    loop {
        let is_differing = |within: &Vec<String>| within.iter().any(|name| differing.contains(name));
        let more: Vec<String> =
            equal.iter().filter(|(_, within)| is_differing(within)).map(|(name, _)| (*name).clone()).collect();
        if more.is_empty() {
            return differing;
        }
        equal.retain(|name, _| !more.contains(name));
        differing.extend(more);
    }
}

/// Gives each variant of a union a complete schema, whose name consists of the names of the variant and the union.
fn name_variants(schemas: &mut Map<String, Value>) {
    let unions: Vec<(String, Vec<(String, Value)>)> =
        schemas.iter().filter_map(|(name, schema)| Some((name.clone(), variants(schema)?))).collect();
    for (union, variants) in unions {
        let Some(Value::Object(mut common)) = schemas.remove(&union) else { continue };
        common.remove("oneOf");
        let description = common.remove("description").unwrap_or_default();
        let mut mapping = Map::new();
        for (tag, variant) in variants {
            let attributes = variant.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix(SCHEMAS));
            let mut whole = attributes.and_then(|name| schemas.get(name)).cloned().unwrap_or_else(|| json!({}));
            merge(&mut whole, &variant);
            merge(&mut whole, &Value::Object(common.clone()));
            let name = format!("{tag}{union}");
            mapping.insert(tag, format!("{SCHEMAS}{name}").into());
            schemas.insert(name, whole);
        }
        let one_of: Vec<Value> = mapping.values().map(|reference| json!({ "$ref": reference })).collect();
        let discriminator = json!({ "propertyName": TAG, "mapping": mapping });
        let schema = json!({ "description": description, "oneOf": one_of, "discriminator": discriminator });
        schemas.insert(union, schema);
    }
}

/// Returns the variants of a union of objects with their discriminator values; `None` if the schema is not a union of
/// objects with a discriminator.
fn variants(schema: &Value) -> Option<Vec<(String, Value)>> {
    let tag = |variant: &Value| Some(variant.pointer(&format!("/properties/{TAG}/const"))?.as_str()?.to_owned());
    schema.get("oneOf")?.as_array()?.iter().map(|variant| Some((tag(variant)?, variant.clone()))).collect()
}

/// Adds the members of the object `more` to the object `into`. Properties and lists of required properties are
/// combined. Every other member of `more` replaces the member of the same name.
fn merge(into: &mut Value, more: &Value) {
    let (Some(into), Some(more)) = (into.as_object_mut(), more.as_object()) else { return };
    for (member, value) in more {
        match (member.as_str(), into.get_mut(member), value) {
            ("$ref", ..) => {}
            ("properties", Some(Value::Object(properties)), Value::Object(others)) => {
                properties.extend(others.clone());
            }
            ("required", Some(Value::Array(names)), Value::Array(others)) => {
                names.extend(others.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
            }
            _ => {
                into.insert(member.clone(), value.clone());
            }
        }
    }
}

/// Replaces each reference in a value for which `to` returns a new reference.
fn redirect(value: &mut Value, to: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(other) = to(reference)
            {
                *reference = other;
            }
            members.values_mut().for_each(|member| redirect(member, to));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redirect(item, to)),
        _ => {}
    }
}

/// Returns the names of all schemas to which a value refers.
fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix(SCHEMAS));
            own.map(str::to_owned).into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
