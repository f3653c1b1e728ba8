//! Tests of fan-ins: by status, score and id, or by a model that ranks (Attractor 4.9, rule P6).
use crate::support;

use std::sync::{Arc, Mutex};

use orchestra_engine::{
    BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine, EngineBuilder, Outcome, RunResult,
    Script, StartError, Status,
};
use orchestra_graph::Pipeline;
use support::{Acts, pipeline, text};

/// Returns a block of branches of one stage each, and its fan-in.
fn block(branches: &[&str], prompt: &str) -> Pipeline {
    let edges: String = branches
        .iter()
        .map(|branch| format!("fan -> {branch} -> join; {branch} [type=act]; "))
        .collect();
    pipeline(&format!(
        "digraph t {{ start -> fan; {edges} join -> exit
        fan [shape=component, join_policy=k_of_n, join_k=2]
        join [shape=tripleoctagon, prompt=\"{prompt}\"] }}"
    ))
}

/// One branch that fails, two that succeed, and one that is not needed any longer.
const FOUR: [&str; 4] = ["lost", "fast", "deep", "late"];

fn fast() -> Outcome {
    Outcome::success()
        .notes("short and plain")
        .set("lines", 12)
        .set("score", 0.75)
}

fn deep() -> Outcome {
    Outcome::custom("approved").set("score", 0.25)
}

fn four() -> Acts {
    Acts::new()
        .gives("lost", [Outcome::fail("out of ideas")])
        .gives("fast", [fast()])
        .gives("deep", [deep()])
        .on("late", |_| std::future::pending())
}

async fn run(builder: EngineBuilder, prompt: &str) -> RunResult {
    of(builder, block(&FOUR, prompt), four()).await
}

async fn of(builder: EngineBuilder, pipeline: Pipeline, acts: Acts) -> RunResult {
    let start = builder.build().unwrap().start(pipeline, acts);
    start.await.unwrap().wait().await.unwrap()
}

/// A backend that always gives the same reply and collects the prompts.
#[derive(Clone)]
struct Ranks {
    reply: CodergenReply,
    prompts: Arc<Mutex<Vec<String>>>,
}

impl Ranks {
    fn new(reply: impl Into<CodergenReply>) -> Ranks {
        Ranks {
            reply: reply.into(),
            prompts: Arc::default(),
        }
    }
}

impl CodergenBackend for Ranks {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        self.prompts.lock().unwrap().push(request.prompt);
        Ok(self.reply.clone())
    }
}

#[tokio::test]
async fn without_a_prompt_the_best_is_found_by_status_score_and_id_and_no_model_is_asked() {
    let result = run(Engine::builder(), "").await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("parallel.fan_in.best_id"), "fast");
    assert_eq!(result.context.text("parallel.fan_in.best_outcome"), "success");
    assert_eq!(
        result.outcomes.get("join").unwrap().notes.as_deref(),
        Some("Selected best candidate: fast: short and plain")
    );
}

#[tokio::test]
async fn with_a_prompt_the_model_chooses_and_sees_every_candidate() {
    let dir = tempfile::tempdir().unwrap();
    let ranks = Ranks::new("The second is deeper.\n```json\n{\"best\": \"deep\"}\n```");
    let engine = Engine::builder().backend(ranks.clone()).build().unwrap();
    let folder = dir.path().join("run");
    let start = engine.start(block(&FOUR, "Which is best?"), four());
    let start = start.run_dir(&folder);
    let result = start.await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("parallel.fan_in.best_id"), "deep");
    assert_eq!(result.context.text("parallel.fan_in.best_outcome"), "approved");
    let prompt = ranks.prompts.lock().unwrap()[0].clone();
    let expected = "Which is best?\n\n## Candidates\n\n### lost\n- status: fail\n- notes: out of ideas\n\
        - failure reason: stage `lost` failed: out of ideas\n\n\
        ### fast\n- status: success\n- score: 0.75\n- notes: short and plain\n\
        - context updates: {\"lines\":12,\"score\":0.75}\n\n### deep\n- status: success\n\
        - outcome: approved\n- score: 0.25\n- context updates: {\"score\":0.25}\n\n## Answer\n";
    assert!(prompt.starts_with(expected), "{prompt}");
    assert!(prompt.contains("```json\n{\"best\": \"ID\"}\n```"), "{prompt}");
    assert_eq!(text(folder.join("join/prompt.md")), prompt);
    assert!(text(folder.join("join/response.md")).starts_with("The second is deeper."));
}

#[tokio::test]
async fn an_answer_that_names_none_that_succeeded_is_a_failure_that_may_be_tried_again() {
    for (answer, reported) in [
        (
            "lost",
            "the choice `lost` did not succeed; `fast`, `deep` may be chosen",
        ),
        ("late", "the response names no candidate: "),
        ("Both are fine.", "the response names no candidate: "),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::builder().backend(Ranks::new(answer)).build().unwrap();
        let folder = dir.path().join("run");
        let start = engine.start(block(&FOUR, "Which is best?"), four());
        let start = start.run_dir(&folder);
        let result = start.await.unwrap().wait().await.unwrap();
        let failure = result.failure.unwrap().to_string();
        assert!(
            failure.starts_with("stage `join` failed: ") && failure.contains(reported),
            "{failure}"
        );
        let status = support::json(folder.join("join/status.json"));
        assert_eq!(
            status.get("failure_category"),
            None,
            "another answer may be better"
        );
        assert_eq!(result.context.get("parallel.fan_in.best_id"), None);
    }
}

#[tokio::test]
async fn where_there_is_no_choice_no_model_is_asked() {
    let ranks = Ranks::new("fast");
    let builder = || Engine::builder().backend(ranks.clone());
    let one = || Acts::new().gives("a", [Outcome::fail("no tests")]);
    let two = one().gives("b", [Outcome::new(Status::PartialSuccess)]);
    let only = pipeline(
        "digraph t { start -> fan; fan [shape=component]; fan -> a -> join; fan -> b -> join; join -> exit
        a [type=act]; b [type=act]; join [shape=tripleoctagon, prompt=\"Which?\"] }",
    );
    let result = of(builder(), only, two).await;
    assert_eq!(result.context.text("parallel.fan_in.best_id"), "b");
    let none = pipeline(
        "digraph t { start -> fan; fan [shape=component]; fan -> a -> join; join -> exit; a [type=act]
        join [shape=tripleoctagon, prompt=\"Which?\"] }",
    );
    let result = of(builder(), none, one()).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `join` failed: no candidate succeeded: a: stage `a` failed: no tests"
    );
    let alone =
        pipeline("digraph t { start -> join -> exit; join [type=\"parallel.fan_in\", prompt=\"Which?\"] }");
    let result = of(builder(), alone, Acts::new()).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `join` failed: there are no parallel results to evaluate"
    );
    assert!(ranks.prompts.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_outcome_of_the_backend_must_name_its_choice() {
    let named = Outcome::success()
        .set("parallel.fan_in.best_id", "deep")
        .set("why", "depth")
        .notes("deeper");
    let result = run(Engine::builder().backend(Ranks::new(named)), "Which?").await;
    assert_eq!(result.context.text("parallel.fan_in.best_id"), "deep");
    assert_eq!(result.context.text("parallel.fan_in.best_outcome"), "approved");
    assert_eq!(result.context.text("why"), "depth");
    assert_eq!(
        result.outcomes.get("join").unwrap().notes.as_deref(),
        Some("deeper")
    );
    let silent = Outcome::success();
    let result = run(Engine::builder().backend(Ranks::new(silent)), "Which?").await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `join` failed: the backend's outcome does not set `parallel.fan_in.best_id`"
    );
    let failed = Outcome::fail("the model is away");
    let result = run(Engine::builder().backend(Ranks::new(failed)), "Which?").await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `join` failed: the model is away"
    );
}

#[tokio::test]
async fn a_fan_in_that_asks_a_model_is_refused_where_there_is_none() {
    let engine = Engine::builder().build().unwrap();
    let error = engine.start(block(&FOUR, "Which?"), four()).await.unwrap_err();
    let StartError::Refused(refusals) = error else {
        panic!("{error}")
    };
    let codes: Vec<&str> = refusals.list.iter().map(|refusal| refusal.code).collect();
    assert_eq!(codes, ["no_backend"]);
}

#[tokio::test]
async fn a_simulated_fan_in_chooses_by_status_score_and_id_unless_scripted() {
    let script = || {
        Script::new()
            .outcomes("lost", [Outcome::fail("out of ideas")])
            .outcomes("fast", [fast()])
            .outcomes("deep", [deep()])
    };
    let builder = |script: Script| Engine::builder().simulate(script);
    let three = || block(&FOUR[..3], "Which?");
    let result = of(builder(script()), three(), four()).await;
    assert_eq!(result.context.text("parallel.fan_in.best_id"), "fast");
    let scripted = script().outcomes(
        "join",
        [Outcome::success().set("parallel.fan_in.best_id", "deep")],
    );
    let result = of(builder(scripted), three(), four()).await;
    assert_eq!(result.context.text("parallel.fan_in.best_id"), "deep");
}
