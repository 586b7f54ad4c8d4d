//! Checks every response of a test, and every accepted request, against the `OpenAPI` document.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::support::Answer;

static DOCUMENT: LazyLock<Value> = LazyLock::new(service::api::document);

/// Validators by schema name: building one takes longer than using it.
static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Headers that a response may have only if the document lists them.
const DOCUMENTED_HEADERS: [&str; 5] =
    ["Baton-No-Pollers", "ETag", "Preference-Applied", "Retry-After", "WWW-Authenticate"];

/// The path template of the document that matches a request's path. Of several, the one with the fewest variable
/// segments.
pub(crate) fn template(path: &str) -> Option<&'static str> {
    let paths = DOCUMENT["paths"].as_object().unwrap().keys();
    let fits = |template: &&String| {
        let (template, path) = (template.split('/'), path.split('/'));
        template.clone().count() == path.clone().count()
            && template.zip(path).all(|(template, path)| template == path || template.starts_with('{'))
    };
    // The router accepts an empty value for a variable segment, except for the last.
    let fitting = paths.filter(fits).filter(|template| !(path.ends_with('/') && template.ends_with('}')));
    fitting.min_by_key(|template| template.matches('{').count()).map(String::as_str)
}

/// Last segment of a reference.
fn last(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

fn errors(name: &str, schema: &Value, instance: &Value) -> Vec<String> {
    if *schema == json!(true) {
        return Vec::new();
    }
    let validator = {
        let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let mut schema = schema.clone();
            // Resolves references within the document.
            schema["components"] = DOCUMENT["components"].clone();
            Arc::new(jsonschema::options().should_validate_formats(true).build(&schema).unwrap())
        };
        Arc::clone(validators.entry(name.to_owned()).or_insert_with(make))
    };
    validator.iter_errors(instance).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Panics if the document does not describe this response to this request.
#[track_caller]
pub(crate) fn hold(method: &str, uri: &str, request: Option<&str>, answer: &Answer) {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let call = format!("{method} {uri}");
    let status = answer.status.as_u16().to_string();
    let operation = template(path).map(|template| (template, &DOCUMENT["paths"][template][method.to_lowercase()]));
    let Some((template, operation)) = operation.filter(|(_, operation)| operation.is_object()) else {
        let is_of_any_path = matches!(status.as_str(), "404" | "405") || matches!(method, "HEAD" | "OPTIONS");
        assert!(is_of_any_path, "{call}: {status}, but the document has no such call");
        return;
    };
    let response = &operation["responses"][&status];
    let response =
        response["$ref"].as_str().map_or(response, |reference| &DOCUMENT["components"]["responses"][last(reference)]);
    assert!(response.is_object(), "{call}: the document has no {status}: {}", answer.text);

    for header in DOCUMENTED_HEADERS.iter().filter(|header| answer.headers.contains_key(**header)) {
        assert!(response["headers"][header].is_object(), "{call}: the document has no `{header}` with {status}");
    }
    match response["content"].as_object() {
        None => assert_eq!(answer.text, "", "{call}"),
        Some(content) => {
            let kind = answer.header("content-type").split(';').next().unwrap_or_default();
            let described = content.get(kind).unwrap_or_else(|| panic!("{call}: the document has no {status} {kind}"));
            if kind.ends_with("json") {
                let instance: Value = serde_json::from_str(&answer.text).unwrap();
                let found = errors(&format!("{method} {template} {status}"), &described["schema"], &instance);
                assert!(found.is_empty(), "{call}: {found:#?} in {}", answer.text);
            }
        }
    }

    if answer.status.is_success() {
        let parameters = operation["parameters"].as_array().unwrap();
        for name in query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty()) {
            let is_known = parameters.iter().any(|it| it["in"] == "query" && it["name"] == name);
            assert!(is_known, "{call}: accepted, but the document has no `{name}`");
        }
        if let Some(request) = request.filter(|request| !request.is_empty()) {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            assert!(schema.is_object(), "{call}: accepts a body, but the document has none");
            let instance: Value = serde_json::from_str(request).unwrap();
            let found = errors(&format!("{method} {template}"), schema, &instance);
            assert!(found.is_empty(), "{call}: accepted, but {found:#?} in {request}");
        }
    }
}

#[test]
fn a_response_that_the_document_lacks_is_detected() {
    let answer = |status: u16, kind: &str, body: Value| Answer {
        status: status.try_into().unwrap(),
        headers: [("content-type".parse().unwrap(), kind.parse().unwrap())].into_iter().collect(),
        text: body.to_string(),
    };
    let noticed = |request: Option<&str>, answer: Answer| {
        let held = std::panic::catch_unwind(|| hold("POST", "/v1/domains", request, &answer));
        held.is_err()
    };
    let domain = json!({ "name": "d", "retention": "PT1S", "createdAt": "2026-01-01T00:00:00Z" });
    let problem = |code: &str| {
        json!({ "type": "t", "title": "t", "status": 409, "detail": "d", "code": code, "retryable": false,
            "recorded": false, "advice": "a" })
    };
    assert!(!noticed(Some(r#"{"name":"d","retention":1}"#), answer(201, "application/json", domain.clone())));
    assert!(!noticed(None, answer(409, "application/problem+json", problem("domain-exists"))));

    assert!(noticed(Some(r#"{"name":7}"#), answer(201, "application/json", domain.clone())), "a request");
    assert!(noticed(Some(r#"{"name":"d","x":7}"#), answer(201, "application/json", domain.clone())), "a field");
    assert!(noticed(None, answer(200, "application/json", domain.clone())), "a status");
    assert!(noticed(None, answer(201, "text/plain", domain)), "a media type");
    assert!(noticed(None, answer(201, "application/json", json!({ "name": "d" }))), "a missing field");
    let wrong = json!({ "name": "d", "retention": 1, "createdAt": "2026-01-01T00:00:00Z" });
    assert!(noticed(None, answer(201, "application/json", wrong)), "a duration that is a number");
    assert!(noticed(None, answer(409, "application/problem+json", problem("turn-lost"))), "a code");
}
