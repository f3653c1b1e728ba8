//! Tests of tool stages: commands, their environment, their files, their failures.
#![cfg(unix)]

use crate::support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use orchestra_engine::process::{
    Exit, ProcessError, ProcessFuture, ProcessRunner, ShellCommand, SystemProcesses,
};
use orchestra_engine::{Engine, EngineBuilder, RunResult, RunStatus, Status};
use serde_json::json;
use support::{FileCall, HookedFiles, json, pipeline, text};
use tokio::sync::{Notify, mpsc};

/// Returns a pipeline with one tool, with further attributes and edges.
fn tool(command: &str, attributes: &str, edges: &str) -> orchestra_graph::Pipeline {
    let command = command.replace('\\', "\\\\").replace('"', "\\\"");
    pipeline(&format!(
        "digraph t {{\n start -> a -> exit\n a [shape=parallelogram, tool_command=\"{command}\"{attributes}]\n {edges} }}"
    ))
}

async fn run_with(builder: EngineBuilder, pipeline: orchestra_graph::Pipeline) -> RunResult {
    let engine = builder.build().unwrap();
    engine.start(pipeline, ()).await.unwrap().wait().await.unwrap()
}

async fn run(command: &str, attributes: &str) -> RunResult {
    run_with(Engine::builder(), tool(command, attributes, "")).await
}

#[tokio::test]
async fn a_command_that_ends_well_is_a_success_and_its_output_is_in_the_context() {
    let result = run("echo one; echo 'two words'; echo >&2 aside", "").await;
    assert!(result.is_success(), "{:?}", result.failure);
    let context = &result.context;
    assert_eq!(context.text("tool.output"), "one\ntwo words\n");
    assert_eq!(context.text("tool.last_line"), "two words");
    assert_eq!(context.get("tool.exit_code"), Some(&json!(0)));
    let notes = result.outcomes.get("a").unwrap().notes.clone().unwrap();
    assert_eq!(notes, "two words", "the last line says more than the command");
}

#[tokio::test]
async fn a_command_that_fails_says_its_code_and_its_last_line() {
    let result = run("echo out; echo >&2 'no such file'; exit 3", "").await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `a` failed: exit code 3: no such file"
    );
    assert_eq!(result.context.get("tool.exit_code"), Some(&json!(3)));
    let result = run("echo 'reported on stdout'; exit 1", "").await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `a` failed: exit code 1: reported on stdout"
    );
    let advised = "echo >&2 'fatal: Could not read from remote repository.'; echo >&2; echo >&2 'Please make sure that \
                   the repository exists.'; exit 128";
    assert_eq!(
        run(advised, "").await.failure.unwrap().to_string(),
        "stage `a` failed: exit code 128: fatal: Could not read from remote repository."
    );
    let result = run("exit 7", "").await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `a` failed: exit code 7"
    );
    let result = run("kill -9 $$", "").await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `a` failed: killed by signal 9"
    );
    assert_eq!(result.context.get("tool.exit_code"), Some(&json!(137)));
}

#[tokio::test]
async fn a_failure_can_be_routed_by_its_exit_code() {
    let graph = tool(
        "exit 2",
        "",
        "a -> b [condition=\"outcome=fail && tool.exit_code=2\"]\n b [shape=parallelogram, tool_command=\"true\"]\n b -> exit",
    );
    assert_eq!(
        run_with(Engine::builder(), graph).await.path,
        ["start", "a", "b", "exit"]
    );
}

#[tokio::test]
async fn a_command_is_told_its_folders_and_finds_its_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let graph = tool(
        r#"test "$(cat "$ORCHESTRA_PROMPT_FILE")" = 'Build $it' && pwd > "$ORCHESTRA_STAGE_DIR/pwd" && echo "$ORCHESTRA_NODE_ID" && ls "$ORCHESTRA_RUN_DIR""#,
        ", prompt=\"Build $it\"",
        "",
    );
    let work = tempfile::tempdir().unwrap();
    let builder = Engine::builder().runs_dir(dir.path()).working_dir(work.path());
    let result = run_with(builder, graph).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let folder = result.run_dir.unwrap();
    let output = result.context.text("tool.output");
    assert!(
        output.starts_with("a\na\n") && output.contains("manifest.json"),
        "{output}"
    );
    let pwd = text(folder.join("a/pwd"));
    assert_eq!(
        std::path::Path::new(pwd.trim()).canonicalize().unwrap(),
        work.path().canonicalize().unwrap()
    );
    assert_eq!(text(folder.join("a/tool_output.txt")), output);
    assert_eq!(text(folder.join("a/tool_stderr.txt")), "");
    assert_eq!(
        json(folder.join("a/status.json"))["context_updates"]["tool.exit_code"],
        0
    );
}

#[tokio::test]
async fn without_a_run_folder_a_command_has_temporary_ones() {
    let result = run(
        r#"test -f "$ORCHESTRA_PROMPT_FILE" && echo "$ORCHESTRA_RUN_DIR""#,
        "",
    )
    .await;
    assert!(result.is_success(), "{:?}", result.failure);
    let folder = result.context.text("tool.last_line");
    assert!(!folder.is_empty() && !std::path::Path::new(&folder).exists());
}

/// Returns the values that a command sees of some variables that cargo sets for the test, with these attributes of the
/// node and the graph.
async fn seen(builder: EngineBuilder, node: &str, graph: &str) -> String {
    let command = "echo \"${CARGO_PKG_NAME-none} ${CARGO_MANIFEST_DIR-none} ${ADDED-none}\"";
    let result = run_with(builder, tool(command, node, graph)).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let folder = env!("CARGO_MANIFEST_DIR");
    let line = result.context.text("tool.last_line");
    line.replace(env!("CARGO_PKG_NAME"), "NAME")
        .replace(folder, "DIR")
}

#[tokio::test]
async fn a_command_sees_the_environment_and_what_is_set_for_it() {
    let engine = Engine::builder;
    assert_eq!(seen(engine(), "", "").await, "NAME DIR none");
    let said = seen(engine(), ", tool_env.ADDED=4.10", "tool_env.ADDED=graph").await;
    assert_eq!(said, "NAME DIR 4.10", "a node's value wins, as it is written");
    assert_eq!(seen(engine(), "", "tool_env.ADDED=graph").await, "NAME DIR graph");
    let said = seen(engine(), ", tool_env.CARGO_PKG_NAME=\"a b\"", "").await;
    assert_eq!(said, "a b DIR none", "a value wins over what is inherited");
}

#[tokio::test]
async fn a_command_may_begin_with_an_empty_environment() {
    let engine = Engine::builder;
    let empty = "tool_env_inherit=false";
    assert_eq!(seen(engine(), "", empty).await, "none none none");
    assert_eq!(
        seen(engine(), ", tool_env_inherit=true", empty).await,
        "NAME DIR none"
    );
    let said = seen(
        engine(),
        ", tool_env=\"CARGO_PKG_NAME, NOT_SET\", tool_env.ADDED=1",
        empty,
    )
    .await;
    assert_eq!(said, "NAME none 1");
    let said = seen(engine(), ", tool_env_inherit=false", "tool_env=CARGO_PKG_NAME").await;
    assert_eq!(said, "NAME none none");
    let said = seen(engine().inherit_env(["CARGO_MANIFEST_DIR"]), "", empty).await;
    assert_eq!(said, "none DIR none");
    // The shell itself sets some variables that are not in the environment.
    let result = run("env", ", tool_env_inherit=false").await;
    let output = result.context.text("tool.output");
    let names = output.lines().filter_map(|line| Some(line.split_once('=')?.0));
    let names: std::collections::BTreeSet<&str> = names
        .filter(|name| !["PWD", "SHLVL", "_"].contains(name))
        .collect();
    let engines = [
        "ATTEMPT",
        "ATTEMPT_KEY",
        "NODE_ID",
        "PROMPT_FILE",
        "RUN_DIR",
        "RUN_ID",
        "STAGE_DIR",
        "STAGE_KEY",
        "TOOL_ID",
    ];
    let mut expected: Vec<String> = engines.map(|name| format!("ORCHESTRA_{name}")).into();
    expected.push("PATH".to_owned());
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_command_does_not_see_what_is_known_to_be_secret() {
    let secret = || Engine::builder().secrets([env!("CARGO_MANIFEST_DIR")]);
    assert_eq!(seen(secret(), "", "").await, "NAME none none");
    let listed = ", tool_env=CARGO_MANIFEST_DIR";
    let said = seen(secret(), listed, "").await;
    assert_eq!(
        said, "NAME [redacted] none",
        "it is seen where it is asked for, and reported to nobody"
    );
    let said = seen(secret().inherit_env(["CARGO_MANIFEST_DIR"]), "", "").await;
    assert_eq!(said, "NAME [redacted] none");
    let withheld = || Engine::builder().withhold_env(["CARGO_MANIFEST_DIR"]);
    assert_eq!(seen(withheld(), "", "").await, "NAME none none");
    let said = seen(withheld().inherit_env(["CARGO_MANIFEST_DIR"]), "", "").await;
    assert_eq!(said, "NAME none none");
    for (node, graph) in [(listed, ""), ("", "tool_env=CARGO_MANIFEST_DIR")] {
        let failure = run_with(withheld(), tool("true", node, graph))
            .await
            .failure
            .unwrap();
        assert!(
            failure
                .to_string()
                .contains("`tool_env` lists `CARGO_MANIFEST_DIR`"),
            "{failure}"
        );
    }
    assert!(Engine::builder().inherit_env(["A=B"]).build().is_err());
}

#[tokio::test]
async fn the_prompt_reaches_the_shell_only_as_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let trap = dir.path().join("trap");
    let prompt = format!(
        ", prompt=\"$(touch {0}); `touch {0}`; '; touch {0}\"",
        trap.display()
    );
    let result = run("cat \"$ORCHESTRA_PROMPT_FILE\"", &prompt).await;
    assert!(result.context.text("tool.output").contains("touch"));
    assert!(!trap.exists());
}

#[tokio::test]
async fn a_command_may_write_its_own_status() {
    let write = r#"echo '{"outcome": "needs_review", "preferred_next_label": "Look", "context_updates": {"found": 2}}' > "$ORCHESTRA_STAGE_DIR/status.json"; exit 1"#;
    let result = run(write, ", outcomes=needs_review").await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(
        result.outcomes.get("a").unwrap().status,
        Status::from_name("needs_review")
    );
    assert_eq!(result.context.get("found"), Some(&json!(2)));
    assert_eq!(result.context.get("tool.exit_code"), Some(&json!(1)));
    let broken = run("echo nonsense > \"$ORCHESTRA_STAGE_DIR/status.json\"", "").await;
    assert!(
        broken
            .failure
            .unwrap()
            .to_string()
            .contains("status.json that cannot be used")
    );
}

#[tokio::test]
async fn a_misspelt_word_in_a_status_file_is_a_failure_and_no_success() {
    let write = r#"echo '{"outcome": "succes"}' > "$ORCHESTRA_STAGE_DIR/status.json""#;
    let reported = run(write, "").await.failure.unwrap().to_string();
    assert!(
        reported.contains("`succes`") && reported.contains("did you mean `success`?"),
        "{reported}"
    );
}

#[tokio::test]
async fn auto_status_fills_in_a_success_where_none_was_written() {
    let result = run("echo out; exit 4", ", auto_status=true").await;
    assert!(result.is_success());
    assert_eq!(result.context.get("tool.exit_code"), Some(&json!(4)));
    assert_eq!(
        result.outcomes.get("a").unwrap().notes.as_deref(),
        Some("auto-status: handler completed without writing status")
    );
    let own = run(
        "echo '{\"outcome\":\"fail\"}' > \"$ORCHESTRA_STAGE_DIR/status.json\"",
        ", auto_status=true",
    )
    .await;
    assert_eq!(own.status, RunStatus::Fail);
    let hung = run("sleep 60", ", auto_status=true, timeout=100ms").await;
    assert_eq!(
        hung.failure.unwrap().to_string(),
        "stage `a` failed: timed out after 100ms"
    );
}

#[tokio::test]
async fn a_status_planted_for_a_later_stage_does_not_speak_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let graph = pipeline(
        r#"digraph t {
            start -> a -> b -> exit
            a [shape=parallelogram, tool_command="mkdir \"$ORCHESTRA_RUN_DIR/b\"; echo '{\"outcome\":\"success\"}' > \"$ORCHESTRA_RUN_DIR/b/status.json\""]
            b [shape=parallelogram, tool_command="exit 1"]
        }"#,
    );
    let result = run_with(Engine::builder().runs_dir(dir.path()), graph).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `b` failed: exit code 1"
    );
}

#[tokio::test]
async fn output_without_end_is_kept_within_bounds() {
    let result = run("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end", "").await;
    let output = result.context.text("tool.output");
    assert!(
        output.len() < 70_000 && output.contains("bytes dropped"),
        "{}",
        output.len()
    );
    assert_eq!(result.context.text("tool.last_line"), "end");
}

#[tokio::test]
async fn a_command_that_hangs_and_ignores_term_is_gone_when_the_stage_returns() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let command = format!(
        "trap '' TERM; echo $$ > {}; while :; do sleep 1; done",
        pid.display()
    );
    let began = Instant::now();
    let result = run(&command, ", timeout=300ms").await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `a` failed: timed out after 300ms"
    );
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(result.context.get("tool.exit_code"), Some(&json!(null)));
    assert!(!std::path::Path::new("/proc").join(text(&pid).trim()).exists());
}

#[tokio::test]
async fn a_cancelled_run_has_ended_its_command_when_it_returns() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let command = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", pid.display());
    let engine = Engine::builder().build().unwrap();
    let run = engine.start(tool(&command, "", ""), ()).await.unwrap();
    while !pid.exists() {
        tokio::task::yield_now().await;
    }
    run.cancel("enough");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Cancelled);
    assert!(!std::path::Path::new("/proc").join(text(&pid).trim()).exists());
}

#[tokio::test]
async fn a_command_that_cannot_be_run_says_why() {
    let empty = Engine::builder().build().unwrap();
    let refused = empty.start(tool(" ", "", ""), ()).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("node `a` is a tool, but has no `tool_command`"),
        "{refused}"
    );
    let nowhere = Engine::builder().working_dir("/not/there");
    let reported = run_with(nowhere, tool("true", "", ""))
        .await
        .failure
        .unwrap()
        .to_string();
    assert!(reported.contains("/not/there"), "{reported}");
}

/// A runner that starts its commands late, like a process that was suspended just before.
struct Frozen {
    holds: mpsc::UnboundedSender<()>,
    thawed: Arc<Notify>,
    ended: mpsc::UnboundedSender<Result<Exit, ProcessError>>,
}

impl ProcessRunner for Frozen {
    fn run<'a>(&'a self, command: ShellCommand) -> ProcessFuture<'a> {
        let (thawed, ended) = (self.thawed.clone(), self.ended.clone());
        self.holds.send(()).unwrap();
        // The engine may notice the loss first and drop the stage, so use a task of its own.
        let late = tokio::spawn(async move {
            thawed.notified().await;
            let ran = SystemProcesses.run(command).await;
            ended.send(ran.map(|output| output.exit)).unwrap();
        });
        Box::pin(async move {
            late.await.unwrap();
            Err(ProcessError::ThreadLost)
        })
    }
}

#[tokio::test]
async fn a_command_that_was_about_to_start_does_not_when_the_run_is_taken_over() {
    take_over_before_a_command(false).await;
}

#[tokio::test]
async fn a_command_that_was_about_to_start_does_not_when_its_run_is_over() {
    take_over_before_a_command(true).await;
}

/// Takes over a run just before its first owner starts a command. With `noticed`, the owner notices the takeover first.
async fn take_over_before_a_command(noticed: bool) {
    let dir = tempfile::tempdir().unwrap();
    let (run_dir, log) = (dir.path().join("run"), dir.path().join("log"));
    let graph = || tool(&format!("echo ran >> {}", log.display()), "", "");
    let (holds, mut held) = mpsc::unbounded_channel();
    let (ended, mut end) = mpsc::unbounded_channel();
    let thawed = Arc::new(Notify::new());
    let frozen = Frozen {
        holds,
        thawed: thawed.clone(),
        ended,
    };
    let old = Engine::builder().processes(frozen).build().unwrap();
    let first = old.start(graph(), ()).run_dir(&run_dir).await.unwrap();
    held.recv().await.unwrap();
    let new = Engine::builder().build().unwrap();
    let second = new.resume(&run_dir, graph(), ()).take_over();
    assert!(second.await.unwrap().wait().await.unwrap().is_success());
    let first = tokio::spawn(first.wait());
    if noticed {
        // The engine checks the lock from time to time.
        while !first.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    thawed.notify_one();
    assert!(matches!(end.recv().await.unwrap(), Err(ProcessError::TakenOver)));
    assert!(first.await.unwrap().is_err());
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "ran\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_does_not_start_when_the_run_is_taken_over_behind_the_last_look() {
    let dir = tempfile::tempdir().unwrap();
    let (run_dir, log) = (dir.path().join("run"), dir.path().join("log"));
    let graph = || tool(&format!("echo ran >> {}", log.display()), "", "");
    let (looked, mut look) = mpsc::unbounded_channel();
    let (thaw, thawed) = std::sync::mpsc::channel::<()>();
    let (looks, thawed) = (AtomicUsize::new(0), Mutex::new(thawed));
    let files = HookedFiles::new(move |call| {
        let of_command = std::thread::current().name() == Some("orchestra-tool");
        // Suspend it after the second check of its lock, just before it starts the command.
        if matches!(call, FileCall::Looked) && of_command && looks.fetch_add(1, Ordering::SeqCst) == 1 {
            looked.send(()).unwrap();
            thawed.lock().unwrap().recv().unwrap();
        }
        Ok(())
    });
    let old = Engine::builder().files(files).build().unwrap();
    let first = old.start(graph(), ()).run_dir(&run_dir).await.unwrap();
    look.recv().await.unwrap();
    let new = Engine::builder().build().unwrap();
    let second = new.resume(&run_dir, graph(), ()).take_over();
    assert!(second.await.unwrap().wait().await.unwrap().is_success());
    thaw.send(()).unwrap();
    assert!(first.wait().await.is_err());
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "ran\n");
}
