//! Many callers that send without end or never read: what they take of the service's memory, and that it comes back.

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

/// Connections with unfinished requests. Each end of them is a descriptor of this process.
const UNFINISHED: usize = 16_000;

/// Has this process and its children open as many files as the system allows.
fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// How long the service waits for a body.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// How much more memory a flood may take.
const MORE_MAX: u64 = 600 * MIB;

/// How much more than before may stay. What was read is cached, and allocators keep some.
const MORE_STAYS: u64 = 50 * MIB;

/// How soon the memory of a flood must be back.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// A line of the process's status, such as `VmRSS`, in bytes.
pub(crate) fn memory(service: &Service, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A number of the metrics.
async fn measured(client: &Client, name: &str) -> u64 {
    let text = client.metrics().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap().parse().unwrap()
}

/// Waits until nothing is in flight and the memory is given back.
async fn until_it_is_back(service: &Service, client: &Client, before: u64) {
    // The answer to the query itself is in flight in part.
    while measured(client, "baton_bytes_in_flight").await > 64 * 1024 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let deadline = tokio::time::Instant::now() + BACK_WITHIN;
    while memory(service, "VmRSS") > before + MORE_STAYS {
        let now = memory(service, "VmRSS") / MIB;
        assert!(tokio::time::Instant::now() < deadline, "{now} MiB stay of {} before", before / MIB);
        // Requests go on, as they do in life.
        client.describe("w", None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The head of a request over SWF's wire, as an AWS client signs it, but for the signature itself.
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
async fn bodies_of_callers_who_are_not_known_take_a_bounded_part_of_the_memory_and_nobody_else_is_hurt() {
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
    // Of a key that nobody has not even the body is waited for.
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
            // All but the last byte, as far as it is taken.
            drop(stream.write_all(&vec![b' '; length - 1]).await);
            stream
        });
    }
    // Others are served meanwhile.
    for _ in 0..20 {
        client.describe("w", None).await.unwrap();
    }
    let streams = senders.join_all().await;
    // Each is looked at when its turn comes. A body that takes too long to come leaves its room to another: on a busy
    // machine more than a hundred come in.
    loop {
        let rooms = 1 + began.elapsed().as_secs() / BODY_WAIT.as_secs();
        let overloaded = measured(&client, "baton_requests_overloaded_total").await;
        if overloaded >= 700_u64.saturating_sub(100 * rooms) {
            break;
        }
        assert!(rooms < 4, "{overloaded} were put off");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // What is in flight is still there, but for bodies that took too long.
    let most = memory(&service, "VmHWM") - before;
    assert!(most < MORE_MAX, "{} MiB more", most / MIB);
    let mut refused = 0;
    for mut stream in streams {
        let mut text = String::new();
        // The rest of the body was not read: the answer may be lost with its connection.
        let read = tokio::time::timeout(Duration::from_millis(5), stream.read_to_string(&mut text));
        drop(read.await);
        refused += usize::from(text.starts_with("HTTP/1.1 503 "));
    }
    println!("{refused} heard the refusal");
    until_it_is_back(&service, &client, before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_are_never_read_take_a_bounded_part_of_the_memory_and_others_are_told_to_come_again() {
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
    // Small things are answered meanwhile.
    client.describe("w", None).await.unwrap();
    drop(readers);
    until_it_is_back(&service, &client, before).await;
}

/// Starts as many connections as the service takes, each with this many bytes of a request that never ends.
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
async fn unfinished_requests_take_a_bounded_part_of_the_memory() {
    raise_descriptors();
    let scratch = Scratch::new("flood-heads");
    let service = Service::start(&scratch.0, &[]);
    let client = service.client();
    client.start(&start("w"), None).await.unwrap();
    let before = memory(&service, "VmRSS");
    let begin = b"GET /healthz HTTP/1.1\r\nhost: h\r\na: ";
    for bytes in [16_000, 61_000] {
        let streams = unfinished(&service, UNFINISHED, begin, bytes).await;
        // Complete requests are answered meanwhile.
        for _ in 0..20 {
            client.describe("w", None).await.unwrap();
        }
        let most = memory(&service, "VmHWM") - before;
        println!("{bytes} bytes each: {} MiB more", most / MIB);
        assert!(most < MORE_MAX, "{bytes} bytes each: {} MiB more", most / MIB);
        drop(streams);
        until_it_is_back(&service, &client, before).await;
    }
}
