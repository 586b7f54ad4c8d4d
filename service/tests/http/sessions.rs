//! Browser sessions: sign-in, cookies, expiry, and requests from other sites.

use std::sync::Arc;

use engine::Clock as _;
use serde_json::{Value, json};
use service::access::{
    Credential, Credentials, Moment, SESSION_AGE_MAX, SESSION_IDLE_MAX, SESSIONS_OF_ONE_MAX, Secret,
};
use service::api::router_for;

use crate::holders::credential;
use crate::support::{Answer, Api, Ask, WORKFLOWS};

const HOST: &str = "baton.test:7420";
const ORIGIN: &str = "http://baton.test:7420";
const SIGNAL: &str = "/v1/domains/default/workflows/w/signals/s";

fn stanzas() -> Vec<Credential> {
    let one = || vec!["default".to_owned()];
    vec![
        Credential { applications: one(), ..credential("ann") },
        Credential { readers: one(), ..credential("ben") },
        Credential { operator: true, ..credential("ops") },
    ]
}

/// A service with credentials, and a run `w`.
async fn guarded() -> (Api, Credentials) {
    let api = Api::open().await;
    api.start("w").await;
    let credentials = Credentials::new(stanzas()).unwrap();
    let router = router_for(Arc::clone(&api.engine), credentials.clone());
    (Api { router, ..api }, credentials)
}

/// Cookie and CSRF token of a signed-in browser.
#[derive(Clone)]
struct SignedIn {
    cookie: String,
    csrf: String,
}

/// A request from a page of the service itself.
fn from_page(ask: Ask) -> Ask {
    ask.header("host", HOST).header("origin", ORIGIN).header("sec-fetch-site", "same-origin")
}

fn signing_in(secret: &str) -> Ask {
    let ask = Ask::new("POST", "/v1/session").header("content-type", "application/json");
    from_page(ask.header("authorization", &format!("Bearer {secret}")))
}

impl Api {
    async fn sign_in(&self, secret: &str) -> SignedIn {
        let answer = self.ask(signing_in(secret)).await;
        let csrf = answer.json(201)["csrfToken"].as_str().unwrap().to_owned();
        let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        SignedIn { cookie, csrf }
    }

    async fn status(&self, ask: Ask) -> (u16, String) {
        let answer = Answer::read(self.call(ask).await).await;
        let code = serde_json::from_str::<Value>(&answer.text).unwrap_or_default()["code"].as_str().map(str::to_owned);
        (answer.status.as_u16(), code.unwrap_or_default())
    }

    async fn reads(&self, who: &SignedIn) -> (u16, String) {
        self.status(who.with(Ask::get(WORKFLOWS))).await
    }
}

impl SignedIn {
    /// The request with the cookie, but without the CSRF token.
    fn with(&self, ask: Ask) -> Ask {
        from_page(ask.header("cookie", &self.cookie))
    }

    /// The request with the cookie and the CSRF token.
    fn writes(&self, ask: Ask) -> Ask {
        self.with(ask).header("baton-csrf", &self.csrf)
    }
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn sign_in_sets_a_strict_http_only_cookie() {
    let (api, _) = guarded().await;
    let answer = api.ask(signing_in("ann")).await;
    let cookie = answer.header("set-cookie").to_owned();
    assert!(cookie.starts_with("baton-session-7420="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200"), "{cookie}");
    let info = answer.json(201);
    assert_eq!(
        info["permissions"],
        json!({ "name": "ann", "operator": false, "metrics": false, "applications": ["default"] })
    );
    assert_eq!(info["expiresAt"], json!(api.clock.now().plus(SESSION_AGE_MAX)));
    assert!(!cookie.contains(info["csrfToken"].as_str().unwrap()), "the cookie does not contain the CSRF token");
    // Behind a TLS proxy, the page's origin has `https`.
    let https = Ask::new("POST", "/v1/session").header("content-type", "application/json");
    let https =
        https.header("authorization", "Bearer ann").header("host", "baton.test").header("origin", "https://baton.test");
    let cookie = api.ask(https).await.header("set-cookie").to_owned();
    assert!(cookie.starts_with("__Host-baton-session=") && cookie.ends_with("; Secure"), "{cookie}");

    let ann = api.sign_in("ann").await;
    assert_eq!(api.reads(&ann).await, is(200, ""));
    let shown = api.ask(ann.with(Ask::get("/v1/session"))).await.json(200);
    assert_eq!((shown["csrfToken"].as_str(), &shown["permissions"]["name"]), (Some(ann.csrf.as_str()), &json!("ann")));
    assert_eq!(api.status(ann.writes(Ask::post(SIGNAL, &json!({})))).await, is(202, ""));
    let history = api.ask(ann.with(Ask::get(&format!("{WORKFLOWS}/w/history")))).await.json(200);
    assert_eq!(history["events"][2]["by"], "ann", "events have the name of the credential");
}

#[tokio::test]
async fn a_cookie_over_tls_is_bound_to_the_host() {
    let (api, credentials) = guarded().await;
    let directory = tempfile::tempdir().unwrap();
    crate::certificates::Authority::new().issue(&["localhost"]).write(directory.path());
    let files = service::tls::TlsFiles {
        certificate: directory.path().join("tls.crt"),
        key: directory.path().join("tls.key"),
        callers: None,
    };
    let tls = service::tls::Tls::open(files, Arc::new(engine::SystemClock)).unwrap();
    api.front.set_tls(tls.standing());
    let router = router_for(api.front.clone(), credentials);
    let api = Api { router, ..api };
    // Also if the page's origin does not have `https`.
    let cookie = api.ask(signing_in("ann")).await.header("set-cookie").to_owned();
    let (name, rest) = cookie.split_once('=').unwrap();
    assert_eq!(name, "__Host-baton-session-7420");
    let attributes: Vec<&str> = rest.split("; ").skip(1).collect();
    assert!(attributes.contains(&"Secure") && attributes.contains(&"Path=/"), "{cookie}");
    assert!(!cookie.to_lowercase().contains("domain"), "{cookie}");
    let ann = api.sign_in("ann").await;
    assert_eq!(api.reads(&ann).await, is(200, ""));
    // A neighboring host, or a response without TLS, can set a cookie without the prefix.
    let planted = SignedIn { cookie: ann.cookie.replace("__Host-", ""), ..ann.clone() };
    assert_eq!(api.reads(&planted).await, is(401, "unauthorized"));
    let both = SignedIn { cookie: format!("{}x; {}", planted.cookie, ann.cookie), ..ann.clone() };
    assert_eq!(api.reads(&both).await, is(200, ""));
    let over = api.ask(ann.writes(Ask::new("DELETE", "/v1/session"))).await;
    let forgotten = over.header("set-cookie");
    assert!(forgotten.starts_with("__Host-baton-session-7420=;") && forgotten.ends_with("; Secure"), "{forgotten}");
}

#[tokio::test]
async fn a_session_behind_a_tls_proxy_needs_no_origin() {
    let (api, _) = guarded().await;
    let page = |ask: Ask| ask.header("host", "baton.test").header("sec-fetch-site", "same-origin");
    let ask = Ask::new("POST", "/v1/session").header("content-type", "application/json");
    let ask = page(ask.header("authorization", "Bearer ann")).header("origin", "https://baton.test");
    let cookie = api.ask(ask).await.header("set-cookie").split(';').next().unwrap().to_owned();
    assert_eq!(api.status(page(Ask::get(WORKFLOWS)).header("cookie", &cookie)).await, is(200, ""));
    // The prefixed cookie, which a neighboring host cannot set, takes precedence.
    let both = format!("baton-session=x; {cookie}");
    assert_eq!(api.status(page(Ask::get(WORKFLOWS)).header("cookie", &both)).await, is(200, ""));
}

#[tokio::test]
async fn a_cookie_without_csrf_token_changes_nothing() {
    let (api, _) = guarded().await;
    let ops = api.sign_in("ops").await;
    let other = api.sign_in("ops").await;
    let writes = || {
        [
            Ask::post(SIGNAL, &json!({})),
            Ask::new("DELETE", &format!("{WORKFLOWS}/w?terminate=true")),
            Ask::new("DELETE", "/v1/session"),
            Ask::post("/v1/domains", &json!({ "name": "other" })),
            Ask::post("/v1/domains/default/task-lists/deciders/decider/poll", &json!({})).header("prefer", "wait=0"),
            Ask::post("/v1/session", &json!({})),
        ]
    };
    let before = api.engine.registry().domains().await.unwrap();
    for csrf in [None, Some(""), Some(other.csrf.as_str()), Some(&ops.csrf[1..]), Some("nonsense")] {
        for ask in writes() {
            let ask = ops.with(ask);
            let ask = if let Some(csrf) = csrf { ask.header("baton-csrf", csrf) } else { ask };
            assert_eq!(api.status(ask).await, is(403, "csrf-token-missing"), "{csrf:?}");
        }
    }
    assert_eq!(api.engine.registry().domains().await.unwrap(), before);
    assert_eq!(api.reads(&ops).await, is(200, ""), "the session is still valid");
    // A session cannot start another, which would extend its maximum age.
    let ask = ops.writes(Ask::post("/v1/session", &json!({})));
    assert_eq!(api.status(ask).await, is(401, "unauthorized"));
    // A program with a secret needs no CSRF token.
    let ask = Ask::post(SIGNAL, &json!({})).header("authorization", "Bearer ops");
    assert_eq!(api.status(ask).await, is(202, ""));
}

#[tokio::test]
async fn an_invalid_or_foreign_cookie_is_refused() {
    let (api, _) = guarded().await;
    let (elsewhere, _) = guarded().await;
    let (ann, foreign) = (api.sign_in("ann").await, elsewhere.sign_in("ann").await);
    let (name, secret) = ann.cookie.split_once('=').unwrap();
    let swapped: String = secret.chars().rev().collect();
    for cookie in [
        format!("{name}="),
        format!("{name}={}", &secret[..secret.len() - 1]),
        format!("{name}={secret}A"),
        format!("{name}={swapped}"),
        format!("{name}={}", "A".repeat(43)),
        format!("{name}={}", ann.csrf),
        foreign.cookie.clone(),
    ] {
        let made_up = SignedIn { cookie: cookie.clone(), ..ann.clone() };
        assert_eq!(api.reads(&made_up).await, is(401, "session-expired"), "{cookie}");
        assert_eq!(
            api.status(made_up.writes(Ask::post(SIGNAL, &json!({})))).await,
            is(401, "session-expired"),
            "{cookie}"
        );
    }
    // Cookies of a service on another port of the host, and other cookies, are ignored.
    for cookie in [format!("baton-session-7421={secret}"), format!("baton-session={secret}"), format!("other={secret}")]
    {
        let other = SignedIn { cookie, ..ann.clone() };
        assert_eq!(api.reads(&other).await, is(401, "unauthorized"));
    }
    let among = SignedIn { cookie: format!("a=b; {}; c=d", ann.cookie), ..ann };
    assert_eq!(api.reads(&among).await, is(200, ""));
}

#[tokio::test]
async fn a_cookie_counts_only_in_requests_of_the_services_pages() {
    let (api, _) = guarded().await;
    let ops = api.sign_in("ops").await;
    let read = || Ask::get(WORKFLOWS).header("host", HOST).header("cookie", &ops.cookie);
    assert_eq!(api.status(read()).await, is(200, ""));
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://baton.test:9999"),
    ] {
        assert_eq!(api.status(read().header(name, value)).await, is(401, "unauthorized"), "{name}: {value}");
    }
    // The SWF protocol accepts no cookies.
    let swf = Ask::text("/", r#"{"registrationStatus":"REGISTERED"}"#)
        .header("x-amz-target", "SimpleWorkflowService.ListDomains")
        .header("host", HOST)
        .header("cookie", &ops.cookie)
        .header("baton-csrf", &ops.csrf);
    assert_eq!(api.status(swf).await.0, 400);
    // A secret takes precedence over a cookie.
    let both = read().header("authorization", "Bearer nobody");
    assert_eq!(api.status(both).await, is(401, "unauthorized"));
}

#[tokio::test]
async fn a_session_follows_its_credentials_secret_and_levels() {
    let (api, credentials) = guarded().await;
    let (ann, ben, ops) = (api.sign_in("ann").await, api.sign_in("ben").await, api.sign_in("ops").await);
    assert_eq!(api.status(ben.writes(Ask::post(SIGNAL, &json!({})))).await, is(403, "forbidden"));
    let mut changed = stanzas();
    changed.remove(0);
    changed[0].applications = vec!["default".to_owned()];
    changed[1].secret_sha256 = credential("another").secret_sha256;
    credentials.replace(changed).unwrap();
    assert_eq!(api.reads(&ann).await, is(401, "session-expired"), "the credential was revoked");
    assert_eq!(api.reads(&ops).await, is(401, "session-expired"), "it has another secret");
    assert_eq!(api.status(ben.writes(Ask::post(SIGNAL, &json!({})))).await, is(202, ""), "it has further levels");
    // The session has ended, and restoring the credential does not restore it.
    credentials.replace(stanzas()).unwrap();
    assert_eq!(api.reads(&ann).await, is(401, "session-expired"));
    assert_eq!(api.reads(&ben).await, is(200, ""));
}

#[tokio::test]
async fn a_session_ends_with_its_secret_when_idle_old_or_signed_out() {
    let (api, credentials) = guarded().await;
    let expires = Some(Moment(api.clock.now().plus(history::Duration::from_secs(600))));
    let secret = Secret { sha256: credential("short").secret_sha256, not_before: None, expires };
    let mut changed = stanzas();
    changed[0].secrets = vec![secret];
    credentials.replace(changed).unwrap();
    let (short, ann) = (api.sign_in("short").await, api.sign_in("ann").await);
    api.clock.advance(history::Duration::from_secs(600));
    assert_eq!(api.reads(&short).await, is(401, "session-expired"));
    assert_eq!(api.reads(&ann).await, is(200, ""));
    api.clock.advance(SESSION_IDLE_MAX);
    assert_eq!(api.reads(&ann).await, is(401, "session-expired"), "it was idle");
    let (ann, other) = (api.sign_in("ann").await, api.sign_in("ann").await);
    let answer = Answer::read(api.call(ann.writes(Ask::new("DELETE", "/v1/session"))).await).await;
    assert_eq!(answer.status.as_u16(), 204);
    assert!(answer.header("set-cookie").contains("Max-Age=0"), "{:?}", answer.headers);
    assert_eq!(api.reads(&ann).await, is(401, "session-expired"));
    assert_eq!(api.reads(&other).await, is(200, ""), "another session of the same credential stays valid");
}

#[tokio::test]
async fn a_used_session_is_valid_until_its_maximum_age() {
    let (api, _) = guarded().await;
    let ann = api.sign_in("ann").await;
    let moment = history::Duration::from_millis(1);
    let nearly_idle = history::Duration::from_millis(SESSION_IDLE_MAX.as_millis() - 1);
    let over = api.clock.now().plus(SESSION_AGE_MAX);
    while api.clock.now().plus(nearly_idle) < over {
        api.clock.advance(nearly_idle);
        assert_eq!(api.reads(&ann).await, is(200, ""), "it was used in time");
    }
    api.clock.advance(history::Duration::from_millis(over.as_millis() - api.clock.now().as_millis() - 1));
    assert_eq!(api.reads(&ann).await, is(200, ""));
    api.clock.advance(moment);
    assert_eq!(api.reads(&ann).await, is(401, "session-expired"), "it is too old");
    let ann = api.sign_in("ann").await;
    api.clock.advance(SESSION_IDLE_MAX);
    assert_eq!(api.reads(&ann).await, is(401, "session-expired"), "it was idle");
}

#[tokio::test]
async fn a_stream_ends_when_its_reader_signs_out() {
    let (api, _) = guarded().await;
    let ann = api.sign_in("ann").await;
    let path = format!("{WORKFLOWS}/w/history");
    let stream = api.call(ann.with(Ask::get(&path)).header("accept", "text/event-stream")).await;
    assert_eq!(stream.status().as_u16(), 200);
    let read = tokio::spawn(Answer::read(stream));
    assert_eq!(api.status(ann.writes(Ask::new("DELETE", "/v1/session"))).await.0, 204);
    let told = tokio::time::timeout(crate::support::PATIENCE, read).await.expect("it ends");
    assert!(told.is_err() || told.is_ok_and(|answer| !answer.text.contains("WorkflowSuccess")));
}

#[tokio::test]
async fn too_many_sign_ins_end_only_own_sessions() {
    let (api, _) = guarded().await;
    let (first, ben) = (api.sign_in("ann").await, api.sign_in("ben").await);
    for _ in 0..SESSIONS_OF_ONE_MAX {
        api.sign_in("ann").await;
    }
    assert_eq!(api.reads(&first).await, is(401, "session-expired"));
    assert_eq!(api.reads(&ben).await, is(200, ""));
}

#[tokio::test]
async fn without_valid_secret_or_credentials_no_session_starts() {
    let (api, _) = guarded().await;
    let answer = Answer::read(api.call(signing_in("nobody")).await).await;
    answer.problem(401, "unauthorized");
    assert!(!answer.headers.contains_key("set-cookie"));
    let open = Api::open().await;
    let info = open.get("/v1/session").await.json(200);
    assert_eq!(info, json!({ "permissions": { "operator": true, "metrics": true } }));
    let answer = open.ask(Ask::new("POST", "/v1/session")).await;
    assert_eq!((answer.json(201), answer.headers.contains_key("set-cookie")), (info, false));
}

#[tokio::test]
async fn operators_list_credentials_without_secrets_and_nodes() {
    let (api, _) = guarded().await;
    let bearer = |path: &str| Ask::get(path).header("authorization", "Bearer ops");
    let answer = api.ask(bearer("/v1/credentials")).await;
    let listed = answer.json(200);
    let names: Vec<_> = listed["credentials"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["ann", "ben", "ops"]);
    assert_eq!(listed["credentials"][1]["readers"], json!(["default"]));
    for it in stanzas() {
        assert!(!answer.text.contains(&it.secret_sha256), "{}", answer.text);
    }
    assert_eq!(
        api.ask(bearer("/v1/nodes")).await.json(200),
        json!({ "nodes": [], "dueShards": 1 }),
        "its store is not shared"
    );
}
