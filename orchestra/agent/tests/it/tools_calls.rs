//! Tests of command tools, hooks and the runner.
#![cfg(target_os = "linux")]

use crate::tools_support;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use orchestra_agent::{
    Arguments, CommandTool, SelectedTools, Tool, ToolCall, ToolContext, ToolError, ToolFuture, ToolHooks,
    ToolRunner, ToolSpec, select,
};
use orchestra_engine::CancellationToken;
use serde_json::{Map, Value, json};
use tokio::sync::Barrier;
use tools_support::{builtin, call, refused, registry, said};

fn runner(tool: impl Tool, root: &Path) -> ToolRunner {
    ToolRunner::new(
        SelectedTools::new([Arc::new(tool) as Arc<dyn Tool>]),
        ToolContext::new(root),
    )
}

/// A tool that calls a function: its name, whether it is read-only, and the function.
struct Does<F>(&'static str, bool, F);

impl<F: Fn(ToolContext) -> ToolFuture<'static>> Does<F> {
    fn new(name: &'static str, read_only: bool, does: F) -> Does<F> {
        Does(name, read_only, does)
    }
}

impl<F> Tool for Does<F>
where
    F: Fn(ToolContext) -> ToolFuture<'static> + Send + Sync + 'static,
{
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.to_owned(),
            description: "Does something.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
        }
    }

    fn is_read_only(&self) -> bool {
        self.1
    }

    fn call<'a>(&'a self, _: Map<String, Value>, context: ToolContext) -> ToolFuture<'a> {
        (self.2)(context)
    }
}

#[tokio::test]
async fn a_command_tells_its_exit_code_and_both_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let runner = builtin(folder.path());
    let reported = said(&runner, "shell", json!({"command": "pwd; echo careful >&2"})).await;
    let pwd = folder.path().canonicalize().unwrap();
    let pwd = pwd.display().to_string();
    assert_eq!(
        reported,
        format!(
            "exit code 0\n--- standard output ({} bytes) ---\n{pwd}\n--- standard error output (8 bytes) ---\ncareful",
            pwd.len() + 1
        )
    );
    assert_eq!(
        refused(&runner, "shell", json!({"command": "exit 3"})).await,
        "exit code 3\nno output"
    );
    let killed = refused(&runner, "shell", json!({"command": "kill -s KILL $$"})).await;
    assert_eq!(killed, "killed by signal 9\nno output");
    let hung = refused(
        &runner,
        "shell",
        json!({"command": "echo begun; sleep 1800", "timeout_seconds": 1}),
    )
    .await;
    assert!(
        hung.starts_with("ended after 1s, its time limit\n") && hung.ends_with("begun"),
        "{hung}"
    );
    let nul = refused(&runner, "shell", json!({"command": "a\0b"})).await;
    assert_eq!(nul, "the command holds a NUL character");
}

#[tokio::test]
async fn of_a_long_output_both_ends_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let reported = said(
        &builtin(folder.path()),
        "shell",
        json!({"command": "seq 1 100000; seq 1 100000 >&2"}),
    )
    .await;
    assert!(
        reported.len() <= 30_000 && reported.len() > 25_000,
        "{}",
        reported.len()
    );
    assert_eq!(reported.matches("\n1\n2\n3\n").count(), 2);
    assert_eq!(reported.matches("\n99999\n100000").count(), 2);
    assert!(reported.contains("send it to a file"));
}

#[tokio::test]
async fn commands_see_only_allowed_variables() {
    let folder = tempfile::tempdir().unwrap();
    let secret = std::env::var("CARGO_PKG_DESCRIPTION").unwrap();
    let tools = SelectedTools::new(select(&registry(), &["shell"], &[], None).unwrap());
    let closed = ToolRunner::new(tools.clone(), ToolContext::new(folder.path()));
    assert!(
        !said(&closed, "shell", json!({"command": "env"}))
            .await
            .contains(&secret)
    );
    let open = ToolContext::new(folder.path()).inherit_env(["CARGO_PKG_DESCRIPTION"]);
    let open = ToolRunner::new(tools, open);
    assert!(
        said(&open, "shell", json!({"command": "env"}))
            .await
            .contains(&secret)
    );
}

#[tokio::test]
async fn what_a_model_says_never_becomes_a_part_of_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let tool = CommandTool::new(
        "show",
        "Shows it.",
        r#"printf '%s|%s|%s|' "$ORCHESTRA_ARG_WHAT" "$ORCHESTRA_ARG_DRY_RUN" "${ORCHESTRA_ARG_MORE-unset}"; cat"#,
    )
    .parameters(json!({
        "properties": {"what": {"type": "string"}, "dry-run": {"type": "boolean"}, "more": {"type": "array"}},
        "required": ["what"],
    }))
    .unwrap();
    let runner = runner(tool, folder.path());
    let text = "'; touch planted; \"$(touch planted)` touch planted `\nline two ä";
    let arguments = json!({"what": text, "dry-run": true});
    let reported = said(&runner, "show", arguments.clone()).await;
    let output = reported.split_once("---\n").unwrap().1;
    let (shown, stdin) = output.rsplit_once('|').unwrap();
    assert_eq!(shown, format!("{text}|true|unset"));
    assert_eq!(serde_json::from_str::<Value>(stdin).unwrap(), arguments);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let long = json!({"what": "x".repeat(1_000_000), "more": [1, "two"]});
    let long = said(&runner, "show", long).await;
    let start = "exit code 0\n--- standard output (1000040 bytes) ---\n||[1,\"two\"]|{";
    assert!(
        long.starts_with(start),
        "a text that is too long for a variable stands in the input alone: {}",
        &long[..200]
    );
    let wrong = refused(&runner, "show", json!({"waht": "x"})).await;
    assert_eq!(
        wrong,
        "wrong arguments: unknown argument `waht`; did you mean `what`? Expected: `what` (string), optional \
         `dry-run` (boolean), optional `more` (array)"
    );
}

#[tokio::test]
async fn every_call_has_a_result_whatever_happens() {
    let folder = tempfile::tempdir().unwrap();
    type Case = (&'static str, fn() -> ToolFuture<'static>, &'static str);
    let cases: [Case; 4] = [
        (
            "fails",
            || Box::pin(async { Err(ToolError::new("no such luck")) }),
            "no such luck",
        ),
        (
            "panics",
            || Box::pin(async { panic!("out of {}", "order") }),
            "the tool panicked: out of order",
        ),
        (
            "panics_at_once",
            || panic!("at once"),
            "the tool panicked: at once",
        ),
        (
            "long",
            || Box::pin(async { Err(ToolError::new("x".repeat(100_000))) }),
            "xxx",
        ),
    ];
    for (name, does, reported) in cases {
        let runner = runner(Does(name, false, move |_| does()), folder.path());
        let result = runner.call(&call(name, json!({}))).await;
        assert!(
            result.is_error && result.content.starts_with(reported),
            "{}",
            result.content
        );
        assert!(result.content.len() < 30_100);
    }
    let runner = builtin(folder.path());
    let malformed = ToolCall {
        arguments: Arguments::parse("{\"path\": "),
        ..call("read_file", json!({}))
    };
    let reported = runner.call(&malformed).await.content;
    assert!(
        reported.starts_with("the arguments are not a JSON object: EOF"),
        "{reported}"
    );
    assert!(
        reported.ends_with("`path` (string), optional `limit` (integer), optional `offset` (integer)"),
        "{reported}"
    );
    let unknown = refused(&runner, "read-file", json!({})).await;
    assert!(
        unknown.starts_with("unknown tool `read-file`; did you mean `read_file`? The tools are: "),
        "{unknown}"
    );
}

#[tokio::test]
async fn reading_calls_run_side_by_side_and_writing_ones_in_order() {
    let folder = tempfile::tempdir().unwrap();
    // Both calls of the read-only tool must be running before either ends.
    let meeting = Arc::new(Barrier::new(2));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let reads = {
        let meeting = meeting.clone();
        Does::new("reads", true, move |_| {
            let meeting = meeting.clone();
            Box::pin(async move {
                meeting.wait().await;
                Ok("read".into())
            })
        })
    };
    let writes = {
        let (running, most) = (running.clone(), most.clone());
        Does::new("writes", false, move |_| {
            let (running, most) = (running.clone(), most.clone());
            Box::pin(async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok("written".into())
            })
        })
    };
    let tools: [Arc<dyn Tool>; 2] = [Arc::new(reads), Arc::new(writes)];
    let runner = ToolRunner::new(SelectedTools::new(tools), ToolContext::new(folder.path()));
    let calls: Vec<ToolCall> = (0..6)
        .map(|at| ToolCall {
            id: format!("call_{at}"),
            ..call("reads", json!({}))
        })
        .collect();
    let results = tokio::time::timeout(Duration::from_secs(60), runner.call_all(&calls))
        .await
        .unwrap();
    let ids: Vec<&str> = results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!(ids, ["call_0", "call_1", "call_2", "call_3", "call_4", "call_5"]);
    let calls = vec![call("writes", json!({})); 5];
    assert_eq!(runner.call_all(&calls).await.len(), 5);
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let hangs = Does::new("hangs", false, |_| Box::pin(std::future::pending()));
    let runner = runner(hangs, folder.path()).timeout(Duration::from_millis(50));
    let reported = refused(&runner, "hangs", json!({})).await;
    assert_eq!(reported, "the tool did not end within 50ms, and was given up");
}

#[tokio::test]
async fn a_cancelled_call_ends_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let token = CancellationToken::new();
    let tools = SelectedTools::new(select(&registry(), &["shell"], &[], None).unwrap());
    let context = ToolContext::new(folder.path()).cancelled_by(token.clone());
    let runner = ToolRunner::new(tools, context);
    let pid = folder.path().join("pid");
    let command = json!({"command": "echo $$ >pid.new; mv pid.new pid; exec sleep 1800"});
    let command = call("shell", command);
    let (result, ()) = tokio::join!(runner.call(&command), async {
        while !pid.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        token.cancel();
    });
    assert_eq!((result.content.as_str(), result.is_error), ("cancelled", true));
    let process = format!("/proc/{}/cmdline", fs::read_to_string(&pid).unwrap().trim());
    let end = Instant::now() + Duration::from_secs(20);
    while fs::read(&process).is_ok_and(|line| !line.is_empty()) {
        assert!(Instant::now() < end, "the command lives on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let after = runner
        .call(&call("shell", json!({"command": "touch late"})))
        .await;
    assert_eq!(after.content, "cancelled");
    assert!(!folder.path().join("late").exists());
}

#[tokio::test]
async fn hooks_know_the_call_and_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let keep = "cat >$ORCHESTRA_HOOK.json; env | grep '^ORCHESTRA_TOOL' | sort >$ORCHESTRA_HOOK.env";
    let runner = builtin(folder.path()).hooks(ToolHooks::default().pre(keep).post(keep));
    said(&runner, "shell", json!({"command": "echo hello"})).await;
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let pre: Value = serde_json::from_str(&read("pre.json")).unwrap();
    assert_eq!(
        pre,
        json!({"hook": "pre", "tool": "shell", "call_id": "call_1", "arguments": {"command": "echo hello"}})
    );
    let mut post: Value = serde_json::from_str(&read("post.json")).unwrap();
    assert!(post["duration_ms"].is_u64());
    post["duration_ms"] = 0.into();
    assert_eq!(
        post,
        json!({
            "hook": "post", "tool": "shell", "call_id": "call_1", "arguments": {"command": "echo hello"},
            "result": "exit code 0\n--- standard output (6 bytes) ---\nhello", "error": null, "duration_ms": 0,
        })
    );
    let lines = read("post.env");
    let lines: Vec<&str> = lines
        .lines()
        .filter(|line| !line.starts_with("ORCHESTRA_TOOL_ID="))
        .collect();
    assert_eq!(
        lines,
        [
            "ORCHESTRA_TOOL_CALL_ID=call_1",
            "ORCHESTRA_TOOL_NAME=shell",
            "ORCHESTRA_TOOL_STATUS=success"
        ]
    );
    refused(&runner, "read_file", json!({"path": "none"})).await;
    let post: Value = serde_json::from_str(&read("post.json")).unwrap();
    assert_eq!(
        (&post["result"], &post["error"]),
        (&Value::Null, &json!("there is no `none`"))
    );
    assert!(read("post.env").contains("ORCHESTRA_TOOL_NAME=read-file\n"));
}

#[tokio::test]
async fn a_failing_hook_before_a_call_skips_it_and_one_behind_it_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let write = || json!({"path": "written", "content": "x"});
    for (hook, reported) in [
        ("echo 'not on Sundays' >&2; exit 1", "exit code 1: not on Sundays"),
        ("exec sleep 1800", "ended after 1s, its time limit"),
        ("kill -s KILL $$", "killed by signal 9"),
    ] {
        let hooks = ToolHooks::default()
            .pre(hook)
            .post("touch post")
            .timeout(Duration::from_secs(1));
        let reported = format!("the call was not made, because a check before it failed: {reported}");
        assert_eq!(
            refused(&builtin(folder.path()).hooks(hooks), "write_file", write()).await,
            reported
        );
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "neither the call nor the hook behind it ran"
        );
    }
    let hooks = ToolHooks::default().post("exit 7");
    said(&builtin(folder.path()).hooks(hooks), "write_file", write()).await;
    assert!(folder.path().join("written").exists());
}
