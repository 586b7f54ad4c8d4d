//! A proxy between the program and the bucket's server, which makes requests fail.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::server;

/// Handling of requests.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    Answered,
    /// The proxy neither forwards nor responds.
    Hang,
    /// The proxy forwards every put, but closes the connection of every second one before the response.
    AnswersLost,
    /// The proxy refuses all requests with this status and body.
    Refused(u16, String),
    /// The proxy removes conditions from requests.
    ConditionsIgnored,
}

pub(crate) struct Proxy {
    pub(crate) endpoint: String,
    fate: Arc<Mutex<Fate>>,
    hanging: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let fate = Arc::new(Mutex::new(Fate::Answered));
        let (hanging, lost, puts) =
            (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let proxy = Self { endpoint, fate: Arc::clone(&fate), hanging: Arc::clone(&hanging), lost: Arc::clone(&lost) };
        let client = reqwest::Client::new();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (fate, hanging, lost, puts) = (fate.clone(), hanging.clone(), lost.clone(), puts.clone());
                let client = client.clone();
                let answer = service_fn(move |request: Request<Incoming>| {
                    let (fate, client) = (fate.lock().unwrap().clone(), client.clone());
                    let (hanging, lost, puts) = (hanging.clone(), lost.clone(), puts.clone());
                    async move {
                        match &fate {
                            Fate::Hang => {
                                hanging.fetch_add(1, Ordering::SeqCst);
                                std::future::pending::<()>().await;
                            }
                            Fate::Refused(status, body) => {
                                let mut refused = Response::new(Full::new(Bytes::from(body.clone())));
                                *refused.status_mut() = StatusCode::from_u16(*status).unwrap();
                                return Ok(refused);
                            }
                            Fate::Answered | Fate::AnswersLost | Fate::ConditionsIgnored => {}
                        }
                        let is_put = request.method() == Method::PUT;
                        let answered = forward(&client, request, matches!(fate, Fate::ConditionsIgnored)).await;
                        if is_put && matches!(fate, Fate::AnswersLost) && puts.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
                            lost.fetch_add(1, Ordering::SeqCst);
                            return Err(std::io::Error::other("the response is lost"));
                        }
                        answered.map_err(|never| match never {})
                    }
                });
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
                tokio::spawn(connection);
            }
        });
        proxy
    }

    pub(crate) fn set(&self, fate: Fate) {
        *self.fate.lock().unwrap() = fate;
    }

    /// Number of requests that the proxy left hanging.
    pub(crate) fn hanging(&self) -> u64 {
        self.hanging.load(Ordering::SeqCst)
    }

    /// Number of lost responses.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::SeqCst)
    }
}

async fn forward(
    client: &reqwest::Client,
    request: Request<Incoming>,
    ignores_conditions: bool,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let url = format!("{}{}", server(), parts.uri);
    let mut asked = client.request(parts.method, url).body(body);
    for (name, value) in &parts.headers {
        let is_condition = name == "if-match" || name == "if-none-match";
        if name != "host" && !(ignores_conditions && is_condition) {
            asked = asked.header(name, value);
        }
    }
    let answer = asked.send().await.unwrap();
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if name != "transfer-encoding" && name != "connection" {
            response = response.header(name, value);
        }
    }
    Ok(response.body(Full::new(answer.bytes().await.unwrap())).unwrap())
}
