//! Nodes over one store, each on a separate socket.

use std::sync::Arc;
use std::time::Duration;

use client::body::{
    AppendOutput, CompleteTurn, ListedNode, PollActivity, PollDecider, Rejection, StartWorkflow, SucceedActivity,
    UpdateResult, UpdateWorkflow,
};
use client::{Access, Client, OutputPosition, Patience};
use engine::{Engine, Node, Settings, SystemClock};
use history::ScheduleActivity;
use serde_json::json;
use service::access::Wire;
use service::access::{Credential, Credentials};
use service::api::router_for;
use service::api::table;
use service::http::{Server, ServerLimits};
use service::nodes::{NodeTrust, join, join_trusting};
use service::tls::{Tls, TlsFiles};
use simulation::stores::fresh;
use store::Store;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tower::ServiceExt;

use crate::certificates::Authority;
use crate::support::{Answer, Ask, PATIENCE};

const SECRET: &str = "of an operator";

/// `printf '%s' 'of an operator' | sha256sum`
const SECRET_SHA256: &str = "0c6a21c8957ae14a2d8bbfe1447784d2a5101f0cd19c95bba03e9ce7d8b78edd";

/// A node with credentials.
async fn open(store: &Arc<dyn Store>) -> (Arc<Engine>, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let settings = Settings { node: Some(Node { address: address.clone() }), ..Settings::default() };
    let engine = Engine::open(Arc::clone(store), Arc::new(SystemClock), settings).await.unwrap();
    join(&engine, &address).unwrap();
    let secret_sha256 = SECRET_SHA256.to_owned();
    let operator = Credential { name: "operator".to_owned(), secret_sha256, operator: true, ..Credential::default() };
    let router = router_for(Arc::clone(&engine), Credentials::new(vec![operator]).unwrap());
    tokio::spawn(
        Server { listener, router, limits: ServerLimits::default(), tls: None }.run_until(std::future::pending()),
    );
    let client = Client::with_secret(&address, SECRET).unwrap().patience(Patience::None);
    (engine, client)
}

/// Starts run `w` with task list `deciders`.
async fn start_w(client: &Client) {
    let start = StartWorkflow {
        workflow_id: "w".to_owned(),
        workflow_type: "t".to_owned(),
        task_list: Some("deciders".to_owned()),
        ..StartWorkflow::default()
    };
    client.start(&start, None).await.unwrap();
}

/// Output of a command of `baton` with the operator's credential.
async fn baton(url: &str, line: &str) -> (i32, String) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_baton"));
    command.args(line.split(' ')).args(["--url", url]).env("BATON_SECRET", SECRET);
    let output = command.output().await.unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text)
}

#[tokio::test]
async fn the_command_line_lists_and_shows_nodes() {
    let store = fresh().await;
    let (_one, at_one) = open(&store).await;
    let (_two, at_two) = open(&store).await;
    // The first node finds the second at its next heartbeat.
    while at_one.nodes().await.unwrap().nodes.len() < 2 {
        tokio::task::yield_now().await;
    }
    let (code, listed) = baton(at_one.url(), "node list --json").await;
    let nodes: Vec<ListedNode> = serde_json::from_str(&listed).unwrap();
    assert_eq!((code, &nodes), (0, &at_one.nodes().await.unwrap().nodes));
    let responding = |nodes: &[ListedNode]| {
        nodes.iter().filter(|node| node.responding).map(|node| node.address.clone()).collect::<Vec<_>>()
    };
    assert_eq!(responding(&nodes), [at_one.url()]);
    let (code, listed) = baton(at_one.url(), "node list").await;
    let other = listed.lines().find(|line| line.contains(at_two.url())).unwrap_or_else(|| panic!("{listed}"));
    assert!(code == 0 && other.contains(" of ") && !other.ends_with("yes"), "{listed}");
    let (code, shown) = baton(at_one.url(), "node show").await;
    let first = format!("node       {}, which responds\n", at_one.url());
    assert!(code == 0 && shown.starts_with(&first) && shown.contains("\nshards     "), "{shown}");
    let (code, shown) = baton(at_one.url(), &format!("node show {} --json", at_two.url())).await;
    let node: ListedNode = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, node.address.as_str(), node.responding), (0, at_two.url(), false));
    let (code, text) = baton(at_one.url(), "node show http://127.0.0.1:1").await;
    assert!(code == 1 && text.contains("no live node `http://127.0.0.1:1`: the live nodes are http"), "{text}");
}

#[tokio::test]
async fn a_task_from_one_node_reaches_a_poller_at_another_over_http() {
    let store = fresh().await;
    let (_one, at_one) = open(&store).await;
    // The second node finds the first at once; the first finds the second at its next heartbeat.
    let (two, at_two) = open(&store).await;
    let polling = tokio::spawn(async move {
        let poll = PollDecider { identity: Some("elsewhere".to_owned()), ..PollDecider::default() };
        at_two.poll_decider("deciders", &poll, Duration::from_secs(20)).await.unwrap()
    });
    while !two.render_metrics().contains("baton_pollers_waiting{") {
        tokio::task::yield_now().await;
    }
    start_w(&at_one).await;
    // Without messages between the nodes, the task would wait half a minute for the due index.
    let task = tokio::time::timeout(Duration::from_secs(25), polling).await.expect("it comes").unwrap();
    assert_eq!(task.expect("a turn").workflow_id, "w");
}

#[tokio::test]
async fn calls_between_nodes_accept_no_credential() {
    let store = fresh().await;
    let (engine, client) = open(&store).await;
    client.ready().await.unwrap();
    let secret_sha256 = SECRET_SHA256.to_owned();
    let operator = Credential { name: "operator".to_owned(), secret_sha256, operator: true, ..Credential::default() };
    let guarded = router_for(Arc::clone(&engine), Credentials::new(vec![operator]).unwrap());
    let calls: Vec<_> = table().into_iter().filter(|call| call.wire == Wire::Nodes).collect();
    assert_eq!(calls.len(), 13);
    for call in calls {
        for router in [guarded.clone(), router_for(Arc::clone(&engine), Credentials::default())] {
            for shown in [format!("Bearer {SECRET}"), "Baton-Node AAAA".to_owned(), format!("Baton-Node {SECRET}")] {
                let ask = axum::http::Request::post(call.name).header("authorization", shown);
                let answer = router.clone().oneshot(ask.body(axum::body::Body::empty()).unwrap()).await.unwrap();
                assert_eq!(answer.status().as_u16(), 401, "{}", call.name);
            }
        }
    }
}

#[tokio::test]
async fn messages_of_a_newer_form_are_refused_by_name() {
    let store = fresh().await;
    let (engine, client) = open(&store).await;
    client.ready().await.unwrap();
    let router = router_for(Arc::clone(&engine), Credentials::default());
    let known = engine::numbers::MESSAGES;
    let list = json!({ "domain": "default", "isDecider": true, "name": "l", "new": [1, { "two": 2 }] });
    let waiting = json!({ "at": "http://127.0.0.1:1", "list": list, "andMore": true });
    for (form, body, status, said) in [
        (None, &waiting, 200, ""),
        (Some(known.to_string()), &waiting, 200, ""),
        (Some((known + 1).to_string()), &waiting, 400, "the sending node is newer"),
        (Some("one".to_owned()), &waiting, 400, "`baton-nodes` is not a number"),
        (Some(known.to_string()), &json!({ "at": "a" }), 400, "list"),
    ] {
        let ask = axum::http::Request::post("/nodes/waiting").header("content-type", "application/json");
        let ask = ask.header("authorization", format!("Baton-Node {}", engine.node_pass()));
        let ask = form.iter().fold(ask, |ask, form| ask.header("baton-nodes", form));
        let answer = router.clone().oneshot(ask.body(axum::body::Body::from(body.to_string())).unwrap()).await.unwrap();
        let answer = Answer::read(answer).await;
        assert_eq!(answer.status.as_u16(), status, "{form:?}: {}", answer.text);
        assert!(answer.text.contains(said), "{form:?}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_node_continues_when_another_refuses_its_messages() {
    let store = fresh().await;
    // It responds to every message like an older node that does not know the form.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let settings = Settings { node: Some(Node { address: address.clone() }), ..Settings::default() };
    let older = Engine::open(Arc::clone(&store), Arc::new(SystemClock), settings).await.unwrap();
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let refuse = move |headers: axum::http::HeaderMap| {
        heard.send(headers["baton-nodes"].to_str().unwrap().to_owned()).unwrap();
        std::future::ready((axum::http::StatusCode::BAD_REQUEST, r#"{"detail":"says form 2"}"#))
    };
    let router = axum::Router::new().fallback(axum::routing::post(refuse));
    tokio::spawn(
        Server { listener, router, limits: ServerLimits::default(), tls: None }.run_until(std::future::pending()),
    );
    let (one, at_one) = open(&store).await;
    while one.nodes().alive().len() < 2 {
        tokio::task::yield_now().await;
    }
    let polling = tokio::spawn({
        let at_one = at_one.clone();
        async move { at_one.poll_decider("deciders", &PollDecider::default(), PATIENCE).await.unwrap() }
    });
    let form = tokio::time::timeout(PATIENCE, hears.recv()).await.expect("it reports a waiting poll").unwrap();
    assert_eq!(form, engine::numbers::MESSAGES.to_string());
    start_w(&at_one).await;
    assert_eq!(polling.await.unwrap().expect("a turn").workflow_id, "w");
    drop(older);
}

#[tokio::test]
async fn an_update_and_its_verdict_travel_between_nodes() {
    let store = fresh().await;
    let (_one, at_one) = open(&store).await;
    let (two, at_two) = open(&store).await;
    let (_three, at_three) = open(&store).await;
    let task_list = Some("deciders".to_owned());
    let (workflow_id, workflow_type) = ("w".to_owned(), "t".to_owned());
    let start = StartWorkflow { workflow_id, workflow_type, task_list, ..StartWorkflow::default() };
    at_two.start(&start, None).await.unwrap();
    let polls = PollDecider { updates: Some(8), ..PollDecider::default() };
    let turn = at_two.poll_decider("deciders", &polls, PATIENCE).await.unwrap().expect("its first turn");
    at_two.complete_turn(&turn.token, &CompleteTurn::default(), Patience::None).await.unwrap();
    let result = |id: &str| UpdateResult { id: id.to_owned(), ..UpdateResult::default() };
    let accepted = UpdateResult { accepted: Some(history::Payload::of("yes").unwrap()), ..result("a") };
    let rejection = Rejection { reason: "no".to_owned(), details: None };
    let rejected = UpdateResult { rejected: Some(rejection), ..result("r") };
    for (id, said) in [("a", accepted), ("r", rejected)] {
        let polling = tokio::spawn({
            let (at_two, polls) = (at_two.clone(), polls.clone());
            async move { at_two.poll_decider("deciders", &polls, PATIENCE).await.unwrap() }
        });
        while !two.render_metrics().contains("baton_pollers_waiting{") {
            tokio::task::yield_now().await;
        }
        let asking = tokio::spawn({
            let (at_one, update_id) = (at_one.clone(), Some(id.to_owned()));
            let update = UpdateWorkflow { update_id, ..UpdateWorkflow::default() };
            async move { at_one.update("w", "match", &update, None, PATIENCE).await }
        });
        let turn = polling.await.unwrap().expect("a speculative turn");
        assert!(turn.speculative && turn.updates.iter().any(|update| update.id == id));
        let complete =
            |said: &UpdateResult| CompleteTurn { update_results: vec![said.clone()], ..CompleteTurn::default() };
        let refused = at_three.complete_turn(&turn.token, &complete(&result("x")), Patience::None).await.unwrap_err();
        assert_eq!(refused.code(), Some("invalid-field"), "{refused}");
        at_three.complete_turn(&turn.token, &complete(&said), Patience::None).await.unwrap();
        match asking.await.unwrap() {
            Ok(answer) => assert_eq!((id, answer.updated.result.unwrap().text()), ("a", Some("\"yes\""))),
            Err(error) => assert_eq!((id, error.code()), ("r", Some("update-rejected")), "{error}"),
        }
    }
    let events = at_one.events("w", None).await.unwrap();
    let names: Vec<_> = events.iter().map(|event| event.by.as_ref().map(history::CallerName::as_str)).collect();
    assert_eq!((names.len(), names), (9, vec![Some("operator"); 9]), "whichever node recorded them");
}

#[tokio::test]
async fn only_a_node_may_offer_tasks_or_report_polls() {
    let store = fresh().await;
    let (engine, client) = open(&store).await;
    let list = json!({ "domain": "default", "isDecider": true, "name": "deciders" });
    let waiting = json!({ "at": "http://127.0.0.1:1", "list": list });
    let offer = json!({ "list": list, "workflowId": "w", "runId": uuid::Uuid::nil(), "scheduledEventId": 2 });
    let offered = json!({ "by": "http://127.0.0.1:1", "offer": offer });
    let pass = format!("Baton-Node {}", engine.node_pass());
    let operator = format!("Bearer {SECRET}");
    let http = reqwest::Client::new();
    for (path, body) in [("nodes/waiting", waiting), ("nodes/offer", offered)] {
        for (authorization, status) in
            [(None, 401), (Some(&operator), 401), (Some(&"Baton-Node AAAA".to_owned()), 401), (Some(&pass), 200)]
        {
            let mut request = http.post(format!("{}/{path}", client.url())).header("content-type", "application/json");
            if let Some(authorization) = authorization {
                request = request.header("authorization", authorization);
            }
            let answer = request.body(body.to_string()).timeout(PATIENCE).send().await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "{path} with {authorization:?}");
        }
    }
}

#[tokio::test]
async fn nodes_are_listed_and_share_due_shards() {
    let store = fresh().await;
    let (one, _) = open(&store).await;
    let (two, _) = open(&store).await;
    let router = router_for(Arc::clone(&two), Credentials::default());
    let ask = axum::http::Request::get("/v1/nodes").body(axum::body::Body::empty()).unwrap();
    let said = crate::support::Answer::read(router.oneshot(ask).await.unwrap()).await.json(200);
    let nodes = said["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2, "{said}");
    for (node, answers) in [(one.nodes().address(), false), (two.nodes().address(), true)] {
        let found = nodes.iter().find(|listed| listed["address"].as_str() == node).unwrap();
        assert_eq!(found["responding"], answers, "{said}");
    }
    let shares = nodes.iter().map(|node| node["dueShards"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(
        (shares, shares > 0),
        (said["dueShards"].as_u64().unwrap(), true),
        "each shard belongs to one node: {said}"
    );
}

#[tokio::test]
async fn a_single_service_has_no_paths_for_nodes() {
    let api = crate::support::Api::open().await;
    for path in ["/nodes/waiting", "/nodes/offer"] {
        api.ask(Ask::post(path, &json!({}))).await.problem(404, "unknown-path");
    }
}

/// A node with TLS and a certificate of this authority, which trusts only this authority.
async fn open_encrypting(store: &Arc<dyn Store>, authority: &Authority) -> (Arc<Engine>, Client) {
    let directory = tempfile::tempdir().unwrap();
    let issued = authority.issue(&["localhost"]);
    let (certificate, key) = issued.write(directory.path());
    let clock = Arc::new(SystemClock);
    let tls = Some(Tls::open(TlsFiles { certificate, key, callers: None }, Arc::clone(&clock) as _).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let settings = Settings { node: Some(Node { address: address.clone() }), ..Settings::default() };
    let engine = Engine::open(Arc::clone(store), clock, settings).await.unwrap();
    let own = Some([issued.certificate, issued.key].concat().into_bytes());
    let trust = NodeTrust { ca: Some(authority.pem().into_bytes()), own };
    join_trusting(&engine, &address, &trust).unwrap();
    let router = router_for(Arc::clone(&engine), Credentials::default());
    let limits = ServerLimits::default();
    tokio::spawn(Server { listener, router, limits, tls }.run_until(std::future::pending()));
    let ca = authority.pem();
    let access = Access { ca: Some(ca.as_bytes()), ..Access::default() };
    (engine, Client::with_access(&address, access).unwrap().patience(Patience::None))
}

#[tokio::test]
async fn nodes_with_tls_reach_only_nodes_with_a_trusted_certificate() {
    let store = fresh().await;
    let (authority, other) = (Authority::new(), Authority::new());
    // Addresses that anyone with access to the store could have added: one without TLS, one with another authority's
    // certificate. The test records connections and what arrives over TLS.
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stranger = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let of = |scheme: &str, at: &TcpListener| format!("{scheme}://localhost:{}", at.local_addr().unwrap().port());
    let mut others = Vec::new();
    for address in [of("http", &plain), of("https", &stranger)] {
        let settings = Settings { node: Some(Node { address }), ..Settings::default() };
        others.push(Engine::open(Arc::clone(&store), Arc::new(SystemClock), settings).await.unwrap());
    }
    let issued = other.issue(&["localhost"]);
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (chain, key) = (issued.certificate.as_bytes(), issued.key.as_bytes());
        let chain = vec![CertificateDer::from_pem_slice(chain).unwrap()];
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(chain, PrivateKeyDer::from_pem_slice(key).unwrap()).unwrap();
        loop {
            let (stream, _) = stranger.accept().await.unwrap();
            let begun = TlsAcceptor::from(Arc::new(config.clone())).accept(stream).await;
            let mut came = Vec::new();
            if let Ok(mut stream) = begun {
                // With TLS 1.3 the server side finishes before the client has checked the certificate.
                drop(stream.read_to_end(&mut came).await);
            }
            heard.send(came).unwrap();
        }
    });
    let (one, at_one) = open_encrypting(&store, &authority).await;
    let (two, at_two) = open_encrypting(&store, &authority).await;
    while one.nodes().alive().len() < 4 || two.nodes().alive().len() < 4 {
        tokio::task::yield_now().await;
    }
    let polling = tokio::spawn(async move {
        at_two.poll_decider("deciders", &PollDecider::default(), Duration::from_secs(20)).await.unwrap()
    });
    while !two.render_metrics().contains("baton_pollers_waiting{") {
        tokio::task::yield_now().await;
    }
    start_w(&at_one).await;
    let task = tokio::time::timeout(Duration::from_secs(25), polling).await.expect("it comes").unwrap();
    assert_eq!(task.expect("a turn").workflow_id, "w");
    // The second node has told all nodes that a poll waits, but closed the connection with the untrusted certificate.
    let came = tokio::time::timeout(PATIENCE, hears.recv()).await.expect("it was contacted").unwrap();
    assert_eq!(String::from_utf8_lossy(&came), "");
    while let Ok(came) = hears.try_recv() {
        assert_eq!(String::from_utf8_lossy(&came), "");
    }
    // No node has connected to the address without TLS.
    assert!(tokio::time::timeout(Duration::ZERO, plain.accept()).await.is_err());
}

/// Starts the activity `a` of run `w`, and returns its token.
async fn start_activity(client: &Client) -> String {
    start_w(client).await;
    let turn = client.poll_decider("deciders", &PollDecider::default(), PATIENCE).await.unwrap().expect("a turn");
    let activity_type = "do".to_owned();
    let task_list = Some("acts".to_owned());
    let activity = ScheduleActivity { activity_id: "a".to_owned(), activity_type, task_list, ..Default::default() };
    let complete = CompleteTurn { decisions: vec![activity.into()], ..CompleteTurn::default() };
    client.complete_turn(&turn.token, &complete, Patience::None).await.unwrap();
    client.poll_activity("acts", &PollActivity::default(), PATIENCE).await.unwrap().expect("an activity").token
}

#[tokio::test]
async fn output_is_appended_and_read_at_any_node_until_its_node_leaves() {
    let store = fresh().await;
    let (one, at_one) = open(&store).await;
    let (two, at_two) = open(&store).await;
    while one.nodes().alive().len() < 2 || two.nodes().alive().len() < 2 {
        tokio::task::yield_now().await;
    }
    let token = start_activity(&at_one).await;
    let append = async |client: &Client, sequence: u32| {
        let chunks = vec![history::Payload::of(&sequence).unwrap()];
        client.append_output(&token, &AppendOutput { chunks, sequence: Some(sequence) }).await.unwrap()
    };
    append(&at_one, 0).await;
    append(&at_two, 1).await;
    for (number, client) in [&at_one, &at_two].into_iter().enumerate() {
        let page = client.activity_output("w", "a", &OutputPosition::default(), None).await.unwrap();
        assert_eq!(page.chunks.len(), 2 + number);
        let after = OutputPosition::after(&page);
        let following = client.activity_output("w", "a", &after, Some(PATIENCE));
        let (page, _) = tokio::join!(following, append(&at_two, u32::try_from(page.next).unwrap()));
        assert_eq!(page.unwrap().chunks.len(), 1);
        let other = client.activity_output("w", "b", &OutputPosition::default(), None).await.unwrap_err();
        assert_eq!(other.code(), Some("output-not-kept"));
    }
    let (home, left, at_left) = if one.render_metrics().contains("baton_activity_outputs 1\n") {
        (&one, &two, &at_two)
    } else {
        (&two, &one, &at_one)
    };
    assert!(left.render_metrics().contains("baton_activity_outputs 0\n"), "one node keeps the output");
    let page = at_left.activity_output("w", "a", &OutputPosition::default(), None).await.unwrap();
    let stream = format!("{}/v1/domains/default/workflows/w/activities/a/output?from=3", at_left.url());
    let follow = reqwest::Client::new().get(stream).header("accept", "text/event-stream").bearer_auth(SECRET);
    let following = follow.timeout(PATIENCE).send().await.unwrap();
    home.begin_shutdown();
    let messages = following.text().await.unwrap();
    assert!(messages.contains("event: chunk\n") && !messages.contains("event: gap\n"), "{messages}");
    let lost = messages.split("event: lost\n").nth(1).expect("the last message");
    assert!(lost.contains("output-not-kept"), "{messages}");
    assert_eq!(left.nodes().alive().len(), 1);
    let lost = at_left.activity_output("w", "a", &OutputPosition::after(&page), None).await.unwrap_err();
    assert_eq!(lost.code(), Some("output-not-kept"));
    // The activity continues, and its next output is kept by the other node.
    assert_eq!(append(at_left, u32::try_from(page.next).unwrap()).await.next, page.next + 1);
    at_left.succeed_activity(&token, &SucceedActivity::default(), Patience::None).await.unwrap();
    let page = at_left.activity_output("w", "a", &OutputPosition::default(), None).await.unwrap();
    assert_eq!(page.end.unwrap().event.as_deref(), Some("ActivitySuccess"));
}
