//! Bodies full of the smallest members, each of which takes many times its text in memory.

use std::time::Duration;

use serde_json::Value;

use crate::floods::memory;
use crate::line::{Line, Outcome};
use crate::support::{Scratch, Service};

/// The largest body of an exchange.
const BODY_BYTES: usize = 8 * 1024 * 1024;

/// Memory that a request may take, as a multiple of its body.
const PER_BYTE_MAX: usize = 8;

/// Longer than the service takes for one of these bodies.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_of_smallest_answers_takes_little_memory() {
    let scratch = Scratch::new("members");
    let service = Service::start(&scratch.0, &[]);
    let address = service.url.trim_start_matches("http://").to_owned();
    let answer = r#"{"token":""}"#;
    let answers = vec![answer; BODY_BYTES / (answer.len() + 1) - 2].join(",");
    let body = format!(r#"{{"answers":[{answers}]}}"#);
    let head = format!(
        "POST /v1/domains/default/task-lists/l/activity/exchange HTTP/1.1\r\nhost: {address}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let before = memory(&service, "VmHWM");
    let outcome = Line::to(&address).ask(format!("{head}{body}").as_bytes(), PATIENCE).await;
    let Outcome::Answered(answer) = outcome else { panic!("{outcome:?}") };
    let problem: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status, &problem["code"], &problem["field"]), (400, &"invalid-field".into(), &"answers".into()));
    let more = memory(&service, "VmHWM") - before;
    println!("{} MiB for a body of {} MiB", more >> 20, body.len() >> 20);
    assert!(more < (PER_BYTE_MAX * body.len()) as u64, "{more} bytes");
}
