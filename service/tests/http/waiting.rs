//! Connections with a waiting call such as a poll: what a client may send meanwhile, and how it may disconnect.

use std::time::Duration;

use serde_json::{Value, json};
use service::http::ServerLimits;

use crate::sockets::{POLL, Peer, Socket};
use crate::support::WORKFLOWS;

const IDLE: &str = "/v1/domains/default/task-lists/idle/decider/poll";

/// Time within which the service must notice a disconnect, long before the poll's wait ends.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

/// A waiting poll.
async fn poll(socket: &Socket, headers: &str) -> Peer {
    let peer = socket.call("POST", POLL, &format!("prefer: wait=60\r\n{headers}"), "{}").await;
    socket.api.until_pollers("list=\"deciders\"", 1).await;
    peer
}

fn is_task(answer: &str, id: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ") && answer.contains(&format!("\"workflowId\":\"{id}\""))
}

/// Waits until no poll is left, before any wait ends.
async fn until_no_poll_waits(socket: &Socket) {
    let gone = socket.api.until_pollers("list=\"deciders\"", 0);
    tokio::time::timeout(NOTICED_WITHIN, gone).await.expect("the service notices that the poller has left");
}

/// Checks that the next poller gets the task in its first attempt, so the earlier poller took none.
async fn check_next_poller_gets_the_task(socket: &Socket) {
    socket.api.start("w").await;
    let turn = socket.api.turn().await;
    assert_eq!((&turn["startedEventId"], &turn["attempt"]), (&json!(3), &json!(1)));
}

#[tokio::test]
async fn a_connection_carries_requests_after_a_poll() {
    let socket = Socket::with(ServerLimits::default()).await;
    let mut peer = poll(&socket, "").await;
    for id in ["a", "b", "c"] {
        socket.api.start(id).await;
        let (head, body) = peer.answer().await;
        let lower = head.to_lowercase();
        for header in ["content-type: application/json\r\n", "x-content-type-options: nosniff\r\n", "date: "] {
            assert_eq!(lower.matches(header).count(), 1, "{header}: {head}");
        }
        assert!(is_task(&format!("{head}{body}"), id), "{head}{body}");
        let task: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(task["attempt"], 1);
        peer.call("HEAD", &format!("{WORKFLOWS}/{id}"), "", "").await;
        assert!(peer.head().await.starts_with("HTTP/1.1 200 "));
        peer.call("POST", POLL, "prefer: wait=60\r\n", "{}").await;
        socket.api.until_pollers("list=\"deciders\"", 1).await;
    }
}

#[tokio::test]
async fn a_poll_returns_204_when_its_wait_ends() {
    let socket = Socket::with(ServerLimits::default()).await;
    let mut peer = socket.call("POST", IDLE, "prefer: wait=1\r\n", "{}").await;
    let (head, body) = peer.answer().await;
    assert!(head.starts_with("HTTP/1.1 204 ") && body.is_empty(), "{head}{body}");
    assert!(head.to_lowercase().contains("preference-applied: wait=1"), "{head}");
}

#[tokio::test]
async fn a_poller_that_disconnects_takes_no_task() {
    let limits = ServerLimits { max_connections: 1, ..ServerLimits::default() };
    let socket = Socket::with(limits).await;
    drop(poll(&socket, "").await);
    until_no_poll_waits(&socket).await;
    socket.answers_others().await;
    check_next_poller_gets_the_task(&socket).await;
}

#[tokio::test]
async fn a_poller_that_pipelines_and_disconnects_takes_no_task() {
    let socket = Socket::with(ServerLimits::default()).await;
    for ahead in ["G", "GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n", &"x".repeat(100_000)] {
        let mut peer = poll(&socket, "").await;
        peer.send(ahead).await;
        socket.answers_others().await;
        drop(peer);
        until_no_poll_waits(&socket).await;
    }
    check_next_poller_gets_the_task(&socket).await;
}

#[tokio::test]
async fn a_poller_that_disconnected_early_takes_no_task() {
    let socket = Socket::with(ServerLimits::default()).await;
    // The poll and its disconnect arrive together, while a task is waiting.
    socket.api.start("w").await;
    let peer = socket.call("POST", POLL, "prefer: wait=60\r\n", "{}").await;
    drop(peer);
    socket.answers_others().await;
    let turn = socket.api.turn().await;
    assert_eq!((&turn["workflowId"], &turn["attempt"]), (&json!("w"), &json!(1)), "{turn}");
}

#[tokio::test]
async fn a_poller_that_closes_its_sending_half_gets_204() {
    let socket = Socket::with(ServerLimits::default()).await;
    let mut peer = poll(&socket, "").await;
    peer.close_sending_half().await;
    let answer = peer.read_all().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    check_next_poller_gets_the_task(&socket).await;
}

#[tokio::test]
async fn a_client_that_closes_its_sending_half_gets_its_answer() {
    let socket = Socket::with(ServerLimits::default()).await;
    let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" }).to_string();
    let result = format!("{WORKFLOWS}/w/result");
    for (method, path, headers, body, status) in [
        ("POST", WORKFLOWS, "", start.as_str(), 201),
        ("GET", &format!("{WORKFLOWS}/w"), "", "", 200),
        ("GET", &result, "prefer: wait=60\r\n", "", 200),
    ] {
        let mut peer = socket.call(method, path, headers, body).await;
        peer.close_sending_half().await;
        if path == result {
            // The result is returned after the service has seen the end of the client's half.
            socket.answers_others().await;
            let succeed = json!([{ "type": "SucceedWorkflow", "result": 7 }]);
            socket.api.decide(succeed).await;
        }
        let answer = peer.read_all().await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {path}: {answer}");
    }
}

#[tokio::test]
async fn requests_sent_during_a_poll_are_answered_afterwards() {
    let socket = Socket::with(ServerLimits::default()).await;
    let mut peer = poll(&socket, "").await;
    // A whole request and the start of another.
    let long = format!("x: {}\r\n", "y".repeat(5_000));
    peer.call("GET", "/healthz", &long, "").await;
    peer.send("GET /hea").await;
    socket.answers_others().await;
    socket.api.start("w").await;
    let (head, body) = peer.answer().await;
    assert!(is_task(&format!("{head}{body}"), "w"), "{head}{body}");
    assert!(peer.answer().await.0.starts_with("HTTP/1.1 200 "));
    peer.send("lthz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await;
    assert!(peer.read_all().await.unwrap().starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let socket = Socket::with(ServerLimits::default()).await;
    let mut peer = socket.connect().await;
    let poll = format!("POST {POLL} HTTP/1.1\r\nhost: h\r\nprefer: wait=60\r\n\r\n");
    let last = "GET /healthz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    peer.send(&format!("{poll}{poll}{last}")).await;
    for id in ["a", "b"] {
        socket.api.until_pollers("list=\"deciders\"", 1).await;
        socket.api.start(id).await;
        let (head, body) = peer.answer().await;
        assert!(is_task(&format!("{head}{body}"), id), "{head}{body}");
    }
    assert!(peer.read_all().await.unwrap().starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_connection_closes_after_its_poll_if_the_client_asks() {
    let socket = Socket::with(ServerLimits::default()).await;
    let mut peer = poll(&socket, "connection: keep-alive, Close\r\n").await;
    socket.api.start("w").await;
    let answer = peer.read_all().await.unwrap();
    assert!(is_task(&answer, "w") && answer.to_lowercase().contains("connection: close\r\n"), "{answer}");
}

#[tokio::test]
async fn a_poll_with_both_lengths_ends_its_connection() {
    let socket = Socket::with(ServerLimits::default()).await;
    let mut peer = socket.connect().await;
    let head =
        "content-type: application/json\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\nprefer: wait=60\r\n";
    let smuggled = format!("POST {WORKFLOWS} HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n");
    peer.send(&format!("POST {POLL} HTTP/1.1\r\nhost: h\r\n{head}\r\n2\r\n{{}}\r\n0\r\n\r\n{smuggled}")).await;
    socket.api.until_pollers("list=\"deciders\"", 1).await;
    socket.api.start("w").await;
    let answer = peer.read_all().await.unwrap_or_default();
    assert!(answer.matches("HTTP/1.1").count() <= 1, "a request after the two lengths was processed: {answer}");
}

#[tokio::test]
async fn http_1_0_and_expect_100_clients_can_poll() {
    let socket = Socket::with(ServerLimits::default()).await;
    let body = "content-type: application/json\r\ncontent-length: 2\r\nprefer: wait=60\r\n";
    let (one, other) = (
        format!("POST {POLL} HTTP/1.0\r\nhost: h\r\n{body}\r\n{{}}"),
        format!("POST {POLL} HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\nconnection: close\r\n{body}\r\n{{}}"),
    );
    for (id, request, version) in [("w", one, "HTTP/1.0 200 "), ("v", other, "HTTP/1.1 100 ")] {
        let mut peer = socket.connect().await;
        peer.send(&request).await;
        socket.api.until_pollers("list=\"deciders\"", 1).await;
        socket.api.start(id).await;
        let answer = peer.read_all().await.unwrap();
        assert!(answer.starts_with(version) && answer.contains(&format!("\"workflowId\":\"{id}\"")), "{answer}");
    }
}

#[tokio::test]
async fn a_slow_body_is_awaited() {
    let socket = Socket::with(ServerLimits::default()).await;
    socket.api.start("w").await;
    let mut peer = socket.connect().await;
    let head = "content-type: application/json\r\ncontent-length: 14\r\nconnection: close\r\n";
    peer.send(&format!("POST {WORKFLOWS}/w/signals/s HTTP/1.1\r\nhost: h\r\n{head}\r\n{{\"input\"")).await;
    // The service has read this part once it has responded to another client.
    socket.answers_others().await;
    peer.send(":\"in\"").await;
    socket.answers_others().await;
    peer.send("}").await;
    let answer = peer.read_all().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    assert_eq!(socket.api.names("w").await.last().unwrap(), "Signal");
}

#[tokio::test]
async fn polls_return_204_at_a_shutdown() {
    let socket = Socket::with(ServerLimits::default()).await;
    let mut peers = Vec::new();
    for _ in 0..20 {
        peers.push(socket.call("POST", IDLE, "prefer: wait=60\r\n", "{}").await);
    }
    socket.stops_with_204(peers).await;
}
