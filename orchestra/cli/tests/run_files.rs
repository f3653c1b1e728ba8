//! The files of a run folder, damaged and removed by those who should not, through the program.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use support::{Done, Place};

/// Two tools that note that they ran, and one that waits until it may end.
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

/// A run whose process was killed while its last stage ran.
fn killed() -> Place {
    let place = Place::new();
    place.write("flow.dot", FLOW);
    let run = place.start(&["run", "flow.dot", "--run-dir", "runs/flow"]);
    place.until("the last stage runs", |place| place.lines("ran") == 3);
    run.signal("KILL");
    run.end();
    place.write("go", "");
    place
}

/// The lines of the journal without the space that it reserves.
fn records(place: &Place) -> Vec<String> {
    let text = place.read(JOURNAL);
    let text = text.trim_end_matches('\0');
    text.split_inclusive('\n').map(str::to_owned).collect()
}

fn resume(place: &Place, options: &[&str]) -> Done {
    place.call(&[&["resume", "runs/flow"], options].concat())
}

#[test]
fn a_journal_that_was_cut_is_refused_until_the_loss_is_accepted() {
    let place = killed();
    let records = records(&place);
    place.write(JOURNAL, records[..records.len() - 1].concat());
    let refused = resume(&place, &[]).exits(1);
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
    assert_eq!(place.read("ran"), "one\ntwo\nwaits\n");
    resume(&place, &["--accept-loss"]).exits(0);
    assert_eq!(place.read("ran"), "one\ntwo\nwaits\ntwo\nwaits\n");
}

#[test]
fn a_journal_that_is_whole_runs_no_finished_stage_again() {
    let place = killed();
    resume(&place, &[]).exits(0);
    assert_eq!(place.read("ran"), "one\ntwo\nwaits\nwaits\n");
}

#[test]
fn a_tool_that_removes_the_run_folder_ends_the_run_and_its_tools() {
    let place = Place::new();
    let flow = r#"digraph flow {
        start -> gone -> exit
        gone [shape=parallelogram, tool_command="echo $$ > pid; rm -rf $ORCHESTRA_RUN_DIR; sleep 600"]
    }"#;
    place.write("flow.dot", flow);
    let done = place
        .call(&["run", "flow.dot", "--run-dir", "runs/flow"])
        .exits(1);
    let said = "was removed while the run was going; the run cannot be resumed";
    assert!(done.stderr.contains(said), "{}", done.stderr);
    assert!(!done.stderr.contains("resume with:"), "{}", done.stderr);
    assert!(!place.path("runs/flow").exists());
    let tool = place.read("pid").trim().to_owned();
    place.until("the tool is gone", |_| !support::lives(&tool));
}

#[test]
fn a_tool_that_forges_the_journal_ends_the_run_with_the_name_of_the_file() {
    let place = Place::new();
    let flow = r#"digraph flow {
        start -> forge -> after -> exit
        forge [shape=parallelogram, tool_command="echo forged >> $ORCHESTRA_RUN_DIR/journal.jsonl"]
        after [shape=parallelogram, tool_command="touch after"]
    }"#;
    place.write("flow.dot", flow);
    let done = place
        .call(&["run", "flow.dot", "--run-dir", "runs/flow"])
        .exits(1);
    assert!(
        done.stderr
            .contains("journal.jsonl` was changed while the run was going"),
        "{}",
        done.stderr
    );
    assert!(!place.path("after").exists());
}
