//! Run folders written without the engine, and the complete content of an index.
#![allow(dead_code)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_engine::{
    EventKind, FailureCategory, PauseCode, RunEvent, RunFailure, RunId, StageRef, Status, TestedCondition,
    Timestamp, Usage,
};
use orchestra_graph::Rule;
use orchestra_sessions::{RunFilter, SessionIndex};
use serde_json::{Value, json};

/// 2026-11-21T15:30:00Z.
pub(crate) const START: u64 = 1_795_275_000_000;

/// A run folder like the ones that the engine writes.
pub(crate) struct WrittenRun {
    pub(crate) run: RunId,
    pub(crate) folder: PathBuf,
    events: File,
    seq: u64,
}

impl WrittenRun {
    /// Creates an accepted run without events in the runs folder.
    pub(crate) fn new(runs_dir: &Path, run: &str) -> WrittenRun {
        WrittenRun::at(&runs_dir.join(run), run, &json!({}))
    }

    /// Creates a run in the given folder, with additional manifest fields.
    pub(crate) fn at(folder: &Path, run: &str, more: &Value) -> WrittenRun {
        fs::create_dir_all(folder).unwrap();
        let mut manifest = json!({
            "schema": "orchestra.manifest/1",
            "run": run,
            "name": "release",
            "goal": "ship it",
            "file": "release.dot",
            "started": Timestamp::from_millis(START),
            "seed": 7,
            "simulated": false,
        });
        let more = more.as_object().unwrap().clone();
        manifest.as_object_mut().unwrap().extend(more);
        fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
        WrittenRun {
            run: RunId::new(run).unwrap(),
            folder: folder.to_owned(),
            events: OpenOptions::new()
                .create(true)
                .append(true)
                .open(folder.join("events.jsonl"))
                .unwrap(),
            seq: 0,
        }
    }

    /// Writes an event to the folder, one second after the previous one.
    pub(crate) fn tell(&mut self, kind: EventKind) -> RunEvent {
        let event = self.next(kind);
        let mut line = serde_json::to_vec(&event).unwrap();
        line.push(b'\n');
        self.raw(&line);
        event
    }

    /// Returns the next event without writing it.
    pub(crate) fn next(&mut self, kind: EventKind) -> RunEvent {
        self.seq += 1;
        RunEvent {
            seq: self.seq,
            time: Timestamp::from_millis(START + self.seq * 1_000),
            run: self.run.clone(),
            kind,
        }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.events.write_all(bytes).unwrap();
    }

    /// Writes the n-th event of an endless run with stages, retries, transitions, tool calls and interruptions.
    pub(crate) fn tell_nth(&mut self, n: u64) -> RunEvent {
        let turn = n / 10;
        let node = ["plan", "build", "review"][(turn % 3) as usize];
        self.tell(match n % 10 {
            0 if turn == 0 => started_run(),
            0 => EventKind::CheckpointSaved {
                node: node.into(),
                checkpoint: format!("cp_{turn:06}"),
            },
            1 => began(node, turn as u32, 1),
            2 => EventKind::ToolCallCompleted {
                call_id: None,
                node: node.into(),
                branch: None,
                tool: "grep".to_owned(),
                error: turn.is_multiple_of(2).then(|| "no match".to_owned()),
                duration: Duration::from_micros(n),
            },
            3 => failed(node, turn as u32, 1, true),
            4 => EventKind::StageRetrying {
                node: node.into(),
                branch: None,
                index: turn,
                attempt: 2,
                max_attempts: 3,
                delay: Duration::from_secs(2),
            },
            5 => began(node, turn as u32, 2),
            6 if turn % 7 == 6 => resumed(turn),
            7 if turn % 7 == 6 => EventKind::StageStarted {
                stage: attempt_at(node, turn as u32, 2),
                repeat: true,
                replay: false,
            },
            6 | 7 => log(node),
            8 => completed(node, turn as u32, 2),
            _ => went(node, "exit"),
        })
    }
}

pub(crate) fn started_run() -> EventKind {
    EventKind::PipelineStarted {
        name: "release".to_owned(),
        goal: "ship it".to_owned(),
    }
}

pub(crate) fn resumed(fencing_token: u64) -> EventKind {
    EventKind::PipelineResumed {
        checkpoint: "cp_000001".to_owned(),
        fencing_token,
        repaired: Vec::new(),
        replayed_from: None,
        retry: None,
    }
}

pub(crate) fn paused(code: PauseCode, gate: Option<&str>) -> EventKind {
    EventKind::PipelinePaused {
        code,
        reason: "nobody can be asked".to_owned(),
        gate: gate.map(str::to_owned),
        duration: Duration::from_secs(1),
    }
}

pub(crate) fn ended_run() -> EventKind {
    EventKind::PipelineCompleted {
        duration: Duration::from_secs(60),
        artifact_count: 0,
    }
}

pub(crate) fn failed_run(failure: Option<RunFailure>) -> EventKind {
    EventKind::PipelineFailed {
        error: "the build failed".to_owned(),
        failure,
        duration: Duration::from_secs(60),
    }
}

/// Returns an attempt on the main path.
pub(crate) fn attempt_at(node: &str, visit: u32, attempt: u32) -> StageRef {
    StageRef {
        node: node.into(),
        branch: None,
        index: u64::from(visit),
        visit,
        attempt,
    }
}

pub(crate) fn began(node: &str, visit: u32, attempt: u32) -> EventKind {
    EventKind::StageStarted {
        stage: attempt_at(node, visit, attempt),
        repeat: false,
        replay: false,
    }
}

pub(crate) fn completed(node: &str, visit: u32, attempt: u32) -> EventKind {
    EventKind::StageCompleted {
        stage: attempt_at(node, visit, attempt),
        outcome: Status::Success,
        preferred_label: Some("Ship".to_owned()),
        notes: Some("all of it".to_owned()),
        usage: Some(Box::new(usage())),
        duration: Duration::from_micros(1_234),
    }
}

pub(crate) fn failed(node: &str, visit: u32, attempt: u32, will_retry: bool) -> EventKind {
    EventKind::StageFailed {
        stage: attempt_at(node, visit, attempt),
        error: "two tests failed".to_owned(),
        category: FailureCategory::Retryable,
        will_retry,
        usage: Some(Box::new(usage())),
        duration: Duration::from_millis(5),
    }
}

pub(crate) fn usage() -> Usage {
    Usage {
        input_tokens: 100,
        output_tokens: 10,
        cost_micros: 1_500,
    }
}

pub(crate) fn went(from: &str, to: &str) -> EventKind {
    EventKind::EdgeSelected {
        branch: None,
        from: from.into(),
        to: Some(to.into()),
        edge: Some(1),
        rule: Rule::Condition,
        tested: vec![TestedCondition {
            to: to.into(),
            edge: Some(1),
            condition: "outcome=success".to_owned(),
            held: true,
            values: vec![("outcome".to_owned(), "success".to_owned())],
        }],
    }
}

pub(crate) fn log(node: &str) -> EventKind {
    EventKind::StageLog {
        node: node.into(),
        message: "still at it".to_owned(),
    }
}

/// Returns the complete content of an index.
pub(crate) fn content(index: &SessionIndex) -> Value {
    let sessions = index.list(&RunFilter::all()).unwrap();
    sessions
        .iter()
        .map(|session| {
            let run = &*session.run;
            json!({
                "session": session,
                "stages": index.stages(run).unwrap(),
                "transitions": index.transitions(run).unwrap(),
                "tool_calls": index.tool_calls(run).unwrap(),
                "node_totals": index.node_totals(run).unwrap(),
                "edge_counts": index.edge_counts(run).unwrap(),
            })
        })
        .collect()
}

/// Returns the content of an index that is rebuilt from the run folders.
pub(crate) fn from_scratch(runs_dir: &Path) -> Value {
    let index = SessionIndex::open(runs_dir).unwrap();
    index.rebuild().unwrap();
    content(&index)
}

pub(crate) fn database(runs_dir: &Path) -> PathBuf {
    runs_dir.join(".sessions.sqlite")
}

pub(crate) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(ending);
    path.into()
}
