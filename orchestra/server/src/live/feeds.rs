//! The latest events of the runs that clients follow, read once for all of them.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use orchestra_engine::{EventLine, EventReader, RunFolder, RunId};
use tokio::sync::watch;

use super::changes::Changes;

/// Maximum size of the messages that are kept for a run, in bytes. Older ones are read from the run folder.
const RING: usize = 256 << 10;

/// Maximum size of the messages that a client receives at once, in bytes.
const PART: usize = 64 << 10;

/// The feeds of all runs with clients.
pub(crate) struct Feeds {
    changes: Arc<Changes>,
    open: Mutex<BTreeMap<RunId, Weak<Feed>>>,
}

impl Feeds {
    pub(crate) fn new(changes: Arc<Changes>) -> Feeds {
        Feeds {
            changes,
            open: Mutex::default(),
        }
    }

    /// Returns the feed of a run. It ends when its last client is gone.
    pub(crate) fn of(&self, run: &RunId, folder: &Path) -> Arc<Feed> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = open.get(run).and_then(Weak::upgrade) {
            return feed;
        }
        open.retain(|_, feed| feed.strong_count() > 0);
        let feed = Arc::new(Feed {
            ring: Mutex::default(),
            version: watch::Sender::new(0),
        });
        open.insert(run.clone(), Arc::downgrade(&feed));
        let reader = FeedReader {
            feed: Arc::downgrade(&feed),
            run: run.clone(),
            folder: folder.to_owned(),
            events: None,
        };
        tokio::spawn(reader.read_on(self.changes.clone()));
        feed
    }

    /// Returns the runs with clients.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let used = open.iter().filter(|(_, feed)| feed.strong_count() > 0);
        used.map(|(run, _)| run.clone()).collect()
    }
}

/// The latest events of a run.
pub(crate) struct Feed {
    ring: Mutex<Ring>,
    /// Changes with the ring.
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct Ring {
    /// Increases when the file of the events was replaced, so that its lines count from the beginning again.
    generation: u64,
    /// The number of the first line in the ring, counted from 0.
    first: u64,
    messages: VecDeque<Bytes>,
    size: usize,
    /// `true` once the existing events were read.
    is_filled: bool,
    /// `true` if the last event reports the end of the run.
    has_ended: bool,
}

/// What comes after a line.
pub(crate) enum Following {
    /// Some messages.
    Messages(Vec<Bytes>),
    /// Messages that are only in the run folder.
    Older,
    /// Nothing yet.
    Nothing,
    /// Nothing, because the run has ended.
    End,
    /// The file was replaced. The number identifies the new one.
    Replaced(u64),
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Returns what follows the first `next` lines of a file.
    pub(crate) fn after(&self, generation: u64, next: u64) -> Following {
        let ring = self.lock();
        if ring.generation != generation {
            return Following::Replaced(ring.generation);
        }
        if !ring.is_filled {
            return Following::Nothing;
        }
        let Some(skipped) = next.checked_sub(ring.first) else {
            return Following::Older;
        };
        let mut size = 0;
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let following = ring.messages.iter().skip(skipped).take_while(|message| {
            let fits = size == 0 || size + message.len() <= PART;
            size += message.len();
            fits
        });
        let messages: Vec<Bytes> = following.cloned().collect();
        match messages.is_empty() {
            false => Following::Messages(messages),
            true if ring.has_ended => Following::End,
            true => Following::Nothing,
        }
    }
}

/// Reads the events of a run into its feed.
struct FeedReader {
    feed: Weak<Feed>,
    run: RunId,
    folder: PathBuf,
    events: Option<EventReader>,
}

impl FeedReader {
    async fn read_on(mut self, changes: Arc<Changes>) {
        let mut version = changes.subscribe();
        let mut known = None;
        loop {
            let latest = changes.of(&self.run);
            if known != Some(latest) {
                known = Some(latest);
                let read = tokio::task::spawn_blocking(move || {
                    let goes_on = self.read();
                    goes_on.then_some(self)
                });
                match read.await {
                    Ok(Some(reader)) => self = reader,
                    _ => return,
                }
            }
            tokio::select! {
                changed = version.changed() => if changed.is_err() { return },
                // Notice that the last client is gone.
                () = tokio::time::sleep(super::PING_INTERVAL) => if self.feed.strong_count() == 0 { return },
            }
        }
    }

    /// Reads the new events. Returns `false` if nobody needs them any more.
    fn read(&mut self) -> bool {
        let Some(feed) = self.feed.upgrade() else {
            return false;
        };
        let is_replaced = |events: &EventReader| RunFolder::events_size(&self.folder) < events.offset();
        if self.events.as_ref().is_some_and(is_replaced) {
            self.events = None;
            let mut ring = feed.lock();
            *ring = Ring {
                generation: ring.generation + 1,
                ..Ring::default()
            };
        }
        if self.events.is_none() {
            self.events = EventReader::open(&self.folder).ok();
        }
        let Some(events) = &mut self.events else {
            return true;
        };
        while let Ok(Some(line)) = events.next_line() {
            let has_ended = is_end(&line);
            let message = message(&line);
            let mut ring = feed.lock();
            ring.has_ended = has_ended;
            ring.size += message.len();
            ring.messages.push_back(message);
            while ring.size > RING && ring.messages.len() > 1 {
                let dropped = ring.messages.pop_front().map_or(0, |dropped| dropped.len());
                ring.size -= dropped;
                ring.first += 1;
            }
        }
        feed.lock().is_filled = true;
        feed.version.send_modify(|version| *version += 1);
        true
    }
}

fn is_end(line: &EventLine<'_>) -> bool {
    matches!(
        line.name(),
        Some("PipelineCompleted" | "PipelineFailed" | "PipelineCancelled")
    )
}

/// Returns the message of a line of `events.jsonl`.
pub(crate) fn message(line: &EventLine<'_>) -> Bytes {
    let text = data(line);
    let id = event_id(seq(line), text.as_bytes());
    Bytes::from(format!("id: {id}\ndata: {text}\n\n"))
}

/// Returns the id of an event: its sequence number and a checksum of its text.
fn event_id(seq: u64, text: &[u8]) -> String {
    format!("{seq}-{:08x}", crc32fast::hash(text))
}

/// Returns whether an id, as `SEQ-CHECKSUM` or `SEQ` alone, names a line.
pub(crate) fn names(id: &EventId, line: &EventLine<'_>) -> bool {
    // The checksum is compared first, because it costs far less than parsing the line.
    let has_checksum = |expected| crc32fast::hash(data(line).as_bytes()) == expected;
    id.checksum.is_none_or(has_checksum) && id.seq == seq(line)
}

/// Returns the data of the message of a line. A carriage return would end the line of the message.
fn data<'l>(line: &'l EventLine<'_>) -> Cow<'l, str> {
    match line.text() {
        text if text.contains('\r') => text.replace('\r', " ").into(),
        text => text,
    }
}

/// The id of an event that a client has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) seq: u64,
    checksum: Option<u32>,
}

impl EventId {
    pub(crate) fn parse(text: &str) -> Option<EventId> {
        let (seq, checksum) = match text.split_once('-') {
            Some((seq, checksum)) => (seq, Some(u32::from_str_radix(checksum, 16).ok()?)),
            None => (text, None),
        };
        let seq = seq.parse().ok()?;
        Some(EventId { seq, checksum })
    }
}

/// Returns the sequence number of a line; 0 if it has none.
pub(crate) fn seq(line: &EventLine<'_>) -> u64 {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: u64,
    }
    serde_json::from_str(&line.text()).map_or(0, |Numbered { seq }| seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_event_is_its_number_with_or_without_a_checksum() {
        assert_eq!(EventId::parse("12").map(|id| id.seq), Some(12));
        let id = EventId::parse(&event_id(7, b"{}")).expect("an id");
        assert_eq!((id.seq, id.checksum), (7, Some(crc32fast::hash(b"{}"))));
        for wrong in ["", "x", "-1", "1-", "1-xyz", "1-123456789"] {
            assert_eq!(EventId::parse(wrong), None, "{wrong}");
        }
    }
}
