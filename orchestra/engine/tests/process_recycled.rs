//! Tests with immediately reused process ids: only the tools are killed.
//!
//! They run in a process namespace with few process ids, so that ids are reused all the time. The tests of
//! `process/handle.rs` cover the moment between a check and a kill.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod process_support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use orchestra_engine::process::{Exit, ShellCommand};
use process_support::{eventually, processes_with, token};

/// The name of the variable that turns `helper_namespace` and `helper_engine` into helper processes.
const TOKEN: &str = "HELPER_RECYCLED_TOKEN";
/// The number of times that an engine is killed, and that a tool is ended.
const ROUNDS: usize = 4;
/// The number of concurrent unrelated processes.
const INNOCENTS: usize = 4;
/// The highest process id. After it, ids restart at 300.
const NUMBERS: &str = "400";
/// The number of concurrent process chains of a tool.
const CHAINS: usize = 8;

/// Returns a tool whose processes end right after starting their successors, so that their ids are reused before
/// anything can act on them.
fn restless(token: &str) -> String {
    let hop = "setsid sh -c \"$HOP\" hop 1800.@ & exit".replace('@', token);
    let start = "setsid sh -c \"$HOP\" hop 1800.@ &".replace('@', token);
    format!(
        "export HOP='{hop}'; {} echo ready; sleep 1800.{token}",
        start.repeat(CHAINS)
    )
}

#[test]
fn reused_numbers_kill_no_innocent() {
    let program = std::env::current_exe().unwrap();
    // The shell is process 1 in the namespace and reaps orphans.
    let helper = "\"$0\" --ignored --exact helper_namespace --nocapture; exit $?";
    let mut command = Command::new("unshare");
    command.args([
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "sh",
        "-c",
        helper,
    ]);
    let Ok(output) = command.arg(program).env(TOKEN, token()).output() else {
        eprintln!("skipped: there is no program `unshare`");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("Operation not permitted") && said.starts_with("unshare:") {
        eprintln!("skipped: this process may not make a process namespace");
        return;
    }
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{reported}\n{said}");
    assert!(reported.contains("1 passed"), "{reported}");
}

/// A helper process, not a test: it runs in the namespace of the test above.
#[test]
#[ignore = "a part of another test"]
fn helper_namespace() {
    let Ok(token) = std::env::var(TOKEN) else { return };
    if has_own_numbers() {
        fs::write("/proc/sys/kernel/pid_max", NUMBERS).unwrap();
    }
    let (done, started, killed) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..INNOCENTS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // Starting fails when all process ids are in use.
                    let Ok(status) = Command::new("sleep").arg("0.005").status() else {
                        continue;
                    };
                    started.fetch_add(1, Ordering::Relaxed);
                    killed.fetch_add(u32::from(status.signal().is_some()), Ordering::Relaxed);
                }
            });
        }
        for _ in 0..ROUNDS {
            kill_an_engine(&token);
            end_a_tool(&token);
        }
        done.store(true, Ordering::Relaxed);
    });
    let (started, killed) = (started.into_inner(), killed.into_inner());
    assert_eq!(killed, 0, "of {started} innocents");
    assert!(started > 50, "only {started} innocents");
}

/// Returns whether the highest process id is a setting of the namespace, as since Linux 6.14, and not of the machine.
fn has_own_numbers() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (6, 14))
}

fn kill_an_engine(token: &str) {
    let mut engine = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "helper_engine", "--nocapture"])
        .env(TOKEN, token)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(engine.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "the tool runs"));
    engine.kill().unwrap();
    engine.wait().unwrap();
    eventually(
        Duration::from_secs(20),
        "the tool of the killed engine is gone",
        || processes_with("cmdline", &format!("1800.{token}")).is_empty(),
    );
}

fn end_a_tool(token: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let command = ShellCommand::new(restless(token))
        .timeout(Duration::from_millis(100))
        .grace(Duration::ZERO);
    assert_eq!(runtime.block_on(command.run()).unwrap().exit, Exit::TimedOut);
    eventually(Duration::from_secs(20), "the tool is gone", || {
        processes_with("cmdline", &format!("1800.{token}")).is_empty()
    });
}

/// A helper process, not a test: an engine that is killed.
#[test]
#[ignore = "a part of another test"]
#[allow(clippy::print_stdout)]
fn helper_engine() {
    let Ok(token) = std::env::var(TOKEN) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let command = ShellCommand::new(restless(&token)).on_line(|_, _| println!("the tool runs"));
    runtime.block_on(command.run()).unwrap();
}
