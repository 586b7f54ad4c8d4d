//! Connections that are parked while their call waits: nobody sees it.

use std::time::Duration;

use serde_json::{Value, json};
use service::http::ServerLimits;

use crate::sockets::{POLL, Peer, Socket};
use crate::support::WORKFLOWS;

/// The service, which parks whatever waits at all.
async fn parking() -> Socket {
    Socket::with(ServerLimits { park_after: Duration::ZERO, ..ServerLimits::default() }).await
}

const IDLE: &str = "/v1/domains/default/task-lists/idle/decider/poll";

/// A poll that waits.
async fn poll(socket: &Socket, headers: &str) -> Peer {
    let peer = socket.call("POST", POLL, &format!("prefer: wait=60\r\n{headers}"), "{}").await;
    socket.api.until_pollers("list=\"deciders\"", 1).await;
    peer
}

fn is_task(answer: &str, id: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ") && answer.contains(&format!("\"workflowId\":\"{id}\""))
}

#[tokio::test]
async fn a_parked_poll_gets_its_task_and_its_connection_carries_further_calls() {
    let socket = parking().await;
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
async fn a_parked_poll_ends_as_any_other_when_its_wait_is_over() {
    let socket = parking().await;
    let mut peer = socket.call("POST", IDLE, "prefer: wait=1\r\n", "{}").await;
    let (head, body) = peer.answer().await;
    assert!(head.starts_with("HTTP/1.1 204 ") && body.is_empty(), "{head}{body}");
    assert!(head.to_lowercase().contains("preference-applied: wait=1"), "{head}");
}

#[tokio::test]
async fn a_parked_poller_that_hangs_up_takes_no_task_and_leaves_its_place() {
    let limits = ServerLimits { park_after: Duration::ZERO, connections_max: 1, ..ServerLimits::default() };
    let socket = Socket::with(limits).await;
    let peer = poll(&socket, "").await;
    drop(peer);
    // Sooner than its wait is over.
    let gone = socket.api.until_pollers("list=\"deciders\"", 0);
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it is seen that the peer has left");
    socket.answers_others().await;
    socket.api.start("w").await;
    let turn = socket.api.turn().await;
    assert_eq!((&turn["startedEventId"], &turn["attempt"]), (&json!(3), &json!(1)));
}

#[tokio::test]
async fn what_comes_while_a_call_is_parked_is_read_afterwards() {
    let socket = parking().await;
    let mut peer = poll(&socket, "").await;
    // A whole call, longer than what is read ahead, and the beginning of one more.
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
async fn calls_that_come_at_once_are_answered_in_their_order() {
    let socket = parking().await;
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
async fn a_connection_that_was_to_end_with_its_answer_ends_with_it() {
    let socket = parking().await;
    let mut peer = poll(&socket, "connection: keep-alive, Close\r\n").await;
    socket.api.start("w").await;
    let answer = peer.read_all().await.unwrap();
    assert!(is_task(&answer, "w") && answer.to_lowercase().contains("connection: close\r\n"), "{answer}");
}

#[tokio::test]
async fn what_cannot_be_taken_up_again_just_so_waits_as_it_is() {
    let socket = parking().await;
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
async fn a_body_that_has_not_come_in_full_is_waited_for() {
    let socket = parking().await;
    socket.api.start("w").await;
    let mut peer = socket.connect().await;
    let head = "content-type: application/json\r\ncontent-length: 14\r\nconnection: close\r\n";
    peer.send(&format!("POST {WORKFLOWS}/w/signals/s HTTP/1.1\r\nhost: h\r\n{head}\r\n{{\"input\"")).await;
    // The service has seen that much once it has answered another.
    socket.answers_others().await;
    peer.send(":\"in\"").await;
    socket.answers_others().await;
    peer.send("}").await;
    let answer = peer.read_all().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    assert_eq!(socket.api.names("w").await.last().unwrap(), "Signal");
}

#[tokio::test]
async fn parked_polls_are_answered_when_the_service_stops_and_their_connections_end() {
    let socket = parking().await;
    let mut peers = Vec::new();
    for _ in 0..20 {
        peers.push(socket.call("POST", IDLE, "prefer: wait=60\r\n", "{}").await);
    }
    socket.stops_with_204(peers).await;
}
