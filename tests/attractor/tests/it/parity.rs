//! Attractor 11.12: the parity matrix. What is run is run twice, compiled and loaded, which must agree.

use std::sync::{Arc, Mutex};

use orchestra::engine::{
    BackendError, CallbackInterviewer, CodergenReply, CodergenRequest, EventKind, InterviewError,
    QueueInterviewer,
};
use orchestra::graph::{Graph, Known, Node};
use orchestra::prelude::*;
use orchestra_attractor_tests::{Model, listening, loaded, pipeline, problems, run_both, run_both_on};
use serde_json::Value;

pub(crate) mod pipelines {
    orchestra::pipeline! {
        allow(implicit_node, goal_gate_bypass, goal_gate_has_retry);
        pub mod linear = digraph linear { start -> a -> b -> c -> exit };
        pub mod branches = digraph branches { start -> work -> check; check [shape=diamond]
            check -> publish [condition="outcome=success"]; check -> mend [condition="outcome=fail"]
            publish -> exit; mend -> exit };
        pub mod retries = digraph retries { start -> a -> exit
            a [prompt=A, max_retries=2, retry_initial_delay=1ms] };
        pub mod gated = digraph gated { start -> build -> test -> exit
            build [prompt=Build]; test [prompt=Test, goal_gate=true, retry_target=build, on_failure=route] };
        pub mod conditional_over_weight = digraph conditional_over_weight { start -> a
            a -> light [condition="outcome=success"]; a -> heavy [weight=100]; light -> exit; heavy -> exit };
        pub mod weights = digraph weights { start -> a
            a -> aa [weight=1]; a -> zz [weight=2]; a -> bb; aa -> exit; zz -> exit; bb -> exit };
        pub mod lexical = digraph lexical { start -> a
            a -> zz [weight=1]; a -> mm [weight=1]; a -> bb [weight=1]; zz -> exit; mm -> exit; bb -> exit };
        pub mod styled = digraph styled { start -> draft -> plain -> own -> exit
            model_stylesheet="* { model: small } box { model: large }"
            draft [shape=box, prompt=Draft]; plain [shape=ellipse, prompt=Plain]
            own   [shape=box, prompt=Own, llm_model=mine] };
        pub mod goal = digraph goal { goal="a poem"; start -> write -> exit; write [prompt="Write $goal"] };
        pub mod block = digraph block { start -> split; split [shape=component]
            split -> one -> one_more -> merge; split -> two -> merge; split -> three -> merge
            merge [shape=tripleoctagon]; merge -> after -> exit };
        pub mod asking = digraph asking { start -> ask; ask [shape=hexagon, label="Ship it?"]
            ask -> ship [label="[Y] Yes"]; ask -> mend [label="[N] No"]; ship -> exit; mend -> exit };
        pub mod kept = digraph kept { start -> a -> ask; ask [shape=hexagon]
            ask -> b [label=Yes]; ask -> a [label=No]; b -> exit
            a [prompt=A, max_retries=1, retry_initial_delay=1ms] };
        pub mod long = digraph long { start -> a -> b -> c -> d -> e -> f -> g -> h -> i -> j -> k -> l -> exit };
    }
}

use pipelines::{
    asking, block, branches, conditional_over_weight, gated, goal, kept, lexical, linear, long, retries,
    styled, weights,
};

/// The ids of the nodes, and the edges.
fn shown(graph: &Graph) -> (Vec<&str>, Vec<(&str, &str)>) {
    let id = |node| &*graph.node(node).id;
    let edges = graph.edges.iter().map(|edge| (id(edge.from), id(edge.to)));
    (
        graph.nodes.iter().map(|node| &*node.id).collect(),
        edges.collect(),
    )
}

fn node<'g>(graph: &'g Graph, id: &str) -> &'g Node {
    graph.node(graph.find(id).unwrap())
}

#[test]
fn a_linear_pipeline_is_parsed() {
    let parsed =
        loaded("digraph t { start [shape=Mdiamond]; done [shape=Msquare]; start -> A -> B -> done }");
    assert_eq!(problems(&parsed), [""; 0]);
    let (nodes, edges) = shown(&parsed.graph);
    assert_eq!(nodes, ["start", "done", "A", "B"]);
    assert_eq!(edges, [("start", "A"), ("A", "B"), ("B", "done")]);
}

#[test]
fn graph_attributes_are_parsed() {
    let forms = [
        r#"digraph t { graph [goal="Ship it", label="The release"]; start -> exit }"#,
        "digraph t { goal=\"Ship it\"\n label=\"The release\"; start -> exit }",
    ];
    for text in forms {
        let parsed = loaded(text);
        assert_eq!(problems(&parsed), [""; 0]);
        assert_eq!(
            (parsed.graph.goal(), parsed.graph.title()),
            ("Ship it", "The release")
        );
    }
}

#[test]
fn node_attributes_on_many_lines_are_parsed() {
    let parsed = loaded(
        "digraph t {
            start -> work -> exit
            work [
                label       = \"Do the work\",   // a comment
                prompt      = \"First this,
then that\",
                max_retries = 2,
                timeout     = 15m,
                goal_gate   = true
            ]
        }",
    );
    assert_eq!(problems(&parsed), [""; 0]);
    let work = node(&parsed.graph, "work");
    assert_eq!(work.label(), "Do the work");
    assert_eq!(
        work.attributes.text(Known::Prompt),
        Some("First this,\nthen that")
    );
    assert_eq!(work.attributes.integer(Known::MaxRetries), Some(2));
    assert_eq!(work.attributes.duration(Known::Timeout).unwrap().as_secs(), 900);
    assert!(work.attributes.flag(Known::GoalGate));
}

/// The codes of the errors of a text, which is no pipeline.
fn refused(text: &str) -> Vec<&'static str> {
    let loaded = loaded(text);
    assert!(loaded.pipeline().is_none());
    loaded.report.errors().map(|problem| problem.code).collect()
}

#[test]
fn a_missing_start_node_is_an_error() {
    assert_eq!(refused("digraph t { work -> exit }"), ["start_node"]);
}

#[test]
fn a_missing_exit_node_is_an_error() {
    assert_eq!(
        refused("digraph t { start -> work; work -> start [condition=\"outcome=fail\"] }")[0],
        "terminal_node"
    );
}

#[test]
fn an_orphan_node_is_an_error() {
    // Rule L14: an error, as 7.2 and 11.2 say; a warning in this line of 11.12 alone.
    assert_eq!(
        refused("digraph t { start -> work -> exit; orphan -> exit }"),
        ["reachability"]
    );
    let reached = loaded("digraph t { start -> work -> exit; work -> orphan; orphan -> exit }");
    assert_eq!(problems(&reached), [""; 0]);
}

#[tokio::test]
async fn a_linear_pipeline_of_three_nodes_is_run_to_its_end() {
    let model = Model::new();
    run_both(&linear::PIPELINE, &model)
        .await
        .succeeds_by("start a b c exit");
    assert_eq!(model.called(), ["a", "b", "c"]);
}

#[tokio::test]
async fn success_and_failure_take_their_own_branches() {
    let fine = run_both(&branches::PIPELINE, &Model::new()).await;
    fine.succeeds_by("start work check publish exit");
    let failed = run_both(&branches::PIPELINE, &Model::new().fails("work", "no disk")).await;
    failed.succeeds_by("start work check mend exit");
}

#[tokio::test]
async fn a_failure_is_tried_again_up_to_max_retries() {
    let [one, two] = ["one", "two"].map(Outcome::fail);
    let model = Model::new().gives("a", [one.clone(), two.clone(), Outcome::success()]);
    run_both(&retries::PIPELINE, &model)
        .await
        .succeeds_by("start a exit");
    assert_eq!(model.count("a"), 3);

    let model = Model::new().gives("a", [one, two, Outcome::fail("three"), Outcome::success()]);
    let ran = run_both(&retries::PIPELINE, &model).await;
    assert_eq!(
        (ran.failure().as_str(), model.count("a")),
        ("stage `a` failed: three", 3)
    );
}

#[tokio::test]
async fn an_unsatisfied_goal_gate_blocks_the_exit() {
    let model = Model::new().gives("test", [Outcome::fail("red"), Outcome::success()]);
    let ran = run_both(&gated::PIPELINE, &model).await;
    ran.succeeds_by("start build test build test exit");
    assert!(
        ran.reported()
            .contains(&"GoalGateUnsatisfied test: to build".to_owned())
    );
}

#[tokio::test]
async fn the_exit_is_open_when_all_goal_gates_are_satisfied() {
    let ran = run_both(&gated::PIPELINE, &Model::new()).await;
    ran.succeeds_by("start build test exit");
    assert!(!ran.reported().iter().any(|line| line.starts_with("GoalGate")));
}

#[tokio::test]
async fn a_human_gate_offers_choices_and_routes_by_the_selection() {
    for (answer, label, target) in [
        ("Y", "[Y] Yes", "ship"),
        ("No", "[N] No", "mend"),
        ("mend", "[N] No", "mend"),
    ] {
        let builders = [(); 2].map(|()| {
            let interviewer = QueueInterviewer::new().answers([answer]);
            Engine::builder().backend(Model::new()).interviewer(interviewer)
        });
        let ran = run_both_on(&asking::PIPELINE, builders).await;
        ran.succeeds_by(&format!("start ask {target} exit"));
        let offered = ran.events.iter().find_map(|event| match &event.kind {
            EventKind::InterviewStarted { question, .. } => Some(question.options.clone()),
            _ => None,
        });
        let offered: Vec<String> = offered.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(offered, ["[Y] Yes", "[N] No"]);
        assert_eq!(ran.result.context.text("human.gate.label"), label);
    }
}

#[tokio::test]
async fn a_condition_that_holds_wins_over_weight() {
    let ran = run_both(&conditional_over_weight::PIPELINE, &Model::new()).await;
    assert_eq!(ran.way_from("a"), ("light".to_owned(), "condition"));
}

#[tokio::test]
async fn weight_decides_among_edges_without_a_condition() {
    let ran = run_both(&weights::PIPELINE, &Model::new()).await;
    assert_eq!(ran.way_from("a"), ("zz".to_owned(), "weight"));
}

#[tokio::test]
async fn the_lowest_id_decides_at_last() {
    let ran = run_both(&lexical::PIPELINE, &Model::new()).await;
    assert_eq!(ran.way_from("a"), ("bb".to_owned(), "lowest_target"));
}

#[tokio::test]
async fn context_updates_of_a_node_are_seen_by_the_next() {
    let model = Model::new().gives("a", [Outcome::success().set("color", "red").set("count", 3)]);
    let model = model.gives("b", [Outcome::success().set("color", "green")]);
    run_both(&linear::PIPELINE, &model)
        .await
        .succeeds_by("start a b c exit");
    let calls = model.calls();
    let colors: Vec<String> = calls.iter().map(|call| call.context.text("color")).collect();
    assert_eq!(colors, ["", "red", "green"]);
    assert_eq!(calls[2].context.get("count"), Some(&3.into()));
}

#[tokio::test]
async fn a_checkpoint_is_saved_and_resumed_with_the_same_result() {
    let dir = tempfile::tempdir().unwrap();
    let model = Model::new().gives(
        "a",
        [Outcome::fail("not yet"), Outcome::success().set("color", "red")],
    );
    let answers = || QueueInterviewer::new().answers(["Yes"]);
    let whole = Engine::builder().backend(model.anew()).interviewer(answers());
    let (engine, heard) = listening(whole);
    let folder = dir.path().join("whole");
    let whole = heard
        .end(engine.start(&kept::PIPELINE, ()).run_dir(&folder))
        .await;
    whole.succeeds_by("start a ask b exit");

    let nobody = CallbackInterviewer::new(|_| async { Err(InterviewError::unavailable("nobody is there")) });
    let folder = dir.path().join("parts");
    let (engine, heard) = listening(Engine::builder().backend(model.clone()).interviewer(nobody));
    let paused = heard
        .end(engine.start(&kept::PIPELINE, ()).run_dir(&folder))
        .await;
    assert_eq!(paused.result.status, RunStatus::Paused);
    let engine = Engine::builder().backend(model.clone()).interviewer(answers());
    let resumed = engine.build().unwrap().resume(&folder, &kept::PIPELINE, ());
    let resumed = resumed.await.unwrap().wait().await.unwrap();
    assert_eq!(
        (&resumed.path, resumed.status, &resumed.context),
        (&whole.result.path, whole.result.status, &whole.result.context)
    );
    assert_eq!(model.called(), ["a", "a", "b"], "what was done is not done again");
}

/// A model that says which model each stage wants.
#[derive(Clone, Default)]
struct Wanted(Arc<Mutex<Vec<String>>>);

impl CodergenBackend for Wanted {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let node = request.stage.node();
        let wanted = format!("{}: {}", node.id(), node.text("llm_model").unwrap_or("none"));
        self.0.lock().unwrap().push(wanted);
        Ok("done".into())
    }
}

#[tokio::test]
async fn a_stylesheet_gives_nodes_of_a_shape_their_model() {
    let (first, second) = (Wanted::default(), Wanted::default());
    let builders = [&first, &second].map(|wanted| Engine::builder().backend(wanted.clone()));
    run_both_on(&styled::PIPELINE, builders)
        .await
        .succeeds_by("start draft plain own exit");
    for wanted in [first, second] {
        assert_eq!(
            *wanted.0.lock().unwrap(),
            ["draft: large", "plain: small", "own: mine"]
        );
    }
}

#[tokio::test]
async fn the_goal_is_expanded_in_a_prompt() {
    let model = Model::new();
    run_both(&goal::PIPELINE, &model)
        .await
        .succeeds_by("start write exit");
    assert_eq!(model.calls()[0].prompt, "Write a poem");
    assert_eq!(goal::nodes::Write::PROMPT, "Write a poem");
}

#[tokio::test]
async fn fan_out_and_fan_in_complete() {
    let model = Model::new().fails("two", "no disk");
    let ran = run_both(&block::PIPELINE, &model).await;
    ran.succeeds_by("start one one_more two three split merge after exit");
    let context = &ran.result.context;
    assert_eq!(context.get("parallel.success_count"), Some(&2.into()));
    assert_eq!(context.get("parallel.fail_count"), Some(&1.into()));
    assert_eq!(context.text("parallel.branch.two.status"), "fail");
    assert_eq!(context.text("parallel.fan_in.best_id"), "one");
    assert_eq!(ran.way_from("split"), ("merge".to_owned(), "join"));

    let none = ["one", "two", "three"]
        .iter()
        .fold(Model::new(), |model, node| model.fails(node, "no disk"));
    let ran = run_both(&block::PIPELINE, &none).await;
    assert_eq!(
        (ran.outcome("merge"), ran.result.status),
        ("fail", RunStatus::Fail),
        "no candidate is left"
    );
}

/// A handler that counts.
struct Counter;

#[handlers]
impl Counter {
    #[handler("count.up")]
    async fn count(&self, stage: StageContext) -> Outcome {
        let before = stage.context().get("count").and_then(Value::as_u64).unwrap_or(0);
        Outcome::success().set("count", before + 1)
    }
}

orchestra::pipeline! {
    pub mod counted = digraph counted { start -> one -> two -> exit; node [type="count.up"]
        one [label=One]; two [label=Two]; start [type=start]; exit [type=exit] },
    handlers = Counter;
}

#[tokio::test]
async fn a_custom_handler_is_registered_and_run() {
    let (engine, heard) = listening(Engine::builder());
    let compiled = heard.end(engine.start(&counted::PIPELINE, Counter)).await;
    let (engine, heard) = listening(Engine::builder());
    let of_text = heard.end(engine.start(pipeline(counted::SOURCE), Counter)).await;
    for ran in [compiled, of_text] {
        ran.succeeds_by("start one two exit");
        assert_eq!(ran.result.context.get("count"), Some(&2.into()));
    }
}

#[tokio::test]
async fn a_pipeline_of_more_than_ten_nodes_completes() {
    let model = Model::new();
    let ran = run_both(&long::PIPELINE, &model).await;
    ran.succeeds_by("start a b c d e f g h i j k l exit");
    assert_eq!((ran.result.path.len(), model.called().len()), (14, 12));
    assert!(ran.result.error_history.is_empty());
}
