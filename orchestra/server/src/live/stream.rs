//! The stream of rows for pages: runs, gates and single runs, as they change.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use orchestra_engine::{RunId, StageText};
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::{Interval, MissedTickBehavior, interval_at, sleep};

use super::watchers::Watching;
use super::{PING, PING_INTERVAL, event_stream, stopped};
use crate::app::App;
use crate::error::ApiError;
use crate::reports::{listed_run, open_gates, run_update};

/// Time in which further changes are sent together with the first one.
const GATHER: Duration = Duration::from_millis(20);

/// Maximum number of runs that one page follows.
const MAX_RUNS: usize = 16;

/// What a page wants to receive.
#[derive(Default)]
pub(crate) struct Watch {
    runs: bool,
    gates: bool,
    /// The single runs, each with the position that the page knows.
    single: Vec<(RunId, u64)>,
}

impl Watch {
    /// Parses a list such as `runs,gates,run:ID@12`.
    pub(crate) fn parse(text: &str) -> Result<Watch, ApiError> {
        let mut watch = Watch::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part {
                "runs" => watch.runs = true,
                "gates" => watch.gates = true,
                part => watch.single.push(single(part)?),
            }
        }
        if watch.single.len() > MAX_RUNS {
            return Err(ApiError::malformed(format!(
                "a stream follows at most {MAX_RUNS} runs"
            )));
        }
        Ok(watch)
    }
}

fn single(part: &str) -> Result<(RunId, u64), ApiError> {
    let wrong = || {
        let message = format!("`{}` cannot be watched", part.escape_debug());
        ApiError::malformed(message)
            .help("write `runs`, `gates`, `run:ID` or `run:ID@POSITION`, separated by commas")
    };
    let rest = part.strip_prefix("run:").ok_or_else(wrong)?;
    let (run, position) = match rest.split_once('@') {
        Some((run, position)) => (run, position.parse().map_err(|_| wrong())?),
        None => (rest, 0),
    };
    Ok((RunId::new(run).map_err(|_| wrong())?, position))
}

/// Returns the stream of what a page watches.
pub(crate) fn rows(app: &Arc<App>, watch: Watch) -> Response {
    let mut pings = interval_at(tokio::time::Instant::now() + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let changed = app.changes.subscribe();
    let known = *changed.borrow();
    let client = Client {
        known,
        changed,
        texts: (!watch.single.is_empty()).then(|| app.texts.subscribe()),
        stop: app.stop.subscribe(),
        _watching: app.watchers.add(),
        app: app.clone(),
        watch,
        // Something to read at once tells the page that it is connected.
        pending: VecDeque::from([Bytes::from_static(PING)]),
        gates: Vec::new(),
        pings,
        is_first: true,
        is_over: false,
    };
    event_stream(stream::unfold(client, Client::step))
}

/// A page. It is a position in the changes; what it receives is read when it can receive it.
struct Client {
    app: Arc<App>,
    watch: Watch,
    /// The number of the latest change that it knows.
    known: u64,
    changed: watch::Receiver<u64>,
    texts: Option<broadcast::Receiver<Arc<StageText>>>,
    stop: watch::Receiver<bool>,
    pending: VecDeque<Bytes>,
    /// The gates that were sent last.
    gates: Vec<u8>,
    pings: Interval,
    is_first: bool,
    is_over: bool,
    _watching: Watching,
}

#[derive(Serialize)]
struct Piece<'t> {
    run: &'t str,
    node: &'t str,
    branch: Option<&'t str>,
    visit: u32,
    attempt: u32,
    offset: u64,
    text: &'t str,
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
            if std::mem::take(&mut self.is_first) {
                self.send_first().await;
                continue;
            }
            tokio::select! {
                changed = self.changed.changed() => {
                    changed.ok()?;
                    sleep(GATHER).await;
                    self.send_changes().await;
                }
                text = next_text(&mut self.texts) => self.send_text(text.as_deref()),
                _ = self.pings.tick() => self.pending.push_back(Bytes::from_static(PING)),
                () = stopped(&mut self.stop) => {
                    self.pending.push_back(Bytes::from_static(b"event: bye\ndata: {}\n\n"));
                    self.is_over = true;
                }
            }
        }
    }

    async fn send_first(&mut self) {
        // A failure is reported to the requests that ask for the runs.
        let _ = self.app.index(|index| index.refresh().map(drop)).await;
        self.send_gates().await;
        for at in 0..self.watch.single.len() {
            self.send_run(at).await;
        }
    }

    async fn send_changes(&mut self) {
        self.changed.mark_unchanged();
        let (known, changed) = self.app.changes.since(self.known);
        self.known = known;
        if changed.is_empty() {
            return;
        }
        let runs = changed.clone();
        let _ = self
            .app
            .index(move |index| runs.iter().try_for_each(|run| index.catch_up(run)))
            .await;
        if self.watch.runs {
            self.send_runs(&changed).await;
        }
        self.send_gates().await;
        for at in 0..self.watch.single.len() {
            let is_changed = self
                .watch
                .single
                .get(at)
                .is_some_and(|(run, _)| changed.contains(run));
            if is_changed {
                self.send_run(at).await;
            }
        }
    }

    async fn send_runs(&mut self, changed: &[RunId]) {
        let mut rows = Vec::new();
        for run in changed {
            // A child run is part of its parent, and a removed run has no row.
            if let Ok(session) = self.app.session(run).await {
                rows.push(listed_run(session));
            }
        }
        if !rows.is_empty() {
            self.send("runs", &serde_json::json!({ "runs": rows }));
        }
    }

    async fn send_gates(&mut self) {
        if !self.watch.gates {
            return;
        }
        let Ok(gates) = open_gates(&self.app).await else {
            return;
        };
        let body = serde_json::to_vec(&serde_json::json!({ "gates": gates })).unwrap_or_default();
        if body != self.gates {
            self.pending.push_back(message("gates", &body));
            self.gates = body;
        }
    }

    async fn send_run(&mut self, at: usize) {
        while let Some((run, position)) = self.watch.single.get_mut(at) {
            let Ok(update) = run_update(&self.app, run, *position).await else {
                return;
            };
            *position = update.position();
            let more = update.has_more();
            self.send("run", &update);
            if !more {
                return;
            }
        }
    }

    fn send_text(&mut self, text: Option<&StageText>) {
        let Some(text) = text else {
            return;
        };
        if self.watch.single.iter().any(|(run, _)| *run == text.run) {
            let piece = Piece {
                run: &text.run,
                node: &text.node,
                branch: text.branch.as_deref(),
                visit: text.visit,
                attempt: text.attempt,
                offset: text.offset,
                text: &text.text,
            };
            self.send("text", &piece);
        }
    }

    fn send(&mut self, event: &str, data: &impl Serialize) {
        // Rows consist of texts and numbers, so serialization cannot fail.
        let body = serde_json::to_vec(data).unwrap_or_default();
        self.pending.push_back(message(event, &body));
    }
}

/// Returns the next piece of text. A page that is too slow misses pieces; their offsets show it.
async fn next_text(texts: &mut Option<broadcast::Receiver<Arc<StageText>>>) -> Option<Arc<StageText>> {
    let Some(receiver) = texts else {
        return std::future::pending().await;
    };
    match receiver.recv().await {
        Ok(text) => Some(text),
        Err(RecvError::Lagged(_)) => None,
        Err(RecvError::Closed) => std::future::pending().await,
    }
}

fn message(event: &str, data: &[u8]) -> Bytes {
    let mut message = Vec::with_capacity(data.len() + event.len() + 20);
    message.extend_from_slice(format!("event: {event}\ndata: ").as_bytes());
    message.extend_from_slice(data);
    message.extend_from_slice(b"\n\n");
    message.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_what_it_watches() {
        let watch = Watch::parse("runs,run:nightly@12,gates,run:weekly").expect("sound");
        assert!(watch.runs && watch.gates);
        let single: Vec<(&str, u64)> = watch.single.iter().map(|(run, at)| (&**run, *at)).collect();
        assert_eq!(single, [("nightly", 12), ("weekly", 0)]);
        for wrong in ["all", "run:", "run:../x", "run:a@b"] {
            assert!(Watch::parse(wrong).is_err(), "{wrong}");
        }
    }
}
