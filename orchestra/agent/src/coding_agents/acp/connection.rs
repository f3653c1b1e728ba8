//! The connection to an agent: messages in lines.

use std::io::{PipeWriter, Write as _};
use std::sync::mpsc as blocking;

use orchestra_engine::process::OutputStream;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The code of JSON-RPC for a method that the receiver does not have.
const METHOD_NOT_FOUND: i64 = -32601;

/// A line that the agent wrote.
pub(super) enum Line {
    Message(Value),
    /// A line for people.
    Text(String),
}

impl Line {
    pub(super) fn read(stream: OutputStream, line: &str) -> Option<Line> {
        if stream == OutputStream::Stderr {
            return Some(Line::Text(line.to_owned()));
        }
        let message: Value = serde_json::from_str(line).ok()?;
        message.is_object().then_some(Line::Message(message))
    }
}

/// A message of the agent.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    /// The answer to a request of this client.
    Response {
        id: u64,
        result: Result<Value, RpcError>,
    },
    /// A request, which must be answered.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// A line for people.
    Text(String),
}

/// The error of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
}

impl RpcError {
    fn read(error: &Value) -> RpcError {
        let text = |pointer: &str| error.pointer(pointer).and_then(Value::as_str);
        let message = text("/message").unwrap_or("unknown error");
        // Some agents pass the answer of their provider on as it is.
        let inner: Option<Value> = serde_json::from_str(message).ok();
        let inner = inner
            .as_ref()
            .and_then(|inner| inner.pointer("/error/message")?.as_str());
        let mut message = inner.unwrap_or(message).to_owned();
        if let Some(details) = text("/data/details").or(text("/data/message")).or(text("/data")) {
            message = format!("{message}: {details}");
        }
        RpcError {
            code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message,
        }
    }
}

/// The connection to an agent that runs.
pub(super) struct Connection {
    lines: mpsc::UnboundedReceiver<Line>,
    writer: Option<blocking::Sender<String>>,
    next: u64,
}

impl Connection {
    /// Creates a connection that reads these lines. Its messages arrive at the receiver.
    pub(super) fn new(lines: mpsc::UnboundedReceiver<Line>) -> (Connection, blocking::Receiver<String>) {
        let (writer, written) = blocking::channel();
        let connection = Connection {
            lines,
            writer: Some(writer),
            next: 0,
        };
        (connection, written)
    }

    /// Sends a request. Returns its id.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(super) fn respond(&mut self, id: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// Answers a request for what this client did not offer.
    pub(super) fn refuse(&mut self, id: &Value, method: &str) {
        let message = format!("this client has no `{method}`");
        let error = json!({"code": METHOD_NOT_FOUND, "message": message});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    fn send(&mut self, message: &Value) {
        if let Some(writer) = &self.writer {
            // Nobody receives it if the agent has ended.
            let _ = writer.send(message.to_string());
        }
    }

    /// Ends the input of the agent.
    pub(super) fn close(&mut self) {
        self.writer = None;
    }

    /// Returns the next message. Returns `None` when the agent has ended.
    pub(super) async fn receive(&mut self) -> Option<Incoming> {
        loop {
            match self.lines.recv().await? {
                Line::Text(text) => return Some(Incoming::Text(text)),
                Line::Message(message) => {
                    if let Some(incoming) = classify(message) {
                        return Some(incoming);
                    }
                }
            }
        }
    }
}

/// Writes messages to the input of an agent until the connection is closed, on a thread of its own.
pub(super) fn write_lines(mut pipe: PipeWriter, written: blocking::Receiver<String>) {
    let writer = std::thread::Builder::new().name("orchestra-agent-input".to_owned());
    let started = writer.spawn(move || {
        for line in written {
            // An agent that has ended reads no more.
            if writeln!(pipe, "{line}").and_then(|()| pipe.flush()).is_err() {
                return;
            }
        }
    });
    if let Err(error) = started {
        tracing::warn!(%error, "the input of a coding agent cannot be written");
    }
}

fn classify(mut message: Value) -> Option<Incoming> {
    let mut take = |name: &str| message.get_mut(name).map(Value::take);
    let (id, method) = (take("id"), take("method"));
    let params = take("params").unwrap_or_default();
    match (id, method) {
        (Some(id), Some(Value::String(method))) if !id.is_null() => {
            Some(Incoming::Request { id, method, params })
        }
        (_, Some(Value::String(method))) => Some(Incoming::Notification { method, params }),
        (Some(id), None) => {
            let result = match take("error").filter(|error| !error.is_null()) {
                Some(error) => Err(RpcError::read(&error)),
                None => Ok(take("result").unwrap_or_default()),
            };
            Some(Incoming::Response {
                id: id.as_u64()?,
                result,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let request =
            json!({"jsonrpc": "2.0", "id": "a", "method": "fs/read_text_file", "params": {"path": "a"}});
        assert_eq!(
            classify(request),
            Some(Incoming::Request {
                id: json!("a"),
                method: "fs/read_text_file".to_owned(),
                params: json!({"path": "a"}),
            })
        );
        let notification = json!({"method": "session/update"});
        assert!(matches!(
            classify(notification),
            Some(Incoming::Notification { .. })
        ));
        let response = json!({"id": 3, "result": {"stopReason": "end_turn"}});
        assert!(matches!(
            classify(response),
            Some(Incoming::Response { id: 3, result: Ok(_) })
        ));
        assert_eq!(classify(json!({"jsonrpc": "2.0"})), None);
    }

    #[test]
    fn the_error_of_a_provider_is_read() {
        let error = |value: Value| RpcError::read(&value).message;
        let nested =
            json!({"code": 401, "message": r#"{"error":{"code":401,"message":"API key not valid."}}"#});
        assert_eq!(error(nested), "API key not valid.");
        let detailed =
            json!({"code": -32603, "message": "Internal error", "data": {"details": "no such session"}});
        assert_eq!(error(detailed), "Internal error: no such session");
    }
}
