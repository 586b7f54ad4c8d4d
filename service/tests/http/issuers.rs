//! Issuers: validation of their configuration, and keys that are fetched, replaced and revoked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use service::access::{ClaimRule, Credential, Credentials, Issuer};
use service::access::{FETCH_WAIT, ISSUERS_MAX, KEYS_AGE_MAX, KEYS_REFETCH_WAIT, RULES_MAX};
use tokio::net::TcpListener;

use crate::holders::{credential, one};
use crate::issuer::{Key, jwks};
use crate::support::{Answer, Api, Ask, DECIDERS};
use crate::tokens::{bearer, claims, domain, guarded, in_file, issuer, of, rule};

/// Number of 64 KiB pieces in 100 MB.
const PIECES: usize = 1_600;

/// Response of an issuer's address.
#[derive(Clone)]
enum Says {
    Keys(String),
    Down,
    /// 100 MB.
    Endless,
    /// A redirect to these keys.
    Redirect(String),
    Nothing,
}

/// An issuer that serves its keys over loopback HTTP.
struct Served {
    says: Arc<Mutex<Says>>,
    asked: Arc<AtomicUsize>,
    /// Number of pieces sent of the endless response.
    sent: Arc<AtomicUsize>,
    issuer: Issuer,
}

impl Served {
    async fn start(keys: &[&Key]) -> Self {
        let (says, asked) = (Arc::new(Mutex::new(Says::Keys(jwks(keys)))), Arc::<AtomicUsize>::default());
        let (answers, count, sent) = (Arc::clone(&says), Arc::clone(&asked), Arc::<AtomicUsize>::default());
        let pieces = Arc::clone(&sent);
        let router = Router::new().fallback(move |uri: Uri| {
            count.fetch_add(1, Ordering::SeqCst);
            let (says, pieces) = (answers.lock().unwrap().clone(), Arc::clone(&pieces));
            async move { answer(says, uri.path(), pieces).await }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { says, asked, sent, issuer: Issuer { jwks_url: Some(url), ..issuer() } }
    }

    fn says(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn until_asked(&self, times: usize) {
        let wait = async {
            while self.asked() < times {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the issuer gets a request");
    }
}

async fn answer(says: Says, path: &str, pieces: Arc<AtomicUsize>) -> Response {
    match says {
        Says::Keys(keys) => keys.into_response(),
        Says::Down => StatusCode::BAD_GATEWAY.into_response(),
        Says::Redirect(keys) if path == "/moved" => keys.into_response(),
        Says::Redirect(_) => Redirect::temporary("/moved").into_response(),
        Says::Nothing => std::future::pending().await,
        Says::Endless => {
            let piece = Bytes::from(vec![b' '; 64 * 1024]);
            let next = move || {
                pieces.fetch_add(1, Ordering::SeqCst);
                Ok::<_, std::io::Error>(piece.clone())
            };
            Body::from_stream(stream::repeat_with(next).take(PIECES)).into_response()
        }
    }
}

/// Advances time by this much.
async fn later(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

#[tokio::test]
async fn an_unknown_key_fetches_keys_at_most_once_a_minute() {
    let (first, second) = (Key::ed("first"), Key::ed("second"));
    let served = Served::start(&[&first]).await;
    let open = Api::open().await;
    let credentials = Credentials::new(of(vec![served.issuer.clone()])).unwrap();
    let guarded = guarded(&open, &credentials);
    // Concurrent requests cause one fetch.
    let tokens = [first.sign(&claims("ops")), first.sign(&claims("look")), first.sign(&claims("start"))];
    let answers = futures_util::future::join_all(tokens.iter().map(|token| domain(&guarded, token))).await;
    assert!(answers.iter().all(|answer| answer.status.as_u16() == 200), "{answers:?}");
    assert_eq!(served.asked(), 1);
    // The issuer replaces its key. Requests soon afterwards fail without another fetch.
    served.says(Says::Keys(jwks(&[&second])));
    for _ in 0..3 {
        domain(&guarded, &second.sign(&claims("ops"))).await.problem(401, "token-refused");
    }
    assert_eq!(served.asked(), 1);
    later(KEYS_REFETCH_WAIT).await;
    domain(&guarded, &second.sign(&claims("ops"))).await.json(200);
    assert_eq!(served.asked(), 2);
    // A token that was valid before is refused, too.
    domain(&guarded, &tokens[0]).await.problem(401, "token-refused");
    // A configuration with the same address keeps the fetched keys, and verified tokens get the new rules.
    let less = Issuer { rules: vec![ClaimRule { metrics: true, ..rule("ops") }], ..served.issuer.clone() };
    credentials.replace(of(vec![less])).unwrap();
    domain(&guarded, &second.sign(&claims("ops"))).await.problem(403, "forbidden");
    assert_eq!(served.asked(), 2);
    assert!(open.engine.render_metrics().contains("{issuer=\"corp\",outcome=\"fetched\"} 2\n"));
}

#[tokio::test]
async fn known_keys_stay_while_the_issuer_fails() {
    let (key, unknown) = (Key::ed("first"), Key::ed("unknown"));
    let served = Served::start(&[&key]).await;
    let open = Api::open().await;
    let guarded = guarded(&open, &Credentials::new(of(vec![served.issuer.clone()])).unwrap());
    let known = key.sign(&claims("ops"));
    domain(&guarded, &known).await.json(200);
    let secret = json!({ "keys": [key.jwk, { "kty": "oct", "kid": "shared", "k": "c2VjcmV0" }] }).to_string();
    let all = [
        Says::Down,
        Says::Endless,
        Says::Redirect(jwks(&[&unknown])),
        Says::Keys("<html>".to_owned()),
        Says::Keys(jwks(&[])),
        Says::Keys(secret),
        Says::Nothing,
    ];
    for (before, says) in all.iter().enumerate() {
        served.says(says.clone());
        later(KEYS_REFETCH_WAIT).await;
        let meanwhile = async {
            served.until_asked(before + 2).await;
            // A token with a known key does not wait for the fetch.
            domain(&guarded, &known).await.json(200);
            if matches!(says, Says::Nothing) {
                later(FETCH_WAIT).await;
            }
        };
        let unknown = unknown.sign(&claims("ops"));
        let (refused, ()) = tokio::join!(domain(&guarded, &unknown), meanwhile);
        refused.problem(401, "token-refused");
        domain(&guarded, &key.sign(&claims("look"))).await.json(200);
    }
    assert_eq!(served.asked(), all.len() + 1);
    // Except for buffers of sockets, no more was read than the limit.
    assert!(served.sent.load(Ordering::SeqCst) < PIECES / 2, "{:?}", served.sent);
    let metrics = open.engine.render_metrics();
    assert!(metrics.contains("{issuer=\"corp\",outcome=\"failed\"} 7\n"), "{metrics}");
}

#[tokio::test]
async fn keys_are_fetched_at_the_start_and_periodically() {
    let (first, second) = (Key::ed("first"), Key::ed("second"));
    let served = Served::start(&[&first]).await;
    let open = Api::open().await;
    let credentials = Credentials::new(of(vec![served.issuer.clone()])).unwrap();
    let guarded = guarded(&open, &credentials);
    tokio::spawn(credentials.keep_keys(Arc::clone(&open.engine)));
    served.until_asked(1).await;
    let token = first.sign(&claims("ops"));
    domain(&guarded, &token).await.json(200);
    served.says(Says::Keys(jwks(&[&second])));
    later(KEYS_AGE_MAX).await;
    served.until_asked(2).await;
    let goes = async {
        while domain(&guarded, &token).await.status.as_u16() == 200 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), goes)
        .await
        .expect("the key is removed without a request for another");
}

#[tokio::test]
async fn a_poll_ends_when_its_key_or_issuer_is_removed() {
    for is_key in [true, false] {
        let (first, second) = (Key::ed("first"), Key::ed("second"));
        let served = Served::start(&[&first, &second]).await;
        let open = Api::open().await;
        let operator = Credential { operator: true, ..credential("operator") };
        let mut stanzas = of(vec![served.issuer.clone()]);
        stanzas.credentials = vec![operator.clone()];
        let credentials = Credentials::new(stanzas).unwrap();
        let guarded = guarded(&open, &credentials);
        let poll = |key: &Key| {
            bearer(Ask::post(DECIDERS, &json!({})).header("prefer", "wait=60"), &key.sign(&claims("decide")))
        };
        let change = async {
            open.until_pollers("deciders", 2).await;
            if is_key {
                served.says(Says::Keys(jwks(&[&second])));
                later(KEYS_REFETCH_WAIT).await;
                let unknown = Key::ed("unknown").sign(&claims("ops"));
                domain(&guarded, &unknown).await.problem(401, "token-refused");
            } else {
                credentials.replace(vec![operator]).unwrap();
            }
            open.until_pollers("deciders", usize::from(is_key) as u64).await;
            open.start("w").await;
        };
        let (gone, stays, ()) = tokio::join!(guarded.call(poll(&first)), guarded.call(poll(&second)), change);
        assert_eq!(Answer::read(gone).await.json(401)["code"], "credential-revoked");
        let stays = Answer::read(stays).await;
        assert_eq!(stays.status.as_u16(), if is_key { 200 } else { 401 }, "{}", stays.text);
    }
}

#[tokio::test]
async fn keys_in_a_file_are_reloaded_with_the_configuration() {
    let (first, second) = (Key::ed("first"), Key::ed("second"));
    let (file, issuer) = in_file(&[&first]);
    let open = Api::open().await;
    let credentials = Credentials::new(of(vec![issuer.clone()])).unwrap();
    let guarded = guarded(&open, &credentials);
    let (old, new) = (first.sign(&claims("ops")), second.sign(&claims("ops")));
    domain(&guarded, &old).await.json(200);
    std::fs::write(file.path(), "{}").unwrap();
    let mut stanzas = of(vec![issuer.clone()]);
    stanzas.credentials = vec![Credential { operator: true, ..credential("operator") }];
    let refused = credentials.replace(stanzas).unwrap_err();
    assert!(refused.contains("issuer `corp`") && refused.contains("not a JSON Web Key Set"), "{refused}");
    domain(&guarded, &old).await.json(200);
    domain(&guarded, "operator").await.problem(401, "unauthorized");
    std::fs::write(file.path(), jwks(&[&second])).unwrap();
    credentials.replace(of(vec![issuer])).unwrap();
    domain(&guarded, &old).await.problem(401, "token-refused");
    domain(&guarded, &new).await.json(200);
}

#[test]
fn an_invalid_issuer_is_refused_by_name() {
    let key = Key::ed("ed");
    let (_file, good) = in_file(&[&key]);
    let empty = tempfile::NamedTempFile::new().unwrap();
    let refused = |issuer: Issuer| Credentials::new(of(vec![issuer])).unwrap_err();
    let at = |url: &str| Issuer { jwks_file: None, jwks_url: Some(url.to_owned()), ..good.clone() };
    let of_algorithm = |algorithm: &str| Issuer { algorithms: Some(one(algorithm)), ..good.clone() };
    let ruled = |rules: Vec<ClaimRule>| Issuer { rules, ..good.clone() };
    for (issuer, says) in [
        (Issuer { name: "a b".to_owned(), ..good.clone() }, "its name must consist of letters"),
        (Issuer { name: "a:b".to_owned(), ..good.clone() }, "its name must consist of letters"),
        (Issuer { name: "a".repeat(33), ..good.clone() }, "at most 32"),
        (Issuer { issuer: String::new(), ..good.clone() }, "`issuer` is empty"),
        (Issuer { audiences: Vec::new(), ..good.clone() }, "`audiences` must list"),
        (Issuer { jwks_file: None, ..good.clone() }, "give either jwks-file or jwks-url"),
        (Issuer { jwks_url: Some("https://x".to_owned()), ..good.clone() }, "give either jwks-file or jwks-url"),
        (at("http://id.example/keys"), "expected https, or http on this machine"),
        (at("http://127.0.0.1.evil.example/keys"), "expected https, or http on this machine"),
        (at("file:///etc/keys"), "expected https, or http on this machine"),
        (at("keys"), "jwks-url `keys`: "),
        (of_algorithm("HS256"), "`HS256` is not a supported algorithm, expected one of `RS256`"),
        (of_algorithm("none"), "`none` is not a supported algorithm"),
        (Issuer { algorithms: Some(Vec::new()), ..good.clone() }, "`algorithms` is empty"),
        (ruled(Vec::new()), "it has 0 rules"),
        (ruled(vec![ClaimRule { metrics: true, ..rule("x") }; RULES_MAX + 1]), "it has 257 rules, expected one to 256"),
        (ruled(vec![rule("nothing")]), "issuer `corp`, the rule for `nothing` in `groups`, has no permissions"),
        (ruled(vec![ClaimRule { has: String::new(), metrics: true, ..rule("x") }]), "needs both `claim` and"),
        (ruled(vec![ClaimRule { runners: one("x"), ..rule("x") }]), "`x` is not `domain/list`"),
        (Issuer { jwks_file: Some("/nowhere".into()), ..good.clone() }, "/nowhere: "),
        (Issuer { jwks_file: Some(empty.path().to_owned()), ..good.clone() }, "this is not a JSON Web Key Set"),
    ] {
        let said = refused(issuer);
        assert!(said.starts_with("issuer `") && said.contains(says), "{says}: {said}");
    }
    let twice = Credentials::new(of(vec![good.clone(), good.clone()])).unwrap_err();
    assert!(twice.contains("two issuers have the name `corp`"), "{twice}");
    let same = Credentials::new(of(vec![good.clone(), Issuer { name: "b".to_owned(), ..good.clone() }])).unwrap_err();
    assert!(same.contains("two issuers have the same `issuer`, `https://id.example`"), "{same}");
    let many = Credentials::new(of(vec![good; ISSUERS_MAX + 1])).unwrap_err();
    assert!(many.contains("17 issuers, expected at most 16"), "{many}");
    let taken = Credential { operator: true, ..credential("corp:alice") };
    let taken = Credentials::new(vec![taken]).unwrap_err();
    assert!(taken.contains("credential `corp:alice`: `:` is reserved for callers of an issuer"), "{taken}");
}

#[test]
fn issuers_names_and_rules_are_accepted_up_to_their_limits() {
    let key = Key::ed("ed");
    let (_file, good) = in_file(&[&key]);
    let numbered = |number: usize| Issuer {
        name: format!("{number:a>32}"),
        issuer: format!("https://{number}.example"),
        ..good.clone()
    };
    let all = |count: usize| Credentials::new(of((0..count).map(numbered).collect())).map(drop);
    assert_eq!(all(ISSUERS_MAX), Ok(()), "the maximum, with names of 32 bytes");
    assert!(all(ISSUERS_MAX + 1).unwrap_err().contains("17 issuers, expected at most 16"));
    let named = Issuer { name: "a".repeat(33), ..good.clone() };
    assert!(Credentials::new(of(vec![named])).unwrap_err().contains("at most 32"));
    let ruled = |count: usize| {
        let rules = vec![ClaimRule { metrics: true, ..rule("x") }; count];
        Credentials::new(of(vec![Issuer { rules, ..good.clone() }])).map(drop)
    };
    assert_eq!(ruled(RULES_MAX), Ok(()));
    assert!(ruled(RULES_MAX + 1).unwrap_err().contains("it has 257 rules"));
}
