//! The declared values of a compiled pipeline: its inputs, keys and results as Rust types (rules T1 to T3).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use orchestra::engine::{ContextValue, Engine, Outcome, StageContext, StartError};
use orchestra::{bind, handlers, pipeline};

/// The handlers of the pipeline.
#[derive(Clone, Copy, Default)]
struct Team;

#[handlers]
impl Team {
    #[handler("review")]
    fn review(&self, stage: StageContext) -> Outcome {
        let strict = release::keys::STRICT.get(stage.context()).unwrap_or_default();
        let pr = release::keys::PR.get(stage.context()).unwrap();
        let verdict = if strict && pr > 40 {
            release::values::ReviewVerdict::Revise
        } else {
            release::values::ReviewVerdict::Approve
        };
        Outcome::success()
            .set(release::keys::SCORE.name(), 0.5)
            .set("review.verdict", verdict.into_value())
            .set("labels", vec!["api".to_owned()].into_value())
    }

    #[handler("publish")]
    fn publish(&self) -> Outcome {
        Outcome::success().set("url", "https://example.org/7")
    }
}

pipeline! {
    handlers = Team;
    mod release = digraph release {
        inputs = "pr: int, strict: bool?, tags: list<text>?"
        review [type = review, outputs = "score: number, review.verdict: approve|revise, labels: list<text>"]
        publish [type = publish, outputs = "url: text, plan: object?"]
        start -> review
        review -> publish [condition = "context.review.verdict = approve"]
        review -> exit
        publish -> exit
    }
}

fn engine() -> Engine {
    Engine::builder().build().unwrap()
}

#[tokio::test]
async fn a_run_starts_with_its_inputs_and_ends_with_its_results() {
    let inputs = release::Inputs {
        pr: 7,
        strict: Some(true),
        tags: Some(vec!["a".to_owned()]),
    };
    let run = engine()
        .start(release::PIPELINE.with(inputs), Team)
        .await
        .unwrap();
    let result = run.wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    let results = release::Results::from_context(&result.context).unwrap();
    assert_eq!(results.review_verdict, release::values::ReviewVerdict::Approve);
    assert_eq!((results.score, results.pr), (0.5, 7));
    assert_eq!(
        (results.labels, results.tags),
        (vec!["api".to_owned()], Some(vec!["a".to_owned()]))
    );
    assert_eq!(
        (results.url.as_deref(), results.plan),
        (Some("https://example.org/7"), None)
    );
}

#[tokio::test]
async fn a_result_that_not_every_run_sets_is_optional() {
    let inputs = release::Inputs {
        pr: 42,
        strict: Some(true),
        tags: None,
    };
    let result = engine()
        .start(release::PIPELINE.with(inputs), Team)
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    let results = release::Results::from_context(&result.context).unwrap();
    assert_eq!(results.review_verdict.as_str(), "revise");
    assert_eq!((results.url, results.tags), (None, None));
    assert_eq!(release::Results::from_context(&Default::default()), None);
}

mod bound {
    use super::{Team, bind, release};

    bind! { pub Release = release, handlers = Team }
}

#[tokio::test]
async fn a_pipeline_that_is_bound_elsewhere_is_checked_when_it_starts() {
    let error = engine().start(bound::Release, Team).await.unwrap_err();
    assert!(matches!(error, StartError::Inputs { .. }), "{error}");
    let result = engine()
        .start(bound::Release, Team)
        .param("pr", 7)
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert!(result.is_success());
}
