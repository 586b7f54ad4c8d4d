//! The command line and the client through a TLS proxy whose certificate has a private authority.

use std::sync::Arc;
use std::time::Duration;

use client::body::StartWorkflow;
use client::{Access, Client, Patience};
use decider_kit::{Activity, Decisions, Steps, Window};
use runner_kit::{ActivityContext, ActivityFailure, activity_fn};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificates::Authority;
use crate::start;
use crate::support::{Scratch, Service, baton};

/// Starts a TLS proxy in front of a service, with a certificate for `localhost`. Returns its port and the authority's
/// certificate.
async fn proxy(service: &Service) -> (u16, String) {
    let authority = Authority::new();
    let issued = authority.issue(&["localhost"]);
    let shown = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![shown], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = service.url.trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                // A client that does not trust the certificate disconnects.
                let Ok(mut shown) = acceptor.accept(connection).await else { return };
                let mut plain = TcpStream::connect(behind).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut shown, &mut plain).await);
            });
        }
    });
    (port, authority.pem())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_trust_the_authority_connect_through_a_tls_proxy() {
    let scratch = Scratch::new("https");
    let service = Service::start(&scratch.0, &[]);
    let (port, authority) = proxy(&service).await;
    let url = format!("https://localhost:{port}");
    let client = Client::with_access(&url, Access { ca: Some(authority.as_bytes()), ..Access::default() }).unwrap();
    client.patience(Patience::None).start(&start("w"), None).await.unwrap();

    let file = scratch.0.join("authority.pem");
    std::fs::write(&file, &authority).unwrap();
    let file = file.to_str().unwrap();
    let run = |args: &[&str]| {
        let output = baton(args);
        (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, listed) = run(&["workflow", "list", "--url", &url, "--ca-file", file]);
    assert!(code == 0 && listed.contains(" w "), "{code}: {listed}");

    // Without the authority, and with a name that the certificate lacks.
    let (code, refused) = run(&["workflow", "list", "--url", &url]);
    let says = ["not signed by a trusted authority", "--ca-file or BATON_CA_FILE"];
    assert!(code == 3 && says.iter().all(|says| refused.contains(says)), "{code}: {refused}");
    let other = format!("https://127.0.0.1:{port}");
    let (code, refused) = run(&["workflow", "list", "--url", &other, "--ca-file", file]);
    assert!(code == 3 && refused.contains("for another name") && refused.contains("--url"), "{code}: {refused}");
    let (code, refused) = run(&["workflow", "list", "--url", &service.url.replace("http:", "https:")]);
    assert!(code == 3 && refused.contains("does not use TLS"), "{code}: {refused}");
    let (code, refused) = run(&["workflow", "list", "--url", &url, "--client-cert", file]);
    assert!(code == 2 && refused.contains("--client-cert and --client-key must be used together"), "{code}: {refused}");
    let alone = ["--client-cert", file, "--client-key", file];
    let (code, refused) = run(&[["workflow", "list", "--url", &url].as_slice(), &alone].concat());
    assert!(code == 2 && refused.contains("a certificate") && refused.contains("its key"), "{code}: {refused}");
    let stranger = Client::new(&url).unwrap().patience(Patience::None);
    assert!(stranger.describe("w", None).await.is_err());
    // Plain HTTP fails, too.
    assert_ne!(run(&["workflow", "list", "--url", &format!("http://localhost:{port}")]).0, 0);
    assert_eq!(run(&["workflow", "list", "--url", &url, "--ca-file", "/nowhere"]).0, 2);
}

/// Task list of the decider and the runner.
const KITS: &str = "kits";

/// A decider of one activity, then the end.
fn one(steps: &Steps, _: &Window) -> Decisions {
    let step = steps.activity("one");
    match (step.is_new(), step.is_done()) {
        (true, _) => Decisions::new().schedule(Activity::new("one", "one")),
        (_, true) => Decisions::new().succeed(&"done"),
        (..) => Decisions::new(),
    }
}

async fn work(_: ActivityContext, (): ()) -> Result<String, ActivityFailure> {
    Ok("worked".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_of_both_kits_work_over_https() {
    let scratch = Scratch::new("https-kits");
    let service = Service::start(&scratch.0, &[]);
    let (port, authority) = proxy(&service).await;
    let access = Access { ca: Some(authority.as_bytes()), ..Access::default() };
    let client = Client::with_access(&format!("https://localhost:{port}"), access).unwrap();
    let deciders = decider_kit::Host::new(client.clone(), KITS).register("one", decider_kit::decide(one));
    let runners = runner_kit::Host::new(client.clone(), KITS).register(activity_fn("one", work));
    let once = async {
        let (workflow_type, task_list) = ("one".to_owned(), Some(KITS.to_owned()));
        let start = StartWorkflow { workflow_type, task_list, ..start("kits") };
        client.start(&start, None).await.unwrap();
        client.result("kits", None, Duration::from_secs(60)).await.unwrap()
    };
    tokio::select! {
        result = once => assert_eq!(result.status, history::Status::Success),
        () = deciders.run() => panic!("the decider host ended by itself"),
        () = runners.run() => panic!("the runner host ended by itself"),
    }
}
