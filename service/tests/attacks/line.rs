//! A connection for raw bytes, which an HTTP client would not send.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Result of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Answered(Answer),
    /// The connection ended without a response.
    Closed,
    /// No response arrived in time.
    Silent,
}

/// Status and body of a response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// A connection that is opened on demand.
pub(crate) struct Line {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Line {
    pub(crate) fn to(address: &str) -> Self {
        Self { address: address.to_owned(), stream: None }
    }

    /// Sends a complete request and reads its response.
    pub(crate) async fn ask(&mut self, request: &[u8], patience: Duration) -> Outcome {
        // A kept connection may have ended since the last request.
        for is_kept in [self.stream.is_some(), false] {
            match tokio::time::timeout(patience, self.try_ask(request)).await {
                Ok(Ok(Some((answer, is_kept)))) => {
                    if !is_kept {
                        self.stream = None;
                    }
                    return Outcome::Answered(answer);
                }
                Ok(Ok(None) | Err(_)) => self.stream = None,
                Err(_) => {
                    self.stream = None;
                    return Outcome::Silent;
                }
            }
            if !is_kept {
                break;
            }
        }
        Outcome::Closed
    }

    async fn try_ask(&mut self, request: &[u8]) -> std::io::Result<Option<(Answer, bool)>> {
        if self.stream.is_none() {
            self.stream = Some(BufReader::new(TcpStream::connect(&self.address).await?));
        }
        let Some(stream) = &mut self.stream else { return Ok(None) };
        // The service may respond without reading the rest.
        drop(stream.get_mut().write_all(request).await);
        read(stream, request.starts_with(b"HEAD ")).await
    }

    /// Sends arbitrary bytes, closes the sending half, and reads the first response.
    pub(crate) async fn throw(address: &str, bytes: &[u8], patience: Duration) -> Outcome {
        let thrown = async {
            let mut stream = BufReader::new(TcpStream::connect(address).await?);
            drop(stream.get_mut().write_all(bytes).await);
            drop(stream.get_mut().shutdown().await);
            read(&mut stream, bytes.starts_with(b"HEAD ")).await
        };
        match tokio::time::timeout(patience, thrown).await {
            Ok(Ok(Some((answer, _)))) => Outcome::Answered(answer),
            Ok(Ok(None) | Err(_)) => Outcome::Closed,
            Err(_) => Outcome::Silent,
        }
    }
}

/// A response and whether the connection is kept, or `None` if the connection ends first.
async fn read(stream: &mut BufReader<TcpStream>, has_no_body: bool) -> std::io::Result<Option<(Answer, bool)>> {
    loop {
        let mut status = String::new();
        if stream.read_line(&mut status).await? == 0 {
            return Ok(None);
        }
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status: u16 = status.ok_or(std::io::ErrorKind::InvalidData)?;
        let (mut length, mut is_chunked, mut is_kept, mut is_stream) = (None, false, true, false);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(None);
            }
            let line = line.trim_end().to_lowercase();
            if line.is_empty() {
                break;
            }
            match line.split_once(": ") {
                Some(("content-length", value)) => length = value.parse::<usize>().ok(),
                Some(("transfer-encoding", "chunked")) => is_chunked = true,
                Some(("connection", "close")) => is_kept = false,
                Some(("content-type", "text/event-stream")) => is_stream = true,
                _ => {}
            }
        }
        // An interim response.
        if status == 100 {
            continue;
        }
        let mut body = Vec::new();
        // An event stream does not end.
        if is_stream {
            return Ok(Some((Answer { status, body }, false)));
        }
        if is_chunked {
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).await?;
                let size = usize::from_str_radix(line.trim(), 16).map_err(|_| std::io::ErrorKind::InvalidData)?;
                let mut chunk = vec![0; size + 2];
                stream.read_exact(&mut chunk).await?;
                body.extend_from_slice(&chunk[..size]);
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = length.filter(|_| status != 304 && !has_no_body) {
            body.resize(length, 0);
            stream.read_exact(&mut body).await?;
        }
        return Ok(Some((Answer { status, body }, is_kept)));
    }
}

/// A valid request with these headers and an optional body.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Vec<u8> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut text = format!("{method} {path} HTTP/1.1\r\ncontent-length: {}\r\n", body.len());
    let names = ["host", "content-type"].map(|name| headers.iter().any(|(given, _)| *given == name));
    if !names[0] {
        text += "host: 127.0.0.1\r\n";
    }
    if !names[1] && !body.is_empty() {
        text += "content-type: application/json\r\n";
    }
    let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    (text + &headers.collect::<String>() + "\r\n" + &body).into_bytes()
}

impl Line {
    /// Sends a valid request and waits for its response.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        match self.ask(&request(method, path, headers, body), Duration::from_secs(120)).await {
            Outcome::Answered(answer) => answer,
            other => panic!("{method} {path}: {other:?}"),
        }
    }
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}
