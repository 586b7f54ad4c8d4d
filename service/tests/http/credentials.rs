//! Credentials that change: several secrets for a name, expiring secrets, and credentials that are revoked while they
//! are in use.

use std::sync::Arc;
use std::time::Duration;

use history::Timestamp;
use http_body_util::BodyExt as _;
use serde_json::json;
use service::access::{AccessKey, Credential, Credentials, Moment, Secret};
use service::access::{EXPIRY_WARNING, SECRETS_MAX};
use service::api::router_for;
use simulation::manual_clock::BEGIN;

use crate::hash::sha256_hex;
use crate::support::{Answer, Api, Ask, DECIDERS, WORKFLOWS};

fn secret(text: &str) -> Secret {
    Secret { sha256: sha256_hex(text), ..Secret::default() }
}

fn at(millis: u64) -> Moment {
    Moment(Timestamp::from_millis(millis))
}

fn decider(name: &str) -> Credential {
    let deciders = vec!["default/*".to_owned()];
    Credential { name: name.to_owned(), secret_sha256: sha256_hex(name), deciders, ..Credential::default() }
}

fn operator(name: &str) -> Credential {
    Credential { name: name.to_owned(), secret_sha256: sha256_hex(name), operator: true, ..Credential::default() }
}

fn credential(name: &str) -> Credential {
    Credential { name: name.to_owned(), secret_sha256: sha256_hex(name), ..Credential::default() }
}

fn guarded(open: &Api, credentials: &Credentials) -> Api {
    let router = router_for(Arc::clone(&open.engine), credentials.clone());
    open.with(router)
}

fn bearer(ask: Ask, secret: &str) -> Ask {
    ask.header("authorization", &format!("Bearer {secret}"))
}

const HOUR: u64 = 3_600_000;

#[tokio::test]
async fn each_secret_of_a_credential_is_valid_in_its_time_only() {
    let open = Api::open().await;
    let credential = Credential {
        name: "rack".to_owned(),
        operator: true,
        secrets: vec![
            secret("always"),
            Secret { expires: Some(at(BEGIN + HOUR)), ..secret("old") },
            Secret { not_before: Some(at(BEGIN + HOUR)), ..secret("new") },
        ],
        ..Credential::default()
    };
    let guarded = guarded(&open, &Credentials::new(vec![credential]).unwrap());
    let ask = async |secret: &str| guarded.ask(bearer(Ask::get("/v1/domains"), secret)).await;
    for good in ["always", "old"] {
        ask(good).await.json(200);
    }
    let early = ask("new").await;
    let problem = early.problem(401, "credential-not-yet-valid");
    assert!(problem["detail"].as_str().unwrap().contains("2023-11-14T23:13:20"), "{problem}");
    open.clock.advance(history::Duration::from_millis(HOUR - 1));
    ask("old").await.json(200);
    open.clock.advance(history::Duration::from_millis(1));
    for good in ["always", "new"] {
        ask(good).await.json(200);
    }
    let expired = ask("old").await;
    let problem = expired.problem(401, "credential-expired");
    assert!(problem["detail"].as_str().unwrap().contains("2023-11-14T23:13:20"), "{problem}");
    assert_eq!(expired.header("www-authenticate"), "Bearer");
    // Only the holder of the secret learns that it has expired.
    ask("olds").await.problem(401, "unauthorized");
    let swf = Ask::text("/", r#"{"name":"default"}"#).header("x-amz-target", "SimpleWorkflowService.DescribeDomain");
    let answer = Answer::read(guarded.call(bearer(swf, "old")).await).await;
    assert!(answer.text.contains("#ExpiredTokenException"), "{}", answer.text);
    let metrics = open.engine.render_metrics();
    assert!(metrics.contains("baton_denied_requests_total{reason=\"expired\"} 2\n"), "{metrics}");
    assert!(metrics.contains("baton_denied_requests_total{reason=\"not-yet-valid\"} 1\n"), "{metrics}");
}

#[test]
fn invalid_credentials_are_refused_by_name() {
    let refused = |credential| Credentials::new(vec![credential]).unwrap_err();
    let never = Secret { not_before: Some(at(BEGIN)), expires: Some(at(BEGIN)), ..secret("s") };
    let never = refused(Credential { secrets: vec![never], ..operator("rack") });
    assert!(never.starts_with("credential `rack`: a secret expires at "), "{never}");
    let short = refused(Credential { secrets: vec![Secret::default()], ..operator("rack") });
    assert!(short.contains("`rack`: the sha256 of a secret must have 64 hexadecimal digits"), "{short}");
    let bare = refused(Credential { secret_sha256: String::new(), ..operator("rack") });
    assert!(bare.starts_with("credential `rack` has no means of authentication; "), "{bare}");
    let secrets = (0..SECRETS_MAX).map(|number| secret(&number.to_string())).collect::<Vec<_>>();
    let most = Credential { secret_sha256: String::new(), secrets: secrets.clone(), ..operator("rack") };
    assert!(Credentials::new(vec![most]).is_ok());
    let many = refused(Credential { secrets, ..operator("rack") });
    assert!(many.starts_with("credential `rack` has 17 secrets, keys and certificates, expected at most 16"), "{many}");
    let half = AccessKey { id: "BATN".to_owned(), ..AccessKey::default() };
    let half = refused(Credential { access_keys: vec![half], ..operator("rack") });
    assert!(half.starts_with("credential `rack`: access-key-id and secret-access-key are both required"), "{half}");
    let twice = Credentials::new(vec![operator("rack"), Credential { name: "rack".to_owned(), ..operator("b") }]);
    assert!(twice.unwrap_err().starts_with("two credentials have the name `rack`; "));
    let same = Credential { secrets: vec![secret("s"), secret("s")], ..operator("rack") };
    assert!(refused(same).contains("the credentials `rack` and `rack` have the same secret"));
}

#[test]
fn a_guessable_secret_is_refused_by_name() {
    let refused = |credential| Credentials::new(vec![credential]).unwrap_err();
    let empty = secret("").sha256;
    for sha256 in [empty.clone(), empty.to_uppercase()] {
        let first = refused(Credential { secret_sha256: sha256.clone(), ..operator("rack") });
        assert!(first.contains("`rack`") && first.contains("hash of an empty text"), "{first}");
        let other = Secret { sha256, ..Secret::default() };
        let other = refused(Credential { secrets: vec![other], ..operator("rack") });
        assert!(other.contains("`rack`") && other.contains("hash of an empty text"), "{other}");
    }
    let key = |secret: &str| AccessKey { id: "BATN".to_owned(), secret: secret.to_owned(), ..AccessKey::default() };
    let short = refused(Credential { access_keys: vec![key("fifteen-letters")], ..operator("rack") });
    let says = "credential `rack`: the secret of the key `BATN` has 15 characters, expected at least 16";
    assert!(short.starts_with(says) && !short.contains("fifteen-letters"), "{short}");
    let legacy = Credential {
        access_key_id: Some("BATN".to_owned()),
        secret_access_key: Some("ü".repeat(15)),
        ..operator("rack")
    };
    assert!(refused(legacy).starts_with(says));
    assert!(Credentials::new(vec![Credential { access_keys: vec![key("sixteen-letters!")], ..operator("r") }]).is_ok());
}

#[test]
fn secrets_that_expire_within_a_week_are_reported() {
    let week = EXPIRY_WARNING.as_millis();
    let credential = Credential {
        secrets: vec![
            Secret { expires: Some(at(BEGIN + week)), ..secret("soon") },
            Secret { expires: Some(at(BEGIN + week + 1)), ..secret("later") },
            Secret { expires: Some(at(BEGIN)), ..secret("over") },
        ],
        access_keys: vec![AccessKey {
            id: "BATN".to_owned(),
            secret: "a-secret-of-the-tests".to_owned(),
            expires: Some(at(BEGIN + 1)),
            ..AccessKey::default()
        }],
        ..operator("rack")
    };
    let expiring = Credentials::new(vec![credential]).unwrap().expiring(Timestamp::from_millis(BEGIN));
    let names: Vec<_> = expiring.iter().map(|it| (it.name.as_str(), it.secret.as_str())).collect();
    assert_eq!(names, [("rack", "BATN"), ("rack", &sha256_hex("soon")[..12])]);
}

#[tokio::test]
async fn replaced_credentials_apply_to_the_next_request() {
    let open = Api::open().await;
    let credentials = Credentials::new(vec![operator("one")]).unwrap();
    let guarded = guarded(&open, &credentials);
    let ask = async |secret: &str| guarded.ask(bearer(Ask::get("/v1/domains"), secret)).await;
    for bad in [vec![operator("two"), operator("two")], Vec::new(), vec![Credential::default()]] {
        assert!(credentials.replace(bad).is_err());
        ask("one").await.json(200);
        ask("two").await.problem(401, "unauthorized");
    }
    let empty = credentials.replace(Vec::new()).unwrap_err();
    assert!(empty.contains("anyone would have full access"), "{empty}");
    credentials.replace(vec![operator("two")]).unwrap();
    ask("one").await.problem(401, "unauthorized");
    ask("two").await.json(200);
    // If a service without credentials gets its first, requests without one are refused.
    let credentials = Credentials::default();
    let api = self::guarded(&open, &credentials);
    api.get("/v1/domains").await.json(200);
    credentials.replace(vec![operator("one")]).unwrap();
    api.get("/v1/domains").await.problem(401, "unauthorized");
}

#[tokio::test(start_paused = true)]
async fn a_poll_with_a_revoked_credential_ends_without_a_task() {
    for comes_meanwhile in [false, true] {
        let open = Api::open().await;
        let credentials = Credentials::new(vec![decider("gone"), decider("stays")]).unwrap();
        let guarded = guarded(&open, &credentials);
        let poll = |secret: &str| bearer(Ask::post(DECIDERS, &json!({})).header("prefer", "wait=15"), secret);
        let waiting = guarded.call(poll("gone"));
        let change = async {
            open.until_pollers("deciders", 1).await;
            credentials.replace(vec![decider("stays")]).unwrap();
            if comes_meanwhile {
                open.start("w").await;
            }
            tokio::time::Instant::now()
        };
        let (answer, revoked) = tokio::join!(waiting, change);
        assert!(revoked.elapsed() <= service::access::REVOKED_WAIT, "{:?}", revoked.elapsed());
        let problem = Answer::read(answer).await.json(401);
        assert_eq!((problem["code"].as_str(), &problem["recorded"]), (Some("credential-revoked"), &json!("unknown")));
        if !comes_meanwhile {
            open.until_pollers("deciders", 0).await;
            open.start("w").await;
        }
        let turn = guarded.ask(poll("stays")).await.json(200);
        assert_eq!(turn["workflowId"], "w");
        assert!(open.engine.render_metrics().contains("baton_denied_requests_total{reason=\"revoked\"} 1\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_ends_only_if_its_own_credential_changes() {
    let open = Api::open().await;
    let credentials = Credentials::new(vec![decider("d"), operator("other")]).unwrap();
    let guarded = guarded(&open, &credentials);
    let waiting = guarded.call(bearer(Ask::post(DECIDERS, &json!({})).header("prefer", "wait=10"), "d"));
    let change = async {
        open.until_pollers("deciders", 1).await;
        credentials.replace(vec![decider("d"), operator("another")]).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        open.until_pollers("deciders", 1).await;
        let less = Credential { deciders: vec!["default/others".to_owned()], ..decider("d") };
        credentials.replace(vec![less]).unwrap();
    };
    let (answer, ()) = tokio::join!(waiting, change);
    assert_eq!(Answer::read(answer).await.json(401)["code"], "credential-revoked");
}

#[tokio::test(start_paused = true)]
async fn a_poll_whose_secret_expires_takes_no_task() {
    let open = Api::open().await;
    let soon = Secret { expires: Some(at(BEGIN + HOUR)), ..secret("soon") };
    let credentials =
        Credentials::new(vec![Credential { secrets: vec![soon], ..decider("d") }, decider("stays")]).unwrap();
    let guarded = guarded(&open, &credentials);
    let poll = |secret: &str| bearer(Ask::post(DECIDERS, &json!({})).header("prefer", "wait=15"), secret);
    let expire = async {
        open.until_pollers("deciders", 1).await;
        open.clock.advance(history::Duration::from_millis(HOUR));
        open.start("w").await;
    };
    let (answer, ()) = tokio::join!(guarded.call(poll("soon")), expire);
    assert_eq!(Answer::read(answer).await.json(401)["code"], "credential-revoked");
    guarded.ask(poll("stays")).await.json(200);
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_ends_when_its_credential_is_revoked() {
    let open = Api::open().await;
    open.start("w").await;
    let credentials = Credentials::new(vec![operator("gone"), operator("stays")]).unwrap();
    let guarded = guarded(&open, &credentials);
    let ask = Ask::get(&format!("{WORKFLOWS}/w/history")).header("accept", "text/event-stream");
    let mut body = guarded.call(bearer(ask, "gone")).await.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    let change = async {
        tokio::task::yield_now().await;
        credentials.replace(vec![operator("stays")]).unwrap();
    };
    let began = tokio::time::Instant::now();
    let (frame, ()) = tokio::join!(body.frame(), change);
    assert!(frame.unwrap().is_err());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_loses_payloads_gets_none_in_open_requests() {
    let open = Api::open().await;
    open.start("w").await;
    let sees = Credential { readers: vec!["default".to_owned()], ..credential("r") };
    let bare = Credential { readers_without_payloads: vec!["default".to_owned()], ..credential("r") };
    let path = format!("{WORKFLOWS}/w/history");
    let signal = || Ask::post(&format!("{WORKFLOWS}/w/signals/s"), &json!({ "input": "salary" }));
    for streams in [true, false] {
        let credentials = Credentials::new(vec![sees.clone()]).unwrap();
        let guarded = guarded(&open, &credentials);
        let narrow = async {
            tokio::task::yield_now().await;
            credentials.replace(vec![bare.clone()]).unwrap();
            open.ask(signal()).await.json(202);
        };
        if streams {
            let ask = Ask::get(&path).header("accept", "text/event-stream");
            let mut body = guarded.call(bearer(ask, "r")).await.into_body();
            assert!(body.frame().await.unwrap().is_ok());
            let (frame, ()) = tokio::join!(body.frame(), narrow);
            assert!(frame.unwrap().is_err(), "the stream ends, and the client reconnects");
        } else {
            let last = open.names("w").await.len();
            let ask = Ask::get(&format!("{path}?after={last}")).header("prefer", "wait=20");
            let (answer, ()) = tokio::join!(guarded.ask(bearer(ask, "r")), narrow);
            assert!(!answer.text.contains("salary"), "{}", answer.text);
        }
        let again = guarded.ask(bearer(Ask::get(&path), "r")).await;
        assert!(!again.json(200).to_string().contains("salary"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_survives_equal_or_wider_permissions() {
    let open = Api::open().await;
    open.start("w").await;
    let bare = Credential { readers_without_payloads: vec!["default".to_owned()], ..credential("r") };
    let sees = Credential { readers: vec!["default".to_owned()], ..credential("r") };
    let credentials = Credentials::new(vec![bare]).unwrap();
    let guarded = guarded(&open, &credentials);
    let ask = Ask::get(&format!("{WORKFLOWS}/w/history")).header("accept", "text/event-stream");
    let mut body = guarded.call(bearer(ask, "r")).await.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    let change = async {
        for _ in 0..2 {
            credentials.replace(vec![sees.clone()]).unwrap();
        }
        open.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    };
    let (frame, ()) = tokio::join!(body.frame(), change);
    assert!(frame.unwrap().is_ok());
}
