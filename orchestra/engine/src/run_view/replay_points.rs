//! The checkpoints of a run from which a replay can start, as a fold of its events (rule D4).

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::clock::Timestamp;
use crate::event::{EventKind, RunEvent, StageRef};
use crate::store::EventLine;

/// The checkpoint at the beginning of a run.
const BEGINNING: &str = "cp_000000";

/// The events that change the checkpoints of a run.
const RELEVANT: [&str; 11] = [
    "PipelineStarted",
    "PipelineResumed",
    "StageStarted",
    "StageCompleted",
    "StageFailed",
    "SnapshotSaved",
    "PipelineRestarted",
    "CheckpointSaved",
    "PipelineCompleted",
    "PipelineFailed",
    "PipelineCancelled",
];

/// A checkpoint of a run from which a [replay](crate::Engine::replay) can start.
///
/// ```
/// use orchestra_engine::{ReplayPoints, RunEvent};
/// let line = br#"{"schema":"orchestra.event/1","seq":1,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
///     "event":"PipelineStarted","name":"release","goal":""}"#;
/// let mut points = ReplayPoints::default();
/// points.apply(&RunEvent::from_json(line)?);
/// let beginning = &points.list()[0];
/// assert_eq!((beginning.checkpoint.as_str(), &beginning.node), ("cp_000000", &None));
/// # Ok::<(), orchestra_engine::EventError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReplayPoint {
    /// The name of the checkpoint, such as `cp_000012`.
    pub checkpoint: String,
    /// The time of the checkpoint.
    pub time: Timestamp,
    /// The node that had ended. `None` at the beginning.
    pub node: Option<String>,
    /// The branch of a parallel block in which it had ended. `None` on the main path.
    pub branch: Option<String>,
    /// The number of the visit of the node, starting at 1.
    pub visit: Option<u32>,
    /// The number of the attempt within the visit, starting at 1.
    pub attempt: Option<u32>,
    /// The outcome of the attempt.
    pub outcome: Option<String>,
    /// The name of the attempt, such as `build#2/1` or `restart-1/build#1/1`. It also names the checkpoint.
    pub name: Option<String>,
    /// The latest snapshot of the files, if it changed since the checkpoint before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Value>,
    /// The stages that started next, as [labels](StageRef::label).
    pub next: Vec<String>,
    /// `true` if the run ended here, so that nothing is left to replay.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_end: bool,
}

/// The checkpoints of a run from which a replay can start, in their order.
///
/// ```
/// use orchestra_engine::{Engine, ReplayPoints, RunFolder};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let folder = directory.path().join("run");
/// let text = r#"digraph { start -> build -> exit; build [shape=parallelogram, tool_command="true"] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let start = Engine::builder().build()?.start(pipeline, ()).run_dir(&folder);
/// start.await?.wait().await?;
/// let mut points = ReplayPoints::default();
/// RunFolder::open(&folder)?.each_event(|line| points.apply_line(line))?;
/// let nodes: Vec<_> = points.list().iter().filter_map(|point| point.node.as_deref()).collect();
/// assert_eq!(nodes.last(), Some(&"exit"));
/// assert_eq!(points.list()[0].next, ["build"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReplayPoints {
    points: Vec<ReplayPoint>,
    /// The attempt that ended since the last checkpoint.
    ended: Option<ReplayPoint>,
    /// The snapshot that was saved since the last checkpoint.
    saved: Option<Value>,
    restarts: u32,
    /// For each node, the last checkpoint before its latest visit.
    before: BTreeMap<String, String>,
    /// The last checkpoint before the latest visit of any node.
    before_latest: Option<String>,
    /// The stage that failed last and is not retried.
    failed: Option<String>,
}

impl ReplayPoints {
    /// Returns the checkpoints.
    pub fn list(&self) -> &[ReplayPoint] {
        &self.points
    }

    /// Consumes the fold and returns the checkpoints.
    pub fn into_list(self) -> Vec<ReplayPoint> {
        self.points
    }

    /// Returns the last checkpoint from which stages remain to be executed. There are none at the end of a run, even if
    /// the run was retried later.
    pub fn last_to_replay(&self) -> Option<&ReplayPoint> {
        self.points.iter().rfind(|point| !point.at_end)
    }

    /// Returns the last checkpoint before the stage at which a run stopped, which is given by the code of the failure
    /// and its node. If the run reached an exit that is marked as a failure, returns the checkpoint before the stage
    /// that failed last.
    pub fn before_failure(&self, code: Option<&str>, node: Option<&str>) -> Option<&str> {
        let failed = self.failed.as_deref().filter(|_| code == Some("failure_end"));
        let before = match failed.or(node) {
            Some(node) => self.before.get(node),
            None => self.before_latest.as_ref(),
        };
        let last = || self.last_to_replay().map(|point| &point.checkpoint);
        before.or_else(last).map(String::as_str)
    }

    /// Applies a line of `events.jsonl`. Parses it only if it can change the checkpoints.
    pub fn apply_line(&mut self, line: EventLine<'_>) {
        if line.name().is_some_and(|name| RELEVANT.contains(&name))
            && let Some(event) = line.event()
        {
            self.apply(&event);
        }
    }

    /// Applies an event. The events of the run must be applied in their order, and once.
    pub fn apply(&mut self, event: &RunEvent) {
        match &event.kind {
            EventKind::PipelineStarted { .. } if self.points.is_empty() => {
                self.points.push(point_at(event, BEGINNING, None));
            }
            // A replay begins in the middle of the run that it replays.
            EventKind::PipelineResumed { checkpoint, .. } if self.points.is_empty() => {
                self.points.push(point_at(event, checkpoint, None));
            }
            EventKind::StageStarted {
                stage,
                repeat: false,
                replay: false,
            } => self.stage_started(stage),
            // Nobody executed the run when the stage was due.
            EventKind::StageStarted {
                stage, repeat: true, ..
            } if !self.is_next(stage) => {
                self.stage_started(stage);
            }
            EventKind::StageCompleted { stage, outcome, .. } => {
                self.ended = Some(self.ended_at(event, stage, outcome.word()));
            }
            EventKind::StageFailed {
                stage, will_retry, ..
            } => {
                self.ended = Some(self.ended_at(event, stage, "fail"));
                if !will_retry {
                    self.failed = Some(stage.node.to_string());
                }
            }
            EventKind::SnapshotSaved { snapshot, .. } => self.saved = Some(Value::clone(snapshot)),
            EventKind::PipelineRestarted { restart, .. } => self.restarts = *restart,
            EventKind::CheckpointSaved { node, checkpoint } if !checkpoint.is_empty() => {
                self.checkpoint_saved(event, node, checkpoint);
            }
            EventKind::PipelineCompleted { .. }
            | EventKind::PipelineFailed { .. }
            | EventKind::PipelineCancelled { .. } => {
                if let Some(last) = self.points.last_mut() {
                    last.at_end = true;
                }
            }
            _ => {}
        }
    }

    /// Returns whether the start of an attempt is known.
    fn is_next(&self, stage: &StageRef) -> bool {
        let label = stage.label();
        self.points.iter().rev().any(|point| point.next.contains(&label))
    }

    fn stage_started(&mut self, stage: &StageRef) {
        if stage.attempt == 1
            && let Some(last) = self.last_to_replay()
        {
            let checkpoint = last.checkpoint.clone();
            self.before_latest = Some(checkpoint.clone());
            self.before.insert(stage.node.to_string(), checkpoint);
        }
        let label = stage.label();
        let awaits_stage = |last: &&mut ReplayPoint| !last.at_end && !last.next.contains(&label);
        if self.ended.is_none()
            && let Some(last) = self.points.last_mut().filter(awaits_stage)
        {
            last.next.push(label);
        }
    }

    fn checkpoint_saved(&mut self, event: &RunEvent, node: &str, checkpoint: &str) {
        let ended = self.ended.take();
        let ended = ended.unwrap_or_else(|| point_at(event, checkpoint, Some(node)));
        // Transitions that wait for nothing share the checkpoint of the step before.
        let shared = self.points.pop_if(|last| last.checkpoint == checkpoint);
        let workspace = shared.and_then(|shared| shared.workspace);
        self.points.push(ReplayPoint {
            checkpoint: checkpoint.to_owned(),
            time: event.time,
            workspace: self.saved.take().or(workspace),
            ..ended
        });
    }

    fn ended_at(&self, event: &RunEvent, stage: &StageRef, outcome: &str) -> ReplayPoint {
        let name = match self.restarts {
            0 => stage.to_string(),
            restarts => format!("restart-{restarts}/{stage}"),
        };
        ReplayPoint {
            branch: stage.branch.clone(),
            visit: Some(stage.visit),
            attempt: Some(stage.attempt),
            outcome: Some(outcome.to_owned()),
            name: Some(name),
            ..point_at(event, "", Some(&*stage.node))
        }
    }
}

fn point_at(event: &RunEvent, checkpoint: &str, node: Option<&str>) -> ReplayPoint {
    ReplayPoint {
        checkpoint: checkpoint.to_owned(),
        time: event.time,
        node: node.map(str::to_owned),
        branch: None,
        visit: None,
        attempt: None,
        outcome: None,
        name: None,
        workspace: None,
        next: Vec::new(),
        at_end: false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn points(events: &[&str]) -> ReplayPoints {
        let mut points = ReplayPoints::default();
        for (seq, fields) in events.iter().enumerate() {
            let head = r#""schema":"orchestra.event/1","time":"2026-11-21T15:30:00Z","run":"r""#;
            let line = format!(r#"{{{head},"seq":{},{fields}}}"#, seq + 1);
            points.apply(&RunEvent::from_json(line.as_bytes()).unwrap());
        }
        points
    }

    fn began(node: &str) -> String {
        format!(r#""event":"StageStarted","node":"{node}","index":1,"visit":1,"attempt":1"#)
    }

    fn saved(node: &str, checkpoint: &str) -> String {
        format!(r#""event":"CheckpointSaved","node":"{node}","checkpoint":"{checkpoint}""#)
    }

    const STARTED: &str = r#""event":"PipelineStarted","name":"p","goal":"""#;
    const FAILED: &str = r#""event":"StageFailed","node":"test","index":1,"visit":1,"attempt":1,"error":"no","category":"retryable","will_retry":false,"duration_ms":1"#;

    #[test]
    fn one_goes_back_to_before_the_stage_that_went_wrong() {
        let points = points(&[
            STARTED,
            &saved("start", "cp_000000"),
            &began("build"),
            &saved("build", "cp_000001"),
            &began("test"),
            FAILED,
            &saved("test", "cp_000002"),
            &began("mend"),
        ]);
        let before = |code, node| points.before_failure(code, node);
        assert_eq!(before(Some("stage_failed"), Some("build")), Some("cp_000000"));
        // The failure end itself did not fail.
        assert_eq!(before(Some("failure_end"), Some("mend")), Some("cp_000001"));
        assert_eq!(before(Some("dead_end"), Some("mend")), Some("cp_000002"));
        assert_eq!(before(Some("cancelled"), None), Some("cp_000002"));
        assert_eq!(ReplayPoints::default().before_failure(None, None), None);
    }

    #[test]
    fn a_replay_can_itself_be_replayed_from_its_beginning() {
        let resumed = r#""event":"PipelineResumed","checkpoint":"cp_000007","fencing_token":1,"replayed_from":"r at cp_000007""#;
        let points = points(&[resumed, &began("test"), FAILED]);
        assert_eq!(points.list()[0].checkpoint, "cp_000007");
        assert_eq!(points.list()[0].next, ["test"]);
        assert_eq!(
            points.before_failure(Some("stage_failed"), Some("test")),
            Some("cp_000007")
        );
    }

    #[test]
    fn nothing_is_left_to_replay_where_the_run_ended() {
        let completed = r#""event":"PipelineCompleted","duration_ms":1,"artifact_count":0"#;
        let points = points(&[STARTED, &began("build"), &saved("build", "cp_000001"), completed]);
        assert_eq!(points.list().len(), 2);
        assert_eq!(
            points.last_to_replay().map(|point| &*point.checkpoint),
            Some("cp_000000")
        );
    }
}
