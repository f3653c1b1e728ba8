//! Attempts that are made again: after a crash, after a pause, and in a replay.
use orchestra_engine::{EventKind, Usage};
use orchestra_sessions::{SessionIndex, StageState};

use crate::support::*;

#[test]
fn a_stage_that_was_in_flight_at_a_crash_stands_there_twice_and_its_usage_once() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    run.tell(started_run());
    run.tell(began("build", 1, 1));
    assert_eq!(index.stages("nightly").unwrap()[0].state, StageState::Running);
    run.tell(resumed(2));
    run.tell(EventKind::StageStarted {
        stage: attempt_at("build", 1, 1),
        repeat: true,
        replay: false,
    });
    run.tell(completed("build", 1, 1));
    let stages = index.stages("nightly").unwrap();
    let states: Vec<_> = stages.iter().map(|s| (s.repeat, s.state, s.usage)).collect();
    assert_eq!(
        states,
        [
            (false, StageState::Interrupted, Usage::default()),
            (true, StageState::Completed, usage()),
        ]
    );
    let session = index.run("nightly").unwrap();
    let summary = &session.summary;
    assert_eq!((summary.stages, summary.repeats, summary.usage), (2, 1, usage()));
    let totals = &index.node_totals("nightly").unwrap()[0];
    assert_eq!((totals.attempts, totals.repeats, totals.usage), (2, 1, usage()));
}

#[test]
fn a_stage_that_was_due_while_nobody_executed_the_run_repeats_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    run.tell(started_run());
    for (fencing_token, repeats) in [(2, vec![false]), (3, vec![false, true])] {
        run.tell(resumed(fencing_token));
        run.tell(EventKind::StageStarted {
            stage: attempt_at("build", 1, 1),
            repeat: true,
            replay: false,
        });
        let stages = index.stages("nightly").unwrap();
        assert_eq!(
            stages.iter().map(|stage| stage.repeat).collect::<Vec<_>>(),
            repeats
        );
    }
}

#[test]
fn a_stage_after_the_checkpoint_of_a_replay_stands_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "again");
    run.tell(started_run());
    run.tell(began("build", 1, 1));
    assert_eq!(index.stages("again").unwrap()[0].state, StageState::Running);
    run.tell(EventKind::PipelineResumed {
        checkpoint: "cp_000000".to_owned(),
        fencing_token: 1,
        repaired: Vec::new(),
        replayed_from: Some("nightly".to_owned()),
        retry: None,
    });
    let began_here = run.tell(EventKind::StageStarted {
        stage: attempt_at("build", 1, 1),
        repeat: false,
        replay: true,
    });
    let stages = index.stages("again").unwrap();
    let states: Vec<_> = stages
        .iter()
        .map(|s| (s.repeat, s.state, s.started, s.ended))
        .collect();
    assert_eq!(
        states,
        [(false, StageState::Running, Some(began_here.time), None)]
    );
    run.tell(completed("build", 1, 1));
    let states: Vec<_> = index.stages("again").unwrap().iter().map(|s| s.state).collect();
    assert_eq!(states, [StageState::Completed]);
    let summary = index.run("again").unwrap().summary;
    assert_eq!((summary.stages, summary.repeats), (1, 0));
}
