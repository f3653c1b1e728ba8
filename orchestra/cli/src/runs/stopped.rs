//! The commands that resume, retry or replay a stopped run.

use std::path::{Path, PathBuf};

use orchestra_engine::{
    Durability, EventKind, Question, RunEvent, RunFolder, RunHandle, UnansweredQuestions,
};

use crate::runs::Runs;

/// A stopped run: its folder, and the commands for it.
pub(crate) struct StoppedRun<'s> {
    pub(crate) runs: &'s Runs,
    /// `None` if the run is not stored.
    folder: Option<PathBuf>,
}

impl<'s> StoppedRun<'s> {
    pub(crate) fn new(runs: &'s Runs, handle: &RunHandle) -> StoppedRun<'s> {
        StoppedRun::in_folder(runs, handle.run_dir())
    }

    pub(crate) fn in_folder(runs: &'s Runs, folder: Option<&Path>) -> StoppedRun<'s> {
        StoppedRun {
            runs,
            folder: folder.map(Path::to_owned),
        }
    }

    /// Returns the command that resumes the run.
    pub(crate) fn resume(&self) -> Option<String> {
        let folder = self.folder.as_deref()?;
        Some(self.runs.command("resume", folder, &[]))
    }

    /// Returns the command that retries the run after a failure with this code (rule D9).
    pub(crate) fn retry(&self, code: Option<&str>) -> Option<String> {
        let folder = self.folder.as_deref()?;
        let options: &[&str] = match code {
            Some(code) if NEEDS_CHANGE.contains(&code) => &["--retry", "--accept-changes"],
            _ => &["--retry"],
        };
        Some(self.runs.command("resume", folder, options))
    }

    /// Returns the command that replays the run from before its failure, which is given by its code and its node.
    pub(crate) fn replay(&self, code: Option<&str>, node: Option<&str>) -> Option<String> {
        let folder = self.folder.as_deref()?;
        let run = RunFolder::open(folder).ok()?;
        // Without a journal there is no checkpoint to replay from.
        if run.manifest().durability == Durability::None {
            return None;
        }
        let events = |visit: &mut dyn FnMut(&RunEvent)| visit_events(&run, &CHECKPOINT_EVENTS, visit);
        let checkpoint = checkpoint_before(events, code, node)?;
        Some(
            self.runs
                .command("replay", folder, &["--checkpoint", &checkpoint]),
        )
    }

    /// Returns the question of a waiting gate as it was asked.
    pub(crate) fn pending_question(&self, gate: &str) -> Option<Question> {
        let run = RunFolder::open(self.folder.as_deref()?).ok()?;
        let mut waiting = UnansweredQuestions::default();
        run.each_event(|line| waiting.apply_line(line)).ok()?;
        let mut open = waiting.iter().filter(|open| open.node == gate);
        open.next().map(|open| open.question.clone())
    }
}

/// Visits the events of a run that have one of these names.
fn visit_events(run: &RunFolder, names: &[&str], visit: &mut dyn FnMut(&RunEvent)) {
    // Lines that cannot be read are skipped.
    let _ = run.each_event(|line| {
        if line.name().is_some_and(|name| names.contains(&name))
            && let Some(event) = line.event()
        {
            visit(&event);
        }
    });
}

/// The events that determine where a run can be replayed from.
const CHECKPOINT_EVENTS: [&str; 8] = [
    "PipelineStarted",
    "PipelineResumed",
    "CheckpointSaved",
    "PipelineCompleted",
    "PipelineFailed",
    "PipelineCancelled",
    "StageStarted",
    "StageFailed",
];

/// The failures that a retry repeats until the pipeline is changed.
const NEEDS_CHANGE: [&str; 6] = [
    "no_matching_edge",
    "dead_end",
    "circular_pipeline",
    "max_restarts",
    "branch_reentry",
    "invalid_transition",
];

/// Returns the last checkpoint before the start of the stage at which the run ended. If the run reached an exit that is
/// marked as a failure, returns the checkpoint before the stage that failed last.
fn checkpoint_before(
    events: impl Fn(&mut dyn FnMut(&RunEvent)),
    code: Option<&str>,
    node: Option<&str>,
) -> Option<String> {
    let mut failed = None;
    if code == Some("failure_end") {
        events(&mut |event| {
            if let EventKind::StageFailed {
                stage,
                will_retry: false,
                ..
            } = &event.kind
            {
                failed = Some(stage.node.to_string());
            }
        });
    }
    let node = failed.as_deref().or(node);
    let (mut checkpoints, mut before): (Vec<String>, _) = (Vec::new(), None);
    events(&mut |event| match &event.kind {
        EventKind::PipelineStarted { .. } => checkpoints.push("cp_000000".to_owned()),
        EventKind::PipelineResumed { checkpoint, .. } if checkpoints.is_empty() => {
            checkpoints.push(checkpoint.clone());
        }
        EventKind::CheckpointSaved { checkpoint, .. }
            if !checkpoint.is_empty() && checkpoints.last() != Some(checkpoint) =>
        {
            checkpoints.push(checkpoint.clone());
        }
        // Nothing remains to do at the point where the run ended, even if it was retried later.
        EventKind::PipelineCompleted { .. }
        | EventKind::PipelineFailed { .. }
        | EventKind::PipelineCancelled { .. } => drop(checkpoints.pop()),
        EventKind::StageStarted { stage, repeat: false }
            if stage.attempt == 1 && node.is_none_or(|node| stage.node == node) =>
        {
            before = checkpoints.last().cloned();
        }
        _ => {}
    });
    before.or(checkpoints.pop())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64, fields: &str) -> RunEvent {
        let head =
            format!(r#"{{"schema":"orchestra.event/1","seq":{seq},"time":"2026-11-21T15:30:00Z","run":"r","#);
        RunEvent::from_json(format!("{head}{fields}}}").as_bytes()).unwrap()
    }

    fn began(seq: u64, node: &str) -> RunEvent {
        event(
            seq,
            &format!(r#""event":"StageStarted","node":"{node}","index":1,"visit":1,"attempt":1"#),
        )
    }

    fn saved(seq: u64, node: &str, checkpoint: &str) -> RunEvent {
        let fields = format!(r#""event":"CheckpointSaved","node":"{node}","checkpoint":"{checkpoint}""#);
        event(seq, &fields)
    }

    #[test]
    fn one_goes_back_to_before_the_stage_that_went_wrong() {
        let failed = r#""event":"StageFailed","node":"test","index":1,"visit":1,"attempt":1,"error":"no","category":"retryable","will_retry":false,"duration_ms":1"#;
        let events = [
            event(1, r#""event":"PipelineStarted","name":"p","goal":"""#),
            saved(2, "start", "cp_000000"),
            began(3, "build"),
            saved(4, "build", "cp_000001"),
            began(5, "test"),
            event(6, failed),
            saved(7, "test", "cp_000002"),
            began(8, "mend"),
        ];
        let each = |visit: &mut dyn FnMut(&RunEvent)| events.iter().for_each(visit);
        let before = |code, node| checkpoint_before(each, code, node);
        assert_eq!(
            before(Some("stage_failed"), Some("build")).as_deref(),
            Some("cp_000000")
        );
        // The failure end itself did not fail.
        assert_eq!(
            before(Some("failure_end"), Some("mend")).as_deref(),
            Some("cp_000001")
        );
        assert_eq!(
            before(Some("dead_end"), Some("mend")).as_deref(),
            Some("cp_000002")
        );
        assert_eq!(before(Some("cancelled"), None).as_deref(), Some("cp_000002"));
        assert_eq!(checkpoint_before(|_| (), None, None), None);
    }
}
