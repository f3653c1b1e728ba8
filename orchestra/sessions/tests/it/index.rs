//! The content of the index, through the API that the command line uses.
use crate::support;

use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use orchestra_engine::{
    Answer, CallbackInterviewer, Disk, Engine, EventKind, PauseCode, ReplayedFrom, RunFailure, RunId,
    RunSummary, RunView, StageRef, Status, Timestamp,
};
use orchestra_graph::{LoadOptions, Pipeline, Source, load};
use orchestra_sessions::{RunFilter, SessionIndex, SessionStatus, StageState};
use serde_json::json;
use support::*;

fn pipeline(text: &str) -> Pipeline {
    load(Source::new("a.dot", text), &Default::default())
        .pipeline()
        .unwrap()
}

/// Returns the first attempt of the first visit of a node.
fn attempt_of(node: &str, branch: Option<&str>, index: u64) -> StageRef {
    StageRef {
        node: node.into(),
        branch: branch.map(str::to_owned),
        index,
        visit: 1,
        attempt: 1,
    }
}

#[tokio::test]
async fn a_run_of_the_engine_is_listed_with_its_path_and_why() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let text = r#"digraph release { goal="ship it"
        start -> check [label="go"]
        check [type=tool, tool_command="exit 1", max_retries=1, retry_initial_delay="1ms"]
        check -> exit [condition="outcome=success"]
        check -> mend [condition="outcome=fail"]
        mend [type=tool, tool_command="true"]
        mend -> exit }"#;
    let engine = Engine::builder()
        .runs_dir(dir.path())
        .on_event(index.listener())
        .build()
        .unwrap();
    let run = engine.start(pipeline(text), ()).run_id("nightly").await.unwrap();
    assert_eq!(index.accept(run.run_dir().unwrap()).unwrap(), *run.id());
    run.wait().await.unwrap();
    index.flush().unwrap();

    let session = index.run("nightly").unwrap();
    assert_eq!((&*session.name, &*session.goal), ("release", "ship it"));
    assert_eq!(
        (session.status, session.summary.failures),
        (SessionStatus::Success, 2)
    );
    let summary = &session.summary;
    assert!(summary.started <= summary.ended && summary.ended == summary.updated);
    assert_eq!(
        session.folder,
        fs::canonicalize(dir.path().join("nightly")).unwrap()
    );

    let stages = index.stages("nightly").unwrap();
    let path: Vec<_> = stages
        .iter()
        .map(|s| (&*s.node, s.attempt, s.state, s.outcome.as_deref()))
        .collect();
    assert_eq!(
        path,
        [
            ("start", 1, StageState::Completed, Some("success")),
            ("check", 1, StageState::Failed, Some("fail")),
            ("check", 2, StageState::Failed, Some("fail")),
            ("mend", 1, StageState::Completed, Some("success")),
            ("exit", 1, StageState::Completed, Some("success")),
        ]
    );
    assert!(stages[1].will_retry && !stages[2].will_retry);
    assert!(
        stages
            .iter()
            .all(|stage| stage.duration.is_some() && stage.started <= stage.ended)
    );

    let transitions = index.transitions("nightly").unwrap();
    let ways: Vec<_> = transitions
        .iter()
        .map(|t| (&*t.from, t.to.as_deref(), &*t.rule))
        .collect();
    assert_eq!(
        ways,
        [
            ("start", Some("check"), "only_edge"),
            ("check", Some("mend"), "condition"),
            ("mend", Some("exit"), "only_edge"),
        ]
    );
    let saw: Vec<_> = transitions[1]
        .tested
        .iter()
        .map(|t| (&*t.condition, t.held))
        .collect();
    assert_eq!(saw, [("outcome=success", false), ("outcome=fail", true)]);
    assert_eq!(
        transitions[1].tested[0].values,
        [("outcome".to_owned(), "fail".to_owned())]
    );

    let totals = index.node_totals("nightly").unwrap();
    let totals: Vec<_> = totals
        .iter()
        .map(|t| (&*t.node, t.attempts, t.failures))
        .collect();
    assert_eq!(
        totals,
        [("start", 1, 0), ("check", 2, 2), ("mend", 1, 0), ("exit", 1, 0)]
    );
}

#[tokio::test]
async fn the_runs_that_stages_start_belong_to_their_parents() {
    let dir = tempfile::tempdir().unwrap();
    let runs_dir = dir.path().join("runs");
    let index = SessionIndex::open(&runs_dir).unwrap();
    let child = dir.path().join("child.dot");
    fs::write(&child, "digraph child { start -> exit }").unwrap();
    let text =
        r#"digraph parent { start -> part -> exit; part [shape=folder, "subpipeline.file"="child.dot"] }"#;
    let options = LoadOptions {
        children: Some(&Disk),
        ..Default::default()
    };
    let parent = dir.path().join("parent.dot");
    let loaded = load(Source::new(parent.to_string_lossy(), text), &options);
    let engine = Engine::builder()
        .runs_dir(&runs_dir)
        .on_event(index.listener())
        .build()
        .unwrap();
    let run = engine
        .start(loaded.pipeline().unwrap(), ())
        .run_id("parent")
        .await
        .unwrap();
    run.wait().await.unwrap();
    index.flush().unwrap();
    let names: Vec<RunId> = index
        .list(&RunFilter::all())
        .unwrap()
        .into_iter()
        .map(|s| s.run)
        .collect();
    assert_eq!(names, [RunId::new("parent").unwrap()]);
}

#[test]
fn a_run_is_listed_from_the_moment_it_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    assert!(index.list(&RunFilter::all()).unwrap().is_empty());
    let more = json!({
        "pipeline": { "file": "pipelines/release.dot", "hash": "abc" },
        "simulated": true,
        "replayed_from": { "run": "weekly", "checkpoint": "cp_000012" },
    });
    let mut run = WrittenRun::at(&dir.path().join("nightly"), "nightly", &more);
    index.accept(&run.folder).unwrap();
    let session = index.run("nightly").unwrap();
    assert_eq!(
        (session.status, session.summary.events),
        (SessionStatus::Accepted, 0)
    );
    assert_eq!(
        (&*session.file, session.simulated),
        ("pipelines/release.dot", true)
    );
    assert_eq!(session.summary.started, Some(Timestamp::from_millis(START)));
    let from = ReplayedFrom {
        run: "weekly".to_owned(),
        checkpoint: "cp_000012".to_owned(),
    };
    assert_eq!(session.summary.replayed_from, Some(from));

    index.listener()(&run.tell(started_run()));
    index.flush().unwrap();
    assert_eq!(index.run("nightly").unwrap().status, SessionStatus::Running);
}

#[test]
fn the_status_is_what_the_last_events_say() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    run.tell(started_run());
    run.tell(began("build", 1, 1));
    run.tell(paused(PauseCode::WaitsForHuman, Some("approve")));
    let session = index.run("nightly").unwrap();
    assert_eq!(
        (session.status, session.summary.ended),
        (SessionStatus::Paused, None)
    );
    assert_eq!(session.summary.code.as_deref(), Some("waits_for_human"));
    assert_eq!(session.summary.node.as_deref(), Some("approve"));
    assert_eq!(index.stages("nightly").unwrap()[0].state, StageState::Interrupted);

    run.tell(resumed(2));
    let session = index.run("nightly").unwrap();
    assert_eq!(
        (session.status, session.summary.fencing_token),
        (SessionStatus::Running, 2)
    );
    let summary = session.summary;
    assert_eq!((summary.code, summary.reason, summary.node), (None, None, None));

    run.tell(failed_run(Some(RunFailure::MaxVisits {
        node: "build".to_owned(),
        limit: 3,
        attribute: "max_visits".to_owned(),
    })));
    let session = index.run("nightly").unwrap();
    assert_eq!(
        (session.status, session.summary.code.as_deref()),
        (SessionStatus::Fail, Some("max_visits"))
    );
    assert_eq!(session.summary.node.as_deref(), Some("build"));
    assert_eq!(session.summary.ended, session.summary.updated);

    run.tell(resumed(3));
    run.tell(EventKind::PipelineCancelled {
        reason: "enough".to_owned(),
        duration: Duration::from_secs(1),
    });
    let session = index.run("nightly").unwrap();
    assert_eq!(
        (session.status, session.summary.reason.as_deref()),
        (SessionStatus::Cancelled, Some("enough"))
    );
    run.tell(resumed(4));
    run.tell(ended_run());
    assert_eq!(index.run("nightly").unwrap().status, SessionStatus::Success);
}

#[test]
fn the_index_and_a_view_of_the_same_events_agree() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    let mut view = RunView::new();
    for n in 0..196 {
        view.apply(&run.tell_nth(n));
    }
    let summary = index.run("nightly").unwrap().summary;
    // The manifest states when the run was accepted.
    let started = summary.started;
    assert_eq!(
        summary,
        RunSummary {
            started,
            ..view.summary().clone()
        }
    );
    let mut stages = index.stages("nightly").unwrap();
    stages.retain(|stage| stage.state == StageState::Running);
    let running: Vec<_> = stages.iter().map(|s| (&*s.node, s.visit, s.attempt)).collect();
    assert_eq!(running, [("build", 19, 2)]);
    let viewed = view.running().iter().map(|running| &running.stage);
    let viewed: Vec<_> = viewed.map(|s| (&*s.node, s.visit, s.attempt)).collect();
    assert_eq!(viewed, running);
}

#[test]
fn branches_that_run_the_same_node_are_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    let began = |branch: &str, index: u64| EventKind::StageStarted {
        stage: attempt_of("lint", Some(branch), index),
        repeat: false,
        replay: false,
    };
    run.tell(started_run());
    run.tell(EventKind::ParallelStarted {
        node: "fan".into(),
        branch: None,
        branch_count: 2,
        tested: Vec::new(),
    });
    run.tell(began("fan#1:left", 1));
    run.tell(began("fan#1:right", 2));
    run.tell(EventKind::StageCompleted {
        stage: attempt_of("lint", Some("fan#1:right"), 2),
        outcome: Status::from_name("tidy"),
        preferred_label: None,
        notes: None,
        usage: None,
        duration: Duration::ZERO,
    });
    run.tell(EventKind::StageCancelled {
        stage: attempt_of("lint", Some("fan#1:left"), 1),
        duration: Duration::ZERO,
    });
    let stages = index.stages("nightly").unwrap();
    let states: Vec<_> = stages
        .iter()
        .map(|s| (s.branch.as_deref().unwrap(), s.state, s.outcome.as_deref()))
        .collect();
    assert_eq!(
        states,
        [
            ("fan#1:left", StageState::Cancelled, None),
            ("fan#1:right", StageState::Completed, Some("tidy")),
        ]
    );
    let way = &index.transitions("nightly").unwrap()[0];
    assert_eq!(
        (&*way.rule, way.branches, way.to.as_deref()),
        ("parallel", Some(2), None)
    );
}

#[test]
fn tools_are_reported_with_their_times_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    for (tool, error) in [("grep", None), ("sed", Some("bad pattern"))] {
        run.tell(EventKind::ToolCallCompleted {
            call_id: None,
            node: "mend".into(),
            branch: None,
            tool: tool.to_owned(),
            error: error.map(str::to_owned),
            duration: Duration::from_micros(1_500),
        });
    }
    let calls = index.tool_calls("nightly").unwrap();
    let calls: Vec<_> = calls
        .iter()
        .map(|c| (&*c.tool, c.error.as_deref(), c.duration))
        .collect();
    let took = Duration::from_micros(1_500);
    assert_eq!(calls, [("grep", None, took), ("sed", Some("bad pattern"), took)]);
    assert_eq!(index.run("nightly").unwrap().summary.tool_calls, 2);
    assert_eq!(index.node_totals("nightly").unwrap()[0].tool_calls, 2);
}

#[test]
fn the_latest_runs_come_first_and_filters_choose_among_them() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    for (n, run) in ["one", "two", "three"].into_iter().enumerate() {
        let started = Timestamp::from_millis(START + n as u64);
        let more = json!({ "started": started, "name": if n == 1 { "other" } else { "release" } });
        let mut run = WrittenRun::at(&dir.path().join(run), run, &more);
        run.tell(started_run());
        if n == 2 {
            run.tell(ended_run());
        }
    }
    let list = |filter: RunFilter| -> Vec<String> {
        index
            .list(&filter)
            .unwrap()
            .iter()
            .map(|s| s.run.to_string())
            .collect()
    };
    assert_eq!(list(RunFilter::all()), ["three", "two", "one"]);
    assert_eq!(list(RunFilter::all().limit(2)), ["three", "two"]);
    assert_eq!(list(RunFilter::all().name("release")), ["three", "one"]);
    assert_eq!(
        list(RunFilter::all().status(SessionStatus::Running)),
        ["two", "one"]
    );
    let either = RunFilter::all()
        .status(SessionStatus::Running)
        .status(SessionStatus::Success);
    assert_eq!(list(either.limit(2)), ["three", "two"]);
    let second = Timestamp::from_millis(START + 1);
    assert_eq!(list(RunFilter::all().started_before(second)), ["one"]);
    assert_eq!(list(RunFilter::all().started_after(second)), ["three", "two"]);
}

#[test]
fn a_run_may_be_called_by_the_beginning_of_its_name_if_no_other_begins_so() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    for run in [
        "20261121-153000-0k3f9q",
        "20261121-153000-1aaaaa",
        "nightly",
        "nightly-2",
    ] {
        WrittenRun::new(dir.path(), run);
    }
    let name = |name: &str| index.run(name).map(|session| session.run.to_string());
    assert_eq!(
        name("nightly").unwrap(),
        "nightly",
        "a whole name is never ambiguous"
    );
    assert_eq!(name("20261121-153000-0").unwrap(), "20261121-153000-0k3f9q");
    assert_eq!(index.stages("nightly-").unwrap(), []);
    let said = |text: &str| name(text).unwrap_err().to_string();
    assert_eq!(
        said("20261121"),
        "several runs begin with `20261121`: `20261121-153000-0k3f9q`, `20261121-153000-1aaaaa`"
    );
    assert_eq!(said("nihgtly"), "unknown run `nihgtly`; did you mean `nightly`?");
    assert_eq!(
        said("0k3f9q"),
        "unknown run `0k3f9q`; did you mean `20261121-153000-0k3f9q`?"
    );
    assert_eq!(said("weekly"), "unknown run `weekly`");
    assert_eq!(said(""), "unknown run ``");
    assert_eq!(said("../nightly"), "unknown run `../nightly`");
}

#[test]
fn rows_are_written_for_machines_in_the_words_of_events() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    run.tell(started_run());
    run.tell(began("build", 1, 1));
    run.tell(completed("build", 1, 1));
    let session = serde_json::to_value(index.run("nightly").unwrap()).unwrap();
    assert_eq!(session["status"], "running");
    assert_eq!(session["started"], "2026-11-21T15:30:00.000Z");
    assert_eq!(
        (&session["input_tokens"], &session["cost_micros"]),
        (&json!(100), &json!(1_500))
    );
    let stage = serde_json::to_value(&index.stages("nightly").unwrap()[0]).unwrap();
    assert_eq!(
        (&stage["state"], &stage["duration_ms"]),
        (&json!("completed"), &json!(1.234))
    );
}

#[tokio::test]
async fn other_processes_see_at_which_stage_a_run_is_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label="[Y] Yes"] }"#;
    let (asks, asked) = tokio::sync::oneshot::channel();
    let asks = Mutex::new(Some(asks));
    let waits = CallbackInterviewer::new(move |_| {
        let _ = asks.lock().unwrap().take().map(|asks| asks.send(()));
        std::future::pending::<Result<Answer, _>>()
    });
    let engine = Engine::builder()
        .runs_dir(dir.path())
        .interviewer(waits)
        .build()
        .unwrap();
    let run = engine.start(pipeline(text), ()).run_id("nightly").await.unwrap();
    asked.await.unwrap();
    let at = || {
        let stages = index.stages("nightly").unwrap();
        stages.last().map(|stage| (stage.node.clone(), stage.state))
    };
    // The question may be asked before the run waits.
    let deadline = Instant::now() + Duration::from_secs(60);
    while at().is_none() && Instant::now() < deadline {
        tokio::task::yield_now().await;
    }
    assert_eq!(at(), Some(("ask".to_owned(), StageState::Running)));
    run.cancel("seen");
    run.wait().await.unwrap();
    assert_eq!(at(), Some(("ask".to_owned(), StageState::Cancelled)));
}

#[tokio::test]
async fn edges_between_the_same_nodes_are_counted_apart() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"digraph counts { start -> fan
        fan [shape=component]; fan -> a -> join; fan -> b -> join; join [shape=tripleoctagon]
        a [type=tool, tool_command="true"]; b [type=tool, tool_command="true"]
        join -> check
        check [type=tool, tool_command="exit 1"]
        check -> exit [label=Pass, condition="outcome=success"]
        check -> exit [label=Skip, condition="outcome=fail"] }"#;
    let engine = Engine::builder().runs_dir(dir.path()).build().unwrap();
    for run in ["first", "second"] {
        let start = engine.start(pipeline(text), ()).run_id(run);
        start.await.unwrap().wait().await.unwrap();
    }
    let index = SessionIndex::open(dir.path()).unwrap();
    let counts = |counts: Vec<orchestra_sessions::EdgeCount>| -> Vec<String> {
        let line = |count: &orchestra_sessions::EdgeCount| {
            let orchestra_sessions::EdgeCount {
                from,
                edge,
                tested,
                held,
                taken,
                ..
            } = count;
            format!("{from} {edge}: {tested} {held} {taken}")
        };
        counts.iter().map(line).collect()
    };
    assert_eq!(
        counts(index.edge_counts("first").unwrap()),
        [
            "a 0: 0 0 1",
            "b 0: 0 0 1",
            "check 0: 1 0 0",
            "check 1: 1 1 1",
            "fan 0: 0 0 1",
            "fan 1: 0 0 1",
            "join 0: 0 0 1",
            "start 0: 0 0 1",
        ]
    );
    let files = [vec!["a.dot".to_owned()], vec!["b.dot".to_owned()]];
    let totals = index.totals(&files).unwrap();
    assert_eq!((totals[0].runs(), totals[1].runs()), (2, 0));
    assert_eq!(counts(totals[0].edges.clone())[3], "check 1: 2 2 2");
    let check = totals[0].nodes.iter().find(|sum| sum.node == "check").unwrap();
    assert_eq!((check.visits, check.attempts, check.failures), (2, 2, 2));
    let transitions = index.transitions("first").unwrap();
    let skip = transitions.iter().find(|row| row.from == "check").unwrap();
    assert_eq!((skip.to.as_deref(), skip.edge), (Some("exit"), Some(1)));
}

#[test]
fn rows_that_changed_since_an_event_are_found_without_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = WrittenRun::new(dir.path(), "nightly");
    for kind in [
        started_run(),
        began("a", 1, 1),
        completed("a", 1, 1),
        began("b", 1, 1),
    ] {
        written.tell(kind);
    }
    let index = SessionIndex::open(dir.path()).unwrap();
    let nodes = |since| -> Vec<(String, u64)> {
        let rows = index.changed_stages("nightly", since).unwrap().into_iter();
        rows.map(|row| (row.node, row.changed)).collect()
    };
    assert_eq!(nodes(0), [("a".to_owned(), 3), ("b".to_owned(), 4)]);
    assert_eq!(nodes(3), [("b".to_owned(), 4)]);
    assert_eq!(nodes(4), []);
    written.tell(completed("b", 1, 1));
    assert_eq!(nodes(4), [("b".to_owned(), 5)]);
}
