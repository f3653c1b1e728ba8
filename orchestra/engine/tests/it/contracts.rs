//! Tests of contracts: the declared inputs of a run and the declared outputs of its stages (rule T2).
use crate::support;

use orchestra_engine::{Engine, FailureCategory, Outcome, RunResult, Script, StartError, Status};
use orchestra_graph::Pipeline;
use serde_json::{Value, json};
use support::{Acts, acts, pipeline, run};

/// A pipeline whose stages belong to the program, and whose first stage declares outputs.
fn declared(rest: &str) -> Pipeline {
    acts(&format!("start -> review -> publish -> exit\n{rest}"))
}

const REVIEW: &str =
    r#"review [outputs="score: int, verdict: approve|revise, notes: text?", outputs.fail="code: text"]"#;

fn reason(result: &RunResult) -> String {
    result
        .failure
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[tokio::test]
async fn a_run_does_not_start_without_its_inputs() {
    let graph = r#"digraph release { inputs="pr: int, dry_run: bool?, plan"; start -> exit }"#;
    let engine = Engine::builder().build().unwrap();
    let error = engine.start(pipeline(graph), ()).await.unwrap_err();
    assert!(matches!(error, StartError::Inputs { .. }));
    assert_eq!(error.code(), "inputs");
    assert_eq!(
        error.to_string(),
        "pipeline `release` cannot be run: the input `pr` is missing; it is declared as `int`"
    );
    let wrong = engine
        .start(pipeline(graph), ())
        .param("pr", "42")
        .param("dry_run", 1)
        .await;
    assert_eq!(
        wrong.unwrap_err().to_string(),
        "pipeline `release` cannot be run: `pr` is declared as `int`, but is the text \"42\"; \
         `dry_run` is declared as `bool`, but is the number 1"
    );
    let run = engine
        .start(pipeline(graph), ())
        .param("context.pr", 42)
        .param("other", "x")
        .await
        .unwrap();
    let context = run.wait().await.unwrap().context;
    assert_eq!(
        (context.get("pr"), context.get("context.pr")),
        (Some(&json!(42)), None)
    );
    assert_eq!(context.text("other"), "x");
}

#[tokio::test]
async fn a_success_without_its_outputs_is_a_failure_that_is_tried_again() {
    let graph = declared(&REVIEW.replace(']', ", max_retries=1, retry_initial_delay=\"0s\"]"));
    let acts = Acts::new().on("review", |stage| async move {
        let outcome = Outcome::success().set("score", 7);
        if stage.attempt() == 1 {
            outcome
        } else {
            outcome.set("verdict", "approve")
        }
    });
    let result = run(graph, acts).await;
    assert!(result.is_success(), "{}", reason(&result));
    assert_eq!(result.context.get("score"), Some(&json!(7)));
    let errors: Vec<&str> = result
        .context
        .get("error_history")
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error.as_str().unwrap())
        .collect();
    assert_eq!(
        errors,
        ["review: output_contract: `verdict` is missing; it is declared as `approve|revise`"]
    );
}

#[tokio::test]
async fn every_outcome_that_is_not_a_failure_must_keep_the_contract() {
    for (outcome, problem) in [
        (
            Outcome::success(),
            "`score` is missing; it is declared as `int`; `verdict` is missing; it is declared as `approve|revise`",
        ),
        (
            Outcome::custom("odd").set("score", 7.5).set("verdict", "approve"),
            "`score` is declared as `int`, but is the number 7.5",
        ),
        (
            Outcome::new(Status::PartialSuccess)
                .set("score", 1)
                .set("verdict", "reject"),
            "`verdict` is declared as `approve|revise`, but is the text \"reject\"",
        ),
        (
            Outcome::new(Status::Skipped)
                .set("score", Value::Null)
                .set("verdict", "revise"),
            "`score` is missing; it is declared as `int`",
        ),
        (
            Outcome::success()
                .set("score", 1)
                .set("verdict", "revise")
                .set("notes", 3),
            "`notes` is declared as `text`, but is the number 3",
        ),
        (
            Outcome::success()
                .set("score", 1)
                .set("verdict", "revise")
                .set("code", Value::Null),
            "`code` is not declared as an output of this stage",
        ),
    ] {
        let result = run(declared(REVIEW), Acts::new().gives("review", [outcome])).await;
        assert_eq!(
            reason(&result),
            format!("stage `review` failed: output_contract: {problem}")
        );
        let written = ["score", "verdict", "notes", "code"]
            .iter()
            .filter(|key| result.context.get(key).is_some());
        assert_eq!(written.count(), 0, "values of declared keys are left out");
    }
}

#[tokio::test]
async fn a_failure_keeps_its_values_if_their_types_fit() {
    let graph = || {
        declared(&format!(
            "{REVIEW}\nreview -> publish [condition=\"outcome=fail\"]"
        ))
    };
    let acts = Acts::new().gives(
        "review",
        [Outcome::fail("no diff").set("code", "empty").set("other", 1)],
    );
    let result = run(graph(), acts).await;
    assert_eq!(
        (result.context.text("code"), result.context.text("other")),
        ("empty".into(), "1".into())
    );
    let mut wrong = Outcome::fail("no diff").set("code", 7).set("other", 1);
    wrong.failure_category = FailureCategory::Terminal;
    let result = run(graph(), Acts::new().gives("review", [wrong])).await;
    assert_eq!(
        (result.context.get("code"), result.context.text("other")),
        (None, "1".into())
    );
    let notes = result.outcomes.get("review").unwrap().notes.clone().unwrap();
    assert_eq!(
        notes,
        "output_contract: `code` is declared as `text`, but is the number 7; the stage itself failed: no diff"
    );
}

#[tokio::test]
async fn only_the_stages_that_declare_a_key_set_it() {
    let acts = || {
        let reviewed = Outcome::success().set("score", 1).set("verdict", "revise");
        Acts::new().gives("review", [reviewed])
    };
    let expected =
        "stage `publish` failed: output_contract: `score` is not declared as an output of this stage";
    for key in ["score", "context.score"] {
        let result = run(
            declared(REVIEW),
            acts().gives("publish", [Outcome::success().set(key, 9)]),
        )
        .await;
        assert_eq!(reason(&result), expected);
        assert_eq!(
            (result.context.get("score"), result.context.get("context.score")),
            (Some(&json!(1)), None)
        );
    }
    let failed = Outcome::fail("no network").set("score", 9).set("other", 2);
    let result = run(declared(REVIEW), acts().gives("publish", [failed])).await;
    assert_eq!(reason(&result), "stage `publish` failed: no network");
    assert_eq!(
        (result.context.get("score"), result.context.get("other")),
        (Some(&json!(1)), Some(&json!(2)))
    );
    let error = support::engine()
        .start(declared(REVIEW), Acts::new())
        .param("score", 1)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("`score` is an output of a stage, not an input"),
        "{error}"
    );
}

#[tokio::test]
async fn a_tool_gives_its_outputs_in_its_status_file_and_a_filled_in_status_does_not_replace_them() {
    let tool = |command: &str, more: &str| {
        pipeline(&format!(
            "digraph {{ start -> build -> exit; build [shape=parallelogram, outputs=\"size: int\", \
             tool_command={command:?}{more}] }}"
        ))
    };
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::builder().runs_dir(dir.path()).build().unwrap();
    let write = r#"echo '{"outcome": "success", "context_updates": {"size": 12}}' > "$ORCHESTRA_STAGE_DIR/status.json""#;
    let result = engine
        .start(tool(write, ""), ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert_eq!(
        result.context.get("size"),
        Some(&json!(12)),
        "{}",
        reason(&result)
    );
    let result = engine
        .start(tool("exit 3", ", auto_status=true"), ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    let expected = "stage `build` failed: output_contract: `size` is missing; it is declared as `int`";
    assert_eq!(reason(&result), expected);
    assert_eq!(
        result.context.get("tool.exit_code"),
        Some(&json!(3)),
        "what the engine recorded stays"
    );
}

#[tokio::test]
async fn a_handler_and_the_status_file_of_its_stage_give_the_outputs_together() {
    let acts = |verdict: &'static str| {
        Acts::new().on("review", move |stage| async move {
            let status = json!({"outcome": "success", "context_updates": {"verdict": verdict}});
            std::fs::write(stage.stage_dir().unwrap().join("status.json"), status.to_string()).unwrap();
            Outcome::success().set("score", 7)
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let result = support::run_in(&dir.path().join("one"), declared(REVIEW), acts("approve")).await;
    assert!(result.is_success(), "{}", reason(&result));
    assert_eq!(
        (result.context.text("score"), result.context.text("verdict")),
        ("7".into(), "approve".into())
    );
    let result = support::run_in(&dir.path().join("two"), declared(REVIEW), acts("reject")).await;
    let reason = reason(&result);
    assert!(
        reason.contains("output_contract: `verdict` is declared as `approve|revise`"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_simulated_stage_gets_the_outputs_that_its_script_does_not_set() {
    let simulated = async |script| {
        let engine = Engine::builder().simulate(script).build().unwrap();
        engine
            .start(declared(REVIEW), ())
            .await
            .unwrap()
            .wait()
            .await
            .unwrap()
    };
    let result = simulated(Script::new()).await;
    let shown = ["score", "verdict", "notes"].map(|key| result.context.get(key).cloned());
    assert_eq!(shown, [Some(json!(0)), Some(json!("approve")), None]);
    let high = Outcome::success().set("score", "high");
    let result = simulated(Script::new().outcomes("review", [high])).await;
    let reason = reason(&result);
    assert!(
        reason.contains("output_contract: `score` is declared as `int`"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_child_run_does_not_start_without_its_inputs() {
    let child = pipeline(r#"digraph part { inputs="version: text"; start -> exit }"#);
    let parent = pipeline(
        r#"digraph { start -> part -> exit
           part [shape=folder, label=Part, "subpipeline.name"=part, "subpipeline.inputs"="version=tag"] }"#,
    );
    let engine = Engine::builder().subpipeline("part", child, ()).build().unwrap();
    let result = engine
        .start(parent.clone(), ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert!(
        reason(&result).contains("the input `version` is missing; it is declared as `text`"),
        "{}",
        reason(&result)
    );
    let result = engine
        .start(parent, ())
        .param("tag", "v7")
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert!(result.is_success(), "{}", reason(&result));
}
