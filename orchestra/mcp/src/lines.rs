//! A transport of JSON lines over blocking pipes. The length of a line and the amount of other output are limited.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{mpsc, oneshot};

/// Maximum length of a message, in bytes.
const MAX_LINE: u64 = 16 << 20;
/// Maximum amount of output that is not a message, in bytes.
const MAX_OTHER: usize = 1 << 20;
/// Number of messages that wait in each direction.
const WAITING: usize = 16;

/// The reason why the other side can no longer be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndReason(Arc<Mutex<Option<String>>>);

impl EndReason {
    fn set(&self, reason: impl Into<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_with(|| reason.into());
    }

    /// Returns the reason; `None` while the other side can be read.
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

type Written = oneshot::Sender<io::Result<()>>;

/// A transport of JSON lines.
pub(crate) struct LineTransport<R> {
    outgoing: Option<mpsc::Sender<(Vec<u8>, Written)>>,
    incoming: mpsc::Receiver<Vec<u8>>,
    other: usize,
    end: EndReason,
    role: PhantomData<fn() -> R>,
}

impl<R: ServiceRole> LineTransport<R> {
    /// Starts the threads that read and write. `ended` is called when nothing more can be read.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub(crate) fn start(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<(LineTransport<R>, EndReason)> {
        let end = EndReason::default();
        let (lines, incoming) = mpsc::channel(WAITING);
        let (outgoing, texts) = mpsc::channel(WAITING);
        let reason = end.clone();
        std::thread::Builder::new()
            .name("orchestra-mcp-read".to_owned())
            .spawn(move || {
                read(input, &lines, &reason);
                ended();
            })?;
        std::thread::Builder::new()
            .name("orchestra-mcp-write".to_owned())
            .spawn(move || write(output, texts))?;
        let transport = LineTransport {
            outgoing: Some(outgoing),
            incoming,
            other: 0,
            end: end.clone(),
            role: PhantomData,
        };
        Ok((transport, end))
    }
}

/// Reads lines until the input ends or a line is too long.
fn read(input: impl Read, lines: &mpsc::Sender<Vec<u8>>, end: &EndReason) {
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        match (&mut input).take(MAX_LINE + 1).read_until(b'\n', &mut line) {
            Ok(0) => return end.set("it closed its output"),
            Err(error) => return end.set(format!("its output cannot be read: {error}")),
            Ok(length) if length as u64 > MAX_LINE => {
                return end.set(format!("it wrote a line of more than {} MiB", MAX_LINE >> 20));
            }
            Ok(_) => {}
        }
        if lines.blocking_send(line).is_err() {
            return end.set("it was not read any more");
        }
    }
}

/// Writes lines until no more follow or the output is closed. Closes the output.
fn write(mut output: impl Write, mut texts: mpsc::Receiver<(Vec<u8>, Written)>) {
    while let Some((text, written)) = texts.blocking_recv() {
        let result = output.write_all(&text).and_then(|()| output.flush());
        let failed = result.is_err();
        // Nobody waits for it any more if the request was abandoned.
        let _ = written.send(result);
        if failed {
            return;
        }
    }
}

impl<R: ServiceRole> Transport<R> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<R>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        let text = serde_json::to_vec(&item);
        async move {
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            let mut text = text.map_err(io::Error::other)?;
            text.push(b'\n');
            let (written, result) = oneshot::channel();
            let outgoing = outgoing.ok_or_else(closed)?;
            outgoing.send((text, written)).await.map_err(|_| closed())?;
            result.await.map_err(|_| closed())?
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<R>> {
        loop {
            let line = self.incoming.recv().await?;
            match serde_json::from_slice(&line) {
                Ok(message) => return Some(message),
                Err(error) => {
                    tracing::debug!(%error, "a line is not a message");
                    self.other += line.len();
                    if self.other > MAX_OTHER {
                        self.end.set("it wrote more than 1 MiB that are not messages");
                        self.incoming.close();
                        return None;
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.outgoing = None;
        self.incoming.close();
        Ok(())
    }
}
