//! Clients that send without end or never read: the service's memory stays bounded and is released afterwards.

use std::time::Duration;

use client::Client;
use history::Payload;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::start;
use crate::support::{Scratch, Service, baton};

const MIB: u64 = 1024 * 1024;

/// Number of connections with unfinished requests. Each client end is a descriptor of this process.
const UNFINISHED: usize = 16_000;

/// Raises the limit of open files of this process and its children to the maximum.
fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// Time that the service waits for a body.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// Maximum of additional memory during a flood.
const MORE_MAX: u64 = 600 * MIB;

/// Maximum of additional memory afterwards. Some is cached data, some is kept by the allocator.
const MORE_STAYS: u64 = 50 * MIB;

/// Time within which memory must be released.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// A line of the process's status, such as `VmRSS`, in bytes.
pub(crate) fn memory(service: &Service, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Value of a metric.
async fn measured(client: &Client, name: &str) -> u64 {
    let text = client.metrics().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap().parse().unwrap()
}

/// Waits until no bytes are in flight and memory is released.
async fn until_released(service: &Service, client: &Client, before: u64) {
    // The response to the metrics request is itself in flight.
    while measured(client, "baton_bytes_in_flight").await > 64 * 1024 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let deadline = tokio::time::Instant::now() + BACK_WITHIN;
    while memory(service, "VmRSS") > before + MORE_STAYS {
        let now = memory(service, "VmRSS") / MIB;
        assert!(tokio::time::Instant::now() < deadline, "{now} MiB are still used, {} before", before / MIB);
        // Requests continue, as in production.
        client.describe("w", None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Head of a request over the SWF protocol, as an AWS client signs it, but with a wrong signature.
fn badly_signed(address: &str, key: &str, length: usize) -> String {
    let now = std::process::Command::new("date").args(["-u", "+%Y%m%dT%H%M%SZ"]).output().unwrap();
    let now = String::from_utf8(now.stdout).unwrap().trim().to_owned();
    let (day, signature) = (&now[..8], "0".repeat(64));
    format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\nx-amz-target: SimpleWorkflowService.StartWorkflowExecution\r\n\
         content-type: application/x-amz-json-1.0\r\nx-amz-date: {now}\r\ncontent-length: {length}\r\n\
         authorization: AWS4-HMAC-SHA256 Credential={key}/{day}/us-east-1/swf/aws4_request, \
         SignedHeaders=host;x-amz-date;x-amz-target, Signature={signature}\r\n\r\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_bodies_take_bounded_memory() {
    let scratch = Scratch::new("flood-bodies");
    let config = scratch.0.join("baton.toml");
    let key = baton(&["credential", "new", "shop", "--application", "default", "--access-key", "--print"]);
    let ops = baton(&["credential", "new", "ops", "--operator", "--print"]);
    std::fs::write(&config, [key.stdout, ops.stdout].concat()).unwrap();
    let told = String::from_utf8(key.stderr).unwrap();
    let key = told.split_whitespace().find_map(|word| word.strip_prefix("AWS_ACCESS_KEY_ID=")).unwrap().to_owned();
    let told = String::from_utf8(ops.stderr).unwrap();
    let secret = told.trim().rsplit(' ').next().unwrap();
    let service = Service::start(&scratch.0, &["--config", config.to_str().unwrap()]);
    let client = Client::with_secret(&service.url, secret).unwrap();
    client.start(&start("w"), None).await.unwrap();
    let before = memory(&service, "VmRSS");

    let address = service.url.trim_start_matches("http://").to_owned();
    let length = usize::try_from(MIB).unwrap();
    // For an unknown access key, the service does not even wait for the body.
    let mut unknown = TcpStream::connect(&address).await.unwrap();
    unknown.write_all(badly_signed(&address, "nobody", length).as_bytes()).await.unwrap();
    let mut answer = String::new();
    drop(unknown.read_to_string(&mut answer).await);
    assert!(answer.contains("#UnrecognizedClientException"), "{answer}");

    let (head, began) = (badly_signed(&address, &key, length), tokio::time::Instant::now());
    let mut senders = JoinSet::new();
    for _ in 0..700 {
        let (address, head) = (address.clone(), head.clone());
        senders.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            // All but the last byte, as far as the service reads.
            drop(stream.write_all(&vec![b' '; length - 1]).await);
            stream
        });
    }
    // Other clients are served meanwhile.
    for _ in 0..20 {
        client.describe("w", None).await.unwrap();
    }
    let streams = senders.join_all().await;
    // The service considers each body in turn. A body that takes too long makes room for another, so on a busy machine
    // more than a hundred are admitted.
    loop {
        let rooms = 1 + began.elapsed().as_secs() / BODY_WAIT.as_secs();
        let overloaded = measured(&client, "baton_requests_overloaded_total").await;
        if overloaded >= 700_u64.saturating_sub(100 * rooms) {
            break;
        }
        assert!(rooms < 4, "{overloaded} were refused");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Bytes in flight are still there, except for bodies that took too long.
    let most = memory(&service, "VmHWM") - before;
    assert!(most < MORE_MAX, "{} MiB more", most / MIB);
    let mut refused = 0;
    for mut stream in streams {
        let mut text = String::new();
        // The rest of the body was not read, so the response may be lost with its connection.
        let read = tokio::time::timeout(Duration::from_millis(5), stream.read_to_string(&mut text));
        drop(read.await);
        refused += usize::from(text.starts_with("HTTP/1.1 503 "));
    }
    println!("{refused} got the refusal");
    until_released(&service, &client, before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_pages_take_bounded_memory_and_others_get_503() {
    let scratch = Scratch::new("flood-pages");
    let service = Service::start(&scratch.0, &[]);
    let client = service.client();
    client.start(&start("w"), None).await.unwrap();
    let input = Payload::of(&"x".repeat(250_000)).unwrap();
    for _ in 0..17 {
        client.signal("w", "s", Some(input.clone()), None).await.unwrap();
    }
    let before = memory(&service, "VmRSS");
    let address = service.url.trim_start_matches("http://").to_owned();
    let mut readers = JoinSet::new();
    for _ in 0..200 {
        let address = address.parse().unwrap();
        readers.spawn(async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(4096).unwrap();
            let mut stream = socket.connect(address).await.unwrap();
            let path = "/v1/domains/default/workflows/w/history?limit=10000";
            stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes()).await.unwrap();
            let mut begin = [0; 12];
            stream.read_exact(&mut begin).await.unwrap();
            (String::from_utf8(begin.to_vec()).unwrap(), stream)
        });
    }
    let readers = readers.join_all().await;
    let most = memory(&service, "VmHWM") - before;
    let refused = readers.iter().filter(|(begin, _)| begin == "HTTP/1.1 503").count();
    let served = readers.iter().filter(|(begin, _)| begin == "HTTP/1.1 200").count();
    assert!(refused > 100 && served > 20 && refused + served == 200, "{served} served, {refused} refused");
    assert!(most < MORE_MAX, "{} MiB more", most / MIB);
    // Small requests succeed meanwhile.
    client.describe("w", None).await.unwrap();
    drop(readers);
    until_released(&service, &client, before).await;
}

/// Opens as many connections as the service accepts, each with this many bytes of an unfinished request.
async fn unfinished(service: &Service, count: usize, begin: &'static [u8], bytes: usize) -> Vec<TcpStream> {
    let address = service.url.trim_start_matches("http://").to_owned();
    let mut senders = JoinSet::new();
    for _ in 0..count {
        let address = address.clone();
        senders.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let rest = vec![b'x'; bytes - begin.len()];
            // The service may close the connection at any time.
            drop(stream.write_all(&[begin, &rest].concat()).await);
            stream
        });
    }
    senders.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_requests_take_bounded_memory() {
    raise_descriptors();
    let scratch = Scratch::new("flood-heads");
    let service = Service::start(&scratch.0, &[]);
    let client = service.client();
    client.start(&start("w"), None).await.unwrap();
    let before = memory(&service, "VmRSS");
    let begin = b"GET /healthz HTTP/1.1\r\nhost: h\r\na: ";
    for bytes in [16_000, 61_000] {
        let streams = unfinished(&service, UNFINISHED, begin, bytes).await;
        // Complete requests succeed meanwhile.
        for _ in 0..20 {
            client.describe("w", None).await.unwrap();
        }
        let most = memory(&service, "VmHWM") - before;
        println!("{bytes} bytes each: {} MiB more", most / MIB);
        assert!(most < MORE_MAX, "{bytes} bytes each: {} MiB more", most / MIB);
        drop(streams);
        until_released(&service, &client, before).await;
    }
}
