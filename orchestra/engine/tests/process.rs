//! Tests of the input, the output and the end of a command.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod process_support;

use std::error::Error as _;
use std::fs;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use orchestra_engine::process::{Exit, MARK_VARIABLE, OutputStream, ProcessError, ShellCommand, ToolOutput};
use process_support::{assert_gone, eventually, on_both_runtimes, processes_with, token};
use tokio_util::sync::CancellationToken;

async fn run(text: &str) -> ToolOutput {
    ShellCommand::new(text)
        .timeout(Duration::from_secs(30))
        .run()
        .await
        .unwrap()
}

/// Enough time for a script to set its traps, even on a busy machine.
const READY: Duration = Duration::from_secs(3);

#[test]
fn exit_code_and_both_streams_come_back() {
    on_both_runtimes(|| async {
        let output = run("echo out; echo err >&2; exit 7").await;
        assert_eq!(output.exit, Exit::Code(7));
        assert!(!output.exit.is_success());
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!((output.stdout_bytes, output.stderr_bytes), (4, 4));
        assert!(!output.truncated && !output.lossy && output.file_error.is_none());
    });
}

#[tokio::test]
async fn success_is_the_code_zero() {
    assert!(run("true").await.exit.is_success());
    assert_eq!(run("no-such-program-anywhere").await.exit, Exit::Code(127));
}

#[tokio::test]
async fn death_by_a_signal_is_no_exit_code() {
    assert_eq!(run("kill -s KILL $$").await.exit, Exit::Signal(9));
    assert_eq!(run("kill -s TERM $$").await.exit, Exit::Signal(15));
}

#[tokio::test]
async fn a_command_that_looks_like_an_option_is_a_command() {
    assert_eq!(run("-x").await.exit, Exit::Code(127));
}

#[tokio::test]
async fn only_allowed_variables_are_inherited() {
    // Cargo sets variables for tests. One of them represents a secret in the environment of this process.
    let secret = std::env::var("CARGO_PKG_NAME").expect("set by cargo");
    let listing = run("env").await.stdout;
    assert!(
        !listing.contains(&secret) && !listing.contains("CARGO_PKG_NAME="),
        "{listing}"
    );
    assert!(listing.lines().any(|line| line.starts_with("PATH=")));
    let allowed = ShellCommand::new("env")
        .inherit("CARGO_PKG_NAME")
        .run()
        .await
        .unwrap()
        .stdout;
    assert!(
        allowed
            .lines()
            .any(|line| line == format!("CARGO_PKG_NAME={secret}"))
    );
    for line in listing.lines() {
        let name = line.split('=').next().unwrap();
        let known = [
            "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "TZ", "PWD", "OLDPWD",
        ];
        let known = known.contains(&name)
            || ["LC_", "CARGO_HOME", "RUSTUP_"]
                .iter()
                .any(|start| name.starts_with(start));
        assert!(
            known || ["_", "SHLVL", MARK_VARIABLE].contains(&name),
            "{name} is inherited"
        );
    }
}

#[tokio::test]
async fn text_of_another_stage_comes_by_variable_and_is_never_run() {
    let text = "'; touch planted; \"$(touch planted)` touch planted `\nline two ä";
    let folder = tempfile::tempdir().unwrap();
    let output = ShellCommand::new(r#"printf %s "$TEXT""#)
        .directory(folder.path())
        .variable("TEXT", text)
        .variable("PATH", std::env::var_os("PATH").unwrap())
        .run()
        .await
        .unwrap();
    assert_eq!(output.stdout, text);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_set_variable_wins_but_the_mark_cannot_be_set() {
    let command = ShellCommand::new("echo $HOME; echo $ORCHESTRA_TOOL_ID").variable("HOME", "/elsewhere");
    let output = command.variable(MARK_VARIABLE, "forged").run().await.unwrap();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines[0], "/elsewhere");
    assert!(lines[1].starts_with(':') && lines[1].ends_with(':'), "{lines:?}");
}

#[tokio::test]
async fn a_name_that_cannot_be_a_variable_is_refused_without_its_value() {
    for name in ["", "A=B", "A\0"] {
        let fault = ShellCommand::new("true")
            .variable(name, "hidden")
            .run()
            .await
            .unwrap_err();
        assert!(matches!(fault, ProcessError::Variable { .. }));
        assert!(!format!("{fault} {fault:?}").contains("hidden"));
    }
    let debug = format!("{:?}", ShellCommand::new("true").variable("KEY", "hidden"));
    assert!(debug.contains("KEY") && !debug.contains("hidden"), "{debug}");
}

#[tokio::test]
async fn input_is_closed() {
    let output = run("if read -r line; then echo got; else echo closed; fi; cat; echo end").await;
    assert_eq!(output.stdout, "closed\nend\n");
}

#[test]
fn a_megabyte_of_input_goes_through_a_command_that_answers_meanwhile() {
    on_both_runtimes(|| async {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| b'a' + (at % 26) as u8).collect();
        let command = ShellCommand::new("cat; cat").capture_limit(2_000_000);
        let output = command.input(bytes.clone()).run().await.unwrap();
        assert_eq!(output.exit, Exit::Code(0));
        assert!(output.stdout.as_bytes() == bytes, "{} bytes", output.stdout_bytes);
    });
}

#[test]
fn a_command_need_not_read_its_input() {
    on_both_runtimes(|| async {
        let input = vec![b'x'; 1_000_000];
        for (text, exit, reported) in [
            ("echo done", Exit::Code(0), "done"),
            ("head -c 3", Exit::Code(0), "xxx"),
            ("exec <&-; echo closed; exit 4", Exit::Code(4), "closed"),
            ("head -c 70000 >/dev/null; kill -s KILL $$", Exit::Signal(9), ""),
        ] {
            let output = ShellCommand::new(text).input(input.clone()).run().await.unwrap();
            assert_eq!(
                (output.exit, output.stdout.trim_end()),
                (exit, reported),
                "{text}"
            );
        }
        let hung = ShellCommand::new("exec sleep 1800").timeout(Duration::from_millis(50));
        assert_eq!(hung.input(input).run().await.unwrap().exit, Exit::TimedOut);
    });
}

#[tokio::test]
async fn an_input_of_nothing_ends_at_once() {
    let output = ShellCommand::new("cat; echo end").input("").run().await.unwrap();
    assert_eq!(output.stdout, "end\n");
}

#[tokio::test]
async fn a_command_that_was_given_input_still_dies_of_closed_pipes() {
    let output =
        ShellCommand::new("cat | head -c 1 >/dev/null; yes | head -c 1; grep SigBlk /proc/self/status")
            .input("abc")
            .run()
            .await
            .unwrap();
    assert!(
        output.stdout.contains("SigBlk:\t0000000000000000"),
        "{}",
        output.stdout
    );
}

#[tokio::test]
async fn a_group_of_its_own() {
    let output = run("read -r pid name state parent group rest </proc/self/stat; echo $$ $group").await;
    let (pid, group) = output.last_line().unwrap().split_once(' ').unwrap();
    assert_eq!(pid, group);
}

#[tokio::test]
async fn runs_in_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let command = ShellCommand::new("pwd -P").directory(folder.path());
    let output = command.run().await.unwrap();
    assert_eq!(
        output.last_line().unwrap(),
        folder.path().canonicalize().unwrap().to_str().unwrap()
    );
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let missing = ShellCommand::new("true")
        .directory("/no/such/folder")
        .run()
        .await
        .unwrap_err();
    assert_eq!(missing.to_string(), "cannot run in the directory /no/such/folder");
    let fault = ShellCommand::new("true")
        .variable("BIG", "x".repeat(1 << 20))
        .run()
        .await
        .unwrap_err();
    assert_eq!(fault.to_string(), "cannot start /bin/sh");
    assert!(
        fault.source().unwrap().to_string().contains("too long"),
        "{fault:?}"
    );
    let fault = ShellCommand::new("true")
        .stdout_file("/no/such/folder/out")
        .run()
        .await
        .unwrap_err();
    assert_eq!(
        fault.to_string(),
        "cannot create the output file /no/such/folder/out"
    );
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced() {
    let output = run(r"printf 'a\377\376b'").await;
    assert_eq!(
        (output.stdout.as_str(), output.stdout_bytes, output.lossy),
        ("a\u{FFFD}\u{FFFD}b", 4, true)
    );
}

#[tokio::test]
async fn long_output_keeps_both_ends() {
    let output = ShellCommand::new("seq 1 100000")
        .capture_limit(1000)
        .run()
        .await
        .unwrap();
    assert!(output.truncated && output.stdout.len() < 1100);
    assert!(output.stdout.starts_with("1\n2\n") && output.stdout.ends_with("99999\n100000\n"));
    assert!(
        output
            .stdout
            .contains(&format!("[... {} bytes dropped ...]", output.stdout_bytes - 1000))
    );
    assert_eq!(output.last_line(), Some("100000"));
}

#[tokio::test]
async fn output_files_hold_everything_up_to_their_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (folder.path().join("out.txt"), folder.path().join("err.txt"));
    fs::write(&err, "from an earlier visit").unwrap();
    let command = ShellCommand::new("seq 1 1000; seq 1 1000 >&2")
        .capture_limit(10)
        .file_limit(3893);
    let output = command.stdout_file(&out).stderr_file(&err).run().await.unwrap();
    assert_eq!((output.stdout_bytes, output.stderr_bytes), (3893, 3893));
    let whole = fs::read_to_string(&out).unwrap();
    assert!(whole.starts_with("1\n2\n") && whole.ends_with("\n1000\n") && whole.len() == 3893);
    assert_eq!(fs::read_to_string(&err).unwrap(), whole);

    let command = ShellCommand::new("yes | head -c 100000")
        .file_limit(10)
        .stdout_file(&out);
    let output = command.run().await.unwrap();
    assert_eq!(
        (output.stdout_bytes, output.file_error.is_none()),
        (100_000, true)
    );
    let cut = "y\ny\ny\ny\ny\n\n[the rest is not written: the file limit is 10 bytes]\n";
    assert_eq!(fs::read_to_string(&out).unwrap(), cut);
}

#[tokio::test]
async fn a_planted_link_is_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let (victim, link) = (folder.path().join("victim"), folder.path().join("out.txt"));
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    let fault = ShellCommand::new("echo gone")
        .stdout_file(&link)
        .run()
        .await
        .unwrap_err();
    assert!(matches!(fault, ProcessError::CreateFile { .. }), "{fault:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[tokio::test]
async fn what_is_no_regular_file_is_no_place_for_output() {
    let fault = ShellCommand::new("echo text")
        .stdout_file("/dev/full")
        .run()
        .await
        .unwrap_err();
    assert!(matches!(fault, ProcessError::CreateFile { .. }), "{fault:?}");
}

#[tokio::test]
async fn lines_are_shown_while_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let (send, lines) = mpsc::channel();
    let command =
        ShellCommand::new("echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; printf three")
            .directory(folder.path())
            .timeout(Duration::from_secs(30))
            .on_line(move |stream, line| {
                // The command only continues after its first line has been shown.
                fs::write(&go, "").unwrap();
                send.send((stream, line.to_owned())).unwrap();
            });
    assert!(command.run().await.unwrap().exit.is_success());
    let lines: Vec<_> = lines.iter().collect();
    let expected = [
        (OutputStream::Stdout, "one"),
        (OutputStream::Stderr, "two"),
        (OutputStream::Stdout, "three"),
    ];
    assert_eq!(lines, expected.map(|(stream, line)| (stream, line.to_owned())));
}

#[tokio::test]
async fn a_panic_in_the_function_for_lines_ends_the_command() {
    let token = token();
    let command =
        ShellCommand::new(format!("echo line; sleep 1800.{token}")).on_line(|_, _| panic!("on purpose"));
    assert!(matches!(command.run().await, Err(ProcessError::ThreadLost)));
    assert_gone(&token);
}

#[test]
fn a_cancelled_command_ends() {
    on_both_runtimes(|| async {
        let (token, cancel) = (token(), CancellationToken::new());
        let shown = cancel.clone();
        let output = ShellCommand::new(format!("echo ready; exec sleep 1800.{token}"))
            .cancel(cancel)
            .grace(Duration::from_secs(600))
            .on_line(move |_, _| shown.cancel())
            .run()
            .await
            .unwrap();
        assert_eq!(
            (output.exit, output.stdout.as_str()),
            (Exit::Cancelled, "ready\n")
        );
        assert!(
            output.duration < Duration::from_secs(60),
            "TERM was enough: {:?}",
            output.duration
        );
        assert_gone(&token);
    });
}

#[tokio::test]
async fn a_token_cancelled_before_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let command = ShellCommand::new("touch started")
        .directory(folder.path())
        .cancel(cancel);
    assert_eq!(command.run().await.unwrap().exit, Exit::Cancelled);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_tool_can_clean_up_in_the_grace_period() {
    let output = ShellCommand::new("trap 'echo cleaned; exit 0' TERM; echo ready; sleep 1800 & wait")
        .timeout(READY)
        .grace(Duration::from_secs(600))
        .run()
        .await
        .unwrap();
    assert_eq!(
        (output.exit, output.last_line()),
        (Exit::TimedOut, Some("cleaned"))
    );
    assert!(
        output.duration < Duration::from_secs(60),
        "the rest of the grace is not waited for"
    );
}

#[tokio::test]
async fn children_may_clean_up_though_the_leader_is_gone() {
    let child = "trap 'sleep 0.3; echo cleaned; exit' TERM; echo ready; sleep 1800 & wait";
    let output = ShellCommand::new(format!("setsid sh -c \"{child}\" & trap 'exit' TERM; wait"))
        .timeout(READY)
        .grace(Duration::from_secs(600))
        .run()
        .await
        .unwrap();
    assert_eq!(
        (output.exit, output.last_line()),
        (Exit::TimedOut, Some("cleaned"))
    );
}

#[test]
fn a_dropped_future_ends_the_command_even_without_its_runtime() {
    let token = token();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let text = format!(
        "trap '' TERM; setsid sleep 1800.{token} & echo ready; sleep 1800.{token}; sleep 1800.{token}"
    );
    let (send, lines) = mpsc::channel();
    let command = ShellCommand::new(text)
        .grace(Duration::from_millis(300))
        .on_line(move |_, _| send.send(()).unwrap());
    runtime.spawn(command.run());
    runtime.block_on(async {
        while lines.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
    });
    assert!(!processes_with("cmdline", &token).is_empty());
    drop(runtime);
    assert_gone(&token);
}

#[tokio::test]
async fn leftovers_do_not_delay_the_result() {
    let token = token();
    let started = Instant::now();
    let output = run(&format!(
        "setsid sleep 1800.{token} & sleep 1800.{token} & echo done"
    ))
    .await;
    assert_eq!((output.exit, output.stdout.as_str()), (Exit::Code(0), "done\n"));
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!(processes_with("cmdline", &token), [0; 0]);
}

/// The command ends at once, but not before the other process has left its group.
#[tokio::test]
async fn leftovers_that_left_the_group_are_found() {
    let token = token();
    let child = format!("setsid sh -c 'echo up; exec sleep 1800.{token} >/dev/null 2>&1'");
    for _ in 0..5 {
        let output = run(&format!("{{ {child} & }} | {{ read up; echo $up; }}")).await;
        assert_eq!((output.exit, output.stdout.as_str()), (Exit::Code(0), "up\n"));
        assert_eq!(processes_with("cmdline", &token), [0; 0]);
    }
}

#[tokio::test]
async fn leftovers_are_found_among_many_processes() {
    let token = token();
    let many = "i=0; while [ $i -lt 300 ]; do (exit 0) & i=$((i + 1)); done";
    let output = run(&format!(
        "setsid sleep 1800.{token} & {many}; setsid sleep 1800.{token} &"
    ))
    .await;
    assert_eq!(output.exit, Exit::Code(0));
    assert_eq!(processes_with("cmdline", &token), [0; 0]);
}

#[tokio::test]
async fn no_process_and_no_zombie_is_left() {
    let id = run("sleep 1800 & echo $ORCHESTRA_TOOL_ID $$").await.stdout;
    let (id, pid) = id.trim().split_once(' ').unwrap();
    eventually(Duration::from_secs(30), "the leader is reaped", || {
        !fs::exists(format!("/proc/{pid}")).unwrap()
    });
    assert_eq!(processes_with("environ", id), [0; 0]);
}

/// Returns the watchers that this process has started.
fn watchers() -> Vec<i32> {
    let own = format!("\nPPid:\t{}\n", std::process::id());
    let children = processes_with("status", &own);
    let watchers = processes_with("cmdline", "tool-watcher ");
    watchers
        .into_iter()
        .filter(|pid| children.contains(pid))
        .collect()
}

#[tokio::test]
async fn a_killed_watcher_is_replaced() {
    run("true").await;
    let old = watchers();
    assert_eq!(old.len(), 1, "one for all commands");
    run(&format!("kill -s KILL {}", old[0])).await;
    let end = Instant::now() + Duration::from_secs(60);
    while watchers().iter().all(|pid| old.contains(pid)) {
        assert!(Instant::now() < end, "no new watcher");
        run("true").await;
    }
}

#[tokio::test]
async fn short_commands_are_quick() {
    let mut quickest = Duration::MAX;
    for _ in 0..20 {
        let started = Instant::now();
        assert!(run("true").await.exit.is_success());
        quickest = quickest.min(started.elapsed());
    }
    // No command would be this fast if each waited for the end of the output or for leftovers.
    assert!(quickest < Duration::from_millis(150), "{quickest:?}");
}
