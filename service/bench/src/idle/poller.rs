//! Successive polls over one connection. Each connection takes a minimum of memory, so that one process can have
//! 100,000.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use crate::swf::Wire;

/// Wait of one poll in seconds.
const WAIT: u64 = 60;

/// Delay before a connection is retried.
const AGAIN: Duration = Duration::from_millis(100);

/// Maximum size of a response in bytes. Empty responses of polls take a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 4 * 1024;

/// Maximum number of connections from one source address. By default a system assigns about 28,000 ports per address,
/// and searches the second half of them one by one.
const OF_ADDRESS: u64 = 14_000;

/// First source port. All source ports are below the range that systems assign automatically.
const FIRST_PORT: u64 = 16_000;

/// Returns the source address of a poll, or `None` if the system can choose one. Source addresses are in 127.0.0.0/8.
fn source(number: u64) -> Option<SocketAddr> {
    let address = number / OF_ADDRESS;
    let [.., high, low] = (address + 1).to_be_bytes();
    let port = u16::try_from(FIRST_PORT + number % OF_ADDRESS).ok()?;
    (address > 0).then(|| (Ipv4Addr::new(127, 0, high, low), port).into())
}

/// Returns the text of a poll's request. Every second poll is a decider's.
fn request(wire: Wire, to: SocketAddr, (number, list): (u64, &str)) -> String {
    let is_decider = number.is_multiple_of(2);
    let (path, headers, body) = match wire {
        Wire::Rest => {
            let side = if is_decider { "decider" } else { "activity" };
            let path = format!("/v1/domains/default/task-lists/{list}/{side}/poll");
            (path, format!("content-type: application/json\r\nprefer: wait={WAIT}"), "{}".to_owned())
        }
        Wire::Swf => {
            let task = if is_decider { "Decision" } else { "Activity" };
            let target = format!("x-amz-target: SimpleWorkflowService.PollFor{task}Task");
            let body = format!(r#"{{"domain":"default","taskList":{{"name":"{list}"}}}}"#);
            ("/".to_owned(), format!("content-type: application/x-amz-json-1.0\r\n{target}"), body)
        }
    };
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: {to}\r\n{headers}\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// Polls repeatedly. The first poll waits for a permit of `begin`.
pub(super) async fn hold(wire: Wire, to: SocketAddr, (number, list): (u64, String), begin: Arc<Semaphore>) {
    loop {
        if let Err(error) = hold_one(wire, to, (number, &list), &begin).await {
            tracing::debug!(%error, "a poll ended");
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Polls repeatedly until the connection ends.
async fn hold_one(wire: Wire, to: SocketAddr, (number, list): (u64, &str), begin: &Semaphore) -> io::Result<()> {
    let begins = begin.acquire().await;
    let socket = TcpSocket::new_v4()?;
    // If no source address is required, the system chooses a free port when it connects. Choosing a port here would
    // take up to a millisecond.
    if let Some(source) = source(number) {
        // The previous connection may not be released yet.
        socket.set_reuseaddr(true)?;
        socket.bind(source).or_else(|_| socket.bind((source.ip(), 0).into()))?;
    }
    let mut stream = socket.connect(to).await?;
    stream.write_all(request(wire, to, (number, list)).as_bytes()).await?;
    drop(begins);
    loop {
        // A waiting poll has no read buffer, which saves memory.
        stream.readable().await?;
        read_answer(&mut stream).await?;
        stream.write_all(request(wire, to, (number, list)).as_bytes()).await?;
    }
}

/// Reads a response with a `Content-Length`.
async fn read_answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(512);
    while !is_whole(&bytes)? {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Returns whether these bytes are a complete response.
fn is_whole(bytes: &[u8]) -> io::Result<bool> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() < ANSWER_BYTES_MAX { Ok(false) } else { Err(io::ErrorKind::InvalidData.into()) };
    };
    let (head, body) = bytes.split_at(end + 4);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    if !head.starts_with("http/1.1 200 ") && !head.starts_with("http/1.1 204 ") {
        return Err(io::Error::other(head));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<usize>().ok()).unwrap_or_default();
    Ok(body.len() >= length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_when_it_has_its_content_length() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        for (bytes, is) in [
            ("", Some(false)),
            ("HTTP/1.1 204 No Content\r\n", Some(false)),
            ("HTTP/1.1 204 No Content\r\n\r\n", Some(true)),
            (head, Some(false)),
            (&format!("{head}{{}}\n"), Some(true)),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n", None),
        ] {
            assert_eq!(is_whole(bytes.as_bytes()).ok(), is, "{bytes}");
        }
    }

    #[test]
    fn an_address_has_a_limited_number_of_connections() {
        assert_eq!([0, OF_ADDRESS - 1].map(source), [None, None]);
        let sources = [OF_ADDRESS, 2 * OF_ADDRESS - 1, 99_999, 255 * OF_ADDRESS];
        let shown = sources.map(|number| source(number).unwrap().to_string());
        assert_eq!(shown, ["127.0.0.2:16000", "127.0.0.2:29999", "127.0.0.8:17999", "127.0.1.0:16000"]);
    }
}
