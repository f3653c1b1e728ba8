//! Tests of pipelines as stages of other pipelines (Attractor 9.4).
use crate::children_support;
use crate::support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use children_support::{engine, kept_in, lines, with_child};
use orchestra_engine::{
    Answer, AnswerError, AutoApprove, Binding, Engine, EngineBuilder, Outcome, RunResult, RunStatus, Script,
    StartError,
};
use orchestra_graph::{Pipeline, SharedPipeline};
use serde_json::json;
use support::{Acts, acts, files, json as read_json, pipeline, short};

/// Returns a pipeline whose stage `part` runs this child.
fn parent(attributes: &str, child: Pipeline) -> Pipeline {
    let named = format!("\"subpipeline.file\"=\"child.dot\", {attributes}");
    with_child(alone(&named), "part", child)
}

fn alone(attributes: &str) -> Pipeline {
    pipeline(&format!(
        "digraph parent {{ start -> part -> exit; part [shape=folder, {attributes}] }}"
    ))
}

fn child() -> Pipeline {
    acts("start -> build -> exit")
}

async fn start(
    builder: EngineBuilder,
    pipeline: Pipeline,
    acts: Acts,
) -> (RunResult, children_support::Heard) {
    let (engine, heard) = engine(builder);
    let start = engine
        .start(pipeline, acts)
        .run_id("one")
        .param("tag", "v7")
        .param("tries", 3);
    (start.await.unwrap().wait().await.unwrap(), heard)
}

async fn run(pipeline: Pipeline, acts: Acts) -> RunResult {
    start(Engine::builder(), pipeline, acts).await.0
}

/// Returns the log messages of the stage.
fn logs(heard: &children_support::Heard) -> Vec<String> {
    let mut lines = lines(heard, "one", short);
    lines.retain(|line| line.starts_with("StageLog part: "));
    lines
}

#[tokio::test]
async fn inputs_and_outputs_are_mapped_with_their_types_and_nothing_else_passes() {
    let acts = Acts::new().on("build", |stage| async move {
        let context = stage.context();
        assert_eq!(context.get("version"), Some(&json!("v7")));
        assert_eq!(context.get("tries"), Some(&json!(3)));
        assert_eq!(context.get("tag"), None, "it goes by another name here");
        assert_eq!(context.get("secret"), None);
        Outcome::success()
            .set("size", 12)
            .set("list", json!([1, "a"]))
            .set("inner", true)
    });
    let attributes =
        "\"subpipeline.inputs\"=\"version=tag, tries\", \"subpipeline.outputs\"=\"bytes=size, list\"";
    let (engine, _) = engine(Engine::builder());
    let start = engine.start(parent(attributes, child()), acts);
    let start = start.param("tag", "v7").param("tries", 3).param("secret", "mine");
    let result = start.await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.get("bytes"), Some(&json!(12)));
    assert_eq!(result.context.get("list"), Some(&json!([1, "a"])));
    assert_eq!(result.context.get("size"), None);
    assert_eq!(result.context.get("inner"), None);
    let notes = result.outcomes.get("part").unwrap().notes.clone().unwrap();
    assert!(
        notes.starts_with("Pipeline `t` completed: 3 stages in "),
        "{notes}"
    );
    assert!(!notes.contains("missing"), "{notes}");
}

#[tokio::test]
async fn what_is_missing_is_said() {
    let attributes = "\"subpipeline.inputs\"=\"version=tga, tries\", \"subpipeline.outputs\"=\"bytes=size\"";
    let (result, heard) = start(Engine::builder(), parent(attributes, child()), Acts::new()).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let notes = result.outcomes.get("part").unwrap().notes.clone().unwrap();
    assert!(notes.ends_with("; missing outputs: `size`"), "{notes}");
    let logs = logs(&heard);
    assert!(
        logs.contains(&"StageLog part: missing inputs: `tga`".to_owned()),
        "{logs:?}"
    );
}

#[tokio::test]
async fn a_child_that_fails_is_a_failure_that_names_its_stage_and_keeps_its_outputs() {
    let acts = Acts::new().gives("build", [Outcome::fail("no compiler").set("log", "line 3")]);
    let result = run(parent("\"subpipeline.outputs\"=\"log, size\"", child()), acts).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `part` failed: pipeline `t` failed: stage `build` failed: no compiler"
    );
    assert_eq!(result.context.text("log"), "line 3");
}

#[tokio::test]
async fn the_child_is_kept_in_the_folder_of_its_stage() {
    let dir = tempfile::tempdir().unwrap();
    let builder = kept_in(dir.path());
    let (result, heard) = start(builder, parent("label=Part", child()), Acts::new()).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let folder = dir.path().join("one/part/child");
    assert_eq!(read_json(folder.join("manifest.json"))["run"], "one-part-1");
    assert_eq!(
        support::event_lines(&folder).len(),
        lines(&heard, "one-part-1", short).len()
    );
    assert_eq!(
        logs(&heard),
        ["StageLog part: runs pipeline `t` as run one-part-1"]
    );
    let without = tempfile::tempdir().unwrap();
    run(parent("label=Part", child()), Acts::new()).await;
    assert!(files(without.path()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_run_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let tries = Arc::new(AtomicU32::new(0));
    let acts = Acts::new().on("build", move |_| {
        let first = tries.fetch_add(1, Ordering::SeqCst) == 0;
        std::future::ready(if first {
            Outcome::fail("no compiler")
        } else {
            Outcome::success()
        })
    });
    let builder = kept_in(dir.path());
    let (result, _) = start(builder, parent("max_retries=1", child()), acts).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let run = |folder: &str| {
        read_json(dir.path().join("one/part").join(folder).join("manifest.json"))["run"].clone()
    };
    assert_eq!(
        (run("child"), run("child-2")),
        (json!("one-part-1"), json!("one-part-1-2"))
    );
}

#[tokio::test(start_paused = true)]
async fn branches_run_children_of_their_own_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let acts = Acts::new().on("build", |stage| async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Outcome::success().set("built", stage.run_id().to_string())
    });
    let text = "digraph parent { start -> fan; fan [shape=component]; fan -> left -> part; fan -> right -> part
        part [shape=folder, \"subpipeline.file\"=\"child.dot\", \"subpipeline.outputs\"=built]; part -> join; join [shape=tripleoctagon]; join -> exit
        left [type=act]; right [type=act] }";
    let began = tokio::time::Instant::now();
    let builder = kept_in(dir.path());
    let (result, _) = start(builder, with_child(pipeline(text), "part", child()), acts).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    let results = result.context.get("parallel.results").unwrap();
    let built = |at: usize| {
        results[at]["context_updates"]["built"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(built(0).starts_with("one-fan-1-left-part-1"), "{results}");
    assert!(built(1).starts_with("one-fan-1-right-part-1"), "{results}");
    let manifests = files(dir.path())
        .into_iter()
        .filter(|file| file.ends_with("child/manifest.json"));
    assert_eq!(manifests.count(), 2);
}

/// A compiled pipeline and its handlers, as the engine sees them.
struct Compiled(&'static Pipeline);

impl Binding<Acts> for Compiled {
    fn into_pipeline(self) -> SharedPipeline {
        SharedPipeline::Static(self.0)
    }
}

fn compiled(pipeline: Pipeline) -> Compiled {
    Compiled(Box::leak(Box::new(pipeline)))
}

#[tokio::test]
async fn a_registered_pipeline_runs_with_its_own_handlers() {
    let theirs = Acts::new().gives("build", [Outcome::success().set("built_by", "theirs")]);
    let ours = Acts::new().gives("build", [Outcome::fail("the wrong handlers")]);
    let builder = Engine::builder().subpipeline("build it", compiled(child()), theirs);
    let attributes = "\"subpipeline.name\"=\"build it\", \"subpipeline.outputs\"=built_by";
    let (result, _) = start(builder, alone(attributes), ours).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("built_by"), "theirs");
}

#[tokio::test]
async fn a_registered_pipeline_that_runs_itself_without_end_is_stopped() {
    let depth = Arc::new(AtomicU32::new(0));
    let count = depth.clone();
    let acts = Acts::new().on("build", move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Outcome::success())
    });
    let itself = pipeline(
        "digraph itself { start -> build -> again -> exit; build [type=act]
            again [shape=folder, \"subpipeline.name\"=itself] }",
    );
    let builder = Engine::builder().subpipeline("itself", compiled(itself), acts);
    let (result, _) = start(builder, alone("\"subpipeline.name\"=itself"), Acts::new()).await;
    let failure = result.failure.unwrap().to_string();
    assert!(
        failure.ends_with(
            "pipeline `itself` would run within 16 others, and no more are allowed; does it run itself?"
        ),
        "{failure}"
    );
    assert_eq!(depth.load(Ordering::SeqCst), 16);
}

#[tokio::test]
async fn a_recursion_that_ends_is_allowed() {
    let acts = Acts::new().on("count", |stage| {
        let left = stage
            .context()
            .get("left")
            .and_then(|left| left.as_u64())
            .unwrap_or(0);
        std::future::ready(
            Outcome::success()
                .set("left", left.saturating_sub(1))
                .set("sum", left),
        )
    });
    let itself = pipeline(
        "digraph itself { start -> count; count [type=act]; count -> exit [condition=\"context.left=0\"]
            count -> again [condition=\"context.left!=0\"]; again -> exit
            again [shape=folder, \"subpipeline.name\"=itself, \"subpipeline.inputs\"=left, \"subpipeline.outputs\"=sum] }",
    );
    let builder = Engine::builder().subpipeline("itself", compiled(itself), acts);
    let attributes =
        "\"subpipeline.name\"=itself, \"subpipeline.inputs\"=\"left=tries\", \"subpipeline.outputs\"=sum";
    let (result, _) = start(builder, alone(attributes), Acts::new()).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.get("sum"), Some(&json!(1)));
}

async fn refused(builder: EngineBuilder, pipeline: Pipeline) -> String {
    let engine = builder.build().unwrap();
    match engine.start(pipeline, Acts::new()).await.unwrap_err() {
        StartError::Refused(refusals) => {
            assert_eq!(refusals.list.len(), 1, "{refusals}");
            let refusal = &refusals.list[0];
            format!("{}: {}", refusal.code, refusal.message)
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_at_the_start() {
    let known = || Engine::builder().subpipeline("lint", compiled(child()), Acts::new());
    let reported = refused(known(), alone("\"subpipeline.name\"=lnit")).await;
    assert!(
        reported.starts_with("missing_child: node `part` runs the pipeline `lnit`"),
        "{reported}"
    );
    assert!(reported.ends_with("; did you mean `lint`?"), "{reported}");
    let reported = refused(known(), alone("\"subpipeline.file\"=\"lint.dot\"")).await;
    let expected =
        "missing_child: node `part` runs the pipeline `lint.dot` (`subpipeline.file`), which was not loaded";
    assert!(reported.starts_with(expected), "{reported}");
    // Unmet requirements of the child are reported before the parent starts.
    let poor = pipeline("digraph poor { start -> ship -> exit; ship [type=deploy] }");
    let reported = refused(Engine::builder(), parent("label=Part", poor)).await;
    assert!(reported.starts_with("missing_handler: node `ship`"), "{reported}");
}

/// Returns a stage that never ends, the number of times that it was dropped, and a notification of its start.
fn endless() -> (Acts, Arc<AtomicU32>, Arc<tokio::sync::Notify>) {
    struct Dropped(Arc<AtomicU32>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (drops, begun) = (Arc::new(AtomicU32::new(0)), Arc::new(tokio::sync::Notify::new()));
    let (count, begins) = (drops.clone(), begun.clone());
    let acts = Acts::new().on("build", move |_| {
        let held = Dropped(count.clone());
        begins.notify_one();
        async move {
            let _held = held;
            std::future::pending().await
        }
    });
    (acts, drops, begun)
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_the_stage_ends_the_child() {
    let (acts, drops, _) = endless();
    let began = tokio::time::Instant::now();
    let result = run(parent("timeout=90s", child()), acts).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `part` failed: timed out after 90s"
    );
    assert_eq!(
        (began.elapsed(), drops.load(Ordering::SeqCst)),
        (Duration::from_secs(90), 1)
    );
}

#[tokio::test]
async fn a_cancelled_parent_ends_its_child_first() {
    let (acts, drops, begun) = endless();
    let (engine, heard) = engine(Engine::builder());
    let run = engine
        .start(parent("label=Part", child()), acts)
        .run_id("one")
        .await
        .unwrap();
    begun.notified().await;
    run.cancel("enough");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Cancelled);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    let all: Vec<String> = heard
        .lock()
        .unwrap()
        .iter()
        .map(|event| format!("{} {}", event.run, short(event)))
        .collect();
    let [.., child, parent] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(
        (child.as_str(), parent.as_str()),
        ("one-part-1 PipelineCancelled", "one PipelineCancelled")
    );
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_is_not_needed_any_more_ends_its_child() {
    let (acts, drops, _) = endless();
    let acts = acts.on("quick", |_| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Outcome::success()
    });
    let text = "digraph parent { start -> fan; fan [shape=component, join_policy=first_success]
        fan -> part -> join; part [shape=folder, \"subpipeline.file\"=\"child.dot\"]; fan -> quick -> join; quick [type=act]
        join [shape=tripleoctagon]; join -> exit }";
    let began = tokio::time::Instant::now();
    let (result, heard) = start(
        Engine::builder(),
        with_child(pipeline(text), "part", child()),
        acts,
    )
    .await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("parallel.fan_in.best_id"), "quick");
    assert_eq!(result.context.text("parallel.branch.part.status"), "cancelled");
    assert_eq!(
        (began.elapsed(), drops.load(Ordering::SeqCst)),
        (Duration::from_secs(5), 1)
    );
    let reported = lines(&heard, "one-fan-1-part-part-1", short);
    assert_eq!(reported.last().map(String::as_str), Some("PipelineCancelled"));
}

const GATE: &str =
    "digraph gate { start -> approve; approve [shape=hexagon]; approve -> exit [label=\"[Y] Yes\"]
    approve -> build [label=\"[N] No\"]; build [type=act]; build -> exit }";

#[tokio::test]
async fn a_gate_within_a_child_is_asked_by_the_same_engine() {
    let builder = Engine::builder().interviewer(AutoApprove);
    let (result, _) = start(
        builder,
        parent(
            "\"subpipeline.outputs\"=\"answer=human.gate.label\"",
            pipeline(GATE),
        ),
        Acts::new(),
    )
    .await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("answer"), "[Y] Yes");
}

#[tokio::test]
async fn a_gate_within_a_childs_child_is_answered_through_the_handle_of_the_parent() {
    let middle = parent(
        "\"subpipeline.outputs\"=\"label=human.gate.label\"",
        pipeline(GATE),
    );
    let outer = parent("\"subpipeline.outputs\"=\"label\"", middle);
    let (engine, heard) = engine(Engine::builder());
    let run = engine.start(outer, Acts::new()).await.unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(run.questions()[0].node, "approve");
    let unknown = run.answer("aprove", Answer::choice("Y")).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "no question of `aprove` is open; open are those of approve"
    );
    let refused = run
        .canceller()
        .answer("approve", Answer::choice("Maybe"))
        .unwrap_err();
    assert!(matches!(refused, AnswerError::Refused(_)), "{refused}");
    run.answer("approve", Answer::choice("Y")).unwrap();
    assert!(
        run.answer("approve", Answer::choice("N")).is_err(),
        "it was answered"
    );
    let result = run.wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("label"), "[Y] Yes");
    assert_eq!(
        heard.lock().unwrap().last().unwrap().kind.name(),
        "PipelineCompleted"
    );
}

#[tokio::test]
async fn a_gate_that_nobody_answers_pauses_the_whole_run_and_is_named() {
    struct Nobody;
    impl orchestra_engine::Interviewer for Nobody {
        async fn ask(
            &self,
            _: orchestra_engine::Question,
        ) -> Result<Answer, orchestra_engine::InterviewError> {
            Err(orchestra_engine::InterviewError::unavailable("nobody is there"))
        }
    }
    for (shape, file) in [
        ("folder", "\"subpipeline.file\"=\"child.dot\""),
        ("house", "\"stack.child_dotfile\"=\"child.dot\""),
    ] {
        let text = format!(
            "digraph parent {{ start -> part -> exit; part [shape={shape}, {file}, max_retries=3]
            part -> exit [condition=\"outcome=fail\"] }}"
        );
        let parent = with_child(pipeline(&text), "part", pipeline(GATE));
        let (result, _) = start(Engine::builder().interviewer(Nobody), parent, Acts::new()).await;
        assert_eq!(result.status, RunStatus::Paused, "{shape}");
        let failure = result.failure.unwrap();
        assert_eq!(failure.node(), Some("part"));
        assert_eq!(
            failure.to_string(),
            "the gate `part` waits for a person: in run one-part-1, the gate `approve` waits for a person: nobody is there"
        );
    }
}

#[tokio::test]
async fn a_simulated_stage_runs_its_child_simulated_unless_it_is_scripted_itself() {
    let seen = Arc::new(Mutex::new(0));
    let count = seen.clone();
    let acts = move || {
        let count = count.clone();
        Acts::new().on("build", move |_| {
            *count.lock().unwrap() += 1;
            std::future::ready(Outcome::success())
        })
    };
    let script = Script::new().outcomes("build", [Outcome::success().set("size", 7)]);
    let attributes = "\"subpipeline.outputs\"=size";
    let (result, _) = start(
        Engine::builder().simulate(script),
        parent(attributes, child()),
        acts(),
    )
    .await;
    assert_eq!(result.context.get("size"), Some(&json!(7)));
    let script = Script::new().outcomes("part", [Outcome::success().set("size", 8)]);
    let (result, heard) = start(
        Engine::builder().simulate(script),
        parent(attributes, child()),
        acts(),
    )
    .await;
    assert_eq!(result.context.get("size"), Some(&json!(8)));
    assert!(lines(&heard, "one-part-1", short).is_empty());
    let script = || Script::new().outcomes("start", [""; 0]);
    let (result, _) = start(
        Engine::builder().simulate(script()),
        alone("\"subpipeline.name\"=elsewhere"),
        acts(),
    )
    .await;
    assert!(
        result.is_success(),
        "without its pipeline it is simulated like any other stage"
    );
    assert_eq!(*seen.lock().unwrap(), 0, "nothing was executed");
}

#[tokio::test]
async fn a_stage_that_is_merely_dropped_ends_its_child_too() {
    // A simulated stage is not cancelled by its token: its future is dropped.
    let (engine, heard) = engine(Engine::builder().simulate(Script::new()));
    let start = engine.start(parent("label=Part", pipeline(GATE)), Acts::new());
    let run = start.run_id("one").await.unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    run.cancel("enough");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Cancelled);
    let ended = async {
        while lines(&heard, "one-part-1", short).last().map(String::as_str) != Some("PipelineCancelled") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended)
        .await
        .unwrap();
}
