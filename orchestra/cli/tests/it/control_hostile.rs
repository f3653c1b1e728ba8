//! Attempts of stages to answer or control their own run, through the program: only processes outside of the run may do
//! so.

#![cfg(unix)]

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use orchestra_engine::Answer;
use serde_json::json;
use support::{Scratch, Started};

const PROGRAM: &str = env!("CARGO_BIN_EXE_orchestra");

/// The variables that turn a test into the helper of another test.
const RUN_DIR: &str = "HELPER_RUN_DIR";
const COUNT: &str = "HELPER_COUNT";

/// A gate after a tool; an approval ships.
const BEHIND: &str = r#"digraph behind {
    start -> plant -> approve
    plant [shape=parallelogram, tool_command="sh plant.sh"]
    approve [shape=hexagon, label="Ship it?", timeout=1h]
    approve -> ship [label="[Y] Yes"]
    approve -> exit [label="[N] No"]
    ship [shape=parallelogram, tool_command="echo shipped >> shipped"]
    ship -> exit
}
"#;

/// A gate in parallel with a tool that runs while the question is open.
const BESIDE: &str = r#"digraph beside {
    start -> fan; fan [shape=component]; fan -> approve; fan -> attack
    attack [shape=parallelogram, tool_command="sh attack.sh"]
    approve [shape=hexagon, label="Ship it?", timeout=1h]
    approve -> ship [label="[Y] Yes"]
    approve -> keep [label="[N] No"]
    ship [shape=parallelogram, tool_command="echo shipped >> shipped"]
    keep [shape=parallelogram, tool_command="echo kept >> kept"]
    ship -> join; keep -> join; attack -> join
    join [shape=tripleoctagon]; join -> exit
}
"#;

/// Starts a run that waits only for answers of other processes.
fn started(scratch: &Scratch, args: &[&str]) -> Started {
    let mut command = scratch.command(args);
    command.arg("--wait").stdin(Stdio::null());
    Started::from_command(command).0
}

/// Returns the command that runs this test program as a helper.
fn helper(name: &str) -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "{} --exact control_hostile::{name} --ignored --nocapture",
        program.display()
    )
}

/// Returns the control socket of a run's owner.
fn socket(run_dir: &Path) -> PathBuf {
    let run = fs::metadata(run_dir).unwrap();
    let user = run.uid();
    let file = format!("{:x}-{:x}.sock", run.dev(), run.ino());
    let folders = [
        format!("/run/user/{user}/orchestra"),
        format!("/tmp/orchestra-{user}"),
    ];
    let usable = folders.iter().find(|folder| Path::new(folder).is_dir());
    Path::new(usable.unwrap()).join(file)
}

#[test]
fn requests_that_a_tool_leaves_in_the_run_folder_are_nothing() {
    for count in [1, 65, 300, 5_000] {
        let scratch = Scratch::new();
        scratch.write("g.dot", BEHIND);
        let request = json!({"schema": "orchestra.control/1", "id": "ID", "from": {"pid": 1},
            "request": {"do": "answer", "gate": "approve", "answer": Answer::choice("Y")},
            "sent": "2026-11-21T15:30:00.042Z", "patience_ms": 1_000_000_000_000_u64});
        scratch.write("request", request.to_string()).write(
            "plant.sh",
            format!(
                "inbox=$ORCHESTRA_RUN_DIR/control-inbox; mkdir $inbox; n=0; text=$(cat request)\n\
                 while [ $n -lt {count} ]; do n=$((n+1)); echo \"${{text%ID*}}$n${{text#*ID}}\" >$inbox/$n.request.json; done"
            ),
        );
        let mut run = started(&scratch, &["run", "g.dot"]);
        run.until(|object| object["event"] == "InterviewStarted");
        // The question is open, and stays open across a pause.
        scratch.call(&["pause", "last"]).exits(0);
        run.end().exits(130);
        let mut run = started(&scratch, &["resume", "last"]);
        run.until(|object| object["event"] == "PipelineResumed");
        scratch.until("the question is asked again", |scratch| {
            scratch.call(&["answer", "last", "approve", "N"]).code == 0
        });
        run.until(|object| object["event"] == "InterviewCompleted");
        let run = run.end().exits(0);
        assert_eq!(
            run.reported("InterviewCompleted", "answer"),
            ["[N] No"],
            "{count}"
        );
        assert_eq!(run.reported("InterviewCompleted", "answered_by"), ["person"]);
        assert_eq!(
            (
                scratch.lines("shipped"),
                run.reported("PipelineWarning", "code").len()
            ),
            (0, 0)
        );
        // The planted requests are still in the inbox.
        let inbox = scratch
            .path(".orchestra/runs")
            .join(scratch.runs().remove(0))
            .join("control-inbox");
        assert_eq!(fs::read_dir(inbox).unwrap().count(), count);
    }
}

#[test]
fn a_tool_can_neither_answer_nor_pause_nor_cancel_its_own_run() {
    let scratch = Scratch::new();
    // The attacks run in the foreground, in a separate session without environment, and as an orphan of such a session
    // without a mark.
    scratch.write("g.dot", BESIDE).write(
        "attack.sh",
        format!(
            "until test -e \"$ORCHESTRA_RUN_DIR/approve/prompt.md\"; do sleep 0.01; done\n\
             try() {{ \"$@\" --json >>tried 2>>said; echo >>done; }}\n\
             all() {{ try \"$@\" {PROGRAM} answer last approve Y; try \"$@\" {PROGRAM} pause last\n\
                 try \"$@\" {PROGRAM} cancel last; }}\n\
             all env\n\
             all env -i setsid -w\n\
             late=\"sleep 0.05; {PROGRAM} answer last approve Y --json >>tried 2>>said; echo >>done\"\n\
             (setsid env -i sh -c \"$late\" &)\n\
             (setsid env -i prlimit --locks=unlimited sh -c \"$late\" &)\n\
             try {PROGRAM} resume last --take-over\n\
             while [ $(wc -l <done) -lt 9 ]; do sleep 0.01; done"
        ),
    );
    let mut run = started(&scratch, &["run", "g.dot"]);
    run.until(|object| object["event"] == "StageCompleted" && object["node"] == "attack");
    let tried = scratch.read("tried");
    let refused = |code: &str| tried.matches(&format!("\"code\":\"{code}\"")).count();
    assert_eq!(
        refused("control_own_process"),
        8,
        "{tried}\n{}",
        scratch.read("said")
    );
    assert_eq!(
        refused("store_own_process"),
        1,
        "{tried}\n{}",
        scratch.read("said")
    );
    scratch.call(&["answer", "last", "approve", "N"]).exits(0);
    let run = run.end().exits(0);
    assert_eq!((scratch.lines("shipped"), scratch.lines("kept")), (0, 1));
    assert_eq!(run.reported("InterviewCompleted", "answered_by"), ["person"]);
    let codes = run.reported("PipelineWarning", "code");
    assert_eq!(codes, ["control_own_process"; 8]);
    let message = run.reported("PipelineWarning", "message").remove(0);
    assert!(message.as_str().unwrap().contains("(`orchestra`)"), "{message}");
}

#[test]
fn thousands_of_connections_keep_no_person_from_answering() {
    for count in [1, 65, 300, 5_000] {
        let scratch = Scratch::new();
        // The tool opens all connections at once, while outside processes open as many that stay silent.
        let call = format!(
            "ulimit -n 6000; {COUNT}={count} exec {}",
            helper("helper_connects")
        );
        scratch.write("g.dot", BESIDE).write(
            "attack.sh",
            format!("{RUN_DIR}=\"$ORCHESTRA_RUN_DIR\"; export {RUN_DIR}; {call} >heard"),
        );
        let mut run = started(&scratch, &["run", "g.dot"]);
        run.until(|object| object["event"] == "InterviewStarted");
        let run_dir = scratch.path(".orchestra/runs").join(scratch.runs().remove(0));
        let mut outside = Command::new("sh")
            .args(["-c", &call])
            .env(RUN_DIR, &run_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(outside.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("connected") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0);
        }
        scratch.call(&["answer", "last", "approve", "N"]).exits(0);
        let run = run.end().exits(0);
        drop(outside.stdin.take());
        outside.wait().unwrap();
        assert_eq!((scratch.lines("shipped"), scratch.lines("kept")), (0, 1));
        // Each connection of the tool was refused at once; only a few are reported.
        let heard = scratch.read("heard");
        assert!(
            heard.contains(&format!("refused {count} of {count}\n")),
            "{heard}"
        );
        assert_eq!(run.reported("PipelineWarning", "code").len(), count.min(8));
    }
}

/// Not a test by itself: repeatedly connects to the owner of a run, and keeps all connections open and silent.
#[test]
#[ignore = "a part of another test"]
fn helper_connects() {
    let (Some(run_dir), Ok(count)) = (std::env::var_os(RUN_DIR), std::env::var(COUNT)) else {
        return;
    };
    let path = socket(Path::new(&run_dir));
    let connect = || loop {
        if let Ok(stream) = UnixStream::connect(&path) {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let count: usize = count.parse().unwrap();
    let streams: Vec<UnixStream> = (0..count).map(|_| connect()).collect();
    println!("\nconnected");
    let refused = streams.iter().filter(|stream| {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut line = String::new();
        let read = BufReader::new(*stream).read_line(&mut line);
        read.is_ok() && line.contains("control_own_process")
    });
    println!("\nrefused {} of {count}", refused.count());
    // Wait until the parent test closes standard input; the input of a tool is at its end at once.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
