use super::*;
use crate::event::AttemptResult;

/// A view, and the number of events that it received.
struct Applied {
    view: RunView,
    seq: u64,
}

impl Applied {
    fn new(view: RunView) -> Applied {
        Applied { view, seq: 0 }
    }

    /// Applies the next event with these fields.
    fn next(&mut self, fields: &str) {
        self.seq += 1;
        assert!(self.view.apply(&event(self.seq, "r", fields)), "{fields}");
    }

    fn running(&self) -> Vec<String> {
        let running = self.view.running().iter();
        running.map(|running| running.stage.to_string()).collect()
    }

    fn asking(&self) -> Vec<String> {
        self.view.questions().map(|open| open.node.to_string()).collect()
    }
}

/// Returns an event at as many milliseconds after the epoch as its number.
fn event(seq: u64, run: &str, fields: &str) -> RunEvent {
    let time = Timestamp::from_millis(seq);
    let text =
        format!(r#"{{"schema":"orchestra.event/1","seq":{seq},"time":"{time}","run":"{run}",{fields}}}"#);
    RunEvent::from_json(text.as_bytes()).unwrap()
}

/// Returns the fields of an event of an attempt of a first visit.
fn of_stage(name: &str, branch: Option<&str>, node: &str, attempt: u32, more: &str) -> String {
    let branch = branch.map_or_else(String::new, |branch| format!(r#""branch":"{branch}","#));
    format!(
        r#""event":"{name}","node":"{node}",{branch}"index":{index},"visit":1,"attempt":{attempt}{more}"#,
        index = node.len()
    )
}

fn started(branch: Option<&str>, node: &str, attempt: u32) -> String {
    of_stage("StageStarted", branch, node, attempt, "")
}

fn completed(branch: Option<&str>, node: &str, attempt: u32) -> String {
    let more = r#","outcome":"success","usage":{"input_tokens":100,"output_tokens":10},"duration_ms":1"#;
    of_stage("StageCompleted", branch, node, attempt, more)
}

const ASKED: &str = r#""event":"InterviewStarted","node":"ask","question":{"id":"ask#1/1","kind":"single_select","text":"Ship?","node":"ask","options":[],"timeout_ms":90000}"#;
const ANSWERED: &str = r#""event":"InterviewCompleted","node":"ask","question":"Ship?","answer":"Yes","answered_by":"person","duration_ms":1"#;
const PAUSED: &str = r#""event":"PipelinePaused","code":"requested","reason":"lunch","duration_ms":1"#;
const RESUMED: &str = r#""event":"PipelineResumed","checkpoint":"cp_000001","fencing_token":2"#;
const BEGAN: &str = r#""event":"PipelineStarted","name":"release","goal":"ship it""#;

fn cut() -> String {
    of_stage("StageCancelled", None, "ask", 1, r#","duration_ms":1"#)
}

#[test]
fn a_run_with_branches_a_retry_a_gate_and_a_pause_is_followed_to_its_end() {
    let (left, right) = (Some("fan#1:left"), Some("fan#1:right"));
    let mut run = Applied::new(RunView::with_history(3));
    run.next(BEGAN);
    assert_eq!((run.view.name(), run.view.goal()), ("release", "ship it"));
    run.next(&started(None, "fan", 1));
    run.next(&completed(None, "fan", 1));
    run.next(r#""event":"ParallelStarted","node":"fan","branch_count":2"#);
    run.next(&started(left, "lint", 1));
    run.next(&started(right, "test", 1));
    assert_eq!(run.running(), ["fan#1:left/lint#1/1", "fan#1:right/test#1/1"]);
    let failed = r#","error":"two tests failed","category":"retryable","will_retry":true,"usage":{"cost_micros":1500},"duration_ms":1"#;
    run.next(&of_stage("StageFailed", right, "test", 1, failed));
    assert_eq!(run.running(), ["fan#1:left/lint#1/1"]);
    run.next(r#""event":"StageRetrying","node":"test","branch":"fan#1:right","index":4,"attempt":2,"max_attempts":3,"delay_ms":1"#);
    run.next(&started(right, "test", 2));
    run.next(&completed(left, "lint", 1));
    run.next(&completed(right, "test", 2));
    assert!(run.running().is_empty());

    run.next(&started(None, "ask", 1));
    run.next(ASKED);
    assert_eq!(run.asking(), ["ask"]);
    run.next(&cut());
    assert!(run.asking().is_empty());
    run.next(PAUSED);
    let summary = run.view.summary();
    assert_eq!((summary.phase, summary.ended), (RunPhase::Paused, None));
    assert_eq!(
        (summary.code.as_deref(), summary.reason.as_deref()),
        (Some("requested"), Some("lunch"))
    );
    assert_eq!(run.asking(), ["ask"], "the pause only suspended the question");

    run.next(RESUMED);
    run.next(&of_stage("StageStarted", None, "ask", 1, r#","repeat":true"#));
    let summary = run.view.summary();
    assert_eq!((summary.phase, summary.fencing_token), (RunPhase::Running, 2));
    assert_eq!((&summary.code, &summary.reason), (&None, &None));
    assert!(run.view.running()[0].repeat);
    run.next(ANSWERED);
    assert!(run.asking().is_empty());
    run.next(&completed(None, "ask", 1));
    run.next(r#""event":"EdgeSelected","from":"ask","to":"exit","rule":"condition","tested":[]"#);
    run.next(r#""event":"CheckpointSaved","node":"ask","checkpoint":"cp_000004""#);
    run.next(r#""event":"PipelineCompleted","duration_ms":9,"artifact_count":0"#);

    let summary = run.view.summary();
    assert_eq!(summary.phase, RunPhase::Success);
    assert_eq!(
        (summary.started, summary.ended, summary.events),
        (Some(Timestamp::from_millis(1)), summary.updated, run.seq)
    );
    assert_eq!(
        (
            summary.stages,
            summary.failures,
            summary.repeats,
            summary.transitions
        ),
        (6, 1, 1, 2)
    );
    assert_eq!((summary.usage.tokens(), summary.usage.cost_micros), (440, 1_500));
    assert_eq!(
        (summary.checkpoints, summary.checkpoint.as_deref()),
        (1, Some("cp_000004"))
    );
    let ended: Vec<(String, AttemptResult)> = run
        .view
        .ended_attempts()
        .map(|ended| (ended.stage.to_string(), ended.result))
        .collect();
    let expected = [
        ("fan#1:right/test#1/2", AttemptResult::Completed),
        ("ask#1/1", AttemptResult::Cancelled),
        ("ask#1/1", AttemptResult::Completed),
    ];
    assert_eq!(ended, expected.map(|(name, result)| (name.to_owned(), result)));
}

#[test]
fn repeated_events_events_of_other_runs_and_gaps_do_no_harm() {
    let mut run = Applied::new(RunView::new());
    run.next(BEGAN);
    run.next(&started(None, "build", 1));
    let before = run.view.summary().clone();
    assert!(!run.view.apply(&event(2, "r", &started(None, "build", 1))));
    assert!(!run.view.apply(&event(1, "r", BEGAN)));
    assert!(!run.view.apply(&event(3, "r-child-1", ASKED)));
    assert_eq!(*run.view.summary(), before);
    assert_eq!((run.running().len(), run.asking().len()), (1, 0));
    // The events between were written by a newer version, or their lines are damaged.
    run.seq = 7;
    run.next(&started(None, "test", 1));
    assert_eq!(run.running(), ["test#1/1"]);
    run.next(&completed(None, "deploy", 1));
    assert_eq!(run.running(), ["test#1/1"]);
    assert_eq!(run.view.ended_attempts().len(), 0, "no history was requested");
}

#[test]
fn a_view_of_a_long_run_stays_small() {
    let mut run = Applied::new(RunView::with_history(5));
    run.next(BEGAN);
    for _ in 0..2_000 {
        run.next(&started(None, "build", 1));
        run.next(r#""event":"StageWarning","node":"build","code":"reserved_key","message":"ignored""#);
        run.next(&completed(None, "build", 1));
    }
    // Ends that were lost leave nothing behind.
    for _ in 0..2_000 {
        run.next(&started(None, "build", 1));
    }
    assert_eq!(run.view.summary().stages, 4_000);
    assert_eq!(run.view.running().len(), 1);
    assert_eq!(run.view.ended_attempts().len(), 5);
    assert_eq!(run.view.warnings().len(), MAX_WARNINGS);
    let last = run.view.warnings().next_back().unwrap();
    assert_eq!(last.node.as_deref(), Some("build"));
}

#[test]
fn a_replay_names_its_origin_and_a_failure_its_node() {
    let mut run = Applied::new(RunView::new());
    run.next(
        r#""event":"PipelineResumed","checkpoint":"cp_000002","fencing_token":1,"replayed_from":"nightly""#,
    );
    run.next(
        r#""event":"PipelineFailed","error":"broken","failure":{"code":"stage_failed","node":"build","reason":"broken"},"duration_ms":1"#,
    );
    let summary = run.view.summary();
    let origin = summary.replayed_from.as_ref().unwrap();
    assert_eq!(
        (origin.run.as_str(), origin.checkpoint.as_str()),
        ("nightly", "cp_000002")
    );
    assert_eq!(summary.phase, RunPhase::Fail);
    assert_eq!(
        (summary.code.as_deref(), summary.node.as_deref()),
        (Some("stage_failed"), Some("build"))
    );
}

#[test]
fn a_pause_puts_a_question_aside_and_its_time_goes_on() {
    let mut run = Applied::new(RunView::new());
    run.next(BEGAN);
    run.next(ASKED);
    run.next(&cut());
    run.next(PAUSED);
    run.next(RESUMED);
    run.next(&of_stage("StageStarted", None, "ask", 1, r#","repeat":true"#));
    let open = run.view.questions().next().unwrap();
    assert_eq!(open.deadline(), Some(Timestamp::from_millis(90_002)));
    let left = |now| open.remaining(Timestamp::from_millis(now)).unwrap().as_millis();
    assert_eq!((left(2), left(90_003)), (90_000, 0));
    run.next(ANSWERED);
    assert!(run.asking().is_empty());
}

#[test]
fn a_question_that_is_not_needed_any_more_does_not_wait_after_a_later_pause() {
    let mut run = Applied::new(RunView::new());
    run.next(ASKED);
    run.next(&cut());
    run.next(&started(None, "next", 1));
    run.next(PAUSED);
    assert!(run.asking().is_empty());
}

#[test]
fn questions_of_child_runs_are_kept_apart() {
    let mut questions = UnansweredQuestions::default();
    questions.apply(&event(1, "r", ASKED));
    questions.apply(&event(1, "r-child-1", ASKED));
    questions.apply(&event(2, "r-child-1", ANSWERED));
    let runs: Vec<&str> = questions.iter().map(|open| &*open.run).collect();
    assert_eq!(runs, ["r"]);
}
