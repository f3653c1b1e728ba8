//! Follows the events of a run that another process executes.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use orchestra_engine::{EventCursor, EventKind, EventReader, RunEvent, RunFolder};

/// Maximum number of runs that are searched for child runs at the start.
const MAX_SEARCHED_RUNS: usize = 256;

/// The events of a run and of its child runs.
pub(crate) struct Tails {
    /// The tail of the run itself comes first.
    tails: Vec<Tail>,
}

impl Tails {
    /// Creates the tails. The first read also returns the events that already exist.
    pub(crate) fn new(folder: &Path) -> Tails {
        let mut tails = Tails {
            tails: vec![Tail::new(folder)],
        };
        let mut at = 0;
        while at < tails.tails.len().min(MAX_SEARCHED_RUNS) {
            let children = RunFolder::children(&tails.tails[at].folder);
            tails.add(children);
            at += 1;
        }
        tails
    }

    /// Returns the new events since the previous call, ordered by time.
    ///
    /// # Errors
    ///
    /// Returns an error if the events of the run itself cannot be read.
    pub(crate) fn read(&mut self) -> io::Result<Vec<TailedEvent>> {
        let mut events = Vec::new();
        let mut at = 0;
        while at < self.tails.len() {
            let tail = &mut self.tails[at];
            match tail.read() {
                Ok(new) => events.extend(new),
                Err(error) if at == 0 => return Err(error),
                // The child run was moved aside, because its stage is visited again.
                Err(_) => {}
            }
            let children = tail.children();
            self.add(children);
            at += 1;
        }
        events.sort_by_key(|tailed: &TailedEvent| tailed.event.time.as_millis());
        Ok(events)
    }

    /// Adds the tails of child runs that are not followed yet.
    fn add(&mut self, children: Vec<PathBuf>) {
        for child in children {
            if self.tails.iter().all(|tail| tail.folder != child) {
                self.tails.push(Tail::new(&child));
            }
        }
    }
}

/// The tail of the events of one run.
pub(crate) struct Tail {
    folder: PathBuf,
    /// The stages that are running, and those that ended since the last read.
    open: BTreeSet<StartedStage>,
    ended: BTreeSet<StartedStage>,
    /// The number of restarts of the run.
    restart: u32,
    /// The position after the last event.
    cursor: EventCursor,
    /// The sequence number of the last event.
    seq: u64,
}

/// A stage in the folder of a run: the number of restarts before it, and its node.
type StartedStage = (u32, String);

/// An event and its line in the file.
pub(crate) struct TailedEvent {
    pub(crate) event: RunEvent,
    pub(crate) line: String,
}

impl Tail {
    pub(crate) fn new(folder: &Path) -> Tail {
        Tail {
            folder: folder.to_owned(),
            open: BTreeSet::new(),
            ended: BTreeSet::new(),
            restart: 0,
            cursor: EventCursor::default(),
            seq: 0,
        }
    }

    /// Returns the new events since the previous call. An incomplete line is left for later, and events of newer
    /// versions are skipped. The file is reopened each time, because a process that takes over the run replaces it.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub(crate) fn read(&mut self) -> io::Result<Vec<TailedEvent>> {
        let mut reader = match EventReader::resume(&self.folder, self.cursor)? {
            Some(reader) => reader,
            None => EventReader::open(&self.folder)?,
        };
        let mut events = Vec::new();
        while let Some(line) = reader.next_line()? {
            // Lost events may be written again after a crash.
            if let Some(event) = line.event()
                && event.seq > self.seq
            {
                self.seq = event.seq;
                self.event(&event);
                let line = line.text().into_owned();
                events.push(TailedEvent { event, line });
            }
        }
        self.cursor = reader.cursor();
        Ok(events)
    }
}

impl Tail {
    fn event(&mut self, event: &RunEvent) {
        match &event.kind {
            EventKind::StageStarted { stage, .. } => {
                self.open.insert((self.restart, stage.node.to_string()));
            }
            EventKind::StageCompleted { stage, .. }
            | EventKind::StageFailed { stage, .. }
            | EventKind::StageCancelled { stage, .. } => {
                let stage = (self.restart, stage.node.to_string());
                self.open.remove(&stage);
                self.ended.insert(stage);
            }
            EventKind::PipelineRestarted { restart, .. } => self.restart = *restart,
            _ => {}
        }
    }

    /// Returns the child runs of the stages that may have started some since the last read.
    fn children(&mut self) -> Vec<PathBuf> {
        let ended = std::mem::take(&mut self.ended);
        let stages = ended.iter().chain(&self.open);
        let children =
            |(restarts, node): &StartedStage| RunFolder::children_of_stage(&self.folder, *restarts, node);
        stages.flat_map(children).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> String {
        format!(
            r#"{{"schema":"orchestra.event/1","seq":{seq},"time":"2026-11-21T15:30:00Z","run":"r","event":"StageLog","node":"a","message":"m{seq}"}}"#
        ) + "\n"
    }

    #[test]
    fn whole_lines_are_reported_once_and_also_when_the_file_is_replaced() {
        let stage_folder = tempfile::tempdir().unwrap();
        let path = stage_folder.path().join("events.jsonl");
        let mut tail = Tail::new(stage_folder.path());
        let mut seqs = || -> Vec<u64> {
            let events = tail.read().unwrap();
            events.iter().map(|tailed| tailed.event.seq).collect()
        };
        assert!(seqs().is_empty());
        let (one, two, three) = (line(1), line(2), line(3));
        std::fs::write(&path, format!("{one}{}", &two[..30])).unwrap();
        assert_eq!(seqs(), [1]);
        std::fs::write(
            stage_folder.path().join("copy"),
            format!("{one}{two}not an event\n{three}"),
        )
        .unwrap();
        std::fs::rename(stage_folder.path().join("copy"), &path).unwrap();
        assert_eq!(seqs(), [2, 3]);
        assert!(seqs().is_empty());
    }
}
