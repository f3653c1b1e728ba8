//! What a process says to a file outside of the run folder: it survives a kill, synced or not.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use orchestra_engine::{EventKind, RunEvent, StageContext};
use serde::{Deserialize, Serialize};

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Which of the processes of a run says it, from 0.
    pub process: u32,
    /// Which run it says it of.
    pub run: String,
    /// What it says.
    pub said: LogEvent,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogEvent {
    /// A stage began: its attempt key, and whether it was reported that it is a repeat.
    Began(String, bool),
    /// The engine reported that an attempt is over: its attempt key, without the restarts before it.
    Over(String),
    /// The engine reported of a checkpoint.
    Saved(String),
}

impl LogEvent {
    /// Returns what an event of the engine says, if it says that an attempt is over or tells of a checkpoint.
    pub fn by(event: &RunEvent) -> Option<LogEvent> {
        match &event.kind {
            EventKind::StageCompleted { stage, .. } | EventKind::StageFailed { stage, .. } => {
                Some(LogEvent::Over(stage.to_string()))
            }
            EventKind::CheckpointSaved { checkpoint, .. } => Some(LogEvent::Saved(checkpoint.clone())),
            _ => None,
        }
    }
}

/// Where it is written.
#[derive(Clone, Debug)]
pub struct Log {
    file: Arc<Mutex<File>>,
    process: u32,
}

impl Log {
    /// A log that is there, or a new one.
    ///
    /// # Panics
    /// It cannot be opened.
    pub fn open(path: &Path, process: u32) -> Log {
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        let file = Arc::new(Mutex::new(file));
        Log { file, process }
    }

    fn say(&self, run: &str, said: LogEvent) {
        let line = Line {
            process: self.process,
            run: run.to_owned(),
            said,
        };
        let mut text = serde_json::to_vec(&line).unwrap();
        text.push(b'\n');
        // In one write, so that a kill leaves whole lines.
        self.file.lock().unwrap().write_all(&text).unwrap();
    }

    /// A stage begins.
    pub fn began(&self, stage: &StageContext) {
        self.say(
            stage.run_id(),
            LogEvent::Began(stage.attempt_key(), stage.is_repeat()),
        );
    }

    /// The engine tells something.
    pub fn reported(&self, event: &RunEvent) {
        if let Some(said) = LogEvent::by(event) {
            self.say(&event.run, said);
        }
    }

    /// All that was said.
    ///
    /// # Panics
    /// A line is none.
    pub fn read(path: &Path) -> Vec<Line> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}
