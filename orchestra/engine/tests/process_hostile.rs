//! Tests of tools that resist their end, and of the death of the engine.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod process_support;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orchestra_engine::process::{Exit, ShellCommand};
use process_support::{HOSTILE, assert_gone, on_both_runtimes, processes_with, token};
use tokio_util::sync::CancellationToken;

const GRACE: Duration = Duration::from_millis(500);
/// Enough time for each script to be ready on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for the end of the tools. One tool on an idle machine needs a second, but here a dozen use all cores at
/// once.
const SLACK: Duration = Duration::from_secs(25);

/// The name of the variable that turns the test `helper_engine` into an engine.
const ENGINE: &str = "HELPER_ENGINE_TOKEN";

#[test]
fn none_outlives_its_time_limit() {
    on_both_runtimes(|| async {
        let mut running = tokio::task::JoinSet::new();
        for tool in HOSTILE {
            running.spawn(async move {
                let token = token();
                let command = ShellCommand::new(tool.script(&token))
                    .timeout(TIMEOUT)
                    .grace(GRACE);
                let started = Instant::now();
                let output = command.run().await.unwrap();
                (tool, token, output, started.elapsed())
            });
        }
        while let Some(result) = running.join_next().await {
            let (tool, token, output, took) = result.unwrap();
            assert!(output.stdout.starts_with("ready"), "{}: {output:?}", tool.name);
            if tool.name != "waits for input" {
                assert_eq!(output.exit, Exit::TimedOut, "{}", tool.name);
            }
            assert!(took < TIMEOUT + GRACE + SLACK, "{}: {took:?}", tool.name);
            assert_gone(&token);
        }
    });
}

#[test]
fn none_outlives_a_cancelled_token() {
    on_both_runtimes(|| async {
        for tool in HOSTILE {
            let (token, cancel) = (token(), CancellationToken::new());
            let shown = cancel.clone();
            let command = ShellCommand::new(tool.script(&token)).cancel(cancel).grace(GRACE);
            let output = command.on_line(move |_, _| shown.cancel()).run().await.unwrap();
            assert_eq!(output.exit, Exit::Cancelled, "{}", tool.name);
            assert!(
                output.duration < TIMEOUT + GRACE + SLACK,
                "{}: {:?}",
                tool.name,
                output.duration
            );
            assert_gone(&token);
        }
    });
}

#[tokio::test]
async fn none_outlives_its_leader() {
    for tool in HOSTILE {
        // Here the tool is a background process, and the leader ends as soon as the tool is ready.
        let token = token();
        let folder = tempfile::tempdir().unwrap();
        let text = "mkfifo ready; (eval \"$TOOL\") >ready & read -r line <ready; echo \"leader saw $line\"";
        let command = ShellCommand::new(text)
            .directory(folder.path())
            .variable("TOOL", tool.script(&token));
        let output = command.timeout(Duration::from_secs(30)).run().await.unwrap();
        assert_eq!(
            (output.exit, output.last_line()),
            (Exit::Code(0), Some("leader saw ready")),
            "{}",
            tool.name
        );
        assert_eq!(processes_with("cmdline", &token), [0; 0], "{}", tool.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_commands_at_once_do_not_disturb_each_other() {
    let mut running = tokio::task::JoinSet::new();
    for number in 0..20 {
        let text = format!("setsid sleep 1800 & seq 1 20000; echo last {number}; exit {number}");
        running.spawn(async move { (number, ShellCommand::new(text).run().await.unwrap()) });
    }
    while let Some(result) = running.join_next().await {
        let (number, output) = result.unwrap();
        assert_eq!(output.exit, Exit::Code(number));
        assert_eq!(output.last_line(), Some(format!("last {number}").as_str()));
    }
}

/// A helper process, not a test: `an_engine_killed_by_signal_9_leaves_nothing` starts it, it runs all tools and reports
/// when they run.
#[test]
#[ignore = "a part of another test"]
fn helper_engine() {
    let Ok(token) = std::env::var(ENGINE) else { return };
    let (send, lines) = std::sync::mpsc::channel();
    let threads = if token.ends_with('0') { 1 } else { 2 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .build()
        .unwrap();
    for tool in HOSTILE {
        let (send, mut once) = (send.clone(), false);
        let command = ShellCommand::new(tool.script(&token)).on_line(move |_, _| {
            if !std::mem::replace(&mut once, true) {
                send.send(()).unwrap();
            }
        });
        runtime.spawn(command.run());
    }
    for _ in HOSTILE {
        lines.recv().unwrap();
    }
    println!("\nall tools run");
    std::thread::park();
}

fn start_engine(token: &str) -> std::process::Child {
    let mut engine = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_engine", "--ignored", "--nocapture"])
        .env(ENGINE, token)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(engine.stdout.take().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap() == "all tools run"),
        "the engine ended early"
    );
    engine
}

#[test]
fn an_engine_killed_by_signal_9_leaves_nothing() {
    for _ in 0..3 {
        let token = token();
        let mut engine = start_engine(&token);
        assert!(processes_with("cmdline", &token).len() >= HOSTILE.len());
        engine.kill().unwrap();
        engine.wait().unwrap();
        assert_gone(&token);
    }
}

#[test]
fn an_engine_that_is_a_tool_of_another_leaves_nothing_either() {
    let token = token();
    let test = std::env::current_exe().unwrap();
    let cancel = CancellationToken::new();
    let shown = cancel.clone();
    let command = ShellCommand::new("\"$TEST\" --exact helper_engine --ignored --nocapture")
        .variable("TEST", test)
        .variable(ENGINE, token.as_str())
        .cancel(cancel)
        .grace(GRACE)
        .on_line(move |_, line| {
            if line == "all tools run" {
                shown.cancel();
            }
        });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(command.run()).unwrap().exit, Exit::Cancelled);
    assert_gone(&token);
}
