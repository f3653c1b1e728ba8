//! Tests of the values of a run that the commands of tool stages receive (rule T6).
#![cfg(unix)]

use crate::support;

use std::time::Duration;

use orchestra_engine::{Engine, EventKind, Outcome, RunResult};
use serde_json::{Value, json};
use support::{Acts, listening, pipeline};

/// Returns a pipeline whose stage `plan` belongs to the program, and whose stage `a` executes a command.
fn command(command: &str, attributes: &str, graph: &str) -> orchestra_graph::Pipeline {
    let command = command.replace('\\', "\\\\").replace('"', "\\\"");
    pipeline(&format!(
        "digraph t {{ {graph}\n start -> plan -> a -> exit\n plan [type=act]\n \
         a [shape=parallelogram, tool_command=\"{command}\", {attributes}] }}"
    ))
}

/// Returns handlers whose stage `plan` sets a value.
fn sets(key: &'static str, value: impl Into<Value>) -> Acts {
    let value = value.into();
    Acts::new().on("plan", move |_| {
        let outcome = Outcome::success().set(key, value.clone());
        async move { outcome }
    })
}

async fn run(text: &str, attributes: &str, value: impl Into<Value>) -> RunResult {
    support::run(command(text, attributes, ""), sets("plan", value)).await
}

fn reason(result: &RunResult) -> String {
    let failure = result.failure.as_ref();
    failure.map(ToString::to_string).unwrap_or_default()
}

const PRINT: &str = "printf '%s' \"$PLAN\"";
const FROM: &str = "tool_env_from.PLAN=plan";

#[tokio::test]
async fn a_variable_holds_a_text_byte_for_byte() {
    let odd = "-n \"quoted\" 'single' $(touch x) `touch x` \\ * ?\n\ttwo ; lines && | äöü \u{1}\r\n\n";
    for source in [FROM, "tool_env_from.PLAN=\" context.plan\""] {
        let result = run(PRINT, source, odd).await;
        assert!(result.is_success(), "{}", reason(&result));
        assert_eq!(result.context.text("tool.output"), odd);
    }
    let result = run("cat", "tool_stdin=plan", odd).await;
    assert_eq!(result.context.text("tool.output"), odd);
}

#[tokio::test]
async fn values_of_other_types_are_plain_text_or_json() {
    for (value, shown) in [
        (json!(true), "true"),
        (json!(7), "7"),
        (json!(1.5), "1.5"),
        (json!(["a b", 1]), r#"["a b",1]"#),
        (json!({"k": null}), r#"{"k":null}"#),
        (json!(null), ""),
        (json!(""), ""),
    ] {
        let result = run(PRINT, FROM, value.clone()).await;
        assert_eq!(result.context.text("tool.output"), shown);
        let result = run("cat", "tool_stdin=\"context.plan\"", value).await;
        assert_eq!(result.context.text("tool.output"), shown);
    }
}

#[tokio::test]
async fn the_attributes_of_a_node_override_those_of_the_graph() {
    let seen = async |node: &str, graph: &str| {
        let graph = command(PRINT, node, graph);
        let acts = sets("plan", "from plan");
        support::run(graph, acts).await.context.text("tool.output")
    };
    let given = "tool_env_from.PLAN=plan";
    assert_eq!(seen("label=A", given).await, "from plan");
    assert_eq!(seen("tool_env.PLAN=fixed", given).await, "fixed");
    assert_eq!(seen(given, "tool_env.PLAN=fixed").await, "from plan");
    assert_eq!(seen(given, "tool_env_from.PLAN=other").await, "from plan");
    assert_eq!(
        seen("tool_env_from.PLAN=plan, tool_env_inherit=false", "").await,
        "from plan"
    );
}

#[tokio::test]
async fn a_large_value_arrives_whole_on_the_standard_input() {
    let large: String = (0..400_000).map(|number| format!("{number:06}\n")).collect();
    // The command writes as much as it reads, so a runner that did not read at the same time would block.
    let result = run(
        "cat; echo; echo end",
        "tool_stdin=plan, timeout=60s",
        large.clone(),
    )
    .await;
    assert!(result.is_success(), "{}", reason(&result));
    let result = run("cksum", "tool_stdin=plan", large.clone()).await;
    let length = format!(" {}", large.len());
    assert!(
        result.context.text("tool.output").trim().ends_with(&length),
        "{}",
        result.context.text("tool.output")
    );
}

#[tokio::test]
async fn a_command_may_ignore_its_standard_input() {
    let large = "x".repeat(3 << 20);
    for ignores in [
        "true",
        "head -c 1 > /dev/null",
        "exec <&-; sleep 0.05",
        "echo done",
    ] {
        let result = run(ignores, "tool_stdin=plan, timeout=60s", large.clone()).await;
        assert!(result.is_success(), "{ignores}: {}", reason(&result));
    }
    let hung = run("sleep 60", "tool_stdin=plan, timeout=100ms", large).await;
    assert_eq!(reason(&hung), "stage `a` failed: timed out after 100ms");
}

#[tokio::test]
async fn a_run_that_is_cancelled_ends_a_command_that_does_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready");
    let text = format!("echo $$ > {0}.new; mv {0}.new {0}; sleep 60", ready.display());
    let graph = command(&text, "tool_stdin=plan", "");
    let run = support::start(graph, sets("plan", "x".repeat(3 << 20))).await;
    while !ready.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    run.cancel("enough");
    run.wait().await.unwrap();
    let pid = std::fs::read_to_string(&ready).unwrap();
    let folder = std::path::Path::new("/proc").join(pid.trim());
    assert!(!folder.exists(), "the command is gone");
}

#[tokio::test]
async fn without_the_attribute_the_standard_input_is_empty() {
    let result = run("cat; echo end", FROM, "text").await;
    assert_eq!(result.context.text("tool.output"), "end\n");
}

#[tokio::test]
async fn a_missing_value_is_empty_and_logged() {
    let (engine, heard) = listening();
    let graph = command(
        "printf '%s|' \"${PLAN-unset}\"; cat",
        "tool_env_from.PLAN=\"pla\", tool_stdin=\"stages.later.output\"",
        "plan -> later [condition=\"outcome=fail\"]; later [type=act]; later -> exit",
    );
    let result = engine.start(graph, sets("plan", "x")).await.unwrap();
    let result = result.wait().await.unwrap();
    assert!(result.is_success(), "{}", reason(&result));
    assert_eq!(result.context.text("tool.output"), "|");
    let heard = heard.lock().unwrap();
    let logs = heard.iter().filter_map(|event| match &event.kind {
        EventKind::StageLog { message, .. } => Some(message.as_str()),
        _ => None,
    });
    assert_eq!(
        logs.collect::<Vec<_>>(),
        ["missing values for the command: `pla`, `stages.later.output`"]
    );
}

#[tokio::test]
async fn what_no_variable_can_hold_fails_for_good_and_names_the_variable() {
    let retried = "tool_env_from.PLAN=plan, max_retries=2, retry_initial_delay=\"0s\"";
    for (value, problem) in [
        (
            "a\0b".to_owned(),
            "contains a NUL byte, which no variable can hold",
        ),
        (
            "x".repeat(131_067),
            "has 131067 bytes, but a variable can hold at most 131072 bytes with its name",
        ),
    ] {
        let result = run("true", retried, value.clone()).await;
        assert_eq!(
            reason(&result),
            format!(
                "stage `a` failed: the value of `plan` for the variable `PLAN` {problem}; \
                 use `tool_stdin=\"plan\"` instead"
            )
        );
        let attempts = result.context.get("error_history").and_then(Value::as_array);
        assert!(attempts.is_none_or(|errors| errors.len() <= 1), "no retry");
        let length = format!("{}\n", value.len());
        let result = run("wc -c | tr -d ' '", "tool_stdin=plan", value).await;
        assert_eq!(result.context.text("tool.output"), length);
    }
    let result = run("printf '%s' \"${#PLAN}\"", FROM, "x".repeat(131_066)).await;
    assert_eq!(
        result.context.text("tool.output"),
        "131066",
        "{}",
        reason(&result)
    );
}

#[tokio::test]
async fn a_command_receives_the_whole_text_of_another_stage() {
    let dir = tempfile::tempdir().unwrap();
    for stored in [true, false] {
        let mut engine = Engine::builder();
        if stored {
            engine = engine.runs_dir(dir.path());
        }
        let graph = pipeline(
            r#"digraph t { start -> log -> a -> exit
            log [shape=parallelogram, tool_command="head -c 3000000 /dev/zero | tr '\\0' x; echo >&2 aside"]
            a [shape=parallelogram, tool_stdin="stages.log.output", tool_env_from.NONE="stages.a.response",
                tool_command="test -z \"$NONE\" && wc -c | tr -d ' '"] }"#,
        );
        let run = engine.build().unwrap().start(graph, ()).await.unwrap();
        let result = run.wait().await.unwrap();
        assert!(result.is_success(), "{}", reason(&result));
        assert_eq!(result.context.text("tool.output"), "3000000\n");
    }
}

#[tokio::test]
async fn a_text_of_another_stage_is_that_of_its_latest_visit() {
    let graph = pipeline(
        r#"digraph t { start -> count; count -> count [condition="visits.count<3"]; count -> a; a -> exit
            count [shape=parallelogram, tool_command="printf '%s.' \"$BEFORE\"; echo x", tool_env_from.BEFORE="stages.count.output"]
            a [shape=parallelogram, tool_command="cat", tool_stdin="stages.count.response"] }"#,
    );
    let result = support::run(graph, Acts::new()).await;
    assert!(result.is_success(), "{}", reason(&result));
    assert_eq!(result.context.text("tool.output"), ".x\n.x\n.x\n");
}

#[tokio::test]
async fn a_secret_reaches_no_variable_of_another_stage() {
    let engine = Engine::builder().secrets(["topsecret-value"]).build().unwrap();
    let graph = command(
        "printf '%s' \"$PLAN\" | tr a-z A-Z; tr a-z A-Z",
        "tool_env_from.PLAN=plan, tool_stdin=plan",
        "",
    );
    let run = engine
        .start(graph, sets("plan", "the topsecret-value"))
        .await
        .unwrap();
    let output = run.wait().await.unwrap().context.text("tool.output");
    assert_eq!(output, "THE [REDACTED]THE [REDACTED]");
}

#[tokio::test]
async fn a_replay_passes_the_values_again() {
    let dir = tempfile::tempdir().unwrap();
    let graph = || {
        pipeline(
            r#"digraph t { start -> log -> a -> exit
            log [shape=parallelogram, tool_command="echo logged"]
            a [shape=parallelogram, tool_command="cat; printf '%s' \"$PLAN\"", tool_stdin="stages.log.output",
                tool_env_from.PLAN="plan"] }"#,
        )
    };
    let engine = Engine::builder().runs_dir(dir.path()).build().unwrap();
    let run = engine.start(graph(), ()).param("plan", "steps").await.unwrap();
    let first = run.wait().await.unwrap();
    assert_eq!(first.context.text("tool.output"), "logged\nsteps");
    let folder = first.run_dir.unwrap();
    let replay = engine.replay(&folder, "log#1/1", graph(), ()).await.unwrap();
    let second = replay.wait().await.unwrap();
    assert!(second.is_success(), "{}", reason(&second));
    assert_eq!(second.context.text("tool.output"), "logged\nsteps");
}
