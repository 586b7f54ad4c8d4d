//! Client certificates instead of secrets: every kind of credential with the right certificate and with every wrong
//! one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use engine::Clock;
use history::Timestamp;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, SanType};
use reqwest::{Certificate, Identity};
use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;
use service::http::{Server, ServerLimits};
use service::tls::{Tls, TlsCallers, TlsFiles};
use tokio::net::TcpListener;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use crate::certificates::{Authority, Issued, expired, not_yet};
use crate::hash::sha256_hex;
use crate::holders::one;
use crate::support::Api;

/// A clock that the test sets.
struct Set(AtomicU64);

#[async_trait]
impl Clock for Set {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, _: Timestamp) {}
}

/// A time in 2026, and one in 4100, when the certificates of tests have expired.
const NOW: u64 = 1_800_000_000_000;
const LATE: u64 = 67_220_000_000_000;

/// A service that accepts client certificates of `callers`.
struct Service {
    callers: Authority,
    own: Authority,
    credentials: Credentials,
    tls: Arc<Tls>,
    clock: Arc<Set>,
    directory: tempfile::TempDir,
    address: SocketAddr,
}

/// Status and body of a response, or the error of a connection that failed.
type Came = Result<(u16, Value), reqwest::Error>;

impl Service {
    async fn open(credentials: Vec<Credential>, is_required: bool) -> Self {
        let (callers, own, directory) = (Authority::new(), Authority::new(), tempfile::tempdir().unwrap());
        let (certificate, key) = own.issue(&["localhost"]).write(directory.path());
        let ca = directory.path().join("callers.crt");
        std::fs::write(&ca, callers.pem()).unwrap();
        let clock = Arc::new(Set(AtomicU64::new(NOW)));
        let files = TlsFiles { certificate, key, callers: Some(TlsCallers { ca, is_required }) };
        let tls = Tls::open(files, Arc::clone(&clock) as _).unwrap();
        let api = Api::open().await;
        let credentials = Credentials::new(credentials).unwrap();
        let router = router_for(Arc::clone(&api.engine), credentials.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server { listener, router, limits: ServerLimits::default(), tls: Some(Arc::clone(&tls)) };
        tokio::spawn(server.run_until(std::future::pending()));
        Self { callers, own, credentials, tls, clock, directory, address }
    }

    /// A client with this certificate.
    fn caller(&self, shown: Option<&Issued>) -> Caller {
        let ca = Certificate::from_pem(self.own.pem().as_bytes()).unwrap();
        let http = reqwest::Client::builder().tls_certs_only([ca]);
        let http = match shown {
            Some(Issued { certificate, key }) => {
                http.identity(Identity::from_pem(format!("{certificate}{key}").as_bytes()).unwrap())
            }
            None => http,
        };
        Caller { http: http.build().unwrap(), url: format!("https://localhost:{}", self.address.port()), secret: None }
    }
}

struct Caller {
    http: reqwest::Client,
    url: String,
    secret: Option<&'static str>,
}

impl Caller {
    async fn ask(&self, request: reqwest::RequestBuilder) -> Came {
        let request = match self.secret {
            Some(secret) => request.bearer_auth(secret),
            None => request,
        };
        let answer = request.send().await?;
        let (status, text) = (answer.status().as_u16(), answer.text().await?);
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    async fn get(&self, path: &str) -> Came {
        self.ask(self.http.get(format!("{}{path}", self.url))).await
    }

    async fn post(&self, path: &str, body: &Value) -> Came {
        let request = self.http.post(format!("{}{path}", self.url)).header("content-type", "application/json");
        self.ask(request.header("prefer", "wait=0").body(body.to_string())).await
    }

    async fn swf(&self, operation: &str) -> Came {
        let request = self.http.post(&self.url).header("content-type", "application/x-amz-json-1.0");
        let request = request.header("x-amz-target", format!("SimpleWorkflowService.{operation}"));
        self.ask(request.body("{\"registrationStatus\":\"REGISTERED\"}")).await
    }

    fn with(mut self, secret: &'static str) -> Self {
        self.secret = Some(secret);
        self
    }
}

/// Sets the common name of a certificate.
fn with_common_name(name: &'static str) -> impl Fn(&mut CertificateParams) {
    move |params| params.distinguished_name.push(DnType::CommonName, name)
}

/// A credential whose certificate has its name as common name.
fn named(name: &str) -> Credential {
    Credential { name: name.to_owned(), certificates: vec![format!("CN={name}")], ..Credential::default() }
}

fn kinds() -> Vec<Credential> {
    vec![
        Credential { operator: true, ..named("operator") },
        Credential { operators: one("default"), ..named("domain-operator") },
        Credential { applications: one("default"), ..named("application") },
        Credential { readers: one("default"), ..named("reader") },
        Credential { deciders: one("default/deciders"), ..named("decider") },
        Credential { runners: one("default/acts"), ..named("runner") },
        Credential { metrics: true, ..named("metrics") },
    ]
}

/// Statuses of one request for each level.
async fn statuses_by_level(caller: &Caller) -> Vec<u16> {
    let lists = "/v1/domains/default/task-lists";
    let mut statuses = Vec::new();
    for came in [
        caller.get("/v1/domains").await,
        caller.get("/metrics").await,
        caller.get("/v1/domains/default/workflows").await,
        caller.post("/v1/domains/default/workflows", &json!({"workflowId": ""})).await,
        caller.post(&format!("{lists}/deciders/decider/poll"), &json!({})).await,
        caller.post(&format!("{lists}/acts/activity/poll"), &json!({})).await,
        caller.post("/v1/domains", &json!({"name": ""})).await,
    ] {
        statuses.push(came.unwrap().0);
    }
    statuses
}

#[tokio::test]
async fn only_its_own_certificate_grants_a_credentials_levels() {
    let service = Service::open(kinds(), false).await;
    for (name, expected) in [
        ("operator", [200, 200, 200, 400, 204, 204, 400]),
        ("domain-operator", [200, 403, 200, 403, 403, 403, 403]),
        ("application", [200, 403, 200, 400, 403, 403, 403]),
        ("reader", [200, 403, 200, 403, 403, 403, 403]),
        ("decider", [200, 403, 403, 403, 204, 403, 403]),
        ("runner", [200, 403, 403, 403, 403, 204, 403]),
        ("metrics", [200, 200, 403, 403, 403, 403, 403]),
    ] {
        let right = service.callers.issue_with(&[], with_common_name(name));
        assert_eq!(statuses_by_level(&service.caller(Some(&right))).await, expected, "{name}");
        let wrong = [
            ("another authority's", Authority::new().issue_with(&[], with_common_name(name))),
            (
                "expired",
                service.callers.issue_with(&[], |params| {
                    with_common_name(name)(params);
                    expired(params);
                }),
            ),
            (
                "not valid yet",
                service.callers.issue_with(&[], |params| {
                    with_common_name(name)(params);
                    not_yet(params);
                }),
            ),
            (
                "for servers alone",
                service.callers.issue_with(&[], |params| {
                    with_common_name(name)(params);
                    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
                }),
            ),
        ];
        for (what, wrong) in wrong {
            let came = service.caller(Some(&wrong)).get("/healthz").await;
            assert!(came.is_err(), "{name}, {what}: {came:?}");
        }
        // Its DNS name names no credential.
        let elsewhere = service.callers.issue(&[name]);
        let (status, problem) = service.caller(Some(&elsewhere)).get("/v1/domains").await.unwrap();
        assert_eq!((status, &problem["code"]), (401, &json!("certificate-refused")), "{name}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains("CN=of a test"), "{problem}");
    }
    let (status, problem) = service.caller(None).get("/v1/domains").await.unwrap();
    assert_eq!((status, &problem["code"]), (401, &json!("unauthorized")));
    assert_eq!(service.caller(None).get("/healthz").await.unwrap().0, 200);
}

#[tokio::test]
async fn a_secret_takes_precedence_over_a_certificate() {
    let secret_sha256 = sha256_hex(b"of the operator");
    let operator = Credential { secret_sha256, operator: true, ..named("operator") };
    let service = Service::open(vec![operator, Credential { metrics: true, ..named("metrics") }], false).await;
    let [operator, metrics] =
        ["operator", "metrics"].map(|name| service.callers.issue_with(&[], with_common_name(name)));
    let domains = "/v1/domains/default";
    assert_eq!(service.caller(Some(&metrics)).get(domains).await.unwrap().0, 403);
    assert_eq!(service.caller(Some(&metrics)).with("of the operator").get(domains).await.unwrap().0, 200);
    assert_eq!(service.caller(None).with("of the operator").get(domains).await.unwrap().0, 200);
    let (status, problem) = service.caller(Some(&operator)).with("wrong").get(domains).await.unwrap();
    assert_eq!((status, &problem["code"]), (401, &json!("unauthorized")));
}

#[tokio::test]
async fn required_certificates_refuse_connections_without_one() {
    let secret_sha256 = sha256_hex(b"of the operator");
    let operator = Credential { name: "operator".to_owned(), secret_sha256, operator: true, ..Credential::default() };
    let service = Service::open(vec![operator], true).await;
    let nobody_s = service.callers.issue_with(&[], with_common_name("nobody"));
    assert!(service.caller(None).get("/healthz").await.is_err());
    assert!(service.caller(None).with("of the operator").get("/v1/domains").await.is_err());
    assert_eq!(service.caller(Some(&nobody_s)).get("/healthz").await.unwrap().0, 200);
    assert_eq!(service.caller(Some(&nobody_s)).get("/v1/domains").await.unwrap().0, 401);
    assert_eq!(service.caller(Some(&nobody_s)).with("of the operator").get("/v1/domains").await.unwrap().0, 200);
}

#[tokio::test]
async fn a_certificate_without_name_authority_or_time_is_refused() {
    let service = Service::open(kinds(), false).await;
    let issued = service.callers.issue_with(&[], with_common_name("reader"));
    // All requests use one connection.
    let caller = service.caller(Some(&issued));
    let listed = || caller.get("/v1/domains/default/workflows");
    let refused = |came: Came, says: &str| {
        let (status, problem) = came.unwrap();
        assert_eq!((status, &problem["code"]), (401, &json!("certificate-refused")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    };
    assert_eq!(listed().await.unwrap().0, 200);

    service.credentials.replace(kinds().into_iter().filter(|kind| kind.name != "reader").collect::<Vec<_>>()).unwrap();
    refused(listed().await, "no credential names it");
    service.credentials.replace(kinds()).unwrap();
    assert_eq!(listed().await.unwrap().0, 200);

    let ca = service.directory.path().join("callers.crt");
    std::fs::write(&ca, Authority::new().pem()).unwrap();
    service.tls.reload().unwrap();
    refused(listed().await, "its authority is no longer trusted");
    std::fs::write(&ca, service.callers.pem()).unwrap();
    service.tls.reload().unwrap();
    assert_eq!(listed().await.unwrap().0, 200);

    service.clock.0.store(LATE, Ordering::SeqCst);
    refused(listed().await, "it expired at 4096-01-01");
}

#[tokio::test]
async fn a_certificate_has_four_names_and_must_match_one_credential() {
    let with = |name: &str, entry: &str| Credential {
        name: name.to_owned(),
        certificates: vec![entry.to_owned()],
        metrics: true,
        ..Credential::default()
    };
    let uri = |uri: &'static str| {
        move |params: &mut CertificateParams| {
            params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        }
    };
    let service = Service::open(
        vec![with("cn", "CN=of a test"), with("dns", "DNS:Runner.Shop"), with("uri", "URI:spiffe://shop/runner")],
        false,
    )
    .await;
    let plain = service.callers.issue(&[]);
    let both = service.callers.issue(&["runner.shop"]);
    let other = service.callers.issue_with(&["runner.shop"], with_common_name("runner"));
    let spiffe = service.callers.issue_with(&[], |params| {
        with_common_name("runner")(params);
        uri("spiffe://shop/runner")(params);
    });
    for (issued, status) in [(&plain, 200), (&other, 200), (&spiffe, 200), (&both, 401)] {
        let (found, problem) = service.caller(Some(issued)).get("/metrics").await.unwrap();
        assert_eq!(found, status, "{problem}");
        if status == 401 {
            assert!(problem["detail"].as_str().unwrap().contains("`cn` and `dns` both name it"), "{problem}");
        }
    }
    let der = CertificateDer::from_pem_slice(both.certificate.as_bytes()).unwrap();
    let pin = format!("SHA256:{}", sha256_hex(&der));
    service.credentials.replace(vec![with("pinned", &pin)]).unwrap();
    assert_eq!(service.caller(Some(&both)).get("/metrics").await.unwrap().0, 200);
    assert_eq!(service.caller(Some(&plain)).get("/metrics").await.unwrap().0, 401);
}

#[tokio::test]
async fn unsigned_swf_requests_accept_a_certificate() {
    let service = Service::open(kinds(), false).await;
    let issued = |name| service.callers.issue_with(&[], with_common_name(name));
    let (status, answer) = service.caller(Some(&issued("operator"))).swf("ListDomains").await.unwrap();
    assert!(status == 200 && answer["domainInfos"].is_array(), "{status} {answer}");
    for (shown, fault) in [
        (Some(issued("metrics")), None),
        (Some(issued("nobody")), Some("UnrecognizedClientException")),
        (None, Some("MissingAuthenticationTokenException")),
    ] {
        let (status, answer) = service.caller(shown.as_ref()).swf("ListDomains").await.unwrap();
        match fault {
            None => assert!(status == 200 || status == 400, "{status} {answer}"),
            Some(fault) => assert!(status == 400 && answer["__type"].as_str().unwrap().contains(fault), "{answer}"),
        }
    }
    // A signature takes precedence, even if it is wrong.
    let caller = service.caller(Some(&issued("operator")));
    let request = caller.http.post(&caller.url).header("x-amz-target", "SimpleWorkflowService.ListDomains");
    let request = request.header("content-type", "application/x-amz-json-1.0").body("{}");
    let signature = "AWS4-HMAC-SHA256 Credential=nobody/20260101/eu/swf/aws4_request, SignedHeaders=host, Signature=00";
    let request = request.header("authorization", signature).header("x-amz-date", "20260101T000000Z");
    let (status, answer) = caller.ask(request).await.unwrap();
    assert_eq!(status, 400, "{answer}");
    assert!(answer["__type"].as_str().unwrap().contains("UnrecognizedClientException"), "{answer}");
}

#[test]
fn two_credentials_cannot_name_the_same_certificate() {
    Credentials::new(kinds()).unwrap();
    let twice = [named("a"), Credential { certificates: vec!["CN=a".to_owned()], ..named("b") }]
        .map(|credential| Credential { metrics: true, ..credential });
    let refused = Credentials::new(twice.to_vec()).unwrap_err();
    assert_eq!(refused, "the credentials `a` and `b` both name the certificate `CN=a`");
    let odd = Credential { metrics: true, certificates: vec!["a".to_owned()], ..named("a") };
    let refused = Credentials::new(vec![odd]).unwrap_err();
    assert!(
        refused.starts_with("credential `a`: the certificate `a` has an unknown prefix; expected `CN=name`"),
        "{refused}"
    );
}
