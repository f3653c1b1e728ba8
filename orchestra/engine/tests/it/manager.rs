//! Tests of manager loops with real child runs (Attractor 4.11).
use crate::children_support;
use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use children_support::{engine, kept_in, lines, with_child};
use orchestra_engine::{Engine, Outcome, RunFolder, RunResult, RunStatus, Script, StartError, Status};
use orchestra_graph::Pipeline;
use serde_json::json;
use support::{Acts, FileCall, HookedFiles, acts, json as read_json, pipeline, short};
use tokio::sync::Notify;

/// Returns a pipeline whose stage `watch` supervises this child.
pub(crate) fn supervised(attributes: &str, child: Pipeline) -> Pipeline {
    let text = format!(
        "digraph parent {{ stack.child_dotfile=\"child.dot\"; start -> watch -> exit; watch [shape=house, {attributes}]
            watch -> rescue [condition=\"outcome=fail && preferred_label=Escalate\"]; rescue [type=act]; rescue -> exit }}"
    );
    with_child(pipeline(&text), "watch", child)
}

/// Returns a child that builds for some seconds.
pub(crate) fn builds_for(seconds: u64) -> Acts {
    Acts::new().on("build", move |_| async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Outcome::success()
    })
}

/// Returns a stage that never ends, the number of times that it was dropped, and a notification of its start.
fn endless(node: &str) -> (Acts, Arc<AtomicU32>, Arc<Notify>) {
    struct Dropped(Arc<AtomicU32>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (drops, begun) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let (count, begins) = (drops.clone(), begun.clone());
    let acts = Acts::new().on(node, move |_| {
        let held = Dropped(count.clone());
        begins.notify_one();
        async move {
            let _held = held;
            std::future::pending().await
        }
    });
    (acts, drops, begun)
}

pub(crate) fn child() -> Pipeline {
    acts("start -> build -> exit")
}

pub(crate) async fn run(pipeline: Pipeline, acts: Acts) -> RunResult {
    let (engine, _) = engine(Engine::builder());
    engine
        .start(pipeline, acts)
        .run_id("one")
        .await
        .unwrap()
        .wait()
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_child_is_a_real_run_with_a_folder_and_events_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, heard) = engine(kept_in(dir.path()));
    let start = engine.start(supervised("label=Watch", child()), builds_for(3));
    let result = start.run_id("one").await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    let folder = dir.path().join("one/watch/child");
    assert_eq!(read_json(folder.join("manifest.json"))["run"], "one-watch-1");
    assert_eq!(read_json(folder.join("checkpoint.json"))["status"], "success");
    let events = support::event_lines(&folder);
    assert!(
        events.iter().all(|event| event["run"] == "one-watch-1"),
        "{events:?}"
    );
    assert_eq!(events.last().unwrap()["event"], "PipelineCompleted");
    let own = support::event_lines(&dir.path().join("one"));
    assert!(own.iter().all(|event| event["run"] == "one"));
    // A listener of the engine gets the events of both runs, each with its run id.
    assert_eq!(lines(&heard, "one-watch-1", short).len(), events.len());
    assert!(lines(&heard, "one", short).contains(&"StageLog watch: supervises run one-watch-1".to_owned()));
    let runs: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(runs.len(), 1, "a child is no run beside the others");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_the_child_is_in_the_context() {
    let acts = Acts::new().on("build", |stage| {
        let first = stage.attempt() == 1;
        std::future::ready(if first {
            Outcome::fail("no compiler")
        } else {
            Outcome::success()
        })
    });
    let graph = "start -> build -> exit\n build [max_retries=1, retry_initial_delay=5s, retry_jitter=false]";
    let result = run(supervised("label=Watch", support::acts(graph)), acts).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let value = |name: &str| {
        result
            .context
            .get(&format!("stack.child.{name}"))
            .cloned()
            .unwrap()
    };
    assert_eq!(value("status"), json!("completed"));
    assert_eq!(value("outcome"), json!("success"));
    assert_eq!(value("failures"), json!(1));
    assert_eq!(value("retries"), json!(1));
    assert_eq!(value("completed_stages"), json!(3));
    assert_eq!(value("last_failure"), json!("build: no compiler"));
    assert_eq!(value("active_stage"), json!(""));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_child_is_heard_at_once_and_not_at_the_next_look() {
    let began = tokio::time::Instant::now();
    let result = run(
        supervised("\"manager.poll_interval\"=45s", child()),
        builds_for(50),
    )
    .await;
    assert!(result.is_success());
    assert_eq!(began.elapsed(), Duration::from_secs(50));
    assert_eq!(result.context.get("stack.child.elapsed_ms"), Some(&json!(50_000)));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_fails_is_a_failure_that_names_its_stage() {
    let result = run(
        supervised("label=Watch", child()),
        Acts::new().fails("build", "no compiler"),
    )
    .await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `watch` failed: the child failed: stage `build` failed: no compiler"
    );
    assert_eq!(result.context.text("stack.child.status"), "failed");
}

#[tokio::test(start_paused = true)]
async fn the_stop_condition_is_looked_at_every_interval_and_ends_the_child() {
    let (acts, drops, _) = endless("build");
    let began = tokio::time::Instant::now();
    let attributes = "\"manager.poll_interval\"=10s, \
        \"manager.stop_condition\"=\"stack.child.elapsed_ms >= 25000 && stack.child.active_stage=build\"";
    let result = run(supervised(attributes, child()), acts).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(began.elapsed(), Duration::from_secs(30));
    assert_eq!(drops.load(Ordering::SeqCst), 1, "nothing of the child is left");
    assert_eq!(result.context.text("stack.child.status"), "cancelled");
    assert_eq!(result.context.text("stack.child.active_stage"), "build");
}

#[tokio::test(start_paused = true)]
async fn an_escalation_takes_its_edge() {
    let acts = Acts::new().on("build", |stage| async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Outcome::fail(format!("try {}", stage.visit()))
    });
    let child = support::acts("start -> build -> exit\n build [retry_target=build]");
    let attributes = "\"manager.poll_interval\"=1s, \"manager.guard.escalate\"=\"stack.child.failures > 2\"";
    let result = run(supervised(attributes, child), acts).await;
    assert_eq!(result.path, ["start", "watch", "rescue", "exit"]);
    let notes = result.outcomes.get("watch").unwrap().notes.clone();
    assert_eq!(notes.as_deref(), Some("escalated: stack.child.failures > 2"));
    assert_eq!(result.context.text("stack.child.last_failure"), "build: try 3");
}

#[tokio::test(start_paused = true)]
async fn the_last_look_fails_and_ends_the_child() {
    let (acts, drops, _) = endless("build");
    let began = tokio::time::Instant::now();
    let attributes = "\"manager.poll_interval\"=10s, \"manager.max_cycles\"=4";
    let result = run(supervised(attributes, child()), acts).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `watch` failed: exceeded manager.max_cycles: after 4 looks the child is still running at `build`"
    );
    assert_eq!(
        (began.elapsed(), drops.load(Ordering::SeqCst)),
        (Duration::from_secs(30), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_the_stage_ends_the_child() {
    let (acts, drops, _) = endless("build");
    let began = tokio::time::Instant::now();
    let result = run(supervised("timeout=90s", child()), acts).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `watch` failed: timed out after 90s"
    );
    assert_eq!(
        (began.elapsed(), drops.load(Ordering::SeqCst)),
        (Duration::from_secs(90), 1)
    );
}

#[tokio::test]
async fn a_cancelled_parent_ends_its_child_and_the_childs_child() {
    let (acts, drops, begun) = endless("build");
    let text =
        "digraph middle { stack.child_dotfile=\"child.dot\"; start -> lead -> exit; lead [shape=house] }";
    let middle = with_child(pipeline(text), "lead", child());
    let (engine, heard) = engine(Engine::builder());
    let run = engine
        .start(supervised("label=Watch", middle), acts)
        .run_id("one")
        .await
        .unwrap();
    begun.notified().await;
    run.cancel("enough");
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Cancelled);
    assert_eq!(
        drops.load(Ordering::SeqCst),
        1,
        "it has ended before its parent did"
    );
    for run in ["one", "one-watch-1", "one-watch-1-lead-1"] {
        let reported = lines(&heard, run, short);
        assert_eq!(
            reported.last().map(String::as_str),
            Some("PipelineCancelled"),
            "{run}"
        );
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_cancelled_parent_leaves_no_process_of_its_childs_tools() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("pid");
    let tool = format!(
        "digraph tools {{ start -> slow -> exit; slow [shape=parallelogram, tool_command=\"echo $$ > {}; sleep 600\"] }}",
        mark.display()
    );
    let engine = Engine::builder().build().unwrap();
    let parent = supervised("label=Watch", pipeline(&tool));
    let run = engine.start(parent, Acts::new()).await.unwrap();
    let pid = loop {
        match std::fs::read_to_string(&mark) {
            Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert!(std::path::Path::new("/proc").join(&pid).exists());
    run.cancel("enough");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Cancelled);
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(
        state.is_empty() || state.contains(") Z "),
        "it still runs: {state}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_visit_has_a_child_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, heard) = engine(kept_in(dir.path()));
    let text = "digraph parent { stack.child_dotfile=\"child.dot\"; start -> watch; watch [shape=house]; watch -> again; again [type=act]
        again -> watch [condition=\"context.more=true\"]; again -> exit [condition=\"context.more=false\"] }";
    let acts = builds_for(3).gives(
        "again",
        [
            Outcome::success().set("more", true),
            Outcome::success().set("more", false),
        ],
    );
    let parent = with_child(pipeline(text), "watch", child());
    let result = engine
        .start(parent, acts)
        .run_id("one")
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    let manifest = |folder: &str| read_json(dir.path().join("one/watch").join(folder).join("manifest.json"));
    assert_eq!(manifest("visits/1/child")["run"], "one-watch-1");
    assert_eq!(manifest("child")["run"], "one-watch-2");
    assert_ne!(manifest("child")["seed"], manifest("visits/1/child")["seed"]);
    assert!(!lines(&heard, "one-watch-2", short).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_seed_of_a_child_follows_from_that_of_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let seed = |name: &'static str, seed: u64| {
        let (engine, _) = engine(kept_in(dir.path()));
        let manifest = dir.path().join(name).join("watch/child/manifest.json");
        async move {
            let start = engine.start(supervised("label=Watch", child()), Acts::new());
            start.run_id(name).seed(seed).await.unwrap().wait().await.unwrap();
            read_json(manifest)["seed"].clone()
        }
    };
    let first = seed("one", 7).await;
    assert_eq!(first, seed("two", 7).await);
    assert_ne!(first, seed("three", 8).await);
}

#[tokio::test(start_paused = true)]
async fn a_child_sees_the_values_of_stages_but_keeps_its_changes() {
    let acts = Acts::new().on("build", |stage| async move {
        let context = stage.context();
        assert_eq!(context.text("pr"), "42");
        assert_eq!(
            context.text("graph.goal"),
            "",
            "the goal of the parent is not the child's"
        );
        assert_eq!(context.text("last_stage"), "start");
        Outcome::success().set("pr", "43")
    });
    let (engine, _) = engine(Engine::builder());
    let text = "digraph parent { goal=ship; stack.child_dotfile=\"child.dot\"; start -> watch -> exit; watch [shape=house] }";
    let parent = with_child(pipeline(text), "watch", child());
    let start = engine.start(parent, acts).param("pr", "42");
    let result = start.await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("pr"), "42");
}

#[cfg(unix)]
#[tokio::test]
async fn a_childs_tools_run_in_its_working_folder() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("sub/deep")).unwrap();
    let tool = "digraph tools { start -> where -> exit
        where [shape=parallelogram, tool_command=\"pwd > here.txt\"] }";
    for (attribute, expected) in [
        ("\"stack.child_workdir\"=sub", "sub"),
        ("\"stack.child_workdir\"=\"sub/deep\"", "sub/deep"),
        ("label=Watch", ""),
    ] {
        let engine = Engine::builder().working_dir(dir.path()).build().unwrap();
        let run = engine
            .start(supervised(attribute, pipeline(tool)), Acts::new())
            .await
            .unwrap();
        let result = run.wait().await.unwrap();
        assert!(result.is_success(), "{:?}", result.failure);
        let here = dir.path().join(expected).join("here.txt");
        assert!(here.is_file(), "{attribute}");
        std::fs::remove_file(here).unwrap();
    }
}

fn codes(error: StartError) -> Vec<&'static str> {
    match error {
        StartError::Refused(refusals) => refusals.list.iter().map(|refusal| refusal.code).collect(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn what_cannot_be_supervised_is_refused_at_the_start() {
    let refused = |parent: Pipeline| async move {
        let engine = Engine::builder().build().unwrap();
        engine.start(parent, Acts::new()).await.unwrap_err()
    };
    let alone = pipeline(
        "digraph { stack.child_dotfile=\"child.dot\"; start -> watch -> exit; watch [shape=house] }",
    );
    let error = refused(alone).await;
    assert!(
        error
            .to_string()
            .contains("`child.dot` (`stack.child_dotfile`), which was not loaded with its parent"),
        "{error}"
    );
    assert_eq!(codes(error), ["missing_child"]);
    let manual = supervised("\"stack.child_autostart\"=false", child());
    assert_eq!(codes(refused(manual).await), ["not_provided"]);
    let unknown = supervised("\"manager.actions\"=\"observe,wiat\"", child());
    let error = refused(unknown).await;
    assert!(error.to_string().contains("did you mean `wait`?"), "{error}");
    assert_eq!(codes(error), ["attribute_value"]);
    // Unmet requirements of the child are reported before the parent starts.
    let poor = pipeline(
        "digraph poor { start -> write -> build -> exit; write [prompt=Poem]; build [type=deploy] }",
    );
    assert_eq!(
        codes(refused(supervised("label=Watch", poor)).await),
        ["no_backend", "missing_handler"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_simulated_manager_runs_its_child_simulated_unless_it_is_scripted_itself() {
    let simulated = |script: Script, parent: Pipeline| async move {
        let (engine, heard) = engine(Engine::builder().simulate(script));
        let run = engine.start(parent, Acts::new()).run_id("one").await.unwrap();
        (run.wait().await.unwrap(), heard)
    };
    let script = Script::new().outcomes("build", [Outcome::fail("no compiler")]);
    let (result, heard) = simulated(script, supervised("label=Watch", child())).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `watch` failed: the child failed: stage `build` failed: no compiler"
    );
    assert!(!lines(&heard, "one-watch-1", short).is_empty());
    let script = Script::new().outcomes("watch", [Outcome::success().notes("scripted")]);
    let (result, heard) = simulated(script, supervised("label=Watch", child())).await;
    assert_eq!(
        result.outcomes.get("watch").unwrap().notes.as_deref(),
        Some("scripted")
    );
    assert!(lines(&heard, "one-watch-1", short).is_empty());
    let alone = pipeline(
        "digraph { stack.child_dotfile=\"child.dot\"; start -> watch -> exit; watch [shape=house] }",
    );
    let (result, _) = simulated(Script::new(), alone).await;
    assert!(result.is_success());
    let manual =
        pipeline("digraph { start -> watch -> exit; watch [shape=house, \"stack.child_autostart\"=false] }");
    let (result, _) = simulated(Script::new(), manual).await;
    assert!(result.is_success());
    let script = Script::new().outcomes("biuld", [Outcome::success()]);
    let (engine, _) = engine(Engine::builder().simulate(script));
    let error = engine
        .start(supervised("label=Watch", child()), Acts::new())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("did you mean `build`?"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn pipelines_run_within_sixteen_others_and_no_deeper() {
    let nested = |levels: u32| {
        let mut pipeline = child();
        for _ in 0..levels {
            pipeline = with_child(
                support::pipeline(
                    "digraph level { stack.child_dotfile=\"child.dot\"; start -> watch -> exit; watch [shape=house] }",
                ),
                "watch",
                pipeline,
            );
        }
        pipeline
    };
    let result = run(nested(16), Acts::new()).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let failure = run(nested(17), Acts::new()).await.failure.unwrap().to_string();
    assert!(
        failure.contains("would run within 16 others, and no more are allowed"),
        "{failure}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_goes_on_when_the_run_around_it_could_not_be_kept() {
    let dir = tempfile::tempdir().unwrap();
    let run_dir = dir.path().join("run");
    let graph = || {
        let parent = pipeline(
            "digraph parent {
                start -> first -> fan; fan -> boss -> join; fan -> quick -> other -> join; join -> exit
                fan [shape=component]; join [shape=tripleoctagon]
                first [type=act]; quick [type=act]; other [type=act]
                boss [shape=house, \"stack.child_dotfile\"=\"child.dot\", \"manager.poll_interval\"=\"30s\"]
            }",
        );
        with_child(parent, "boss", child())
    };
    // While the child is at work, one write of a record of the other branch fails.
    let begun = Arc::new(Notify::new());
    let full = Arc::new(AtomicBool::new(false));
    let (disk, journal) = (full.clone(), run_dir.join("journal.jsonl"));
    let files = HookedFiles::new(move |call| match call {
        FileCall::Writes(path) if path == journal && disk.swap(false, Ordering::SeqCst) => {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        _ => Ok(()),
    });
    let (begins, waits) = (begun.clone(), begun.clone());
    let acts_of_first = Acts::new()
        .on("build", move |_| {
            begins.notify_one();
            std::future::pending()
        })
        .on("other", move |_| {
            let (begun, full) = (waits.clone(), full.clone());
            async move {
                begun.notified().await;
                full.store(true, Ordering::SeqCst);
                Outcome::success()
            }
        });
    let engine = Engine::builder().files(files).build().unwrap();
    let run = engine.start(graph(), acts_of_first).run_dir(&run_dir);
    assert_eq!(run.await.unwrap().wait().await.unwrap_err().code(), "store_io");
    let child = RunFolder::open(run_dir.join("boss/child")).unwrap();
    while child.owner().unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let engine = Engine::builder().build().unwrap();
    let run = engine.resume(&run_dir, graph(), Acts::new());
    let result = run.await.unwrap().wait().await.unwrap();
    let boss = result.outcomes.get("boss").unwrap();
    assert_eq!(boss.status, Status::Success, "{boss:?}");
}
