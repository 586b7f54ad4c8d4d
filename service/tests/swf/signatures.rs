//! Signatures, header by header: requests signed by botocore are accepted, and any change is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use engine::{Clock, Engine, Settings};
use history::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use service::access::{AccessKey, Credential, Credentials, Moment};
use service::api::router_for;
use sha2::{Digest, Sha256};
use store::memory::Memory;

use crate::support::{Answer, Swf};

/// A clock that only the test advances.
struct Still(AtomicU64);

#[async_trait]
impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, _: Timestamp) {
        std::future::pending::<()>().await;
    }
}

/// botocore 1.44.5's request for `describe_domain(name="défaut")`, without unsigned headers.
const BOTOCORE: [(&str, &str); 5] = [
    ("host", "127.0.0.1:7420"),
    ("x-amz-target", "SimpleWorkflowService.DescribeDomain"),
    ("content-type", "application/x-amz-json-1.0"),
    ("x-amz-date", "20231114T221320Z"),
    (
        "authorization",
        "AWS4-HMAC-SHA256 Credential=BATNKEY/20231114/eu-west-2/swf/aws4_request, \
         SignedHeaders=content-type;host;x-amz-date;x-amz-target, \
         Signature=8f1c57df525232aeda01a805d83779a2fbf2cf2dfda53de8c14409a11b4ad893",
    ),
];

const BODY: &str = r#"{"name": "d\u00e9faut"}"#;

/// Time of the signature.
const SIGNED: u64 = 1_700_000_000_000;

const MINUTE: u64 = 60_000;

struct Guarded {
    swf: Swf,
    clock: Arc<Still>,
}

impl Guarded {
    async fn open() -> Self {
        let clock = Arc::new(Still(AtomicU64::new(SIGNED)));
        let settings = Settings { seed: Some(7), ..Settings::default() };
        let engine = Engine::open(Arc::new(Memory::new()), Arc::clone(&clock) as _, settings).await.unwrap();
        let key = Credential {
            name: "k".to_owned(),
            access_key_id: Some("BATNKEY".to_owned()),
            secret_access_key: Some("wJalrXUtnFEMI/K7MDENG".to_owned()),
            operator: true,
            ..Credential::default()
        };
        Self { swf: Swf { router: router_for(engine, Credentials::new(vec![key]).unwrap()) }, clock }
    }

    /// Sends botocore's request with some headers changed, or left out if the new value is empty.
    async fn send(&self, changed: &[(&str, &str)], body: &str) -> Answer {
        let headers = BOTOCORE.iter().map(|(name, value)| {
            let other = changed.iter().find(|(changed, _)| changed == name).map(|(_, value)| *value);
            (*name, other.unwrap_or(value))
        });
        let headers: Vec<_> = headers.filter(|(_, value)| !value.is_empty()).collect();
        self.swf.send(&headers, body.to_owned()).await
    }
}

/// Checks that the signature was accepted: the domain does not exist.
#[track_caller]
fn check_accepted(answer: &Answer) {
    answer.fault("com.amazonaws.swf.base.model#UnknownResourceFault", "Unknown domain: défaut");
}

const INVALID: &str = "com.amazon.coral.service#InvalidSignatureException";
const INCOMPLETE: &str = "com.amazon.coral.service#IncompleteSignatureException";

const MISMATCH: &str = "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
                        Access Key and signing method. Consult the service documentation for details.";

#[tokio::test]
async fn a_request_signed_by_botocore_is_accepted() {
    let guarded = Guarded::open().await;
    check_accepted(&guarded.send(&[], BODY).await);
    let spaced = BOTOCORE[4].1.replace(", ", ",");
    check_accepted(&guarded.send(&[("authorization", &spaced)], BODY).await);
}

#[tokio::test]
async fn a_request_that_differs_from_its_signature_is_refused() {
    let guarded = Guarded::open().await;
    guarded.send(&[], &BODY.replace("faut", "fiut")).await.fault(INVALID, MISMATCH);
    guarded.send(&[], "").await.fault(INVALID, MISMATCH);
    for (name, value) in [
        ("host", "127.0.0.1:7421"),
        ("x-amz-target", "SimpleWorkflowService.DeprecateDomain"),
        ("content-type", "application/json"),
        ("x-amz-date", "20231114T221321Z"),
    ] {
        guarded.send(&[(name, value)], BODY).await.fault(INVALID, MISMATCH);
    }
    let signature = BOTOCORE[4].1;
    for (what, other) in [("8f1c", "8f1d"), ("8f1c", ""), ("Signature=", "Signature=zz"), ("eu-west-2", "us-east-1")] {
        guarded.send(&[("authorization", &signature.replace(what, other))], BODY).await.fault(INVALID, MISMATCH);
    }
    let unsigned = signature.replace("host;", "");
    let expected = "'host' must be a 'SignedHeader' in the AWS Authorization.";
    guarded.send(&[("authorization", &unsigned)], BODY).await.fault(INVALID, expected);
    let other = signature.replace("/swf/", "/sns/");
    let expected = "Credential should be scoped to correct service: 'swf'.";
    guarded.send(&[("authorization", &other)], BODY).await.fault(INVALID, expected);
    let other = signature.replace("/20231114/", "/20231113/");
    let answer = guarded.send(&[("authorization", &other)], BODY).await;
    assert!(answer.text.contains("Date in Credential scope"), "{}", answer.text);
}

#[tokio::test]
async fn a_clock_may_differ_by_five_minutes() {
    let guarded = Guarded::open().await;
    let at = async |millis: u64| {
        guarded.clock.0.store(millis, Ordering::SeqCst);
        guarded.send(&[], BODY).await
    };
    check_accepted(&at(SIGNED + 5 * MINUTE).await);
    check_accepted(&at(SIGNED - 5 * MINUTE).await);
    let expected =
        "Signature expired: 20231114T221320Z is now earlier than 20231114T221321Z (20231114T221821Z - 5 min.)";
    at(SIGNED + 5 * MINUTE + 1_000).await.fault(INVALID, expected);
    at(SIGNED + 5 * MINUTE + 1)
        .await
        .fault(INVALID, &expected.replace("221321Z", "221320Z").replace("221821Z", "221820Z"));
    let expected =
        "Signature not yet current: 20231114T221320Z is still later than 20231114T221319Z (20231114T220819Z + 5 min.)";
    at(SIGNED - 5 * MINUTE - 1_000).await.fault(INVALID, expected);
}

#[tokio::test]
async fn an_unsigned_or_incomplete_request_is_refused() {
    let guarded = Guarded::open().await;
    let missing = "com.amazon.coral.service#MissingAuthenticationTokenException";
    guarded.send(&[("authorization", "")], BODY).await.fault(missing, "Missing Authentication Token");
    guarded.send(&[("authorization", "Bearer no")], BODY).await.fault(missing, "Missing Authentication Token");
    guarded.send(&[("authorization", "AWS4-HMAC-SHA256 é")], BODY).await.fault(missing, "Missing Authentication Token");
    let unknown = "com.amazon.coral.service#UnrecognizedClientException";
    let other = BOTOCORE[4].1.replace("BATNKEY", "BATNKEYS");
    let expected = "The security token included in the request is invalid.";
    guarded.send(&[("authorization", &other)], BODY).await.fault(unknown, expected);
    for part in ["Credential", "SignedHeaders", "Signature"] {
        let without = BOTOCORE[4].1.replace(&format!("{part}="), "Other=");
        let expected = format!("Authorization header requires '{part}' parameter.");
        guarded.send(&[("authorization", &without)], BODY).await.fault(INCOMPLETE, &expected);
    }
    let expected = "Authorization header requires existence of a 'X-Amz-Date' header.";
    guarded.send(&[("x-amz-date", "")], BODY).await.fault(INCOMPLETE, expected);
    for date in ["20231114", "20231114T2213200", "2023-11-14T22:13:20", "20231114T256320Z"] {
        let answer = guarded.send(&[("x-amz-date", date)], BODY).await;
        assert!(answer.text.contains("ISO-8601 'basic format'"), "{date}: {}", answer.text);
    }
    for key in ["Credential=BATNKEY", "Credential=", "Credential=////"] {
        let header = format!("AWS4-HMAC-SHA256 {key}, SignedHeaders=host;x-amz-date, Signature=00");
        let answer = guarded.send(&[("authorization", &header)], BODY).await;
        assert!(answer.text.contains("Credential must have exactly 5"), "{}", answer.text);
    }
}

#[tokio::test]
async fn an_unsigned_invalid_body_is_refused_as_unsigned() {
    let guarded = Guarded::open().await;
    let headers = [("x-amz-target", "SimpleWorkflowService.DescribeDomain")];
    let answer = guarded.swf.send(&headers, "!").await;
    assert!(answer.text.contains("MissingAuthenticationTokenException"), "{}", answer.text);
}

/// Signs a request with these headers, with the key and day of [`BOTOCORE`].
fn signed(headers: &[(&str, &str)]) -> String {
    let keyed = |key: &[u8], text: &[u8]| {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap();
        mac.update(text);
        mac.finalize().into_bytes().to_vec()
    };
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let (names, lines) = (names.join(";"), headers.iter().map(|(name, value)| format!("{name}:{value}\n")));
    let canonical =
        format!("POST\n/\n\n{}\n{names}\n{}", lines.collect::<String>(), hex(&Sha256::digest(BODY.as_bytes())));
    let scope = "20231114/eu-west-2/swf/aws4_request";
    let text = format!("AWS4-HMAC-SHA256\n20231114T221320Z\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let secret = b"AWS4wJalrXUtnFEMI/K7MDENG".to_vec();
    let key = scope.split('/').fold(secret, |key, part| keyed(&key, part.as_bytes()));
    let signature = hex(&keyed(&key, text.as_bytes()));
    format!("AWS4-HMAC-SHA256 Credential=BATNKEY/{scope}, SignedHeaders={names}, Signature={signature}")
}

#[tokio::test]
async fn a_signature_without_the_operation_is_refused() {
    let guarded = Guarded::open().await;
    let [host, target, kind, date, _] = BOTOCORE;
    let all = signed(&[kind, host, date, target]);
    assert_eq!(all, BOTOCORE[4].1, "the same signature as botocore's");
    let without = signed(&[kind, host, date]);
    let expected = "'x-amz-target' must be a 'SignedHeader' in the AWS Authorization.";
    for operation in ["DescribeDomain", "DeprecateDomain"] {
        let target = format!("SimpleWorkflowService.{operation}");
        let changed = [("authorization", without.as_str()), ("x-amz-target", target.as_str())];
        guarded.send(&changed, BODY).await.fault(INVALID, expected);
    }
    // AWS's SDK for JavaScript, version 2, leaves this header out.
    let without_kind = signed(&[host, date, target]);
    check_accepted(&guarded.send(&[("authorization", &without_kind)], BODY).await);
    // Proxies add headers with other prefixes.
    let headers = [&BOTOCORE[..], &[("x-amzn-trace-id", "Root=1")]].concat();
    check_accepted(&guarded.swf.send(&headers, BODY.to_owned()).await);
    let headers = [&BOTOCORE[..], &[("x-amz-security-token", "other")]].concat();
    let expected = "'x-amz-security-token' must be a 'SignedHeader' in the AWS Authorization.";
    guarded.swf.send(&headers, BODY.to_owned()).await.fault(INVALID, expected);
}

#[tokio::test]
async fn an_expired_key_is_reported_only_to_a_valid_signature() {
    let clock = Arc::new(Still(AtomicU64::new(SIGNED)));
    let engine = Engine::open(Arc::new(Memory::new()), Arc::clone(&clock) as _, Settings::default()).await.unwrap();
    let at = |millis| Some(Moment(Timestamp::from_millis(millis)));
    let key =
        |id: &str| AccessKey { id: id.to_owned(), secret: "wJalrXUtnFEMI/K7MDENG".to_owned(), ..AccessKey::default() };
    for (key, kind, message) in [
        (AccessKey { expires: at(SIGNED + 1), ..key("BATNKEY") }, None, ""),
        (
            AccessKey { expires: at(SIGNED), ..key("BATNKEY") },
            Some("com.amazon.coral.service#ExpiredTokenException"),
            "The security token included in the request is expired: it expired at 2023-11-14T22:13:20.000Z",
        ),
        (
            AccessKey { not_before: at(SIGNED + 1), ..key("BATNKEY") },
            Some("com.amazon.coral.service#UnrecognizedClientException"),
            "The security token included in the request is not valid before 2023-11-14T22:13:20.001Z",
        ),
        (
            AccessKey { expires: at(SIGNED), secret: "another secret key".to_owned(), ..key("BATNKEY") },
            Some(INVALID),
            MISMATCH,
        ),
    ] {
        let credential = Credential {
            name: "k".to_owned(),
            access_keys: vec![
                key,
                AccessKey { id: "OTHER".to_owned(), secret: "o".repeat(16), ..AccessKey::default() },
            ],
            operator: true,
            ..Credential::default()
        };
        let router = router_for(Arc::clone(&engine), Credentials::new(vec![credential]).unwrap());
        let guarded = Guarded { swf: Swf { router }, clock: Arc::clone(&clock) };
        let answer = guarded.send(&[], BODY).await;
        match kind {
            None => check_accepted(&answer),
            Some(kind) => answer.fault(kind, message),
        }
    }
}
