//! Tests of the output data of model stages: requested in the prompt, taken from the response (rule R11).
use crate::support;

use std::sync::{Arc, Mutex};

use orchestra_engine::{
    BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine, Outcome, RunResult, Script, Status,
};
use serde_json::json;
use support::{pipeline, short, text};

/// A backend that gives every stage the same reply and collects the prompts.
#[derive(Clone)]
struct Says {
    reply: CodergenReply,
    prompts: Arc<Mutex<Vec<String>>>,
}

impl Says {
    fn new(reply: impl Into<CodergenReply>) -> Says {
        Says {
            reply: reply.into(),
            prompts: Arc::default(),
        }
    }
}

impl CodergenBackend for Says {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        self.prompts.lock().unwrap().push(request.prompt);
        Ok(self.reply.clone())
    }
}

const REVIEW: &str = r#"digraph t {
    start -> review -> exit
    review [prompt="Review it.", output_keys="review_passed, test_failures,reviewer, , reviewer"]
}"#;

/// Runs the review with this reply. Returns the result and the events as lines.
async fn review(reply: impl Into<CodergenReply>) -> (RunResult, Vec<String>) {
    let engine = Engine::builder().backend(Says::new(reply)).build().unwrap();
    let run = engine.start(pipeline(REVIEW), ()).await.unwrap();
    let mut events = run.events();
    let result = run.wait().await.unwrap();
    let mut lines = Vec::new();
    while let Some(event) = events.recv().await {
        lines.push(short(&event));
    }
    (result, lines)
}

fn block(json: &str) -> String {
    format!("I looked at everything.\n\n```json\n{json}\n```\nThat is all.")
}

#[tokio::test]
async fn listed_keys_reach_the_context_with_their_types_and_others_do_not() {
    let json = r#"{"review_passed": true, "test_failures": 0, "reviewer": "alice", "mood": "good"}"#;
    let (result, lines) = review(block(json).as_str()).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let context = &result.context;
    assert_eq!(context.get("review_passed"), Some(&json!(true)));
    assert_eq!(context.get("test_failures"), Some(&json!(0)));
    assert_eq!(context.get("reviewer"), Some(&json!("alice")));
    assert_eq!(context.get("mood"), None);
    assert!(context.text("last_response").starts_with("I looked"));
    let logs = lines.iter().filter(|line| line.starts_with("StageLog"));
    assert_eq!(logs.count(), 0, "nothing is missing: {lines:?}");
}

#[tokio::test]
async fn the_prompt_asks_for_exactly_these_keys_and_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let says = Says::new(block("{}").as_str());
    let engine = Engine::builder().backend(says.clone()).build().unwrap();
    let folder = dir.path().join("run");
    let start = engine.start(pipeline(REVIEW), ()).run_dir(&folder);
    start.await.unwrap().wait().await.unwrap();
    let prompt = says.prompts.lock().unwrap()[0].clone();
    assert!(
        prompt.starts_with("Review it.\n\n## Expected outputs\n\n"),
        "{prompt}"
    );
    assert!(
        prompt.contains(":\n- review_passed\n- test_failures\n- reviewer\n\n"),
        "{prompt}"
    );
    assert_eq!(prompt.matches("- reviewer").count(), 1, "{prompt}");
    let form =
        "```json\n{\n  \"review_passed\": ...,\n  \"test_failures\": ...,\n  \"reviewer\": ...\n}\n```";
    assert!(prompt.contains(form), "{prompt}");
    assert_eq!(text(folder.join("review/prompt.md")), prompt);
}

#[tokio::test]
async fn a_stage_without_output_keys_is_asked_for_nothing() {
    let says = Says::new("plain words");
    let engine = Engine::builder().backend(says.clone()).build().unwrap();
    let plain = pipeline(r#"digraph { start -> a -> exit; a [prompt="Do it."] }"#);
    let result = engine.start(plain, ()).await.unwrap().wait().await.unwrap();
    assert!(result.is_success());
    assert_eq!(*says.prompts.lock().unwrap(), ["Do it."]);
}

#[tokio::test]
async fn a_missing_key_is_said_in_the_notes_and_in_the_log() {
    let (result, lines) = review(block(r#"{"review_passed": false}"#).as_str()).await;
    assert!(result.is_success());
    let notes = result.outcomes.get("review").unwrap().notes.clone().unwrap();
    assert_eq!(
        notes,
        "Stage completed: review; missing outputs: `test_failures`, `reviewer`"
    );
    let reported = "StageLog review: missing outputs: `test_failures`, `reviewer`";
    assert!(lines.iter().any(|line| line == reported), "{lines:?}");
    assert_eq!(result.context.get("review_passed"), Some(&json!(false)));
}

#[tokio::test]
async fn a_response_without_a_block_fails_as_output_parse_and_says_what_was_found() {
    let (result, _) = review("All is well: {\"review_passed\": true}").await;
    let failed = result.outcomes.get("review").unwrap();
    assert_eq!(failed.status, Status::Fail);
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `review` failed: output_parse: expected a JSON code block with the keys `review_passed`, \
         `test_failures`, `reviewer`, but the response holds no JSON code block; it ends with \
         `All is well: {\"review_passed\": true}`"
    );
    assert_eq!(result.context.get("review_passed"), None);
}

#[tokio::test]
async fn a_malformed_block_fails_with_a_code_that_machines_read() {
    let dir = tempfile::tempdir().unwrap();
    let says = Says::new(block("{\"review_passed\": yes}").as_str());
    let engine = Engine::builder().backend(says).build().unwrap();
    let folder = dir.path().join("run");
    let start = engine.start(pipeline(REVIEW), ()).run_dir(&folder);
    let result = start.await.unwrap().wait().await.unwrap();
    let reported = result.failure.unwrap().to_string();
    assert!(
        reported.contains("the last JSON code block is not a JSON object (expected value"),
        "{reported}"
    );
    let status = support::json(folder.join("review/status.json"));
    assert_eq!(status["failure_code"], "output_parse");
    assert_eq!(status.get("failure_category"), None, "asking once more may help");
}

#[tokio::test]
async fn a_conditional_edge_sees_the_types_of_the_data() {
    let graph = r#"digraph t {
        routing=first_match
        start -> review
        review [prompt="Review it.", output_keys="test_failures"]
        review -> exit [condition_type=conditional, condition_value="{\"key\": \"test_failures\", \"value\": 0}"]
        review -> mend [condition_type=success]
        mend [end=success]
    }"#;
    for (given, last) in [("0", "exit"), ("2", "mend"), ("\"0\"", "mend")] {
        let says = Says::new(block(&format!("{{\"test_failures\": {given}}}")).as_str());
        let engine = Engine::builder().backend(says).build().unwrap();
        let run = engine.start(pipeline(graph), ()).await.unwrap();
        let result = run.wait().await.unwrap();
        assert_eq!(result.path.last(), Some(last), "{given}: {:?}", result.failure);
    }
}

/// A backend that writes a status file beside its answer.
struct Writes(&'static str, &'static str);

impl CodergenBackend for Writes {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let folder = request.stage.stage_dir().unwrap();
        std::fs::write(folder.join("status.json"), self.1).unwrap();
        Ok(self.0.into())
    }
}

#[tokio::test]
async fn a_status_file_may_give_what_the_response_does_not() {
    let all = r#"{"outcome": "success", "context_updates":
        {"review_passed": true, "test_failures": 1, "reviewer": "bob"}}"#;
    let some = r#"{"outcome": "success", "context_updates": {"review_passed": true}}"#;
    let failed = r#"{"outcome": "fail", "failure_reason": "the tests cannot be built"}"#;
    for (written, reason) in [
        (all, None),
        (some, Some("output_parse")),
        (failed, Some("the tests cannot be built")),
    ] {
        let engine = Engine::builder()
            .backend(Writes("Done.", written))
            .build()
            .unwrap();
        let run = engine.start(pipeline(REVIEW), ()).await.unwrap();
        let result = run.wait().await.unwrap();
        match (reason, result.failure) {
            (None, None) => assert_eq!(result.context.text("reviewer"), "bob"),
            (Some(reason), Some(failure)) => assert!(failure.to_string().contains(reason), "{failure}"),
            (_, failure) => panic!("{written}: {failure:?}"),
        }
    }
}

#[tokio::test]
async fn a_backend_that_gives_an_outcome_is_believed_and_what_it_lacks_is_said() {
    let (result, _) = review(Outcome::success().set("review_passed", true).notes("agreed")).await;
    assert!(result.is_success());
    assert_eq!(
        result.outcomes.get("review").unwrap().notes.as_deref(),
        Some("agreed; missing outputs: `test_failures`, `reviewer`")
    );
    let (result, _) = review(Outcome::fail("no idea")).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `review` failed: no idea"
    );
}

#[tokio::test]
async fn a_simulated_station_gives_what_the_script_says() {
    let script = Script::new().outcomes("review", [Outcome::success().set("review_passed", true)]);
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let engine = Engine::builder().simulate(script).build().unwrap();
    let start = engine.start(pipeline(REVIEW), ()).run_dir(&folder);
    let result = start.await.unwrap().wait().await.unwrap();
    assert_eq!(result.context.get("review_passed"), Some(&json!(true)));
    assert!(text(folder.join("review/prompt.md")).contains("## Expected outputs"));
    let engine = Engine::builder().simulate(Script::new()).build().unwrap();
    let run = engine.start(pipeline(REVIEW), ()).await.unwrap();
    let result = run.wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.get("review_passed"), None);
}
