//! A compiled pipeline with an answer that is bound to the schema of a file (rule T8).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use orchestra::engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine};
use orchestra::pipeline;

pipeline! {
    mod rated = digraph rated {
        rate [prompt = "Rate it.", output_schema = "schemas/rating.json"]
        start -> rate
        rate -> exit [condition = "context.verdict = approve"]
        rate -> mend [condition = "context.verdict = revise"]
        rate -> mend [condition = "outcome = fail"]
        mend [prompt = "Mend it."]
        mend -> exit
    }
}

struct Says(&'static str);

impl CodergenBackend for Says {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let requested = request.prompt.contains("\"maximum\": 10");
        assert_eq!(
            requested,
            request.stage.node().id() == "rate",
            "{}",
            request.prompt
        );
        Ok(self.0.into())
    }
}

async fn run(answer: &'static str) -> orchestra::engine::RunResult {
    let engine = Engine::builder().backend(Says(answer)).build().unwrap();
    engine
        .start(&rated::PIPELINE, ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap()
}

#[tokio::test]
async fn values_of_the_answer_have_the_types_of_the_schema() {
    let result = run(r#"{"verdict": "approve", "score": 9, "notes": null}"#).await;
    assert_eq!(result.path, ["start", "rate", "exit"]);
    let score: Option<i64> = rated::keys::SCORE.get(&result.context);
    assert_eq!(score, Some(9));
    assert_eq!(
        rated::keys::VERDICT.get(&result.context),
        Some(rated::values::Verdict::Approve)
    );
    assert_eq!(rated::keys::NOTES.get(&result.context), None);
}

#[tokio::test]
async fn the_engine_validates_the_answer_of_every_backend() {
    let result = run(r#"{"verdict": "approve", "score": 11, "notes": "x"}"#).await;
    assert_eq!(result.path, ["start", "rate", "mend", "exit"]);
    assert_eq!(rated::keys::SCORE.get(&result.context), None);
}
