use std::time::Duration;

use crate::Request;
use crate::answer::Answer;
use crate::http::Connection;
use crate::wire::Wire;

/// How an answer breaks. The format of the request decides what it looks like.
///
/// ```
/// use orchestra_model_server_tests::{Answer, Fault};
/// let slow_down = Fault::Error {
///     status: 429,
///     code: "rate_limit_error",
///     message: "Slow down.",
///     retry_after: Some("2".into()),
/// };
/// assert!(Answer::fault(slow_down).fault.is_some());
/// ```
#[derive(Clone, Debug)]
pub enum Fault {
    /// Takes the request and says nothing.
    HangBeforeHeaders,
    /// Says half of the answer and nothing more.
    HangInTheMiddle,
    /// Says one byte, waits, says the next.
    Drip(Duration),
    /// An error of the provider, in its format.
    Error {
        /// The status of HTTP.
        status: u16,
        /// The provider's word for the kind of error.
        code: &'static str,
        /// What it says.
        message: &'static str,
        /// The header `retry-after`, as it is written.
        retry_after: Option<String>,
    },
    /// Any answer that is no answer of the format.
    Raw {
        /// The status of HTTP.
        status: u16,
        /// The header `content-type`.
        content_type: &'static str,
        /// The body.
        body: &'static str,
    },
    /// Status 200, and an error of the provider as the body; in a stream it is the first event.
    ErrorInside {
        /// The provider's word for the kind of error.
        code: &'static str,
        /// What it says.
        message: &'static str,
    },
    /// An error event where the last event of the stream would be, so that the tokens were reported. A whole answer says
    /// what was used beside the error.
    ErrorAfterUsage {
        /// The provider's word for the kind of error.
        code: &'static str,
        /// What it says.
        message: &'static str,
    },
    /// JSON that is none.
    BrokenJson,
    /// The body ends in the middle, and the connection with it.
    Cut,
    /// The stream ends in the middle, properly: nothing but what is missing tells. A whole answer ends as with `Cut`.
    EndsEarly,
    /// A body without an end; in a stream one event without an end.
    Endless,
    /// A body without an end, of many small events. A whole answer is one without an end.
    EndlessEvents,
    /// A redirect to another address.
    Redirect(String),
    /// Status 200, the right content type, and no body.
    Empty,
    /// The connection is reset after half of the answer.
    Reset,
    /// The connection is reset before anything is answered.
    ResetAtOnce,
}

/// Answers; whether the connection may be used for another request.
pub(crate) fn answer(connection: &mut Connection<'_>, request: &Request, answer: &Answer) -> bool {
    let Some(wire) = request.wire else {
        let body = b"no format of this server";
        return connection.head(404, "text/plain", Some(body.len()), &[]) && connection.write(body);
    };
    let content_type = if request.streamed {
        "text/event-stream"
    } else {
        "application/json"
    };
    let pieces = pieces(wire, request.streamed, answer);
    let half = pieces.len().div_ceil(2);
    let Some(fault) = &answer.fault else {
        return connection.head(200, content_type, None, &[])
            && pieces.iter().all(|piece| connection.chunk(piece))
            && connection.end();
    };
    match fault {
        Fault::Error {
            status,
            code,
            message,
            retry_after,
        } => {
            let body = wire.error(*status, code, message).to_string();
            let headers: Vec<(&str, &str)> = retry_after
                .iter()
                .map(|value| ("retry-after", value.as_str()))
                .collect();
            connection.head(*status, "application/json", Some(body.len()), &headers)
                && connection.write(body.as_bytes())
        }
        Fault::Raw {
            status,
            content_type,
            body,
        } => {
            connection.head(*status, content_type, Some(body.len()), &[]) && connection.write(body.as_bytes())
        }
        Fault::Redirect(location) => connection.head(307, "text/plain", Some(0), &[("location", location)]),
        Fault::Empty => connection.head(200, content_type, Some(0), &[]),
        Fault::ResetAtOnce => {
            connection.reset();
            false
        }
        Fault::HangBeforeHeaders => {
            connection.wait(None);
            false
        }
        inside => {
            if !connection.head(200, content_type, None, &[]) {
                return false;
            }
            broken(connection, request.streamed, wire, inside, &pieces, half)
        }
    }
}

/// Answers with a body that breaks; the head is written.
fn broken(
    connection: &mut Connection<'_>,
    streamed: bool,
    wire: Wire,
    fault: &Fault,
    pieces: &[Vec<u8>],
    half: usize,
) -> bool {
    let first = pieces.get(..half).unwrap_or_default();
    // An error inside an answer has no status that could say what it is.
    let error = |code: &str, message: &str| {
        if streamed {
            let (name, data) = wire.error_event(code, message);
            event(name, &data)
        } else {
            wire.error(400, code, message).to_string().into_bytes()
        }
    };
    match fault {
        Fault::ErrorInside { code, message } => connection.chunk(&error(code, message)) && connection.end(),
        Fault::ErrorAfterUsage { code, message } if streamed => {
            let before = pieces.split_last().map_or(first, |(_, before)| before);
            before.iter().all(|piece| connection.chunk(piece))
                && connection.chunk(&error(code, message))
                && connection.end()
        }
        Fault::ErrorAfterUsage { code, message } => {
            let whole: Vec<u8> = pieces.concat();
            let mut body = serde_json::from_slice(&whole).unwrap_or(serde_json::Value::Null);
            body["error"] = wire.error(400, code, message)["error"].clone();
            connection.chunk(body.to_string().as_bytes()) && connection.end()
        }
        Fault::BrokenJson => {
            let json = b"{\"id\": \"x\", \"choices\": [ {\"message\": ";
            let body = if streamed {
                event(None, &String::from_utf8_lossy(json))
            } else {
                json.to_vec()
            };
            connection.chunk(&body) && connection.end()
        }
        Fault::EndsEarly => first.iter().all(|piece| connection.chunk(piece)) && streamed && connection.end(),
        Fault::Drip(pause) => {
            for byte in pieces.iter().flatten() {
                if !(connection.chunk(&[*byte]) && connection.wait(Some(*pause))) {
                    return false;
                }
            }
            connection.end()
        }
        Fault::Endless => {
            let start: &[u8] = if streamed {
                b"data: {\"text\": \""
            } else {
                b"{\"text\": \""
            };
            endless(connection, start, &[b'x'; 32 * 1024])
        }
        Fault::EndlessEvents => {
            let events = if streamed {
                [": still here ".repeat(80).as_bytes(), b"\n\ndata: {}\n\n"]
                    .concat()
                    .repeat(32)
            } else {
                vec![b' '; 32 * 1024]
            };
            endless(connection, b"", &events)
        }
        Fault::Reset | Fault::Cut | Fault::HangInTheMiddle => {
            for piece in first {
                connection.chunk(piece);
            }
            // What was said is to be read before the connection is gone.
            connection.wait(Some(Duration::from_millis(30)));
            match fault {
                Fault::Reset => connection.reset(),
                Fault::HangInTheMiddle => {
                    connection.wait(None);
                }
                _ => {}
            }
            false
        }
        _ => false,
    }
}

fn endless(connection: &mut Connection<'_>, start: &[u8], more: &[u8]) -> bool {
    if !start.is_empty() {
        connection.chunk(start);
    }
    while connection.chunk(more) {}
    false
}

/// The body in pieces: the events of a stream, or a whole answer in a few.
fn pieces(wire: Wire, streamed: bool, answer: &Answer) -> Vec<Vec<u8>> {
    if streamed {
        let events = wire.events(answer);
        return events.iter().map(|(name, data)| event(*name, data)).collect();
    }
    let body = wire.whole(answer).to_string().into_bytes();
    body.chunks(body.len().div_ceil(4).max(1))
        .map(<[u8]>::to_vec)
        .collect()
}

fn event(name: Option<&str>, data: &str) -> Vec<u8> {
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {data}\n\n").into_bytes()
}
