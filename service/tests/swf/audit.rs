//! The audit log of requests over the SWF protocol.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use service::access::{CallAccess, CallEffect, Wire};
use service::api::table;
use service::audit::{AuditLog, verify};
use service::http::with_audit_log;

use crate::access::{Both, NEEDLE, as_of, both, input, tasks};
use crate::support::{Swf, register, start};

fn read(directory: &Path) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn calls() -> impl Iterator<Item = CallAccess> {
    table().into_iter().filter(|call| call.wire == Wire::Swf)
}

#[tokio::test]
async fn changing_operations_have_an_audit_entry_or_are_refused() {
    let Both { engine, open, guarded } = both().await;
    let scratch = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (scratch.path().join("audit"), scratch.path().join("elsewhere"));
    let log = AuditLog::open(&path, Arc::clone(engine.clock())).unwrap();
    let guarded = Swf { router: with_audit_log(guarded.router, Arc::clone(&log)) };
    register(&open).await;
    let run_id = start(&open, "w").await;
    let tasks = tasks(&open).await;
    engine.begin_shutdown();
    let at = engine::RunRef { domain: "default".into(), workflow_id: "w".into(), run_id: None };
    let history = async || engine.views().history(&at, &engine::EventRange::default()).await.unwrap().events;
    let mut changing = 0;
    for is_away in [true, false] {
        if is_away {
            std::fs::rename(&path, &elsewhere).unwrap();
        }
        let before = history().await;
        for call in calls() {
            let mut input = input(call, &run_id, &tasks);
            input["input"] = json!(NEEDLE);
            let answer = as_of(&guarded, "operator", call.name, &input).await;
            let what = format!("{}: {} {}", call.name, answer.status, answer.text);
            if is_away {
                let refused = answer.status == 503 && answer.text.contains("ServiceUnavailableException");
                assert_eq!(refused, call.effect == CallEffect::Changes, "{what}");
                continue;
            }
            log.flush().await;
            let entries = read(&path).split_off(usize::try_from(2 * changing).unwrap());
            if call.effect != CallEffect::Changes {
                assert!(entries.is_empty(), "{what} {entries:?}");
                continue;
            }
            changing += 1;
            let [change, outcome] = entries.as_slice() else { panic!("{what} {entries:?}") };
            assert_eq!((&change["call"], &change["by"]), (&json!(call.name), &json!("operator")), "{what}");
            assert_eq!((&outcome["requestSeq"], &outcome["status"]), (&change["seq"], &json!(answer.status)), "{what}");
            assert_eq!(change["requestId"], answer.headers["x-amzn-requestid"].to_str().unwrap(), "{what}");
            if call.name.starts_with("Respond") {
                assert_eq!((&change["domain"], &change["workflowId"]), (&json!("default"), &json!("w")), "{what}");
            }
            if call.name == "SignalWorkflowExecution" {
                assert_eq!((&change["signalName"], &change["workflowId"]), (&json!("s"), &json!("w")), "{what}");
            }
            for secret in [NEEDLE, &tasks.0, &tasks.1] {
                assert!(!json!(entries).to_string().contains(secret), "{what} {entries:?}");
            }
        }
        if is_away {
            assert_eq!(history().await, before, "nothing has changed");
            std::fs::rename(&elsewhere, &path).unwrap();
        }
    }
    assert_eq!(changing, 21);
    drop((guarded, log));
    assert_eq!(verify(&path, None).unwrap().entries, 2 * changing);
}
