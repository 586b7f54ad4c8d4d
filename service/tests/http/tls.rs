//! TLS of the listener: certificates, refused connections, reloads, and limits.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::{Access, Client, ClientCertificate, Error, Patience, TlsProblem};
use engine::SystemClock;
use rcgen::CertificateParams;
use service::http::{Server, ServerLimits};
use service::tls::{Tls, TlsCallers, TlsFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::certificates::{Authority, Issued, expired, not_yet};
use crate::sockets::POLL;
use crate::support::{Api, PATIENCE};

/// The service on a socket with TLS.
struct Encrypting {
    api: Api,
    authority: Authority,
    directory: tempfile::TempDir,
    tls: Arc<Tls>,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

fn files(directory: &Path) -> TlsFiles {
    TlsFiles { certificate: directory.join("tls.crt"), key: directory.join("tls.key"), callers: None }
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

impl Encrypting {
    async fn open(limits: ServerLimits) -> Self {
        let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
        authority.issue(&["localhost"]).write(directory.path());
        let tls = Tls::open(files(directory.path()), Arc::new(SystemClock)).unwrap();
        let api = Api::open().await;
        api.front.set_tls(tls.standing());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let server = Server { listener, router: api.router.clone(), limits, tls: Some(Arc::clone(&tls)) };
        let served = tokio::spawn(server.run_until(async {
            stopped.await.ok();
        }));
        Self { api, authority, directory, tls, address, stop, served }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    fn client(&self) -> Client {
        let ca = self.authority.pem();
        let access = Access { ca: Some(ca.as_bytes()), ..Access::default() };
        Client::with_access(&self.url(), access).unwrap().patience(Patience::None)
    }

    async fn connect(&self) -> Peer {
        let mut roots = RootCertStore::empty();
        roots.add(der(&self.authority.pem())).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        Peer(TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap())
    }

    fn write(&self, issued: &Issued) {
        issued.write(self.directory.path());
    }

    /// Waits until this many handshakes have failed, which clients may notice earlier.
    async fn until_handshakes_failed(&self, count: u64) {
        let seen = async {
            while self.number("baton_tls_handshakes_failed_total") < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.expect("the failures are counted");
        assert_eq!(self.number("baton_tls_handshakes_failed_total"), count);
    }

    /// Value of a metric.
    fn number(&self, name: &str) -> u64 {
        let text = self.api.front.render_metrics();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
        line.parse().unwrap()
    }
}

/// Client end of a TLS connection.
struct Peer(TlsStream<TcpStream>);

impl Peer {
    /// The server's certificate.
    fn shown(&self) -> CertificateDer<'static> {
        self.0.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// Checks that the service responds on this connection.
    async fn gets_a_response(&mut self) {
        self.0.write_all(b"HEAD /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let read = tokio::time::timeout(PATIENCE, self.0.read_u8());
            head.push(read.await.expect("an answer comes").expect("the connection is open"));
        }
        assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
    }
}

/// Everything until the end of the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    // A reset ends the connection, too.
    drop(tokio::time::timeout(PATIENCE, read).await.expect("the connection ends"));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn only_clients_that_trust_the_certificate_can_connect() {
    let service = Encrypting::open(ServerLimits::default()).await;
    service.client().ready().await.unwrap();
    service.api.start("w").await;
    assert_eq!(service.client().describe("w", None).await.unwrap().workflow_id, "w");
    let stranger = Client::new(&service.url()).unwrap().patience(Patience::None);
    stranger.ready().await.unwrap_err();
    let by_address = format!("https://127.0.0.1:{}", service.address.port());
    let ca = service.authority.pem();
    let access = Access { ca: Some(ca.as_bytes()), ..Access::default() };
    let by_another_name = Client::with_access(&by_address, access).unwrap().patience(Patience::None);
    by_another_name.ready().await.unwrap_err();
    assert!(service.number("baton_tls_certificate_remaining_seconds") > 1_000_000_000);
    service.until_handshakes_failed(2).await;
}

#[tokio::test]
async fn a_poller_that_closes_its_tls_connection_takes_no_task() {
    let service = Encrypting::open(ServerLimits::default()).await;
    let poll = format!("POST {POLL} HTTP/1.1\r\nhost: localhost\r\nprefer: wait=60\r\ncontent-length: 0\r\n\r\n");
    for says_goodbye in [true, false] {
        let mut peer = service.connect().await;
        peer.0.write_all(poll.as_bytes()).await.unwrap();
        service.api.until_pollers("list=\"deciders\"", 1).await;
        if says_goodbye {
            peer.0.shutdown().await.unwrap();
        }
        drop(peer);
        let gone = service.api.until_pollers("list=\"deciders\"", 0);
        tokio::time::timeout(Duration::from_secs(30), gone).await.expect("the service notices the disconnect");
    }
    service.api.start("w").await;
    assert_eq!(service.api.turn().await["attempt"], 1);
}

#[tokio::test]
async fn every_response_over_tls_has_hsts_for_a_year() {
    let encrypting = Encrypting::open(ServerLimits::default()).await;
    for request in [
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        "GET /v1/nothing HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        "GET /console/ HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n".to_owned(),
    ] {
        let mut peer = encrypting.connect().await;
        peer.0.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tokio::time::timeout(PATIENCE, peer.0.read_u8()).await.unwrap().unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.contains("\r\nstrict-transport-security: max-age=31536000\r\n"), "{request}{head}");
    }
    let mut plain = TcpStream::connect(encrypting.address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let answer = rest(&mut plain).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && !answer.contains("strict-transport-security"), "{answer}");
}

#[tokio::test]
async fn a_new_certificate_applies_to_new_connections_only() {
    let service = Encrypting::open(ServerLimits::default()).await;
    let mut before = service.connect().await;
    before.gets_a_response().await;
    let renewed = service.authority.issue(&["localhost"]);
    service.write(&renewed);
    service.tls.reload().unwrap();
    let mut after = service.connect().await;
    assert_eq!(after.shown(), der(&renewed.certificate));
    assert_ne!(before.shown(), after.shown());
    after.gets_a_response().await;
    before.gets_a_response().await;
}

#[tokio::test]
async fn invalid_files_are_refused_and_the_old_ones_stay_in_use() {
    let service = Encrypting::open(ServerLimits::default()).await;
    let first = service.connect().await.shown();
    let (certificate, key) = (service.directory.path().join("tls.crt"), service.directory.path().join("tls.key"));
    let good = service.authority.issue(&["localhost"]);
    let expired = service.authority.issue_with(&["localhost"], expired);
    let early = service.authority.issue_with(&["localhost"], not_yet);
    for (shown, with, says) in [
        // Certificate of a new pair without its key.
        (good.certificate.as_str(), None, "does not belong to the certificate"),
        (good.certificate.as_str(), Some("rubbish"), "not PEM"),
        ("rubbish", Some(good.key.as_str()), "not PEM"),
        ("", Some(good.key.as_str()), "not PEM"),
        (good.key.as_str(), Some(good.key.as_str()), "it contains no certificate"),
        (expired.certificate.as_str(), Some(expired.key.as_str()), "it expired at 2001-01-01T00:00:00.000Z"),
        (early.certificate.as_str(), Some(early.key.as_str()), "it is not valid before 2999-01-01T00:00:00.000Z"),
    ] {
        std::fs::write(&certificate, shown).unwrap();
        if let Some(with) = with {
            std::fs::write(&key, with).unwrap();
        }
        let refused = service.tls.reload().unwrap_err();
        assert!(refused.contains(says), "{refused}");
        let mut peer = service.connect().await;
        assert_eq!(peer.shown(), first, "{says}");
        peer.gets_a_response().await;
    }
    std::fs::remove_file(&key).unwrap();
    assert!(service.tls.reload().unwrap_err().contains("tls.key: No such file"));
    service.write(&good);
    service.tls.reload().unwrap();
    assert_eq!(service.connect().await.shown(), der(&good.certificate));
}

#[test]
fn invalid_files_are_refused_at_the_start() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    let (good, other) = (authority.issue(&["localhost"]), authority.issue(&["localhost"]));
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let large = "x".repeat((1 << 20) + 1);
    let open = || Tls::open(files(directory.path()), Arc::new(SystemClock)).map(drop);
    assert!(open().unwrap_err().contains("tls.crt: No such file"));
    for (certificate, key, says) in [
        (good.certificate.as_str(), other.key.as_str(), "tls.key: the key does not belong to the certificate"),
        (good.key.as_str(), good.key.as_str(), "tls.crt: it contains no certificate"),
        (good.certificate.as_str(), good.certificate.as_str(), "tls.key: it contains no private key"),
        (good.certificate.as_str(), encrypted, "tls.key: the key has a passphrase"),
        ("\u{1}\u{2}", good.key.as_str(), "tls.crt: this is not PEM"),
        (good.certificate.as_str(), "", "tls.key: this is not PEM"),
        (broken, good.key.as_str(), "tls.crt: the certificate cannot be read"),
        (large.as_str(), good.key.as_str(), "tls.crt: it has more than 1048576 bytes"),
    ] {
        Issued { certificate: certificate.to_owned(), key: key.to_owned() }.write(directory.path());
        let refused = open().unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }
    // An expired certificate only causes a warning in the log.
    authority.issue_with(&["localhost"], expired).write(directory.path());
    open().unwrap();
}

#[tokio::test]
async fn stalled_handshakes_time_out_and_make_room() {
    let limits = ServerLimits {
        max_connections: 4,
        handshake_wait: Duration::from_millis(300),
        header_wait: PATIENCE,
        ..ServerLimits::default()
    };
    let service = Encrypting::open(limits).await;
    // Five times the maximum of connections, half of them in the middle of their first message.
    let mut idle = Vec::new();
    for number in 0..20_u32 {
        let mut peer = TcpStream::connect(service.address).await.unwrap();
        if number.is_multiple_of(2) {
            peer.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        }
        idle.push(peer);
    }
    service.connect().await.gets_a_response().await;
    for mut peer in idle {
        assert_eq!(rest(&mut peer).await, "");
    }
    service.until_handshakes_failed(20).await;
    // Handshakes and TLS connections share one limit: with the maximum open, no further client is admitted.
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut peer = service.connect().await;
        peer.gets_a_response().await;
        open.push(peer);
    }
    let further = service.connect();
    tokio::pin!(further);
    let waits = tokio::time::timeout(Duration::from_millis(500), &mut further).await;
    assert!(waits.is_err(), "a connection over the limit was admitted");
    drop(open);
    further.await.gets_a_response().await;
}

#[tokio::test]
async fn plain_http_is_refused_with_advice_and_garbage_is_dropped() {
    let service = Encrypting::open(ServerLimits::default()).await;
    let mut peer = TcpStream::connect(service.address).await.unwrap();
    let call = "POST /v1/domains HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
    peer.write_all(call.as_bytes()).await.unwrap();
    let answer = rest(&mut peer).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("\"code\":\"tls-required\"") && answer.contains("https://"), "{answer}");
    assert!(answer.contains("connection: close") && answer.contains("nosniff"), "{answer}");
    for rubbish in [&b"\0\0\0\0"[..], b"hello\r\n\r\n", &[22, 3, 1, 0, 5, 9, 9, 9, 9, 9]] {
        let mut peer = TcpStream::connect(service.address).await.unwrap();
        peer.write_all(rubbish).await.unwrap();
        let answer = rest(&mut peer).await;
        assert!(!answer.contains("HTTP/"), "{answer}");
    }
    service.until_handshakes_failed(4).await;
    service.connect().await.gets_a_response().await;
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_handshakes() {
    let limits = ServerLimits { handshake_wait: PATIENCE, shutdown_wait: PATIENCE, ..ServerLimits::default() };
    let service = Encrypting::open(limits).await;
    let mut idle = TcpStream::connect(service.address).await.unwrap();
    // The service accepts connections in order, so it has accepted the idle one.
    service.connect().await.gets_a_response().await;
    service.stop.send(()).unwrap();
    tokio::time::timeout(PATIENCE / 2, service.served).await.expect("it stops").unwrap();
    assert_eq!(rest(&mut idle).await, "");
}

#[tokio::test]
async fn only_trusted_client_certificates_are_accepted() {
    for is_required in [false, true] {
        let (own, callers, directory) = (Authority::new(), Authority::new(), tempfile::tempdir().unwrap());
        own.issue(&["localhost"]).write(directory.path());
        let ca = directory.path().join("callers.crt");
        std::fs::write(&ca, callers.pem()).unwrap();
        let files = TlsFiles { callers: Some(TlsCallers { ca, is_required }), ..files(directory.path()) };
        let tls = Some(Tls::open(files, Arc::new(SystemClock)).unwrap());
        let api = Api::open().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let limits = ServerLimits::default();
        tokio::spawn(Server { listener, router: api.router.clone(), limits, tls }.run_until(std::future::pending()));
        let ca = own.pem();
        let ready = async |shown: Option<&Issued>| {
            let certificate = shown.map(|shown| ClientCertificate {
                certificate: shown.certificate.as_bytes(),
                key: shown.key.as_bytes(),
            });
            let access = Access { ca: Some(ca.as_bytes()), certificate, ..Access::default() };
            match Client::with_access(&url, access).unwrap().patience(Patience::None).ready().await {
                Ok(_) => Ok(()),
                Err(Error::Insecure { problem, .. }) => Err(problem),
                Err(other) => panic!("{other:?}"),
            }
        };
        assert_eq!(ready(Some(&callers.issue(&[]))).await, Ok(()));
        assert_eq!(ready(None).await, if is_required { Err(TlsProblem::CertificateWanted) } else { Ok(()) });
        for (wrong, says) in [
            (Authority::new().issue(&[]), "its authority is not accepted by the service"),
            (callers.issue_with(&[], expired), "it has expired, or is not valid yet"),
            (callers.issue_with(&[], not_yet), "it has expired, or is not valid yet"),
        ] {
            assert_eq!(ready(Some(&wrong)).await, Err(TlsProblem::CertificateRefused(says.to_owned())));
        }
    }
}

#[tokio::test]
async fn a_client_explains_why_a_tls_connection_failed() {
    let service = Encrypting::open(ServerLimits::default()).await;
    let ca = service.authority.pem();
    let problem = async |url: &str, ca: Option<&str>| {
        let access = Access { ca: ca.map(str::as_bytes), ..Access::default() };
        let client = Client::with_access(url, access).unwrap().patience(Patience::None);
        match client.ready().await.unwrap_err() {
            Error::Insecure { problem, .. } => problem,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(problem(&service.url(), None).await, TlsProblem::UnknownAuthority);
    let by_address = format!("https://127.0.0.1:{}", service.address.port());
    let other = problem(&by_address, Some(&ca)).await;
    assert!(matches!(&other, TlsProblem::OtherName { shown } if !shown.is_empty()), "{other:?}");
    assert!(other.to_string().contains("localhost"), "{other}");
    for (change, found) in [
        (expired as fn(&mut CertificateParams), TlsProblem::Expired),
        (not_yet as fn(&mut CertificateParams), TlsProblem::NotYetValid),
    ] {
        service.write(&service.authority.issue_with(&["localhost"], change));
        let tls = Some(Tls::open(files(service.directory.path()), Arc::new(SystemClock)).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let (router, limits) = (service.api.router.clone(), ServerLimits::default());
        tokio::spawn(Server { listener, router, limits, tls }.run_until(std::future::pending()));
        assert_eq!(problem(&url, Some(&ca)).await, found);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let (router, limits) = (service.api.router.clone(), ServerLimits::default());
    tokio::spawn(Server { listener, router, limits, tls: None }.run_until(std::future::pending()));
    assert_eq!(problem(&url, Some(&ca)).await, TlsProblem::NotEncrypted);
}
