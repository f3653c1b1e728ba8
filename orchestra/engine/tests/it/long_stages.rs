//! Tests of long stages: their notes, their history, and their model budget.

use crate::support;

use std::sync::{Arc, Mutex};

use orchestra_engine::{
    Answer, BackendError, Budget, CallbackInterviewer, CodergenBackend, CodergenReply, CodergenRequest,
    Durability, Engine, EventKind, Fidelity, Question, QuestionKind, RunFailure, RunStatus, Usage,
};
use serde_json::{Value, json};
use support::pipeline;

const ONE: Usage = Usage {
    input_tokens: 60,
    output_tokens: 40,
    cost_micros: 10,
};

/// A backend that takes ten steps and notes each. The first time it hangs after some of them.
#[derive(Clone, Default)]
struct Steps {
    hangs_behind: Option<usize>,
    taken: Arc<Mutex<Vec<usize>>>,
}

impl CodergenBackend for Steps {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let stage = request.stage;
        for step in stage.notes().len()..10 {
            if self.hangs_behind == Some(step) {
                std::future::pending::<()>().await;
            }
            self.taken.lock().unwrap().push(step);
            stage.record_usage(ONE);
            let note = json!({ "step": step });
            match step % 2 {
                0 => stage.note(note).await,
                _ => stage.note_checkpoint(note).await,
            }
        }
        Ok("done".into())
    }
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stage_goes_on_behind_what_it_has_noted() {
    let dir = tempfile::tempdir().unwrap();
    let flow = || pipeline("digraph { start -> work -> exit; work [prompt=x] }");
    let first = Steps {
        hangs_behind: Some(7),
        ..Steps::default()
    };
    let engine = Engine::builder()
        .backend(first.clone())
        .durability(Durability::Process);
    let engine = engine.runs_dir(dir.path()).build().unwrap();
    let run = engine.start(flow(), ()).await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    until(|| first.taken.lock().unwrap().len() == 7).await;
    run.pause("lunch");
    let result = run.wait().await.unwrap();
    assert_eq!((result.status, result.usage.tokens()), (RunStatus::Paused, 700));

    let second = Steps::default();
    let events = Arc::new(Mutex::new(Vec::new()));
    let reported = events.clone();
    let engine = Engine::builder()
        .backend(second.clone())
        .durability(Durability::Process);
    let engine = engine.on_event(move |event| reported.lock().unwrap().push(event.kind.clone()));
    let engine = engine.build().unwrap();
    let run = engine.resume(&folder, flow(), ()).await.unwrap();
    let result = run.wait().await.unwrap();
    assert!(result.is_success());
    assert_eq!(*second.taken.lock().unwrap(), [7, 8, 9]);
    assert_eq!(result.usage.tokens(), 1_000);
    let whole = events.lock().unwrap().iter().find_map(|kind| match kind {
        EventKind::StageCompleted { stage, usage, .. } if stage.node == "work" => usage.clone(),
        _ => None,
    });
    assert_eq!(
        whole.unwrap().tokens(),
        1_000,
        "an attempt costs what all of its parts cost"
    );

    // A run can be replayed from the notes that are checkpoints.
    let text = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let saved: Vec<String> = events
        .filter(|event| event["event"] == "CheckpointSaved" && event["node"] == "work")
        .map(|event| event["checkpoint"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(saved.len(), 5, "every other note");
    let third = Steps::default();
    let engine = Engine::builder()
        .backend(third.clone())
        .durability(Durability::Process);
    let engine = engine.runs_dir(dir.path()).build().unwrap();
    let replay = engine.replay(&folder, &saved[1], flow(), ());
    let result = replay.await.unwrap().wait().await.unwrap();
    assert!(result.is_success());
    assert_eq!(*third.taken.lock().unwrap(), [4, 5, 6, 7, 8, 9]);
}

/// A backend that reports its stage history.
struct Look;

impl CodergenBackend for Look {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let around = request.stage.history().await;
        let key = format!("seen.{}", request.stage.node().id());
        let degraded = if around.degraded { "!" } else { "" };
        let seen = format!("{}{degraded} {}", around.fidelity, around.thread);
        Ok(orchestra_engine::Outcome::success().set(key, seen).into())
    }
}

#[tokio::test]
async fn fidelity_and_thread_go_by_edge_node_graph_and_subgraph() {
    let text = r#"digraph {
        default_fidelity="summary:low"
        node [prompt=x]
        start -> plain
        plain -> by_node
        by_node [fidelity=truncate, thread_id=mine]
        by_node -> by_edge [fidelity=full, thread_id=bridge]
        by_edge [fidelity=compact]
        by_edge -> node_wins [fidelity=full, thread_id=bridge]
        node_wins [thread_id=own]
        subgraph cluster_a { label="Loop A"; inside [fidelity=full] }
        node_wins -> inside
        inside -> after
        after [fidelity=full]
        after -> exit
    }"#;
    let engine = Engine::builder().backend(Look).build().unwrap();
    let result = engine
        .start(pipeline(text), ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    for (node, seen) in [
        ("plain", "summary:low "),
        ("by_node", "truncate mine"),
        ("by_edge", "full bridge"),
        ("node_wins", "full own"),
        ("inside", "full loop-a"),
        ("after", "full loop-a"),
    ] {
        assert_eq!(result.context.text(&format!("seen.{node}")), seen, "{node}");
    }
}

/// A backend that hangs at one node.
struct HangsAt(&'static str);

impl CodergenBackend for HangsAt {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        if request.stage.node().id() == self.0 {
            request.stage.note("here").await;
            std::future::pending::<()>().await;
        }
        Look.run(request).await
    }
}

#[tokio::test]
async fn the_first_whole_conversation_after_a_resume_is_a_summary() {
    let dir = tempfile::tempdir().unwrap();
    let text = "digraph { default_fidelity=full; node [prompt=x]; start -> a -> b -> c -> d -> exit
        b [fidelity=compact] }";
    let engine = Engine::builder().backend(HangsAt("b")).runs_dir(dir.path());
    let engine = engine.durability(Durability::Process).build().unwrap();
    let run = engine.start(pipeline(text), ()).await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    let journal = folder.join("journal.jsonl");
    until(|| std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"here\""))).await;
    run.pause("lunch");
    run.wait().await.unwrap();
    let engine = Engine::builder().backend(Look).build().unwrap();
    let run = engine.resume(&folder, pipeline(text), ()).await.unwrap();
    let result = run.wait().await.unwrap();
    let seen = |node: &str| result.context.text(&format!("seen.{node}")).to_owned();
    assert_eq!(seen("a"), "full a");
    assert_eq!(seen("b"), "compact ");
    assert_eq!(seen("c"), "summary:high! a");
    assert_eq!(seen("d"), "full a");
    assert_eq!("full".parse(), Ok(Fidelity::Full));
}

/// A backend that makes a number of model calls, each with a reservation.
#[derive(Clone)]
struct Calls {
    each: u64,
    made: Arc<Mutex<Vec<String>>>,
}

impl CodergenBackend for Calls {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let stage = request.stage;
        for call in stage.notes().len() as u64..self.each {
            let most = Usage {
                output_tokens: 100,
                ..Usage::default()
            };
            let reserved = stage.reserve(most).await?;
            // Other branches continue in the meantime, with their own reservations.
            for _ in 0..7 {
                tokio::task::yield_now().await;
            }
            self.made.lock().unwrap().push(stage.node().id().to_owned());
            reserved.settle(most);
            stage.note(call).await;
        }
        Ok("done".into())
    }
}

fn twenty() -> String {
    let branches: String = (0..20)
        .map(|n| format!("fan -> b{n} -> join\nb{n} [prompt=x]\n"))
        .collect();
    format!(
        "digraph {{ start -> fan; fan [shape=component, max_parallel=20]; {branches} join [shape=tripleoctagon]; join -> exit }}"
    )
}

#[tokio::test]
async fn twenty_branches_make_no_call_beyond_the_cap_and_go_on_under_a_higher_one() {
    let dir = tempfile::tempdir().unwrap();
    let backend = Calls {
        each: 3,
        made: Arc::default(),
    };
    let cap = |tokens| Budget {
        max_tokens: Some(tokens),
        ..Budget::default()
    };
    let engine = || {
        Engine::builder()
            .backend(backend.clone())
            .durability(Durability::Process)
            .runs_dir(dir.path())
            .build()
            .unwrap()
    };
    let start = engine().start(pipeline(&twenty()), ()).budget(cap(2_550));
    let run = start.await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Paused);
    let Some(RunFailure::Budget { used, .. }) = &result.failure else {
        panic!("{:?}", result.failure);
    };
    assert!(used.tokens() <= 2_550, "{used:?}");
    let made = backend.made.lock().unwrap().len();
    assert!(made <= 25, "{made} calls of 100 tokens were made");
    let resume = engine().resume(&folder, pipeline(&twenty()), ());
    let result = resume.budget(cap(10_000)).await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    // Only a call whose note was not recorded before the pause is repeated.
    assert!(result.usage.tokens() <= 10_000);
    assert_eq!(
        result.usage.tokens(),
        100 * backend.made.lock().unwrap().len() as u64
    );
}

#[tokio::test]
async fn a_node_has_a_budget_of_its_own_and_the_graph_one_for_all() {
    let backend = Calls {
        each: 4,
        made: Arc::default(),
    };
    let engine = Engine::builder().backend(backend.clone()).build().unwrap();
    let text = "digraph { start -> work -> exit; work [prompt=x, max_tokens=250] }";
    let result = engine
        .start(pipeline(text), ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert_eq!(result.status, RunStatus::Fail);
    let reported = result.failure.unwrap().to_string();
    assert!(
        reported.contains("the budget of node `work` is used up: 200 of 250 tokens"),
        "{reported}"
    );
    assert_eq!(backend.made.lock().unwrap().len(), 2);
    let text = "digraph { max_tokens=350; start -> work -> exit; work [prompt=x] }";
    let result = engine
        .start(pipeline(text), ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert_eq!((result.status, result.usage.tokens()), (RunStatus::Paused, 300));
}

/// A backend that asks a person in the middle of its work.
struct Asks;

impl CodergenBackend for Asks {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let question = Question::new(QuestionKind::FreeText, "Which one?");
        let answer = request.stage.ask(question).await?;
        Ok(format!("{:?} by {:?}", answer.reply, answer.by).into())
    }
}

#[tokio::test]
async fn a_question_of_a_stage_is_seen_and_answered_from_outside_too() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let reported = events.clone();
    let engine = Engine::builder()
        .backend(Asks)
        .interviewer(CallbackInterviewer::new(|_| std::future::pending()))
        .on_event(move |event| reported.lock().unwrap().push(event.kind.name()))
        .build()
        .unwrap();
    let flow = pipeline("digraph { start -> work -> exit; work [prompt=x] }");
    let run = engine.start(flow, ()).await.unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    let question = run.questions().remove(0);
    assert_eq!(
        (question.node.as_str(), question.text.as_str()),
        ("work", "Which one?")
    );
    assert!(run.answer("other", Answer::choice("the red one")).is_err());
    run.answer("work", Answer::choice("the red one")).unwrap();
    assert!(
        run.answer(&question.id, Answer::choice("the blue one")).is_err(),
        "it is answered"
    );
    let result = run.wait().await.unwrap();
    assert_eq!(
        result.context.text("last_response"),
        "Chosen([\"the red one\"]) by Person"
    );
    let events = events.lock().unwrap();
    let asked = events.iter().filter(|name| name.starts_with("Interview"));
    assert_eq!(
        asked.collect::<Vec<_>>(),
        [&"InterviewStarted", &"InterviewCompleted"]
    );
}

#[tokio::test]
async fn what_runs_within_a_run_use_counts_for_all_around_them() {
    let dir = tempfile::tempdir().unwrap();
    let inner = "digraph inner { start -> work -> exit; work [prompt=x] }";
    let outer = r#"digraph outer { start -> before -> sub -> exit; before [prompt=x]
        sub [shape=folder, "subpipeline.file"="inner.dot"] }"#;
    let flow = || {
        let files = |_: &str, _: u64| Ok(inner.as_bytes().to_vec());
        let options = orchestra_graph::LoadOptions {
            children: Some(&files),
            ..Default::default()
        };
        let loaded = orchestra_graph::load(orchestra_graph::Source::new("outer.dot", outer), &options);
        loaded.pipeline().unwrap()
    };
    let backend = Calls {
        each: 4,
        made: Arc::default(),
    };
    let engine = || {
        let builder = Engine::builder().backend(backend.clone()).runs_dir(dir.path());
        builder.durability(Durability::Process).build().unwrap()
    };
    let cap = |tokens| Budget {
        max_tokens: Some(tokens),
        ..Budget::default()
    };
    let run = engine().start(flow(), ()).budget(cap(650)).await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    let result = run.wait().await.unwrap();
    let Some(RunFailure::Budget { budget, used }) = &result.failure else {
        panic!("{:?}", result.failure);
    };
    assert_eq!((budget.max_tokens, used.tokens()), (Some(650), 600));
    assert_eq!(backend.made.lock().unwrap().len(), 6, "four outside, two within");
    let resume = engine().resume(&folder, flow(), ());
    let result = resume.budget(cap(750)).await.unwrap().wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Paused, "{:?}", result.failure);
    assert_eq!(backend.made.lock().unwrap().len(), 7);
    let resume = engine().resume(&folder, flow(), ());
    let result = resume.budget(cap(1_000)).await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(
        result.usage.tokens(),
        800,
        "what the child used is reported to the run around it"
    );
    assert_eq!(backend.made.lock().unwrap().len(), 8);
}

/// A backend that stores an artifact, notes that, and hangs the first time.
struct Stores;

impl CodergenBackend for Stores {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let stage = request.stage;
        if stage.notes().is_empty() {
            stage
                .artifacts()
                .unwrap()
                .store("diff", "A change", "+ tea")
                .unwrap();
            stage.note("stored").await;
            std::future::pending::<()>().await;
        }
        let kept = stage.artifacts().unwrap().retrieve("diff").unwrap();
        Ok(kept.to_string().into())
    }
}

#[tokio::test]
async fn what_a_stage_stored_before_its_notes_is_there_when_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let flow = || pipeline("digraph { start -> work -> exit; work [prompt=x] }");
    let engine = || {
        let builder = Engine::builder().backend(Stores).runs_dir(dir.path());
        builder.durability(Durability::Process).build().unwrap()
    };
    let run = engine().start(flow(), ()).await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    let journal = folder.join("journal.jsonl");
    until(|| std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"stored\""))).await;
    run.pause("lunch");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
    let run = engine().resume(&folder, flow(), ()).await.unwrap();
    let result = run.wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("last_response"), "\"+ tea\"");
}
