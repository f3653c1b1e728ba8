//! The events of a run as a stream, which a client can interrupt and continue.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use orchestra_engine::EventReader;
use orchestra_sessions::{Session, SessionStatus};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use super::feeds::{EventId, Feed, Following, message, names};
use super::{PING, PING_INTERVAL, event_stream, stopped};
use crate::app::{App, blocking};
use crate::error::ApiError;

/// Maximum size of the messages that are read from a run folder at once, in bytes.
const PART: usize = 64 << 10;

/// Returns the stream of the events of a run after the last one that the client has received.
pub(crate) async fn events(app: &App, session: &Session, last: Option<&str>) -> Result<Response, ApiError> {
    let folder = session.folder.clone();
    let last = last.filter(|last| !last.is_empty());
    // An id that is no id is like one that names no event.
    let id = last.map(EventId::parse);
    let feed = app.feeds.of(&session.run, &folder);
    // If the file is replaced while the position is searched, the client starts over.
    let generation = feed.generation();
    let position = {
        let folder = folder.clone();
        blocking(move || Position::find(&folder, id)).await?
    };
    let has_ended = matches!(
        session.status,
        SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled
    );
    if has_ended && position.next > 0 && position.message.is_none() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut pending = VecDeque::from_iter(position.message);
    if last.is_some() && position.next == 0 {
        pending.push_back(reset());
    }
    let mut pings = interval_at(tokio::time::Instant::now() + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let client = Client {
        generation,
        changed: feed.subscribe(),
        feed,
        folder,
        next: position.next,
        older: position.events,
        pending,
        stop: app.stop.subscribe(),
        pings,
        is_over: false,
    };
    Ok(event_stream(stream::unfold(client, Client::step)))
}

/// Tells the client to forget all events that it has received.
fn reset() -> Bytes {
    Bytes::from_static(b"event: reset\ndata: {}\n\n")
}

/// The position from which a client receives events. The default is the beginning.
#[derive(Default)]
struct Position {
    /// The number of lines before the position.
    next: u64,
    /// The message of the last of these lines, if the client has not received it.
    message: Option<Bytes>,
    /// A reader of the lines after them; `None` at the beginning.
    events: Option<EventReader>,
}

impl Position {
    /// Searches the position after an event, and the message that follows. The position is the beginning if there is no
    /// such event.
    fn find(folder: &std::path::Path, id: Option<Option<EventId>>) -> Position {
        let Some(Some(id)) = id else {
            return Position::default();
        };
        let Ok(mut events) = EventReader::open(folder) else {
            return Position::default();
        };
        let mut next = 0;
        while let Ok(Some(line)) = events.next_line() {
            next += 1;
            if names(&id, &line) {
                let message = events.next_line().ok().flatten().map(|line| message(&line));
                return Position {
                    next: next + u64::from(message.is_some()),
                    message,
                    events: Some(events),
                };
            }
        }
        Position::default()
    }
}

/// A client that follows the events of a run.
struct Client {
    feed: Arc<Feed>,
    generation: u64,
    changed: watch::Receiver<u64>,
    folder: PathBuf,
    /// The number of lines that the client has received.
    next: u64,
    /// A reader of the events that are not in the feed any more.
    older: Option<EventReader>,
    pending: VecDeque<Bytes>,
    stop: watch::Receiver<bool>,
    pings: Interval,
    is_over: bool,
}

impl Client {
    async fn step(mut self) -> Option<(Result<Bytes, Infallible>, Client)> {
        loop {
            if let Some(message) = self.pending.pop_front() {
                return Some((Ok(message), self));
            }
            if self.is_over {
                return None;
            }
            self.changed.mark_unchanged();
            match self.feed.after(self.generation, self.next) {
                Following::Messages(messages) => {
                    self.older = None;
                    self.next += messages.len() as u64;
                    let all: Vec<u8> = messages.concat();
                    return Some((Ok(all.into()), self));
                }
                Following::Older => self = self.read_older().await?,
                Following::End => return None,
                Following::Replaced(generation) => {
                    self.generation = generation;
                    self.next = 0;
                    self.older = None;
                    return Some((Ok(reset()), self));
                }
                Following::Nothing => tokio::select! {
                    changed = self.changed.changed() => changed.ok()?,
                    _ = self.pings.tick() => self.pending.push_back(Bytes::from_static(PING)),
                    () = stopped(&mut self.stop) => {
                        self.pending.push_back(Bytes::from_static(b"event: bye\ndata: {}\n\n"));
                        self.is_over = true;
                    }
                },
            }
        }
    }

    /// Reads events that are not in the feed any more from the run folder.
    async fn read_older(mut self) -> Option<Client> {
        let read = tokio::task::spawn_blocking(move || {
            let mut events = match self.older.take() {
                Some(events) => events,
                None => {
                    let mut events = EventReader::open(&self.folder).ok()?;
                    for _ in 0..self.next {
                        events.next_line().ok()??;
                    }
                    events
                }
            };
            let mut part = Vec::new();
            while part.len() < PART
                && let Ok(Some(line)) = events.next_line()
            {
                part.extend_from_slice(&message(&line));
                self.next += 1;
            }
            self.older = Some(events);
            self.pending.push_back(part.into());
            Some(self)
        });
        read.await.ok()?
    }
}
