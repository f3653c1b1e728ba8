//! Output that nobody reads, that cannot be written, or whose reader is gone.

#![cfg(unix)]

use crate::support;

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use support::Scratch;

/// Time limit of each step; a blocked program never ends.
const BOUND: Duration = Duration::from_secs(60);

/// The kind of output that nobody reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unread {
    /// Pipes that nobody reads.
    Pipes,
    /// The same with `--json`.
    Json,
    /// A terminal that is stopped, as by Ctrl-S.
    Terminal,
}

/// A program whose output nobody reads.
struct Stuck {
    scratch: Scratch,
    child: Child,
    /// The other end of the terminal or of the pipes.
    _kept: Vec<OwnedFd>,
}

/// Returns a stopped terminal: the master side, and the side of the program.
fn stopped_terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(OpenptFlags::NOCTTY.bits() as i32);
    let terminal = options.open(name.to_str().unwrap()).unwrap();
    let mut keyboard = File::from(master);
    // Ctrl-S.
    keyboard.write_all(b"\x13").unwrap();
    (keyboard, terminal)
}

/// A pipeline whose goal exceeds the capacity of a pipe.
fn pipeline() -> String {
    format!(
        "digraph {{\n goal=\"{}\"\n start -> slow\n slow -> hang [condition=\"outcome=fail\"]\n \
         slow -> exit [condition=\"outcome=success\"]\n hang -> exit\n \
         slow [shape=parallelogram, tool_command=\"sleep 600\", timeout=\"300ms\", max_retries=0]\n \
         hang [shape=parallelogram, tool_command=\"echo $$ > pid; exec sleep 600\"]\n}}\n",
        "x".repeat(200_000)
    )
}

impl Stuck {
    /// Starts a run whose first stage times out and whose second stage hangs, and waits until it hangs.
    fn hanging(unread: Unread) -> Stuck {
        let scratch = Scratch::new();
        scratch.write("a.dot", pipeline());
        let mut command = scratch.command(&["run", "a.dot", "--run-dir", "run"]);
        let mut stuck = match unread {
            Unread::Terminal => {
                let (keyboard, terminal) = stopped_terminal();
                command
                    .stdin(terminal.try_clone().unwrap())
                    .stdout(terminal.try_clone().unwrap())
                    .stderr(terminal);
                let child = command.spawn().unwrap();
                let _kept = vec![keyboard.into()];
                Stuck {
                    scratch,
                    child,
                    _kept,
                }
            }
            Unread::Pipes | Unread::Json => {
                if unread == Unread::Json {
                    command.arg("--json");
                }
                let mut child = command
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                let _kept = vec![
                    child.stdout.take().unwrap().into(),
                    child.stderr.take().unwrap().into(),
                ];
                Stuck {
                    scratch,
                    child,
                    _kept,
                }
            }
        };
        let begun = Instant::now();
        while stuck.scratch.lines("pid") == 0 {
            assert!(
                begun.elapsed() < BOUND,
                "{unread:?}: the first stage never timed out"
            );
            assert!(stuck.child.try_wait().unwrap().is_none(), "{unread:?}: it ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        stuck
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits until the program and its tool have ended. Returns the exit code.
    fn ends(mut self, what: &str) -> i32 {
        let begun = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < BOUND, "{what}: it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let tool = format!("/proc/{}", self.scratch.read("pid").trim());
        while is_alive(&tool) {
            assert!(begun.elapsed() < BOUND, "{what}: its tool goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        code
    }
}

/// Returns whether a process exists and is not a zombie.
fn is_alive(process: &str) -> bool {
    let state = std::fs::read_to_string(format!("{process}/stat")).unwrap_or_default();
    state
        .rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

impl Drop for Stuck {
    fn drop(&mut self) {
        // Clean up after a failed test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a run for each kind of unread output, and ends it with `end`; all concurrently.
fn each(end: impl Fn(&Stuck) + Sync) {
    std::thread::scope(|scope| {
        for unread in [Unread::Pipes, Unread::Json, Unread::Terminal] {
            let end = &end;
            scope.spawn(move || {
                let stuck = Stuck::hanging(unread);
                end(&stuck);
                assert_eq!(stuck.ends(&format!("{unread:?}")), 130, "{unread:?}");
            });
        }
    });
}

#[test]
fn a_run_whose_output_nobody_reads_times_out_stages_and_is_cancelled() {
    each(|stuck| {
        let cancelled = stuck.scratch.call(&["cancel", "run", "--runs", "."]);
        assert_eq!(cancelled.code, 0, "{}{}", cancelled.stdout, cancelled.stderr);
    });
}

#[test]
fn a_run_whose_output_nobody_reads_is_paused_by_one_interrupt() {
    each(|stuck| stuck.signal("-INT"));
}

#[test]
fn a_run_whose_output_nobody_reads_is_stopped_by_two_interrupts() {
    each(|stuck| {
        stuck.signal("-INT");
        stuck.signal("-INT");
    });
}

#[test]
fn a_run_whose_output_nobody_reads_is_paused_by_a_request_to_terminate() {
    each(|stuck| stuck.signal("-TERM"));
}

#[test]
fn what_is_read_late_is_whole_and_in_order() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph { max_node_visits=9999; start -> work; work -> work [condition=\"outcome=fail\"]; \
         work -> exit [condition=\"outcome=success\"]; work [label=Work, max_retries=0] }",
    );
    let outcomes = "fail, ".repeat(2_000);
    scratch.write("s.yaml", format!("work: [{outcomes}success]\n"));
    let args = [
        "run",
        "a.dot",
        "--simulate",
        "s.yaml",
        "--json",
        "--durability",
        "none",
        "--run-dir",
        "run",
    ];
    let mut child = scratch
        .command(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The run ends although nobody reads.
    scratch.until("the run ends", |scratch| {
        let events = std::fs::read_to_string(scratch.path("run/events.jsonl")).unwrap_or_default();
        events.contains("\"PipelineCompleted\"")
    });
    assert!(child.try_wait().unwrap().is_none(), "it waits for its reader");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.len() > 5 << 18, "{}", text.len());
    let objects: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seqs: Vec<u64> = objects
        .iter()
        .filter_map(|object| object["seq"].as_u64())
        .collect();
    assert!(
        seqs.iter().copied().eq(1..=seqs.len() as u64),
        "{} events",
        seqs.len()
    );
    let last = objects.last().unwrap();
    assert_eq!(
        (&last["schema"], &last["status"]),
        (&"orchestra.result/1".into(), &"success".into())
    );
}

#[test]
fn a_reader_that_went_away_is_reported_on_neither_stream() {
    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph { start -> exit }");
    for args in [
        &["explain"][..],
        &["run", "a.dot", "--json"],
        &["--help"],
        &["status"],
        &["graph", "a.dot"],
    ] {
        let (read, written) = std::io::pipe().unwrap();
        drop(read);
        let output = scratch
            .command(args)
            .stdout(written)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let reported = String::from_utf8(output.stderr).unwrap();
        assert!(
            !reported.contains("error") && !reported.contains("pipe"),
            "{args:?}: {reported}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_reported_and_has_an_exit_code_of_its_own() {
    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph { start -> exit }");
    scratch.write(
        "bad.dot",
        "digraph { start -> work -> exit; work [shape=parallelogram, tool_command=\"exit 1\"] }",
    );
    scratch
        .call(&["run", "a.dot", "--run-dir", ".orchestra/runs/one"])
        .exits(0);
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let commands: [(&[&str], i32); 21] = [
        (&["run", "a.dot"], 74),
        (&["run", "a.dot", "--json"], 74),
        // The failure of the run takes precedence.
        (&["run", "bad.dot"], 1),
        (&["status"], 74),
        (&["status", "one"], 74),
        (&["status", "--json"], 74),
        (&["checkpoints", "one"], 74),
        (&["compare", "one", "one"], 74),
        (&["attach", "one"], 74),
        (&["check", "a.dot", "--json"], 74),
        (&["compile", "a.dot"], 74),
        (&["explain"], 74),
        (&["explain", "start_node"], 74),
        (&["graph", "a.dot"], 74),
        (&["fmt", "-"], 74),
        (&["completions", "bash"], 74),
        (&["man"], 74),
        (&["init", "new", "--json"], 74),
        (&["cleanup", "--json"], 74),
        (&["--help"], 74),
        (&["--version"], 74),
    ];
    for (args, code) in commands {
        let mut command = scratch.command(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(full())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Some commands do not read their input.
        let _ = child
            .stdin
            .take()
            .unwrap()
            .write_all(b"digraph { start -> exit }");
        let mut reported = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut reported)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{args:?}: {reported}");
        let expected = "error[output]: cannot write standard output: No space left on device";
        assert!(reported.contains(expected), "{args:?}: {reported}");
    }
    for (args, code) in [
        (&["check", "a.dot"][..], 74),
        (&["run", "a.dot"], 74),
        (&["check", "none.dot"], 2),
    ] {
        let output = scratch
            .command(args)
            .stdout(Stdio::piped())
            .stderr(full())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
    }
}
