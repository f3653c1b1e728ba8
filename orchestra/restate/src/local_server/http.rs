//! The requests that show whether a server is ready.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);

pub(super) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

/// Sends a request until the reply has the status 200 and contains a text.
pub(super) async fn wait_for_reply(port: u16, request: &str, expected: &str) {
    loop {
        let started = Instant::now();
        let reply = timeout(REQUEST_TIMEOUT, exchange(port, request)).await;
        if let Ok(Ok(reply)) = reply
            && reply.starts_with("HTTP/1.1 200 ")
            && reply.contains(expected)
        {
            return;
        }
        sleep(POLL.saturating_sub(started.elapsed())).await;
    }
}

/// Sends a request and returns the reply. A client library would need settings against proxies, and a TLS provider.
async fn exchange(port: u16, request: &str) -> io::Result<String> {
    const MOST: u64 = 64 * 1024;
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.take(MOST).read_to_end(&mut reply).await?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}
