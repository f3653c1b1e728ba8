//! Attractor 11.6: the handlers of the nodes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra::StartError;
use orchestra::engine::{BackendError, CallbackInterviewer, CodergenReply, CodergenRequest, EventKind};
use orchestra::prelude::*;
use orchestra_attractor_tests::{Model, listening, pipeline, run};
use tokio::sync::{Barrier, Semaphore};

#[tokio::test]
async fn start_succeeds_at_once_and_does_nothing() {
    let model = Model::new();
    let ran = run(
        r#"digraph { start [prompt="Do something"]; start -> exit }"#,
        &model,
    )
    .await;
    assert_eq!(ran.outcome("start"), "success");
    assert_eq!(model.called(), [""; 0], "there is nothing to do");
    assert_eq!(ran.result.context.get("last_response"), None);
}

#[tokio::test]
async fn exit_succeeds_at_once_and_the_engine_checks_the_gates_before() {
    let model = Model::new().fails("test", "red");
    let text = r#"digraph { exit [prompt="Do something"]; start -> test -> exit
        test [goal_gate=GATE, on_failure=route] }"#;
    let open = run(&text.replace("GATE", "false"), &model).await;
    assert_eq!(
        (open.outcome("exit"), open.path().as_str()),
        ("success", "start test exit")
    );
    assert_eq!(model.called(), ["test"], "the exit asks no model");
    let barred = run(&text.replace("GATE", "true"), &model).await;
    assert_eq!(barred.failure_code(), "goal_gate");
    assert!(!barred.reported().contains(&"StageStarted exit".to_owned()));
}

#[tokio::test]
async fn codergen_expands_the_goal_calls_the_backend_and_writes_prompt_and_response() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"digraph { goal="a poem"; start -> plan -> write -> exit
        plan [prompt="Plan $goal.\nThen write $goal."]; write [label="Write it"] }"#;
    let model = Model::new().gives("plan", ["Three verses."]);
    let (engine, heard) = listening(Engine::builder().backend(model.clone()));
    let folder = dir.path().join("run");
    let ran = heard.end(engine.start(pipeline(text), ()).run_dir(&folder)).await;
    ran.succeeds_by("start plan write exit");
    let prompts: Vec<String> = model.calls().into_iter().map(|call| call.prompt).collect();
    assert_eq!(prompts, ["Plan a poem.\nThen write a poem.", "Write it"]);
    let written = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    assert_eq!(written("plan/prompt.md"), prompts[0]);
    assert_eq!(written("plan/response.md"), "Three verses.");
    assert_eq!(written("write/response.md"), "done");
    assert_eq!(model.calls()[1].context.text("last_response"), "Three verses.");
}

#[tokio::test]
async fn wait_human_offers_the_labels_of_its_edges_and_prefers_the_selected_one() {
    let text = r#"digraph { start -> ask; ask [shape=hexagon, label="Ship it?"]
        ask -> ship [label="[Y] Yes, ship"]; ask -> mend [label="N) No"]; ask -> later; later -> ask
        ship -> exit; mend -> exit }"#;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let questions = asked.clone();
    let interviewer = CallbackInterviewer::new(move |question| {
        questions.lock().unwrap().push(question);
        async { Ok(Answer::choice("n")) }
    });
    let (engine, heard) = listening(Engine::builder().backend(Model::new()).interviewer(interviewer));
    let ran = heard.end(engine.start(pipeline(text), ())).await;
    ran.succeeds_by("start ask mend exit");

    let asked = asked.lock().unwrap();
    assert_eq!(
        (asked.len(), asked[0].text.as_str(), asked[0].node.as_str()),
        (1, "Ship it?", "ask")
    );
    let offered: Vec<String> = asked[0].options.iter().map(ToString::to_string).collect();
    assert_eq!(offered, ["[Y] Yes, ship", "[N] No", "[L] later"]);
    let completed = ran.events.iter().find_map(|event| match &event.kind {
        EventKind::StageCompleted {
            stage,
            outcome,
            preferred_label,
            ..
        } if stage.node == "ask" => Some((outcome.word(), preferred_label.as_deref())),
        _ => None,
    });
    assert_eq!(completed, Some(("success", Some("N) No"))));
    assert_eq!(ran.way_from("ask"), ("mend".to_owned(), "choice"));
    assert_eq!(ran.result.context.text("human.gate.selected"), "N");
    assert_eq!(ran.result.context.text("human.gate.label"), "N) No");
}

#[tokio::test]
async fn conditional_passes_through_and_the_engine_tests_its_edges() {
    // Rule R4: the edges see the outcome of the stage before; a diamond has none of its own.
    let text = r#"digraph { start -> test -> check; check [shape=diamond]
        check -> slow [condition="outcome=success && context.size=large"]
        check -> mend [condition="outcome=fail && failure_reason=red"]
        check -> exit; slow -> exit; mend -> exit }"#;
    let cases = [
        (
            Outcome::success().set("size", "large"),
            "start test check slow exit",
            "condition",
        ),
        (
            Outcome::success().set("size", "small"),
            "start test check exit",
            "only_edge",
        ),
        (Outcome::fail("red"), "start test check mend exit", "condition"),
    ];
    for (outcome, path, rule) in cases {
        let word = outcome.status.word().to_owned();
        let model = Model::new().gives("test", [outcome]);
        let ran = run(text, &model).await;
        ran.succeeds_by(path);
        assert_eq!(ran.way_from("check").1, rule);
        assert_eq!((ran.outcome("check"), ran.outcome("test")), ("", word.as_str()));
        assert_eq!(model.count("check"), 0);
    }
}

/// A model whose stages wait until all of them run.
struct Together(Barrier);

impl CodergenBackend for Together {
    async fn run(&self, _: CodergenRequest) -> Result<CodergenReply, BackendError> {
        self.0.wait().await;
        Ok("done".into())
    }
}

const FAN: &str = r#"digraph { start -> split; split [shape=component]
    split -> one -> merge; split -> two -> merge; split -> three -> merge
    merge [shape=tripleoctagon]; merge -> exit }"#;

/// Ends a run that would wait for ever.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn parallel_runs_its_targets_at_the_same_time() {
    // Were one to wait for another, the barrier would never open.
    let (engine, heard) = listening(Engine::builder().backend(Together(Barrier::new(3))));
    let ran = heard.end(engine.start(pipeline(FAN), ()).max_time(SOON)).await;
    ran.succeeds_by("start one two three split merge exit");
    assert_eq!(ran.result.context.get("parallel.success_count"), Some(&3.into()));
    let results = ran.result.context.get("parallel.results").unwrap();
    let ids: Vec<_> = results
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["id"])
        .collect();
    assert_eq!(ids, ["one", "two", "three"]);
}

/// A model whose stage `one` ends only after the two others.
struct Last(Semaphore);

impl CodergenBackend for Last {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        if request.stage.node().id() == "one" {
            let others = self.0.acquire_many(2).await.unwrap();
            others.forget();
            // The engine has every chance to go on too early.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        } else {
            self.0.add_permits(1);
        }
        Ok("done".into())
    }
}

#[tokio::test]
async fn fan_in_waits_for_all_branches() {
    let (engine, heard) = listening(Engine::builder().backend(Last(Semaphore::new(0))));
    let ran = heard.end(engine.start(pipeline(FAN), ()).max_time(SOON)).await;
    assert!(ran.result.is_success(), "{}", ran.failure());
    let reported = ran.reported();
    let dir = |line: &str| reported.iter().position(|reported| reported == line).unwrap();
    let merge = dir("StageStarted merge");
    for branch in ["one", "two", "three"] {
        assert!(
            dir(&format!("ParallelBranchCompleted split#1:{branch}")) < merge,
            "{reported:#?}"
        );
    }
    let one = dir("ParallelBranchCompleted split#1:one");
    assert!(
        dir("ParallelBranchCompleted split#1:two") < one
            && dir("ParallelBranchCompleted split#1:three") < one
    );
    assert_eq!(ran.result.context.text("parallel.fan_in.best_id"), "one");
    assert_eq!(ran.outcome("merge"), "success");
}

#[cfg(unix)]
#[tokio::test]
async fn a_tool_runs_its_command_and_gives_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"digraph { start -> build -> test
        build [shape=parallelogram, tool_command="echo made > made.txt; echo two files"]
        test  [shape=parallelogram, tool_command="cat made.txt; echo it is red >&2; exit 3"]
        test -> mend [condition="outcome=fail"]; test -> exit; mend -> exit }"#;
    let builder = Engine::builder().backend(Model::new()).working_dir(dir.path());
    let (engine, heard) = listening(builder);
    let ran = heard.end(engine.start(pipeline(text), ())).await;
    ran.succeeds_by("start build test mend exit");
    assert_eq!(
        std::fs::read_to_string(dir.path().join("made.txt")).unwrap(),
        "made\n"
    );
    let outcome = |node: &str| ran.result.outcomes.get(node).unwrap();
    assert_eq!(
        (outcome("build").status.word(), outcome("build").notes.as_deref()),
        ("success", Some("two files"))
    );
    let reason = ran.result.error_history[0].reason.as_str();
    assert_eq!(
        (outcome("test").status.word(), reason),
        ("fail", "exit code 3: it is red")
    );
    assert_eq!(ran.result.context.text("tool.output").trim(), "made");
}

#[derive(Attributes)]
struct Deploy {
    custom_attr: String,
}

/// Handlers of two kinds, which are types of nodes.
struct App;

#[handlers]
impl App {
    #[handler("my_custom_type")]
    async fn deploy(&self, node: Deploy) -> Outcome {
        Outcome::success().set("deployed", node.custom_attr)
    }

    #[handler("my_other_type")]
    async fn refuse(&self) -> Result<(), std::fmt::Error> {
        Err(std::fmt::Error)
    }
}

#[tokio::test]
async fn custom_handlers_are_registered_by_their_type() {
    let text = r#"digraph { start -> deploy -> refuse
        deploy [type="my_custom_type", shape=box, custom_attr="value"]
        refuse [type="my_other_type", shape=parallelogram, tool_command="exit 0"]
        refuse -> exit [condition="outcome=success"]; refuse -> mend [condition="outcome=fail"]; mend -> exit }"#;
    let model = Model::new();
    let engine = || listening(Engine::builder().backend(model.clone()));
    let (own, heard) = engine();
    let ran = heard.end(own.start(pipeline(text), App)).await;
    ran.succeeds_by("start deploy refuse mend exit");
    assert_eq!(ran.result.context.text("deployed"), "value");
    assert_eq!(model.called(), ["mend"], "the shape does not count");

    // Attractor 4.2: an unknown type would fall back; here the run is refused (see `DEVIATIONS.md`).
    let refused = engine().0.start(pipeline(text), ()).await.unwrap_err();
    assert!(matches!(refused, StartError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("my_custom_type"), "{refused}");
}
