//! Damaged and removed files of a run folder, through the program.

#![cfg(unix)]

use crate::support;

use support::{Done, Scratch};

/// Two tools that record their execution, and one that waits until it may end.
const FLOW: &str = r#"digraph flow {
    node [shape=parallelogram]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    start -> one -> two -> waits -> exit
    one [tool_command="echo one >> ran"]
    two [tool_command="echo two >> ran"]
    waits [tool_command="echo waits >> ran; while [ ! -e go ]; do sleep 0.05; done"]
}"#;

const JOURNAL: &str = "runs/flow/journal.jsonl";

/// Starts a run and kills its process while the last stage runs.
fn killed() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("flow.dot", FLOW);
    let run = scratch.start(&["run", "flow.dot", "--run-dir", "runs/flow"]);
    scratch.until("the last stage runs", |scratch| scratch.lines("ran") == 3);
    run.signal("KILL");
    run.end();
    scratch.write("go", "");
    scratch
}

/// Returns the records of the journal without its reserved space.
fn records(scratch: &Scratch) -> Vec<String> {
    let text = scratch.read(JOURNAL);
    let text = text.trim_end_matches('\0');
    text.split_inclusive('\n').map(str::to_owned).collect()
}

fn resume(scratch: &Scratch, options: &[&str]) -> Done {
    scratch.call(&[&["resume", "runs/flow"], options].concat())
}

#[test]
fn a_journal_that_was_cut_is_refused_until_the_loss_is_accepted() {
    let scratch = killed();
    let records = records(&scratch);
    scratch.write(JOURNAL, records[..records.len() - 1].concat());
    let refused = resume(&scratch, &[]).exits(1);
    assert!(
        refused.stderr.contains("journal.jsonl` ends behind record"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("resume runs/flow --accept-loss`"),
        "{}",
        refused.stderr
    );
    assert_eq!(scratch.read("ran"), "one\ntwo\nwaits\n");
    resume(&scratch, &["--accept-loss"]).exits(0);
    assert_eq!(scratch.read("ran"), "one\ntwo\nwaits\ntwo\nwaits\n");
}

#[test]
fn a_journal_that_is_whole_runs_no_finished_stage_again() {
    let scratch = killed();
    resume(&scratch, &[]).exits(0);
    assert_eq!(scratch.read("ran"), "one\ntwo\nwaits\nwaits\n");
}

#[test]
fn a_tool_that_removes_the_run_folder_ends_the_run_and_its_tools() {
    let scratch = Scratch::new();
    // The tool is killed as soon as the lock is gone, so it must not be in the middle of the folder then.
    let flow = r#"digraph flow {
        start -> gone -> exit
        gone [shape=parallelogram, tool_command="echo $$ > pid; mv $ORCHESTRA_RUN_DIR old; rm -rf old; sleep 600"]
    }"#;
    scratch.write("flow.dot", flow);
    let done = scratch
        .call(&["run", "flow.dot", "--run-dir", "runs/flow"])
        .exits(1);
    let said = "was removed during the run; the run cannot be resumed";
    assert!(done.stderr.contains(said), "{}", done.stderr);
    assert!(!done.stderr.contains("resume with:"), "{}", done.stderr);
    assert!(!scratch.path("runs/flow").exists());
    let tool = scratch.read("pid").trim().to_owned();
    scratch.until("the tool is gone", |_| !support::lives(&tool));
}

#[test]
fn a_tool_that_forges_the_journal_ends_the_run_with_the_name_of_the_file() {
    let scratch = Scratch::new();
    let flow = r#"digraph flow {
        start -> forge -> after -> exit
        forge [shape=parallelogram, tool_command="echo forged >> $ORCHESTRA_RUN_DIR/journal.jsonl"]
        after [shape=parallelogram, tool_command="touch after"]
    }"#;
    scratch.write("flow.dot", flow);
    let done = scratch
        .call(&["run", "flow.dot", "--run-dir", "runs/flow"])
        .exits(1);
    assert!(
        done.stderr.contains("journal.jsonl` was changed during the run"),
        "{}",
        done.stderr
    );
    assert!(!scratch.path("after").exists());
}
