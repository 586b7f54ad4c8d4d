//! The `OpenAPI` document compared with the router. `contract.rs` compares it with responses.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{Api, Ask, writes_docs};

async fn document(api: &Api) -> Value {
    api.get("/openapi.json").await.json(200)
}

/// A path of the document with values for its variable segments.
fn filled(path: &str) -> String {
    path.split('/')
        .map(|segment| if segment.starts_with('{') { "default" } else { segment })
        .collect::<Vec<_>>()
        .join("/")
}

#[tokio::test]
async fn the_document_names_these_calls() {
    let api = Api::open().await;
    let document = document(&api).await;
    let mut calls = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        calls.extend(methods.as_object().unwrap().keys().map(|method| format!("{method} {path}")));
    }
    calls.sort();
    let expected = [
        "delete /v1/domains/{domain}",
        "delete /v1/domains/{domain}/activity-types/{type}",
        "delete /v1/domains/{domain}/batches/{id}",
        "delete /v1/domains/{domain}/limit-groups/{group}",
        "delete /v1/domains/{domain}/schedules/{id}",
        "delete /v1/domains/{domain}/workflow-types/{type}",
        "delete /v1/domains/{domain}/workflows/{id}",
        "delete /v1/session",
        "get /healthz",
        "get /metrics",
        "get /openapi.json",
        "get /readyz",
        "get /v1/audit",
        "get /v1/changes",
        "get /v1/credentials",
        "get /v1/decider-tasks/{token}/history",
        "get /v1/domains",
        "get /v1/domains/{domain}",
        "get /v1/domains/{domain}/activity-types",
        "get /v1/domains/{domain}/activity-types/{type}",
        "get /v1/domains/{domain}/batches",
        "get /v1/domains/{domain}/batches/{id}",
        "get /v1/domains/{domain}/changes",
        "get /v1/domains/{domain}/failures",
        "get /v1/domains/{domain}/late-runs",
        "get /v1/domains/{domain}/limit-groups",
        "get /v1/domains/{domain}/limit-groups/{group}",
        "get /v1/domains/{domain}/schedules",
        "get /v1/domains/{domain}/schedules/{id}",
        "get /v1/domains/{domain}/schedules/{id}/next",
        "get /v1/domains/{domain}/task-lists",
        "get /v1/domains/{domain}/task-lists/{list}",
        "get /v1/domains/{domain}/workflow-count",
        "get /v1/domains/{domain}/workflow-types",
        "get /v1/domains/{domain}/workflow-types/{type}",
        "get /v1/domains/{domain}/workflows",
        "get /v1/domains/{domain}/workflows/{id}",
        "get /v1/domains/{domain}/workflows/{id}/activities/{activity}/output",
        "get /v1/domains/{domain}/workflows/{id}/history",
        "get /v1/domains/{domain}/workflows/{id}/result",
        "get /v1/nodes",
        "get /v1/session",
        "patch /v1/domains/{domain}",
        "post /v1/activity-tasks/{token}/canceled",
        "post /v1/activity-tasks/{token}/failure",
        "post /v1/activity-tasks/{token}/heartbeat",
        "post /v1/activity-tasks/{token}/output",
        "post /v1/activity-tasks/{token}/success",
        "post /v1/clock/confirm",
        "post /v1/decider-tasks/{token}/complete",
        "post /v1/decider-tasks/{token}/fail",
        "post /v1/domains",
        "post /v1/domains/{domain}/activity-types",
        "post /v1/domains/{domain}/activity-types/{type}/deprecate",
        "post /v1/domains/{domain}/activity-types/{type}/undeprecate",
        "post /v1/domains/{domain}/batches",
        "post /v1/domains/{domain}/batches/{id}/resume",
        "post /v1/domains/{domain}/batches/{id}/stop",
        "post /v1/domains/{domain}/deprecate",
        "post /v1/domains/{domain}/imported-runs",
        "post /v1/domains/{domain}/schedules",
        "post /v1/domains/{domain}/schedules/{id}/backfill",
        "post /v1/domains/{domain}/schedules/{id}/pause",
        "post /v1/domains/{domain}/schedules/{id}/resume",
        "post /v1/domains/{domain}/schedules/{id}/trigger",
        "post /v1/domains/{domain}/tags",
        "post /v1/domains/{domain}/task-lists/{list}/activities",
        "post /v1/domains/{domain}/task-lists/{list}/activity/exchange",
        "post /v1/domains/{domain}/task-lists/{list}/activity/pause",
        "post /v1/domains/{domain}/task-lists/{list}/activity/poll",
        "post /v1/domains/{domain}/task-lists/{list}/activity/resume",
        "post /v1/domains/{domain}/task-lists/{list}/decider/exchange",
        "post /v1/domains/{domain}/task-lists/{list}/decider/pause",
        "post /v1/domains/{domain}/task-lists/{list}/decider/poll",
        "post /v1/domains/{domain}/task-lists/{list}/decider/resume",
        "post /v1/domains/{domain}/undeprecate",
        "post /v1/domains/{domain}/workflow-types",
        "post /v1/domains/{domain}/workflow-types/{type}/deprecate",
        "post /v1/domains/{domain}/workflow-types/{type}/undeprecate",
        "post /v1/domains/{domain}/workflows",
        "post /v1/domains/{domain}/workflows/{id}/activities/{activity}/failure",
        "post /v1/domains/{domain}/workflows/{id}/activities/{activity}/options",
        "post /v1/domains/{domain}/workflows/{id}/activities/{activity}/pause",
        "post /v1/domains/{domain}/workflows/{id}/activities/{activity}/resume",
        "post /v1/domains/{domain}/workflows/{id}/activities/{activity}/retry",
        "post /v1/domains/{domain}/workflows/{id}/activities/{activity}/success",
        "post /v1/domains/{domain}/workflows/{id}/cancel",
        "post /v1/domains/{domain}/workflows/{id}/pause",
        "post /v1/domains/{domain}/workflows/{id}/queries/{name}",
        "post /v1/domains/{domain}/workflows/{id}/repair-deadlines",
        "post /v1/domains/{domain}/workflows/{id}/reset",
        "post /v1/domains/{domain}/workflows/{id}/resume",
        "post /v1/domains/{domain}/workflows/{id}/signals/{name}",
        "post /v1/domains/{domain}/workflows/{id}/terminate",
        "post /v1/domains/{domain}/workflows/{id}/updates/{name}",
        "post /v1/secret/rotate",
        "post /v1/session",
        "put /v1/domains/{domain}/batches/{id}/pace",
        "put /v1/domains/{domain}/limit-groups/{group}",
        "put /v1/domains/{domain}/schedules/{id}",
        "put /v1/domains/{domain}/task-lists/{list}/activity/limits",
        "put /v1/domains/{domain}/task-lists/{list}/decider/limits",
    ];
    assert_eq!(calls, expected);
}

#[tokio::test]
async fn the_router_takes_the_methods_of_the_document() {
    let api = Api::open().await;
    for (path, operations) in document(&api).await["paths"].as_object().unwrap() {
        let mut expected: BTreeSet<String> =
            operations.as_object().unwrap().keys().map(|it| it.to_uppercase()).collect();
        if expected.contains("GET") {
            expected.insert("HEAD".to_owned());
        }
        expected.insert("OPTIONS".to_owned());
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            // Its stream ends only at a shutdown; `changes.rs` tests it.
            if path.ends_with("/changes") && ["GET", "HEAD"].contains(&method) {
                continue;
            }
            let ask = Ask::new(method, &filled(path)).header("prefer", "wait=0");
            let answer = api.ask(ask).await;
            if expected.contains(method) {
                assert_ne!(answer.status, 405, "{method} {path}");
                assert!(!answer.text.contains("unknown-path"), "{method} {path}: {}", answer.text);
                continue;
            }
            if method == "HEAD" {
                assert_eq!((answer.status.as_u16(), answer.text.as_str()), (405, ""), "{path}");
            } else {
                answer.problem(405, "method-not-allowed");
            }
            let allowed: BTreeSet<String> = answer.header("allow").split(',').map(|it| it.trim().to_owned()).collect();
            assert_eq!(allowed, expected, "{method} {path}");
        }
    }
}

/// Schema of a call's body.
fn body_of<'a>(document: &'a Value, operation: &'a Value) -> &'a Value {
    followed(document, &operation["requestBody"]["content"]["application/json"]["schema"])
}

/// The field names in a problem about an unknown field.
fn known(problem: &Value) -> BTreeSet<String> {
    let detail = problem["detail"].as_str().unwrap();
    let (_, names) = detail.split_once("unknown field `no-such`").unwrap_or_else(|| panic!("{detail}"));
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[tokio::test]
async fn bodies_and_queries_take_the_fields_of_the_document() {
    let api = Api::open().await;
    let document = document(&api).await;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let body = &body_of(&document, operation)["properties"];
            if let Some(body) = body.as_object() {
                let ask = Ask::new(&method.to_uppercase(), &filled(path)).header("content-type", "application/json");
                let ask = ask.body(json!({ "no-such": 1 }).to_string());
                let problem = api.ask(ask).await.problem(400, "bad-json");
                let documented: BTreeSet<String> = body.keys().cloned().collect();
                assert_eq!(known(&problem), documented, "{path}");
            }
            let parameters = operation["parameters"].as_array().unwrap().iter();
            let query = parameters.filter(|parameter| parameter["in"] == "query");
            let documented: BTreeSet<String> = query.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
            if path.starts_with("/v1/") {
                let ask = Ask::new(&method.to_uppercase(), &format!("{}?no-such=1", filled(path)));
                let problem = api.ask(ask).await.problem(400, "bad-query");
                assert_eq!(known(&problem), documented, "{path}");
            }
        }
    }
}

/// The schema, or the schema that it refers to.
fn followed<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema["$ref"].as_str();
    reference.map_or(schema, |reference| document.pointer(reference.trim_start_matches('#')).unwrap())
}

/// A minimal value of a schema.
fn example(document: &Value, schema: &Value) -> Value {
    let schema = followed(document, schema);
    if schema["type"] != "object" {
        return json!(if schema["format"] == "date-time" { "2026-01-01T00:00:00Z" } else { "x" });
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = required.iter().map(|name| name.as_str().unwrap().to_owned());
    fields
        .map(|name| (name.clone(), example(document, &schema["properties"][&name])))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test]
async fn required_fields_are_required() {
    let api = Api::open().await;
    let document = document(&api).await;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let Some(operation) = operations.get("post") else {
            continue;
        };
        let schema = body_of(&document, operation);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for field in &required {
            let mut body = json!({});
            for other in required.iter().filter(|other| *other != field) {
                let other = other.as_str().unwrap();
                body[other] = example(&document, &schema["properties"][other]);
            }
            let problem = api.post(&filled(path), &body).await.problem(400, "bad-json");
            let missing = format!("missing field `{}`", field.as_str().unwrap());
            assert!(problem["detail"].as_str().unwrap().contains(&missing), "{path}: {problem}");
        }
    }
}

#[tokio::test]
async fn the_document_equals_the_one_in_the_docs() {
    let document = service::api::document();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (indented, packed) = (root.join("../docs/openapi.json"), root.join("src/rest/openapi.json.gz"));
    if writes_docs() {
        std::fs::write(&indented, format!("{document:#}\n")).unwrap();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(document.to_string().as_bytes()).unwrap();
        std::fs::write(&packed, gzip.finish().unwrap()).unwrap();
        return;
    }
    let kept: Value = serde_json::from_slice(&std::fs::read(indented).unwrap()).unwrap();
    let hint = "the API has changed; if intended, write it with BATON_DOCS=write";
    assert!(document == kept, "{hint}");
    assert!(Api::open().await.get("/openapi.json").await.json(200) == document, "{hint}");
}

#[test]
fn every_reference_resolves_and_every_schema_is_used() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            found.insert(reference.to_owned());
        }
        match value {
            Value::Object(members) => members.values().for_each(|member| references(member, found)),
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let document = service::api::document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let mut expected = BTreeSet::new();
    for kind in ["schemas", "responses"] {
        let components = document["components"][kind].as_object().unwrap();
        expected.extend(components.keys().map(|name| format!("#/components/{kind}/{name}")));
    }
    assert_eq!(found, expected);
}

#[test]
fn every_path_segment_and_call_is_documented() {
    let document = service::api::document();
    let mut names = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for operation in operations.as_object().unwrap().values() {
            let parameters = operation["parameters"].as_array().unwrap();
            for parameter in parameters {
                assert_ne!(parameter["description"], "", "{path}: {parameter}");
            }
            assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{path}");
        }
    }
}

/// Every schema of the document, including nested ones, with its place.
fn schemas(document: &Value) -> Vec<(String, &Value)> {
    fn within<'a>(place: String, schema: &'a Value, found: &mut Vec<(String, &'a Value)>) {
        for member in ["properties", "patternProperties"] {
            for (name, inner) in schema[member].as_object().into_iter().flatten() {
                within(format!("{place}/{name}"), inner, found);
            }
        }
        for member in ["oneOf", "anyOf", "allOf", "prefixItems"] {
            for (index, inner) in schema[member].as_array().into_iter().flatten().enumerate() {
                within(format!("{place}/{member}/{index}"), inner, found);
            }
        }
        // `false` forbids other fields in a request.
        for member in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(member).filter(|inner| **inner != json!(false)) {
                within(format!("{place}/{member}"), inner, found);
            }
        }
        found.push((place, schema));
    }
    fn outside<'a>(place: &str, value: &'a Value, found: &mut Vec<(String, &'a Value)>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let place = format!("{place}/{name}");
                    if name == "schema" { within(place, member, found) } else { outside(&place, member, found) }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| outside(place, item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    outside("paths", &document["paths"], &mut found);
    outside("responses", &document["components"]["responses"], &mut found);
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        within(name.clone(), schema, &mut found);
    }
    found
}

#[test]
fn every_schema_with_fields_has_a_name() {
    let document = service::api::document();
    for (place, schema) in schemas(&document) {
        assert!(schema.is_object(), "{place}: {schema}");
        let has_name = !place.contains('/');
        // The codes of a problem stand next to the reference to its schema.
        let has_fields = schema.get("properties").is_some() && schema.get("$ref").is_none();
        assert!(has_name || !has_fields, "{place} has fields, but no name that generators could use");
        assert!(!(has_name && place.ends_with(char::is_numeric)), "{place} has a generated name");
    }
}

#[test]
fn every_union_has_a_discriminator() {
    let document = service::api::document();
    let mut unions = Vec::new();
    for (place, schema) in schemas(&document) {
        let Some(variants) = schema["oneOf"].as_array() else { continue };
        let mapping = schema["discriminator"]["mapping"].as_object().unwrap_or_else(|| panic!("{place}: {schema}"));
        let property = schema["discriminator"]["propertyName"].as_str().unwrap();
        let referred: BTreeSet<&str> = variants.iter().map(|it| it["$ref"].as_str().unwrap()).collect();
        assert_eq!(referred, mapping.values().map(|it| it.as_str().unwrap()).collect(), "{place}");
        for (tag, reference) in mapping {
            let variant = followed(&document, variants.iter().find(|it| it["$ref"] == *reference).unwrap());
            assert_eq!(variant["properties"][property]["const"], *tag, "{place}");
            assert!(variant["required"].as_array().unwrap().contains(&json!(property)), "{place}: {tag}");
            assert!(variant.get("$ref").is_none() && variant["type"] == "object", "{place}: {tag} is not whole");
        }
        unions.push((place, mapping.keys().cloned().collect::<BTreeSet<_>>()));
    }
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let expected = [("Decision", names(history::Decision::NAMES)), ("Event", names(history::EventKind::NAMES))];
    assert_eq!(unions, expected.map(|(name, variants)| (name.to_owned(), variants)));
}

#[test]
fn every_recorded_event_matches_only_its_own_schema() {
    let document = service::api::document();
    let event = &document["components"]["schemas"]["Event"];
    let kinds: Vec<(&String, jsonschema::Validator)> = event["discriminator"]["mapping"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(tag, reference)| {
            let schema = json!({ "$ref": reference, "components": document["components"] });
            (tag, jsonschema::options().should_validate_formats(true).build(&schema).unwrap())
        })
        .collect();
    let mut seen = BTreeSet::new();
    // One file for each form of each event: `history/tests/golden.rs`.
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../history/tests/golden/json")).unwrap() {
        let path = entry.unwrap().path();
        let event: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let fitting: Vec<&String> =
            kinds.iter().filter(|(_, kind)| kind.is_valid(&event)).map(|(tag, _)| *tag).collect();
        assert_eq!(json!(fitting), json!([event["type"]]), "{}", path.display());
        seen.insert(event["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen.len(), kinds.len(), "a sample of every kind");
}

#[test]
fn every_call_has_one_of_the_documents_tags() {
    let document = service::api::document();
    let listed: BTreeSet<&str> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    let mut used = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for operation in operations.as_object().unwrap().values() {
            let tags = operation["tags"].as_array().unwrap();
            assert_eq!(tags.len(), 1, "{path}");
            used.insert(tags[0].as_str().unwrap());
        }
    }
    assert_eq!(used, listed);
}
