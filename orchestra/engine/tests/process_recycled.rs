//! Numbers of processes that are used again at once: nobody but the tools is killed.
//!
//! Runs in a process namespace of its own that has few numbers, so that those of ended processes come to mean others all
//! the time. The moment between a look and a kill is held open in the tests of `process/handle.rs`.
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

/// The name of the variable that turns `helper_namespace` and `helper_engine` into what they are.
const TOKEN: &str = "HELPER_RECYCLED_TOKEN";
/// How often an engine is killed, and how often a tool is ended.
const ROUNDS: usize = 4;
/// How many innocents there are at a time.
const INNOCENTS: usize = 4;
/// The highest number of a process; after it, numbers begin again at 300.
const NUMBERS: &str = "400";
/// How many processes of a tool there are at a time.
const CHAINS: usize = 8;

/// A tool whose processes end at once, each behind the start of its successor: their numbers are free again before
/// anybody can have done anything with them.
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
    // The shell is process 1 there, and reaps orphans.
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
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{said}");
    assert!(told.contains("1 passed"), "{told}");
}

/// Not a test: the namespace of the test above.
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
                    // Now and then all numbers are taken.
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

/// Whether the highest number is one of the namespace, as from Linux 6.14 on, and not one of the machine.
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

/// Not a test: an engine that is killed.
#[test]
#[ignore = "a part of another test"]
#[allow(clippy::print_stdout)]
fn helper_engine() {
    let Ok(token) = std::env::var(TOKEN) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let command = ShellCommand::new(restless(&token)).on_line(|_, _| println!("the tool runs"));
    runtime.block_on(command.run()).unwrap();
}
