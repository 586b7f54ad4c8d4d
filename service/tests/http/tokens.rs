//! Tokens of issuers: accepted tokens with their permissions, and refused ones.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use history::Permissions;
use http_body_util::BodyExt as _;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use service::access::TOKEN_BYTES_MAX;
use service::access::{ClaimRule, Credentials, Issuer, Stanzas};
use service::api::router_for;
use simulation::manual_clock::BEGIN;

use crate::holders::one;
use crate::issuer::{Key, claims as claims_until, jwks};
use crate::support::{Answer, Api, Ask, DECIDERS, WORKFLOWS, schedule, turn_path};

/// Time of the tests, in seconds.
pub(crate) const NOW: u64 = BEGIN / 1_000;

/// Claims of a token that is valid for five minutes.
pub(crate) fn claims(group: &str) -> Value {
    claims_until(group, NOW + 300)
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

fn without(mut claims: Value, name: &str) -> Value {
    claims.as_object_mut().unwrap().remove(name);
    claims
}

pub(crate) fn rule(has: &str) -> ClaimRule {
    ClaimRule { claim: "groups".to_owned(), has: has.to_owned(), ..ClaimRule::default() }
}

/// An issuer without keys.
pub(crate) fn issuer() -> Issuer {
    Issuer {
        name: "corp".to_owned(),
        issuer: "https://id.example".to_owned(),
        audiences: one("baton"),
        rules: vec![
            ClaimRule { operator: true, ..rule("ops") },
            ClaimRule { readers: one("default"), ..rule("look") },
            ClaimRule { deciders: one("default/*"), ..rule("decide") },
            ClaimRule { applications: one("default"), ..rule("start") },
        ],
        ..Issuer::default()
    }
}

/// An issuer with its keys in a file.
pub(crate) fn in_file(keys: &[&Key]) -> (tempfile::NamedTempFile, Issuer) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), jwks(keys)).unwrap();
    let issuer = Issuer { jwks_file: Some(file.path().to_owned()), ..issuer() };
    (file, issuer)
}

pub(crate) fn of(issuers: Vec<Issuer>) -> Stanzas {
    Stanzas { issuers, ..Stanzas::default() }
}

pub(crate) fn guarded(open: &Api, credentials: &Credentials) -> Api {
    let router = router_for(Arc::clone(&open.engine), credentials.clone());
    open.with(router)
}

pub(crate) fn bearer(ask: Ask, token: &str) -> Ask {
    ask.header("authorization", &format!("Bearer {token}"))
}

pub(crate) async fn domain(api: &Api, token: &str) -> Answer {
    api.ask(bearer(Ask::get("/v1/domains/default"), token)).await
}

/// A service that accepts tokens signed with these keys.
async fn accepting(keys: &[&Key]) -> (Api, Api) {
    let open = Api::open().await;
    let (_file, issuer) = in_file(keys);
    let guarded = guarded(&open, &Credentials::new(of(vec![issuer])).unwrap());
    (open, guarded)
}

#[tokio::test(start_paused = true)]
async fn every_invalid_token_is_refused_with_the_same_problem() {
    let keys = [Key::new("rsa", Algorithm::RS256), Key::new("ec", Algorithm::ES256), Key::ed("ed")];
    let [rsa, ec, ed] = &keys;
    let (open, guarded) = accepting(&[rsa, ec, ed]).await;
    for key in &keys {
        domain(&guarded, &key.sign(&claims("ops"))).await.json(200);
    }
    for good in [
        with(claims("ops"), "aud", json!(["others", "baton"])),
        with(claims("ops"), "nbf", json!(NOW + 60)),
        with(claims("ops"), "exp", json!(NOW - 59)),
        with(claims("ops"), "exp", json!(1e12 + 0.5)),
        with(claims("ops"), "groups", json!("ops")),
    ] {
        domain(&guarded, &ec.sign(&good)).await.json(200);
    }

    let other = Key::new("ec", Algorithm::ES256);
    let part = |part: Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let good = ec.sign(&claims("ops"));
    let good: Vec<&str> = good.split('.').collect();
    let none = part(json!({ "alg": "none", "kid": "ec" }));
    // The public key, used as a shared secret.
    let public = URL_SAFE_NO_PAD.decode(rsa.jwk["n"].as_str().unwrap()).unwrap();
    let shared = |secret: &[u8]| {
        let header = Header { kid: Some("rsa".to_owned()), ..Header::new(Algorithm::HS256) };
        encode(&header, &claims("ops"), &EncodingKey::from_secret(secret)).unwrap()
    };
    let named = |id: &str, algorithm| Header { kid: Some(id.to_owned()), ..Header::new(algorithm) };
    let critical = Header { crit: Some(vec!["b64".to_owned()]), ..ec.header() };
    let says = |name: &str, value: Value| ec.sign(&with(claims("ops"), name, value));
    for (what, token) in [
        ("another issuer", says("iss", json!("https://evil.example"))),
        ("issuers", says("iss", json!(["https://id.example"]))),
        ("no issuer", ec.sign(&without(claims("ops"), "iss"))),
        ("another audience", says("aud", json!("others"))),
        ("other audiences", says("aud", json!(["others", "more"]))),
        ("an audience that is no text", says("aud", json!({ "baton": true }))),
        ("no audience", ec.sign(&without(claims("ops"), "aud"))),
        ("no end", ec.sign(&without(claims("ops"), "exp"))),
        ("an end that is no number", says("exp", json!("tomorrow"))),
        ("an end before all time", says("exp", json!(-1))),
        ("a beginning that is no number", says("nbf", json!([1]))),
        ("an end before its beginning", says("nbf", json!(NOW + 900))),
        ("no name", ec.sign(&without(claims("ops"), "sub"))),
        ("an empty name", says("sub", json!(" "))),
        ("a name with a line break", says("sub", json!("a\nb"))),
        ("a name that is too long", says("sub", json!("a".repeat(124)))),
        ("another key of the same name", other.sign(&claims("ops"))),
        ("a key that is not known", ec.sign_as(&named("x", Algorithm::ES256), &claims("ops"))),
        ("the key of another kind", ec.sign_as(&named("rsa", Algorithm::ES256), &claims("ops"))),
        ("an algorithm that the key is not for", rsa.sign_as(&named("rsa", Algorithm::RS512), &claims("ops"))),
        ("no algorithm", format!("{none}.{}.", good[1])),
        ("no algorithm, with a signature", format!("{none}.{}.{}", good[1], good[2])),
        ("the public key as a shared secret", shared(&public)),
        ("the published key as a shared secret", shared(rsa.jwk.to_string().as_bytes())),
        ("something critical that is not understood", ec.sign_as(&critical, &claims("ops"))),
        ("another payload", format!("{}.{}.{}", good[0], part(with(claims("ops"), "sub", json!("bob"))), good[2])),
        ("a truncated signature", format!("{}.{}.{}", good[0], good[1], &good[2][..good[2].len() - 2])),
        ("no signature", format!("{}.{}.", good[0], good[1])),
        ("a header that is none", format!("{}.{}.{}", part(json!([1])), good[1], good[2])),
        ("dots", "..".to_owned()),
        ("too long", says("pad", json!("x".repeat(TOKEN_BYTES_MAX)))),
        ("100 KB", says("pad", json!("x".repeat(100_000)))),
    ] {
        let answer = domain(&guarded, &token).await;
        assert_eq!(answer.status.as_u16(), 401, "{what}: {}", answer.text);
        let problem = answer.problem(401, "token-refused");
        assert_eq!(problem["detail"], "the token is not trusted", "{what}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        // A second later, as many wrong secrets are verified again.
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    // Text that does not look like a token is treated as an unknown secret.
    for secret in [format!("{}.{}", good[0], good[1]), format!("{}.x", good.join(".")), "x".repeat(100_000)] {
        domain(&guarded, &secret).await.problem(401, "unauthorized");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(open.engine.render_metrics().contains("baton_denied_requests_total{reason=\"token\"} 32\n"));
    domain(&guarded, &good.join(".")).await.json(200);
    let swf = Ask::text("/", r#"{"name":"default"}"#).header("x-amz-target", "SimpleWorkflowService.DescribeDomain");
    let swf = Answer::read(guarded.call(bearer(swf, &good.join("."))).await).await;
    assert_eq!(swf.status.as_u16(), 400, "the SWF protocol takes only signed requests: {}", swf.text);
    // Guessed tokens are throttled like guessed secrets.
    let mut answers = Vec::new();
    for _ in 0..30 {
        answers.push(domain(&guarded, &other.sign(&claims("ops"))).await.status.as_u16());
    }
    assert_eq!((answers[0], answers[29]), (401, 429));
}

#[tokio::test(start_paused = true)]
async fn only_an_access_token_without_a_constraint_is_accepted() {
    let key = Key::ed("ed");
    let (_open, guarded) = accepting(&[&key]).await;
    let typed =
        |typ: Option<&str>| key.sign_as(&Header { typ: typ.map(str::to_owned), ..key.header() }, &claims("ops"));
    let accepted = [None, Some("JWT"), Some("jwt"), Some("at+jwt"), Some("AT+JWT"), Some("application/at+jwt")];
    for typ in accepted.into_iter().chain([Some("Application/JWT")]) {
        let answer = domain(&guarded, &typed(typ)).await;
        assert_eq!(answer.status.as_u16(), 200, "{typ:?}: {}", answer.text);
    }
    let refused = [
        "logout+jwt",
        "dpop+jwt",
        "secevent+jwt",
        "id+jwt",
        "JWS",
        "at+jwt2",
        "application/",
        "",
        " JWT",
        "application/application/jwt",
        "text/jwt",
        "at+jwt; x=y",
    ];
    let refused = refused.map(|typ| (typ.to_owned(), typed(Some(typ))));
    let bound = [json!({ "jkt": "x" }), json!({ "x5t#S256": "x" }), json!({}), json!(null), json!("x")];
    let bound = bound.map(|cnf| (format!("cnf {cnf}"), key.sign(&with(claims("ops"), "cnf", cnf))));
    for (what, token) in refused.into_iter().chain(bound) {
        let answer = domain(&guarded, &token).await;
        assert_eq!(answer.status.as_u16(), 401, "{what}: {}", answer.text);
        answer.problem(401, "token-refused");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn an_expired_or_early_token_is_refused_with_its_time() {
    let key = Key::ed("ed");
    let (open, guarded) = accepting(&[&key]).await;
    let at = |name: &str, at: u64| key.sign(&with(claims("ops"), name, json!(at)));
    let early = with(claims("ops"), "exp", json!(NOW + 90_000));
    let early = key.sign(&with(early, "nbf", json!(NOW + 86_400)));
    let expired = domain(&guarded, &at("exp", NOW - 86_400)).await.problem(401, "credential-expired");
    assert!(expired["detail"].as_str().unwrap().contains("2023-11-13T22:14:20"), "{expired}");
    let problem = domain(&guarded, &early).await.problem(401, "credential-not-yet-valid");
    assert!(problem["detail"].as_str().unwrap().contains("2023-11-15T22:12:20"), "{problem}");
    // A forged token does not reveal its times.
    let stranger = Key::ed("ed");
    let old = with(claims("ops"), "exp", json!(NOW - 86_400));
    domain(&guarded, &stranger.sign(&old)).await.problem(401, "token-refused");
    // A cached valid token is checked against the clock again.
    let token = key.sign(&claims("ops"));
    domain(&guarded, &token).await.json(200);
    open.clock.advance(history::Duration::from_millis(360_000 - 1));
    domain(&guarded, &token).await.json(200);
    open.clock.advance(history::Duration::from_millis(1));
    domain(&guarded, &token).await.problem(401, "credential-expired");
    let metrics = open.engine.render_metrics();
    assert!(metrics.contains("baton_denied_requests_total{reason=\"expired\"} 2\n"), "{metrics}");
    assert!(metrics.contains("baton_denied_requests_total{reason=\"not-yet-valid\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn each_issuer_has_separate_keys_algorithms_and_rules() {
    let (rsa, ec) = (Key::new("rsa", Algorithm::RS256), Key::new("ec", Algorithm::ES256));
    let open = Api::open().await;
    let (_file, corp) = in_file(&[&rsa, &ec]);
    let (_other_file, lab) = in_file(&[&ec]);
    let corp = Issuer { algorithms: Some(one("RS256")), ..corp };
    let rules = vec![ClaimRule { readers: one("default"), ..rule("ops") }];
    let lab = Issuer { name: "lab".to_owned(), issuer: "https://lab.example".to_owned(), rules, ..lab };
    let guarded = guarded(&open, &Credentials::new(of(vec![corp, lab])).unwrap());
    let of_lab = |key: &Key| key.sign(&with(claims("ops"), "iss", json!("https://lab.example")));
    domain(&guarded, &rsa.sign(&claims("ops"))).await.json(200);
    domain(&guarded, &ec.sign(&claims("ops"))).await.problem(401, "token-refused");
    domain(&guarded, &of_lab(&ec)).await.json(200);
    domain(&guarded, &of_lab(&rsa)).await.problem(401, "token-refused");
    let metrics = guarded.call(bearer(Ask::get("/metrics"), &of_lab(&ec))).await;
    assert_eq!(metrics.status().as_u16(), 403, "rules of the other issuer do not count");
}

#[tokio::test]
async fn all_matching_rules_add_up_and_none_allows_nothing() {
    let key = Key::ed("ed");
    let (_open, guarded) = accepting(&[&key]).await;
    let poll = || Ask::post(DECIDERS, &json!({})).header("prefer", "wait=0");
    let token = |groups: Value| key.sign(&with(claims("x"), "groups", groups));
    for (groups, reads, polls) in [
        (json!(["look", "decide"]), 200, 204),
        (json!(["look"]), 200, 403),
        (json!(["decide"]), 403, 204),
        (json!("decide"), 403, 204),
        (json!(["ops"]), 200, 204),
        (json!([]), 403, 403),
        (json!(["staff", "opsx", 7, null]), 403, 403),
        (json!({ "ops": true }), 403, 403),
        (json!("look decide"), 403, 403),
        (json!(7), 403, 403),
    ] {
        let token = token(groups.clone());
        let read = guarded.ask(bearer(Ask::get(WORKFLOWS), &token)).await;
        assert_eq!(read.status.as_u16(), reads, "{groups}: {}", read.text);
        assert_eq!(guarded.ask(bearer(poll(), &token)).await.status.as_u16(), polls, "{groups}");
    }
    let refused = domain(&guarded, &token(json!(["staff"]))).await.problem(403, "forbidden");
    assert!(refused["detail"].as_str().unwrap().contains("no rule of its issuer"), "{refused}");
    let unasked = guarded.ask(bearer(Ask::get("/healthz"), &token(json!(["staff"])))).await;
    assert_eq!(unasked.status.as_u16(), 200, "{}", unasked.text);
}

#[tokio::test]
async fn a_token_decides_within_its_rules_and_events_have_its_name() {
    let key = Key::ed("ed");
    let open = Api::open().await;
    let (_file, issuer) = in_file(&[&key]);
    let limited = |has: &str, list: &str, to: &str| ClaimRule {
        deciders: one(list),
        may_decide: Some(Permissions { task_lists: Some(one(to)), ..Permissions::default() }),
        ..rule(has)
    };
    let rules = vec![
        limited("mails", "default/deciders", "mail"),
        limited("prints", "default/deciders", "print"),
        limited("elsewhere", "default/others", "PCI"),
        ClaimRule { deciders: one("default/free"), ..rule("free") },
        ClaimRule { applications: one("default"), ..rule("start") },
    ];
    let name_claim = Some("preferred_username".to_owned());
    let credentials = Credentials::new(of(vec![Issuer { rules, name_claim, ..issuer }])).unwrap();
    let guarded = guarded(&open, &credentials);
    let groups = json!(["mails", "prints", "elsewhere", "free", "start"]);
    let token = key.sign(&with(with(claims("x"), "groups", groups), "preferred_username", json!("Ann B.")));
    let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" });
    guarded.ask(bearer(Ask::post(WORKFLOWS, &start), &token)).await.json(201);
    let turn = turn_path(&guarded.ask(bearer(Ask::post(DECIDERS, &json!({})), &token)).await.json(200));
    let decisions: Vec<Value> = ["mail", "print", "PCI"].iter().map(|list| schedule(list, list)).collect();
    let complete = Ask::post(&format!("{turn}/complete"), &json!({ "decisions": decisions }));
    guarded.ask(bearer(complete, &token)).await.json(200);
    let history = open.get(&format!("{WORKFLOWS}/w/history")).await.json(200);
    let events = history["events"].as_array().unwrap();
    let of = |id: &str| events.iter().find(|event| event["activityId"] == id).unwrap()["type"].clone();
    assert_eq!(
        [of("mail"), of("print"), of("PCI")],
        ["ActivityScheduled", "ActivityScheduled", "ActivityScheduleFailed"]
    );
    for event in events {
        assert_eq!(event["by"], "corp:Ann B.", "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_and_a_stream_end_when_their_token_expires() {
    let key = Key::ed("ed");
    let (open, guarded) = accepting(&[&key]).await;
    open.start("w").await;
    open.decide(json!([{ "type": "StartTimer", "timerId": "t", "after": "P9D" }])).await;
    let watch = Ask::get(&format!("{WORKFLOWS}/w/history")).header("accept", "text/event-stream");
    let mut stream = guarded.call(bearer(watch, &key.sign(&claims("look")))).await.into_body();
    let poll = bearer(Ask::post(DECIDERS, &json!({})).header("prefer", "wait=15"), &key.sign(&claims("decide")));
    let expire = async {
        open.until_pollers("deciders", 1).await;
        open.clock.advance(history::Duration::from_secs(360));
        tokio::time::Instant::now()
    };
    let (answer, expired) = tokio::join!(guarded.call(poll), expire);
    assert_eq!(Answer::read(answer).await.json(401)["code"], "credential-revoked");
    assert!(expired.elapsed() <= service::access::REVOKED_WAIT, "{:?}", expired.elapsed());
    let cut_off = async {
        while let Some(frame) = stream.frame().await {
            if frame.is_err() {
                return true;
            }
        }
        false
    };
    assert!(cut_off.await, "the stream ends with an error, not as if it were complete");
    assert!(expired.elapsed() <= service::access::REVOKED_WAIT, "{:?}", expired.elapsed());
}
