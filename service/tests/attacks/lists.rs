//! A client that names a new task list for every run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::line::Line;
use crate::support::{Scratch, Service};

/// More than the service keeps in memory.
const LISTS: usize = 11_000;

fn list(number: usize) -> String {
    format!("{number:0>200}")
}

#[tokio::test(flavor = "multi_thread")]
async fn many_task_lists_do_not_enlarge_metrics_or_lose_tasks() {
    let scratch = Scratch::new("lists");
    let service = Service::start(&scratch.0, &[]);
    let address = service.url.trim_start_matches("http://").to_owned();
    let next = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (mut line, next) = (Line::to(&address), Arc::clone(&next));
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= LISTS {
                        return;
                    }
                    let start =
                        json!({ "workflowId": number.to_string(), "workflowType": "t/1", "taskList": list(number) });
                    line.call("POST", "/v1/domains/default/workflows", &[], Some(&start)).await.json(201);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let mut line = Line::to(&address);
    let metrics = line.call("GET", "/metrics", &[], None).await;
    println!("{} bytes of metrics", metrics.body.len());
    assert!(metrics.body.len() < 1_000_000);
    assert!(metrics.text().contains("list=\"*\""), "other lists are summed up");
    for number in [0, LISTS / 2, LISTS - 1] {
        let path = format!("/v1/domains/default/task-lists/{}/decider/poll", list(number));
        let turn = line.call("POST", &path, &[("prefer", "wait=20")], Some(&json!({}))).await.json(200);
        assert_eq!(turn["workflowId"], json!(number.to_string()));
    }
}
