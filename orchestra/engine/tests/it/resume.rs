//! Tests of runs that stop and are resumed in the same process. Those in other processes are in `tests/crash`.

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_engine::{
    Answer, Budget, Durability, Engine, EventKind, Outcome, RunFailure, RunFolder, RunHandle, RunResult,
    RunStatus, RunView, Script, StageContext, StartError, Usage, stage_folder_name,
};
use orchestra_graph::Pipeline;
use serde_json::{Value, json};
use support::{Acts, acts, pipeline};

/// The stages that started, with their attempt keys and whether they repeat.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(String, bool)>>>);

impl Log {
    fn note(&self, stage: &StageContext) {
        let key = (stage.attempt_key(), stage.is_repeat());
        self.0.lock().unwrap().push(key);
    }

    fn keys(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn repeats(&self) -> Vec<String> {
        let log = self.0.lock().unwrap();
        let repeats = log.iter().filter(|(_, repeat)| *repeat);
        repeats.map(|(key, _)| key.clone()).collect()
    }
}

/// Returns stages that log themselves. Those in `stuck` wait forever.
fn logging(log: &Log, nodes: &[&str], stuck: &[&str]) -> Acts {
    let mut all = Acts::new();
    for node in nodes {
        let (log, waits) = (log.clone(), stuck.contains(node));
        all = all.on(node, move |stage| {
            log.note(&stage);
            async move {
                if waits {
                    std::future::pending::<()>().await;
                }
                Outcome::success().set(format!("{}.visit", stage.node().id()), stage.visit())
            }
        });
    }
    all
}

fn engine() -> Engine {
    Engine::builder().build().unwrap()
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::task::yield_now().await;
    }
}

async fn paused(run: RunHandle) -> RunResult {
    run.pause("lunch");
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Paused);
    result
}

fn checkpoint(folder: &Path) -> Value {
    let mut checkpoint: Value =
        serde_json::from_slice(&std::fs::read(folder.join("checkpoint.json")).unwrap()).unwrap();
    for time in ["timestamp", "checksum", "identity", "journal", "run", "state"] {
        checkpoint.as_object_mut().unwrap().remove(time);
    }
    checkpoint
}

fn event_names(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let lines = text.lines().enumerate().map(|(at, line)| {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["seq"], at + 1, "events have no gaps");
        event["event"].as_str().unwrap().to_owned()
    });
    lines.collect()
}

const CHAIN: &str = "start -> a -> b -> c -> exit";

#[tokio::test]
async fn a_paused_run_goes_on_with_the_stage_that_was_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let log = Log::default();
    let run = engine()
        .start(acts(CHAIN), logging(&log, &["a", "b", "c"], &["b"]))
        .run_dir(&folder)
        .await
        .unwrap();
    until(|| log.keys().len() == 2).await;
    let result = paused(run).await;
    assert_eq!(result.path, ["start", "a"]);
    assert_eq!(result.failure.unwrap().to_string(), "the run was paused: lunch");

    let again = Log::default();
    let resumed = engine().resume(&folder, acts(CHAIN), logging(&again, &["a", "b", "c"], &[]));
    let result = resumed.await.unwrap().wait().await.unwrap();
    assert!(result.is_success());
    assert_eq!(result.path, ["start", "a", "b", "c", "exit"]);
    assert_eq!(again.keys(), ["b#1/1", "c#1/1"], "what is done is not done again");
    assert_eq!(again.repeats(), ["b#1/1"]);

    // The end is the same as that of an uninterrupted run.
    let whole = dir.path().join("whole");
    let run = engine()
        .start(acts(CHAIN), logging(&Log::default(), &["a", "b", "c"], &[]))
        .run_dir(&whole)
        .seed(0)
        .await
        .unwrap();
    run.wait().await.unwrap();
    let [mut one, mut other] = [checkpoint(&folder), checkpoint(&whole)];
    for checkpoint in [&mut one, &mut other] {
        checkpoint.as_object_mut().unwrap().remove("seed");
    }
    assert_eq!(one, other);

    let names = event_names(&folder);
    let count = |name: &str| names.iter().filter(|known| *known == name).count();
    assert_eq!(
        (
            count("PipelineStarted"),
            count("PipelinePaused"),
            count("PipelineResumed")
        ),
        (1, 1, 1)
    );
    assert_eq!((count("StageCompleted"), count("PipelineCompleted")), (5, 1));
    assert_eq!(count("StageStarted"), 6, "the one in flight began twice");
}

#[tokio::test]
async fn a_run_that_is_over_is_not_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let run = engine()
        .start(acts(CHAIN), Acts::new())
        .run_dir(&folder)
        .run_id("one");
    run.await.unwrap().wait().await.unwrap();
    let before = std::fs::read(folder.join("events.jsonl")).unwrap();
    let error = engine()
        .resume(&folder, acts(CHAIN), Acts::new())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "run `one` has ended in success");
    assert_eq!(std::fs::read(folder.join("events.jsonl")).unwrap(), before);

    let failed = dir.path().join("failed");
    let run = engine()
        .start(acts(CHAIN), Acts::new().fails("b", "no disk"))
        .run_dir(&failed);
    run.run_id("two").await.unwrap().wait().await.unwrap();
    let error = engine()
        .resume(&failed, acts(CHAIN), Acts::new())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "run `two` has ended: stage `b` failed: no disk"
    );
}

#[tokio::test(start_paused = true)]
async fn a_back_off_goes_on_with_what_is_left_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let graph = "start -> a -> exit; a [max_retries=3, retry_initial_delay=10s, retry_max_delay=10s, retry_jitter=false]";
    let fails = || Acts::new().fails("a", "busy");
    let clock = support::clock();
    let at = |clock: &support::TestClock| Engine::builder().clock(clock.clone()).build().unwrap();
    let run = at(&clock)
        .start(acts(graph), fails())
        .run_dir(&folder)
        .await
        .unwrap();
    let mut events = run.events();
    while let Some(event) = events.recv().await {
        if matches!(event.kind, EventKind::StageRetrying { .. }) {
            break;
        }
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    paused(run).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let began = tokio::time::Instant::now();
    let run = at(&clock).resume(&folder, acts(graph), fails()).await.unwrap();
    let result = run.wait().await.unwrap();
    let RunFailure::StageFailed { .. } = result.failure.unwrap() else {
        panic!("the stage fails")
    };
    assert_eq!(result.error_history.len(), 4, "attempts before the stop count");
    // Three seconds of the first delay are left, and two more delays follow.
    assert_eq!(began.elapsed().as_secs(), 23);
}

#[tokio::test(start_paused = true)]
async fn a_question_keeps_its_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let gate = || {
        pipeline(
            r#"digraph { start -> ask; ask [shape=hexagon, timeout=1h, "human.default_choice"=no]
               ask -> yes [label=Yes]; ask -> no [label=No]; yes -> exit; no -> exit
               yes [shape=diamond]; no [shape=diamond] }"#,
        )
    };
    let clock = support::clock();
    let at = |clock: &support::TestClock| Engine::builder().clock(clock.clone()).build().unwrap();
    let run = at(&clock).start(gate(), ()).run_dir(&folder).await.unwrap();
    until(|| !run.questions().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    paused(run).await;
    tokio::time::sleep(Duration::from_secs(30 * 60)).await;
    let began = tokio::time::Instant::now();
    let run = at(&clock).resume(&folder, gate(), ()).await.unwrap();
    until(|| !run.questions().is_empty()).await;
    let result = run.wait().await.unwrap();
    assert_eq!(result.path, ["start", "ask", "no", "exit"]);
    assert_eq!(began.elapsed().as_secs(), 10 * 60);
}

#[tokio::test]
async fn a_question_that_nobody_could_answer_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let gate = || {
        pipeline(
            "digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship]; ask -> back [label=Back]
             back [shape=diamond]; back -> ask }",
        )
    };
    let nobody = orchestra_engine::CallbackInterviewer::new(|_| async {
        Err::<Answer, _>(orchestra_engine::InterviewError::unavailable("no terminal"))
    });
    let alone = Engine::builder().interviewer(nobody).build().unwrap();
    let result = alone
        .start(gate(), ())
        .run_dir(&folder)
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert_eq!(
        (result.status, result.failure.unwrap().code()),
        (RunStatus::Paused, "waits_for_human")
    );
    let run = engine().resume(&folder, gate(), ()).await.unwrap();
    until(|| !run.questions().is_empty()).await;
    run.answer("ask", Answer::choice("Ship")).unwrap();
    assert_eq!(run.wait().await.unwrap().path, ["start", "ask", "exit"]);
}

const FAN: &str = "start -> fan; fan [shape=component, type=parallel, max_parallel=3]
    fan -> a; fan -> b; fan -> c; a -> a2 -> join; b -> join; c -> join
    join [shape=tripleoctagon, type=\"parallel.fan_in\"]; join -> exit";

#[tokio::test]
async fn branches_that_are_done_are_not_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let log = Log::default();
    let nodes = ["a", "a2", "b", "c"];
    let run = engine()
        .start(acts(FAN), logging(&log, &nodes, &["a2", "c"]))
        .run_dir(&folder)
        .await
        .unwrap();
    until(|| log.keys().len() == 4).await;
    // The end of `b` is durable before `a2` starts, because both are recorded in order.
    paused(run).await;
    let again = Log::default();
    let resumed = engine().resume(&folder, acts(FAN), logging(&again, &nodes, &[]));
    let result = resumed.await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    let mut keys = again.keys();
    keys.sort();
    assert_eq!(keys, ["fan#1:a/a2#1/1", "fan#1:c/c#1/1"]);
    assert_eq!(again.repeats().len(), 2);
    assert_eq!(result.path, ["start", "a", "a2", "b", "c", "fan", "join", "exit"]);
    assert_eq!(result.context.get("parallel.success_count"), Some(&json!(3)));
}

#[tokio::test]
async fn a_restarted_run_goes_on_in_its_last_life() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let graph = "start -> a -> b; b -> exit [condition=\"context.life=2\"]; b -> a [loop_restart=true]
        graph [restart_keep=life]";
    let log = Log::default();
    let stages = |stuck: bool| {
        let log = log.clone();
        let life = |stage: StageContext| {
            let life = stage.context().get("life").and_then(Value::as_u64).unwrap_or(0);
            std::future::ready(Outcome::success().set("life", life + 1))
        };
        Acts::new().on("a", life).on("b", move |stage| {
            log.note(&stage);
            stage.stage_dir().unwrap();
            let waits = stuck && stage.attempt_key().starts_with("restart-1");
            async move {
                if waits {
                    std::future::pending::<()>().await;
                }
                Outcome::success()
            }
        })
    };
    let run = engine()
        .start(acts(graph), stages(true))
        .run_dir(&folder)
        .await
        .unwrap();
    until(|| log.keys().len() == 2).await;
    paused(run).await;
    let run = engine()
        .resume(&folder, acts(graph), stages(false))
        .await
        .unwrap();
    let result = run.wait().await.unwrap();
    assert_eq!(
        (result.restarts, result.path.join(" ")),
        (1, "a b exit".to_owned())
    );
    assert_eq!(log.keys(), ["b#1/1", "restart-1/b#1/1", "restart-1/b#1/1"]);
    assert!(folder.join("restart-1/b/status.json").is_file());
}

#[tokio::test]
async fn what_a_run_used_survives_and_its_budget_stops_it_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let spend = |stage: StageContext| {
        stage.record_usage(Usage {
            input_tokens: 400,
            output_tokens: 100,
            cost_micros: 10,
        });
        std::future::ready(Outcome::success())
    };
    let stages = || Acts::new().on("a", spend).on("b", spend).on("c", spend);
    let budget = |tokens| Budget {
        max_tokens: Some(tokens),
        ..Budget::default()
    };
    let run = engine()
        .start(acts(CHAIN), stages())
        .run_dir(&folder)
        .budget(budget(1_000));
    let result = run.await.unwrap().wait().await.unwrap();
    assert_eq!((result.status, result.usage.tokens()), (RunStatus::Paused, 1_000));
    let reported = result.failure.unwrap();
    assert_eq!(
        (reported.code(), reported.to_string().as_str()),
        ("budget", "the run reached its budget: 1000 of 1000 tokens")
    );
    assert_eq!(result.path, ["start", "a", "b"]);
    // With the same budget the run stops at once.
    let run = engine()
        .resume(&folder, acts(CHAIN), stages())
        .budget(budget(1_000))
        .await
        .unwrap();
    assert_eq!(run.wait().await.unwrap().path, ["start", "a", "b"]);
    // Without another budget, the one of the start counts.
    let run = engine().resume(&folder, acts(CHAIN), stages()).await.unwrap();
    assert_eq!(run.wait().await.unwrap().path, ["start", "a", "b"]);
    let run = engine()
        .resume(&folder, acts(CHAIN), stages())
        .budget(budget(9_000))
        .await
        .unwrap();
    let result = run.wait().await.unwrap();
    assert_eq!(
        (
            result.is_success(),
            result.usage.tokens(),
            result.usage.cost_micros
        ),
        (true, 1_500, 30)
    );
}

#[tokio::test]
async fn a_changed_pipeline_is_refused_with_what_differs_and_accepted_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let log = Log::default();
    let run = engine()
        .start(acts(CHAIN), logging(&log, &["a", "b", "c"], &["b"]))
        .run_dir(&folder)
        .await
        .unwrap();
    until(|| log.keys().len() == 2).await;
    paused(run).await;
    let changed = "start -> a -> b -> lint -> c -> exit; graph [goal=better]";
    let resume = |edges: &str| engine().resume(&folder, acts(edges), logging(&log, &["lint", "c"], &[]));
    let StartError::Changed(reported) = resume(changed).await.unwrap_err() else {
        panic!("it is refused")
    };
    let reported = reported.to_string();
    assert!(
        reported.contains("+ node lint") && reported.contains("goal"),
        "{reported}"
    );
    let StartError::IncompatibleState { reason, .. } = resume("start -> a -> c -> exit")
        .accept_changes()
        .await
        .unwrap_err()
    else {
        panic!("the run stands nowhere")
    };
    assert_eq!(reason, "the run stands at `b`, which is gone");
    let result = resume(changed)
        .accept_changes()
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert_eq!(result.path, ["start", "a", "b", "lint", "c", "exit"]);
    assert_eq!(result.context.text("graph.goal"), "better");
    // A run that has ended does not accept another pipeline.
    let error = resume(CHAIN).await.unwrap_err();
    assert_eq!(error.code(), "already_finished");
}

#[tokio::test]
async fn a_run_is_replayed_from_any_checkpoint_and_the_first_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let count = |stage: StageContext| {
        assert!(!stage.is_repeat(), "no attempt was interrupted");
        let before = stage.context().get("count").and_then(Value::as_u64).unwrap_or(0);
        std::fs::write(stage.stage_dir().unwrap().join("note.txt"), stage.attempt_key()).unwrap();
        std::future::ready(Outcome::success().set("count", before + 1))
    };
    // The folder of a stage with a long id has a shorter name.
    let b = "b".repeat(250);
    let graph = &format!("start -> a -> {b}; {b} -> exit [condition=\"context.count=6\"]; {b} -> a");
    let stages = || Acts::new().on("a", count).on(&b, count);
    let run = engine()
        .start(acts(graph), stages())
        .run_dir(&folder)
        .await
        .unwrap();
    let whole = run.wait().await.unwrap();
    let files = |folder: &Path| -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for node in ["a", &*stage_folder_name(&b)] {
            for note in ["note.txt", "visits/1/note.txt", "visits/2/note.txt"] {
                let note = format!("{node}/{note}");
                files.extend(std::fs::read_to_string(folder.join(&note)).map(|text| (note, text)));
            }
        }
        files
    };
    assert_eq!(files(&folder).len(), 6);
    let before = std::fs::read(folder.join("journal.jsonl")).unwrap();
    for number in 0..6 {
        let name = format!("cp_{number:06}");
        let target = dir.path().join(&name);
        let replayed = engine()
            .replay(&folder, &name, acts(graph), stages())
            .run_dir(&target);
        let result = replayed.await.unwrap().wait().await.unwrap();
        assert_eq!(result.path, whole.path, "{name}");
        assert_eq!(result.context, whole.context, "{name}");
        assert_eq!(files(&target), files(&folder), "{name}");
        let names = event_names(&target);
        assert_eq!(
            names.iter().filter(|name| *name == "StageCompleted").count(),
            8,
            "{name}"
        );
        let mut view = RunView::new();
        for event in RunFolder::open(&target).unwrap().events(1).unwrap() {
            view.apply(&serde_json::from_value(event).unwrap());
        }
        let summary = view.summary();
        assert_eq!((summary.stages, summary.repeats), (8, 0), "{name}");
    }
    assert_eq!(std::fs::read(folder.join("journal.jsonl")).unwrap(), before);
    let end = engine().replay(&folder, "cp_000006", acts(graph), stages());
    assert_eq!(
        end.run_dir(dir.path().join("end")).await.unwrap_err().code(),
        "nothing_to_replay"
    );
    let none = engine().replay(&folder, "cp_000099", acts(graph), stages());
    assert_eq!(
        none.run_dir(dir.path().join("none")).await.unwrap_err().code(),
        "store_no_checkpoint"
    );
    let unhandled = engine().replay(&folder, "cp_000001", acts(graph), ());
    assert_eq!(
        unhandled
            .run_dir(dir.path().join("unhandled"))
            .await
            .unwrap_err()
            .code(),
        "refused"
    );
    let simulated = Engine::builder().simulate(Script::new()).build().unwrap();
    let simulated = simulated.replay(&folder, "cp_000001", acts(graph), stages());
    assert_eq!(
        simulated
            .run_dir(dir.path().join("simulated"))
            .await
            .unwrap_err()
            .code(),
        "simulated"
    );
    for name in ["end", "none", "unhandled", "simulated"] {
        assert!(!dir.path().join(name).exists(), "{name}");
    }
}

#[tokio::test]
async fn without_a_journal_a_run_goes_on_from_where_it_was_paused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let light = || Engine::builder().durability(Durability::None).build().unwrap();
    let log = Log::default();
    let run = light()
        .start(acts(CHAIN), logging(&log, &["a", "b", "c"], &["b"]))
        .run_dir(&folder)
        .await
        .unwrap();
    until(|| log.keys().len() == 2).await;
    paused(run).await;
    let again = Log::default();
    let run = light()
        .resume(&folder, acts(CHAIN), logging(&again, &["a", "b", "c"], &[]))
        .await
        .unwrap();
    assert!(run.wait().await.unwrap().is_success());
    assert_eq!(again.keys(), ["b#1/1", "c#1/1"]);
}

#[tokio::test]
async fn a_child_goes_on_with_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let text = r#"digraph { start -> sub -> exit; sub [shape=folder, "subpipeline.file"="child.dot"] }"#;
    let child = "digraph child { node [type=act]; start [shape=Mdiamond, type=start]
        exit [shape=Msquare, type=exit]; start -> a -> b -> c -> exit }";
    let family = || -> Pipeline {
        let read = |_: &str, _: u64| Ok(child.as_bytes().to_vec());
        let options = orchestra_graph::LoadOptions {
            children: Some(&read),
            ..Default::default()
        };
        orchestra_graph::load(orchestra_graph::Source::new("t.dot", text), &options)
            .pipeline()
            .unwrap()
    };
    let log = Log::default();
    let nodes = ["a", "b", "c"];
    let run = engine()
        .start(family(), logging(&log, &nodes, &["b"]))
        .run_dir(&folder)
        .await
        .unwrap();
    until(|| log.keys().len() == 2).await;
    paused(run).await;
    let again = Log::default();
    let run = engine()
        .resume(&folder, family(), logging(&again, &nodes, &[]))
        .await
        .unwrap();
    assert!(run.wait().await.unwrap().is_success());
    assert_eq!(again.keys(), ["b#1/1", "c#1/1"], "the child went on too");
    assert_eq!(again.repeats(), ["b#1/1"]);
}
