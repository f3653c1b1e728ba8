//! `answer`, `pause`, `cancel` and `attach`, through the program: control of a run by other processes.

#![cfg(unix)]

use crate::support;

use std::process::Stdio;

use support::{Done, SLOW, Scratch, Started, gate, lives, tools};

/// Starts a run that waits at its gate, with an input that stays open and provides nothing.
fn waiting(scratch: &Scratch, attributes: &str) -> (Started, Option<std::process::ChildStdin>) {
    scratch.write("g.dot", gate(attributes));
    let mut command = scratch.command(&["run", "g.dot"]);
    command.stdin(Stdio::piped());
    let (mut run, input) = Started::from_command(command);
    run.until(|object| object["event"] == "InterviewStarted");
    (run, input)
}

/// The `timeout` keeps the question open although nobody is at a terminal.
const PATIENT: &str = ", timeout=1h";

fn waits(scratch: &Scratch) -> (Started, Option<std::process::ChildStdin>) {
    waiting(scratch, PATIENT)
}

#[test]
fn another_process_answers_a_question() {
    let scratch = Scratch::new();
    let (run, _input) = waits(&scratch);
    let id = scratch.runs().remove(0);
    let wrong = scratch.call(&["answer", "last", "approve", "Perhaps"]).exits(2);
    assert!(
        wrong
            .stderr
            .contains("`Perhaps` is not one of the answers: [Y] Yes, ship, [N] No"),
        "{}",
        wrong.stderr
    );
    let nowhere = scratch.call(&["answer", "last", "build", "Y"]).exits(2);
    assert!(
        nowhere
            .stderr
            .contains("no question of `build` is open; open are those of approve")
    );
    let answered = scratch
        .call(&["answer", "last", "approve", "ship", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(answered["schema"], "orchestra.control_result/1");
    assert_eq!(
        (&answered["action"], &answered["done_by"]),
        (&"answer".into(), &run.pid().into())
    );
    let run = run.end().exits(0);
    assert_eq!(run.reported("InterviewCompleted", "answered_by"), ["person"]);
    let over = scratch.call(&["answer", &id, "approve", "Y"]).exits(2);
    assert!(over.stderr.contains("has ended in success"), "{}", over.stderr);
}

#[test]
fn a_stage_after_an_offline_answer_repeats_only_what_was_begun() {
    let scratch = Scratch::new();
    // The first execution of the stage kills the program.
    let killer = "if [ ! -e once ]; then touch once; kill -9 $PPID; fi; true";
    let gate = "digraph { approve [shape=hexagon]; start -> approve; approve -> ship [label=\"[S] Ship\"]; approve -> exit \
                [label=\"[N] No\"]; ship -> exit";
    scratch.write(
        "k.dot",
        format!("{gate}; ship [shape=parallelogram, tool_command=\"{killer}\"] }}"),
    );
    scratch.call(&["run", "k.dot"]).exits(5);
    scratch.call(&["answer", "last", "approve", "S"]).exits(0);
    let again = scratch.call(&["answer", "last", "approve", "N"]).exits(2);
    assert!(
        again
            .stderr
            .contains("help: if it has its answer, go on with `orchestra resume"),
        "{}",
        again.stderr
    );
    let killed = scratch.call(&["resume", "last"]);
    assert_ne!(killed.code, 0);
    assert!(!killed.stderr.contains("repeated"), "{}", killed.stderr);
    let resumed = scratch
        .call(&["resume", "last", "--answer", "approve=N"])
        .exits(0);
    let unused = "warning[unused_answer]: `--answer approve=..` is not used";
    assert!(resumed.stderr.contains(unused), "{}", resumed.stderr);
    let run = scratch.runs().remove(0);
    let events = scratch.read(&format!(".orchestra/runs/{run}/events.jsonl"));
    let starts: Vec<bool> = events
        .lines()
        .filter(|line| line.contains(r#""event":"StageStarted","node":"ship""#))
        .map(|line| line.contains(r#""repeat":true"#))
        .collect();
    assert_eq!(starts, [false, true]);
}

#[test]
fn two_gates_are_answered_at_the_same_moment() {
    let scratch = Scratch::new();
    let gate = |name: &str| format!("{name} [shape=hexagon]; fan -> {name} -> join [label=\"[Y] Yes\"]");
    scratch.write(
        "two.dot",
        format!(
            "digraph {{ start -> fan; fan [shape=component]; join [shape=tripleoctagon]; join -> exit; {}; {} }}",
            gate("left"),
            gate("right")
        ),
    );
    for _ in 0..5 {
        scratch.call(&["run", "two.dot"]).exits(5);
        let answer = |gate| {
            let mut command = scratch.command(&["answer", "last", gate, "Y"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        for answer in [answer("left"), answer("right")] {
            support::done(answer.wait_with_output().unwrap()).exits(0);
        }
        scratch.call(&["resume", "last"]).exits(0);
    }
}

#[test]
fn another_process_pauses_a_run() {
    let scratch = Scratch::new();
    scratch.write("s.dot", SLOW);
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let id = scratch.runs().remove(0);
    let paused = scratch.call(&["pause", "last", "--reason", "lunch"]).exits(0);
    assert_eq!(paused.stdout, format!("{id}: the run is paused\n"));
    assert_eq!(paused.last_line(), format!("resume with: orchestra resume {id}"));
    let run = run.end().exits(130);
    assert_eq!(run.reported("PipelinePaused", "code"), ["requested"]);
    assert_eq!(run.result()["failure_reason"], "the run was paused: lunch");
    let still = scratch.call(&["pause", "last"]).exits(2);
    assert!(
        still.stderr.contains("no process executes run"),
        "{}",
        still.stderr
    );
    scratch.write("go", "");
    scratch.call(&["resume", "last"]).exits(0);
    assert_eq!(scratch.lines("once"), 1);
    let over = scratch.call(&["pause", "last"]).exits(2);
    assert!(over.stderr.contains("has ended: success"), "{}", over.stderr);
}

#[test]
fn another_process_cancels_a_run_and_no_tool_is_left() {
    let scratch = Scratch::new();
    scratch.write("s.dot", SLOW);
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    scratch.until("the stage waits", |scratch| {
        scratch.lines("wait") == 1 && scratch.read("wait").ends_with('\n')
    });
    let tool = scratch.read("wait").trim().to_owned();
    let cancelled = scratch
        .call(&["cancel", "last", "--reason", "not needed"])
        .exits(0);
    assert!(
        cancelled.stdout.ends_with(": the run is cancelled\n"),
        "{}",
        cancelled.stdout
    );
    let run = run.end().exits(130);
    assert_eq!(run.reported("PipelineCancelled", "reason"), ["not needed"]);
    assert!(!lives(&tool));
    assert_eq!(scratch.status()["status"], "cancelled");
    scratch.call(&["resume", "last"]).exits(2);
}

#[test]
fn a_run_that_nobody_executes_is_answered_and_stays_paused() {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    scratch.call(&["run", "g.dot"]).exits(5);
    let id = scratch.runs().remove(0);
    let wrong = scratch.call(&["answer", "last", "approve", "Perhaps"]).exits(2);
    assert!(
        wrong.stderr.contains("not one of the answers") && wrong.stderr.contains("nobody executes the run")
    );
    let nowhere = scratch.call(&["answer", "last", "aprove", "Y"]).exits(2);
    assert!(
        nowhere.stderr.contains("open are those of approve"),
        "{}",
        nowhere.stderr
    );
    let answered = scratch.call(&["answer", "last", "approve", "Y"]).exits(0);
    assert_eq!(
        answered.stdout,
        format!("{id}: the question of `approve` is answered\n")
    );
    assert_eq!(
        answered.last_line(),
        format!("resume with: orchestra resume {id}")
    );
    assert_eq!(
        (scratch.status()["status"].as_str(), scratch.lines("shipped")),
        (Some("paused"), 0)
    );
    // The gate needs no further answer.
    scratch.call(&["resume", "last"]).exits(0);
    assert_eq!((scratch.lines("built"), scratch.lines("shipped")), (1, 1));
}

#[test]
fn a_run_that_nobody_executes_is_cancelled() {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    scratch.call(&["run", "g.dot"]).exits(5);
    let cancelled = scratch
        .call(&["cancel", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(
        (&cancelled["status"], &cancelled["done_by"]),
        (&"cancelled".into(), &serde_json::Value::Null)
    );
    assert_eq!(scratch.status()["status"], "cancelled");
    scratch.call(&["cancel", "last"]).exits(2);
}

#[test]
fn attach_shows_a_run_from_its_start_to_its_end_and_has_its_exit_code() {
    let scratch = Scratch::new();
    scratch.write("s.dot", SLOW);
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let mut attached = scratch.start(&["attach", "last"]);
    attached.until_stage("wait");
    assert_eq!(attached.objects[0]["event"], "PipelineStarted");
    scratch.write("go", "");
    let (run, attached) = (run.end().exits(0), attached.end().exits(0));
    let events = |done: &Done| -> Vec<serde_json::Value> {
        let objects = done.objects();
        objects
            .into_iter()
            .filter(|object| object["schema"] == "orchestra.event/1")
            .collect()
    };
    assert_eq!(events(&run), events(&attached));
    assert_eq!(
        attached.result()["path"],
        serde_json::json!(["start", "once", "wait", "exit"])
    );
    // A run that has ended is shown in the same way.
    let reported = scratch.call(&["attach", "last"]).exits(0);
    assert_eq!(reported.stdout, "success: start -> once -> wait -> exit\n");
    assert!(reported.stderr.contains("ok once"), "{}", reported.stderr);
    let tail = scratch.call(&["attach", "last", "--tail"]).exits(0);
    assert!(!tail.stderr.contains("ok once"), "{}", tail.stderr);
}

#[test]
fn attach_ends_as_the_run_does() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(true)).write("g.dot", gate(""));
    scratch.call(&["run", "a.dot"]).exits(1);
    let failed = scratch.call(&["attach", "last"]).exits(1);
    assert!(failed.stderr.contains("on the wall"), "{}", failed.stderr);
    scratch.call(&["run", "g.dot"]).exits(5);
    let waits = scratch.call(&["attach", "last"]).exits(5);
    assert!(
        waits.last_line().starts_with("resume with: orchestra resume "),
        "{}",
        waits.stderr
    );
    scratch.call(&["cancel", "last"]).exits(0);
    let cancelled = scratch.call(&["attach", "last"]).exits(130);
    // Earlier events are shown as they happened.
    assert!(
        cancelled
            .stderr
            .contains("paused: the gate `approve` waits for a person"),
        "{}",
        cancelled.stderr
    );
}

#[test]
fn attach_follows_a_run_from_owner_to_owner_and_says_when_one_dies() {
    let scratch = Scratch::new();
    scratch.write("s.dot", SLOW);
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let mut attached = scratch.start(&["attach", "last"]);
    attached.until_stage("wait");
    run.signal("KILL");
    run.end().exits(-1);
    let attached = attached.end().exits(130);
    assert!(
        attached.stderr.contains("error[owner_gone]"),
        "{}",
        attached.stderr
    );
    assert!(
        attached.last_line().starts_with("resume with: orchestra resume "),
        "{}",
        attached.stderr
    );
    let error = attached.objects().pop().unwrap();
    assert_eq!(
        (&error["schema"], &error["code"]),
        (&"orchestra.error/1".into(), &"owner_gone".into())
    );

    let mut resumed = scratch.start(&["resume", "last"]);
    resumed.until_stage("wait");
    let mut attached = scratch.start(&["attach", "last"]);
    attached.until(|object| object["event"] == "StageStarted" && object["repeat"] == true);
    scratch.write("go", "");
    resumed.end().exits(0);
    attached.end().exits(0);
}

#[test]
fn attach_shows_the_runs_that_stages_have_started_too() {
    let scratch = Scratch::new();
    scratch.write("s.dot", SLOW).write(
        "p.dot",
        r#"digraph p { start -> first -> second -> exit
            first [shape=folder, label="First", subpipeline.file="s.dot"]
            second [shape=folder, label="Second", subpipeline.file="s.dot"] }"#,
    );
    let mut run = scratch.start(&["run", "p.dot"]);
    run.until_stage("wait");
    let mut attached = scratch.start(&["attach", "last"]);
    attached.until_stage("wait");
    scratch.write("go", "");
    let (run, attached) = (run.end().exits(0), attached.end().exits(0));
    let count = |done: &Done| {
        done.objects()
            .iter()
            .filter(|object| object["schema"] == "orchestra.event/1")
            .count()
    };
    assert_eq!(count(&run), count(&attached));
    let reported = scratch.call(&["attach", "last"]).exits(0);
    for part in ["first-1 > slow\n", "    ok second-1 > wait ", "    ok second "] {
        assert!(reported.stderr.contains(part), "{part}: {}", reported.stderr);
    }
    assert_eq!(reported.stdout, "success: start -> first -> second -> exit\n");
}

#[test]
fn an_interrupt_of_attach_leaves_the_run_alone() {
    let scratch = Scratch::new();
    scratch.write("s.dot", SLOW);
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let mut attached = scratch.start(&["attach", "last"]);
    attached.until_stage("wait");
    attached.signal("INT");
    let attached = attached.end().exits(130);
    assert!(
        attached.stderr.contains("detached; the run goes on"),
        "{}",
        attached.stderr
    );
    scratch.write("go", "");
    run.end().exits(0);
}

#[test]
fn a_process_that_hangs_does_not_reply() {
    let scratch = Scratch::new();
    scratch.write("s.dot", SLOW);
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    run.signal("STOP");
    let hung = scratch.call(&["cancel", "last"]).exits(1);
    assert!(
        hung.stderr.contains("did not reply within") && hung.stderr.contains("--take-over"),
        "{}",
        hung.stderr
    );
    run.signal("CONT");
    scratch.write("go", "");
    run.end().exits(0);
}
