//! As much of HTTP/1.1 as a test needs, with a hand on every byte.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::Request;
use crate::wire::Wire;

/// How long one look at a connection takes; only how soon a server that stops is gone depends on it.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Connection<'s> {
    stream: TcpStream,
    buffer: Vec<u8>,
    stopped: &'s AtomicBool,
    abandoned: bool,
    sent: u64,
}

impl<'s> Connection<'s> {
    pub(crate) fn new(stream: TcpStream, stopped: &'s AtomicBool) -> Connection<'s> {
        // Without these a test is slower, or its server stops later; neither is worth a failure.
        drop(stream.set_nodelay(true));
        drop(stream.set_read_timeout(Some(LOOK)));
        Connection {
            stream,
            buffer: Vec::new(),
            stopped,
            abandoned: false,
            sent: 0,
        }
    }

    /// The next request; `None` when there is none to come.
    pub(crate) fn request(&mut self) -> Option<Request> {
        loop {
            if let Some((mut request, head, length)) = head(&self.buffer).ok()? {
                while self.buffer.len() < head + length {
                    self.read()?;
                }
                let body = self.buffer.get(head..head + length)?;
                request.body = serde_json::from_slice(body).unwrap_or(Value::Null);
                request.streamed =
                    request.body["stream"] == true || request.path.contains(":streamGenerateContent");
                self.buffer.drain(..head + length);
                return Some(request);
            }
            self.read()?;
        }
    }

    /// Reads some bytes; `None` at the end of the connection or of the server.
    fn read(&mut self) -> Option<()> {
        let mut bytes = [0; 16 * 1024];
        loop {
            if self.stopped.load(Ordering::SeqCst) {
                return None;
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => {
                    self.buffer.extend_from_slice(bytes.get(..count)?);
                    return Some(());
                }
                Err(error) if waits(&error) => {}
                Err(_) => return None,
            }
        }
    }

    /// Writes bytes; whether the other side took them.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        let mut left = bytes;
        while !left.is_empty() {
            if self.stopped.load(Ordering::SeqCst) {
                return false;
            }
            match self.stream.write(left) {
                Ok(count) => {
                    self.sent += count as u64;
                    left = left.get(count..).unwrap_or_default();
                }
                Err(error) if waits(&error) => {}
                Err(_) => {
                    self.abandoned = true;
                    return false;
                }
            }
        }
        true
    }

    /// Writes a head. Without a length the body follows in chunks.
    pub(crate) fn head(
        &mut self,
        status: u16,
        kind: &str,
        length: Option<usize>,
        headers: &[(&str, &str)],
    ) -> bool {
        let mut text = format!("HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\n");
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &match length {
            Some(length) => format!("content-length: {length}\r\n\r\n"),
            None => "transfer-encoding: chunked\r\n\r\n".to_owned(),
        };
        self.write(text.as_bytes())
    }

    /// Writes one chunk of a body.
    pub(crate) fn chunk(&mut self, bytes: &[u8]) -> bool {
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend_from_slice(bytes);
        framed.extend_from_slice(b"\r\n");
        self.write(&framed)
    }

    /// Writes the end of a body in chunks.
    pub(crate) fn end(&mut self) -> bool {
        self.write(b"0\r\n\r\n")
    }

    /// Waits for the other side to close the connection, or for a pause to be over; whether the connection still stands.
    pub(crate) fn wait(&mut self, pause: Option<Duration>) -> bool {
        let began = std::time::Instant::now();
        let mut bytes = [0; 1024];
        let look = pause
            .map_or(LOOK, |pause| pause.min(LOOK))
            .max(Duration::from_millis(1));
        drop(self.stream.set_read_timeout(Some(look)));
        let stands = loop {
            if self.stopped.load(Ordering::SeqCst) {
                break false;
            }
            match self.stream.read(&mut bytes) {
                Ok(count) if count > 0 => {}
                Err(error) if waits(&error) => {}
                _ => {
                    self.abandoned = true;
                    break false;
                }
            }
            if pause.is_some_and(|pause| began.elapsed() >= pause) {
                break true;
            }
        };
        drop(self.stream.set_read_timeout(Some(LOOK)));
        stands
    }

    /// Makes the close of the connection a reset.
    pub(crate) fn reset(&mut self) {
        drop(socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)));
    }

    /// How many bytes were written.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether the other side closed the connection while an answer was due.
    pub(crate) fn abandoned(&self) -> bool {
        self.abandoned
    }
}

fn waits(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// The head of a request with its length and that of the body, once all of it is there. An error: it is no request.
fn head(buffer: &[u8]) -> Result<Option<(Request, usize, usize)>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = parsed.parse(buffer)? else {
        return Ok(None);
    };
    let headers: Vec<(String, String)> = parsed
        .headers
        .iter()
        .map(|header| {
            let value = String::from_utf8_lossy(header.value).into_owned();
            (header.name.to_ascii_lowercase(), value)
        })
        .collect();
    let path = parsed.path.unwrap_or_default().to_owned();
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        wire: Wire::of_path(&path),
        path,
        headers,
        body: Value::Null,
        streamed: false,
    };
    let length = request
        .header("content-length")
        .and_then(|length| length.parse().ok());
    Ok(Some((request, head, length.unwrap_or(0))))
}
